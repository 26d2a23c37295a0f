"""One html page with all experiments that were run: built on the parts of the report."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

from dbmd.experiments.experiment import Experiment
from dbmd.experiments.ledger import Ledger
from dbmd.experiments.machine import in_words
from dbmd.experiments.runner import claims, figures_of, finished, table
from dbmd.report.html import standing_alone
from dbmd.storage import write_file

SUBTITLES = {
    "small": "The experiments at a small scale, to see that they work. The paper's sizes: --scale paper.",
    "paper": "The experiments at the size of the paper.",
}


def write(folder: Path, scale: str) -> Path:
    """Write ``index.html`` with all experiments of a scale that are done, and return its path."""
    results = folder / scale
    page = standing_alone(
        "experiments.html",
        styles=("report.css", "experiments.css"),
        scripts=("experiments.js",),
        packages=("dbmd.experiments", "dbmd.report"),
        title="Distributed Bayesian matrix decomposition: the paper, reproduced and corrected",
        subtitle=SUBTITLES[scale],
        experiments=[_describe(experiment, ledger, results, scale) for experiment, ledger in finished(folder, scale)],
    )
    write_file(results / "index.html", page.encode())
    return results / "index.html"


def _describe(experiment: Experiment, ledger: Ledger, results: Path, scale: str) -> dict[str, Any]:
    about = experiment.about
    minutes = sum(ledger.seconds.values()) / 60
    return {
        "name": experiment.name,
        "title": about["title"],
        "reading": [" ".join(about["question"].split()), f"In the paper: {about['figure']}."],
        "claims": claims(experiment, ledger),
        "figures": [
            {"address": _address(path), "alternative": f"{about['title']}: {path.stem.removeprefix('figure-')}"}
            for path in figures_of(results / experiment.name)
        ],
        "table": table(experiment, ledger),
        "command": f"dbmd experiment run {experiment.name} --scale {scale}",
        "made": f"{minutes:.1f} minutes on {in_words(ledger.heading['machine'])}.",
    }


def _address(path: Path) -> str:
    return f"data:image/svg+xml;base64,{b64encode(path.read_bytes()).decode()}"
