"""Cases: a command on something malformed, and what must come of it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from click.testing import CliRunner
from pyarrow import csv, parquet

from dbmd import load
from dbmd.cli import main
from dbmd.saved.checkpoint import Checkpoint
from fuzzing.damage import pick
from fuzzing.files import ODD, broken, odd_npy, sound
from fuzzing.saved import copied, spoil_checkpoint, spoil_model

LONGEST = 2000  # characters of a sentence
FIT = ["-k", "2", "--max-iter", "5", "--no-report"]
PREPARED = [["--missing", "allow"], ["--missing", "drop"], ["--scaling", "standard"], ["--scaling", "sum"], ["--log"]]
# What is said of an option, or of all the data.
OF_NO_FILE = (
    "-k must",
    "--init must",
    "The numbers of the data",
    "A sample is too",
    "in all files",
    "Feature ",
    "Every sample has",
    "Samples cannot be",
    "The logarithm",
)
SAID_BEFORE = re.compile(r"[\d,]+ samples of |iteration \d+, |Note: |Going on after |Usage: dbmd |Try 'dbmd |$")


class Case(NamedTuple):
    """A command on a file that is malformed in some way, and a check of what it made where it says that all is well."""

    what: str
    arguments: list[str]
    check: Callable[[], None]

    @property
    def names(self) -> list[str]:
        """Names of the files that it is about."""
        return [str(argument) for argument in self.arguments if isinstance(argument, Path)]


class Bench:
    """Sound files, models of them and a checkpoint, which cases are made from.

    Parameters
    ----------
    folder : Path
        Where they are.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.files = folder, sound()
        for name, data in self.files.items():
            (folder / name).write_bytes(data)
        self.models = {}
        for name in ("plain.csv", "plain.npy", "plain.npz", "plain.mtx"):
            self.models[name] = folder / f"model of {name}"
            columns = ["--source", "lab"] if name == "plain.csv" else []
            run("fit", folder / name, *FIT, *columns, "-o", self.models[name])
        self.resumable = folder / "resumable"
        self.begun = [folder / "plain.csv", "-k", "2", "--source", "lab", "--tol", "1e-12", "--max-iter", "10"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Checkpoint, "remove", lambda checkpoint: None)
            run("fit", *self.begun, "--no-report", "--checkpoint", "0", "-o", self.resumable)
        self.memberships, self.page = folder / "H.csv", folder / "page.html"
        run("transform", self.models["plain.csv"], folder / "plain.csv", "-o", self.memberships)
        run("report", self.models["plain.csv"], "-o", self.page)

    def data_case(self, rng, folder: Path) -> Case:
        """Return a file to fit or to transform."""
        maker = pick(rng, (broken, broken, *ODD))
        name, data = maker(rng, self.files) if maker is broken else maker(rng)
        path = folder / name
        path.write_bytes(data)
        reading = [*pick(rng, ([], [], ["--memory", "0"])), *pick(rng, ([], [], [], ["--dtype", "float32"]))]
        if rng.random() < 0.1:
            reading.append(pick(rng, ("--header", "--no-header")))
        if rng.random() < 0.1:
            reading.append("--transpose")
        paths = [path]
        if rng.random() < 0.1:  # with a sound one before it
            paths.insert(0, self.folder / f"plain.{name.split('.')[1].lower().replace('txt', 'csv')}")
        has_names = path.suffix not in (".npy", ".npz", ".mtx")
        one, two, other = ("x0", "x1", "lab") if has_names else ("0", "1", "3")
        if rng.random() < 0.4:
            model = self.models["plain.csv" if has_names else f"plain{path.suffix}"]
            out = folder / pick(rng, ("H.csv", "H.csv", "H.parquet", "H.npy"))
            keep = ["--keep", pick(rng, (one, other))] if rng.random() < 0.3 and out.suffix != ".npy" else []
            arguments = ["transform", model, *paths, *keep, *reading, "-o", out]
            return Case(maker.__name__, arguments, lambda: check_table(out))
        meaning = pick(rng, ("--drop", "--drop", "--source", "--label", "--encode"))
        how = [] if not has_names and rng.random() < 0.6 else [meaning, pick(rng, (other, other, other, one))]
        if rng.random() < 0.2:
            how += ["--columns", pick(rng, (f"{one},{two}", two))]
        if rng.random() < 0.1:
            how += ["--init", folder / "start.npy"]
            (folder / "start.npy").write_bytes(odd_npy(rng)[1])
        if rng.random() < 0.3:
            how += pick(rng, (*PREPARED, ["--sample-weight", one], ["--sample-weight", other]))
        out = folder / "m"
        weighs = "--sample-weight" in how
        arguments = ["fit", *paths, *FIT, *reading, *how, "-o", out]
        return Case(maker.__name__, arguments, lambda: check_fit(out, weighs=weighs))

    def saved_case(self, rng, folder: Path) -> Case:
        """Return a model to use, or a checkpoint to go on from. With a checksum it must be as it was, or be refused."""
        signs = bool(rng.random() < 0.5)
        if rng.random() < 0.4:
            path = folder / "m.checkpoint"
            shutil.copy(self.resumable.with_name("resumable.checkpoint"), path)
            what, out = spoil_checkpoint(path, rng, signs=signs), folder / "m"
            arguments = ["fit", *self.begun, "--no-report", "--resume", "-o", out]
            return Case(f"checkpoint: {what}", arguments, lambda: check_model(out, None if signs else self.resumable))
        model = copied(self.models["plain.csv"], folder / "m")
        what = f"model: {spoil_model(model, rng, signs=signs)}"
        data, command = self.folder / "plain.csv", pick(rng, ("transform", "transform", "transform", "report", "fit"))
        if command == "transform":
            out = folder / "H.csv"
            return Case(
                what,
                ["transform", model, data, "-o", out],
                lambda: check_table(out) if signs else check_same(out, self.memberships),
            )
        if command == "report":
            out = folder / "page.html"
            return Case(
                what, ["report", model, "-o", out], lambda: check_page(out) if signs else check_same(out, self.page)
            )
        arguments = ["fit", data, *FIT, "--source", "lab", "--resume", "-o", model]
        return Case(what, arguments, lambda: check_model(model, None if signs else self.models["plain.csv"]))


def run(*arguments):
    """Run a command that must succeed."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.stderr


def ending(case: Case) -> tuple[str, str | None]:
    """Run a case; return what it said, and what is wrong with that or with what it made, if anything."""
    result = CliRunner().invoke(main, [str(argument) for argument in case.arguments])
    return (result.stderr.splitlines() or result.stdout.splitlines() or [""])[-1], _fault(case, result)


def _fault(case: Case, result) -> str | None:
    if result.exit_code == 0:
        try:
            case.check()
        except Exception as error:
            return f"a wrong result: {type(error).__name__}: {error}"
        return None
    if result.exit_code != 2:
        return f"exit code {result.exit_code}: {result.stderr[-1000:]}"
    *before, sentence = result.stderr.splitlines() or [""]
    if result.stdout or not sentence.startswith("Error: ") or not all(map(SAID_BEFORE.match, before)):
        return f"more than one sentence: {result.stdout[-500:]}{result.stderr[-1000:]}"
    if not sentence.isprintable() or not sentence.endswith((".", "?")) or len(sentence) > LONGEST:
        return f"no clean sentence: {sentence[:1000]!r}"
    if "Not enough memory" in sentence:
        return f"too much memory: {sentence}"
    if not any(name in sentence for name in (*case.names, *OF_NO_FILE)):
        return f"not said which file: {sentence}"
    return None


def check_table(path: Path) -> None:
    """Raise an AssertionError unless all rows of memberships are on the simplex."""
    if path.suffix == ".npy":
        Ht = np.load(path)
    else:
        table = (parquet.read_table if path.suffix == ".parquet" else csv.read_csv)(path)
        Ht = np.column_stack([table.column(f"dbmd{k}") for k in range(2)])
    assert len(Ht)
    assert (Ht >= 0).all()
    assert np.allclose(Ht.sum(axis=1), 1.0, atol=1e-5)


def check_fit(path: Path, *, weighs: bool = False) -> None:
    """Raise an AssertionError unless a model is finite, and its clusters together have all samples that count."""
    check_model(path)
    model = load(path)
    counted = model.profile_.counts.sum()
    if weighs or model.missing == "drop":
        assert 0 < counted <= model.n_samples_seen_
    else:
        assert counted == model.n_samples_seen_
    if not weighs:
        assert np.isclose(model.cluster_sizes_.sum(), counted, rtol=1e-4)


def check_model(path: Path, expected: Path | None = None) -> None:
    """Raise an AssertionError unless a model is finite, and that of another directory, if one is given."""
    model = load(path)
    assert np.isfinite(model.components_).all()
    assert np.isfinite(model.noise_variance_).all()
    assert (model.noise_variance_ >= 0).all()
    assert np.isfinite(model.objective_)
    if expected is not None:
        assert np.array_equal(model.components_, load(expected).components_), "it is another model"


def check_page(path: Path) -> None:
    """Raise an AssertionError unless a page is whole."""
    assert path.read_text("utf-8").rstrip().endswith("</html>")


def check_same(path: Path, expected: Path) -> None:
    """Raise an AssertionError unless a file is as a sound model makes it."""
    assert path.read_bytes() == expected.read_bytes(), "it is not what the sound model gives"
