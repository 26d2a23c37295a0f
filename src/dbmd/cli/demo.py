"""``dbmd demo``: handwritten digits from three sources of different noise."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click
import numpy as np

from dbmd._utils.text import printable, quoted
from dbmd.cli._options import LocalPath
from dbmd.cli._output import print_result

NOISE_PUT_IN = {"lab A": 1.0, "lab B": 8.0, "lab C": 30.0}  # standard deviations; pixels go from 0 to 16
SEED, STARTS = 0, 4
IMAGE = (8, 8)


@click.command()
@click.option(
    "-o",
    "--output",
    type=LocalPath(file_okay=False),
    default=Path("demo"),
    show_default=True,
    help="Folder for the data, the model and the report.",
)
@click.option("--open", "open_it", is_flag=True, help="Open the report in the browser.")
def demo(output: Path, open_it: bool) -> None:
    """Fit 1,797 real handwritten digits that come from three sources, one clean, one noisy, one very noisy.

    \b
    Examples:
      dbmd demo
      dbmd demo -o /tmp/demo --open

    Needs no network and no file. Prints the noise levels found and the accuracy against k-means, and writes the data,
    the model and a report to look at.
    """
    from sklearn.cluster import KMeans

    from dbmd.dataset import open_data
    from dbmd.estimator import DBMD
    from dbmd.metrics import clustering_accuracy
    from dbmd.report.page import write

    output.mkdir(parents=True, exist_ok=True)
    path = output / "digits.parquet"
    X, digit, source = _digits()
    _write(path, X, digit, source)
    click.echo(
        f"{len(X):,} handwritten digits of 8 x 8 pixels, from three labs whose scanners are good, noisy and very noisy."
        "\nThe labels are not used: ten kinds of digits have to be found from the pixels alone."
    )
    clock = time.perf_counter()
    data = open_data(path, source="source", label="digit")
    model = DBMD(n_components=10, n_init=STARTS, random_state=SEED).fit(data)
    seconds = time.perf_counter() - clock
    kmeans = KMeans(10, n_init=10, random_state=SEED).fit(X)

    found = dict(zip(model.sources_.tolist(), np.sqrt(model.noise_variance_), strict=True))
    rows = {name: source == name for name in NOISE_PUT_IN} | {"all": np.ones(len(X), bool)}
    accuracy = {
        name: tuple(clustering_accuracy(digit[own], labels[own]) for labels in (model.labels_, kmeans.labels_))
        for name, own in rows.items()
    }
    click.echo(f"dbmd fitted them in {seconds:.1f} s (best of {STARTS} starts).\n")
    click.echo("               noise     noise     accuracy   accuracy")
    click.echo("               put in    found     dbmd       k-means")
    for name, (ours, theirs) in accuracy.items():
        levels = f"{NOISE_PUT_IN[name]:<10.1f}{found[name]:<10.1f}" if name in found else f"{'-':<10}{'-':<10}"
        click.echo(f"  {name:<13}{levels}{ours:<11.2f}{theirs:.2f}")
    click.echo(
        "\nThe scans of lab C are nearly all noise. k-means takes them as seriously as the others, which spoils its"
        "\nclusters for all labs. dbmd finds out how noisy each lab is, from the pixels alone, and weighs its scans"
        "\naccordingly. (What ten patterns cannot express, about 2.7 here, counts as noise, too.)"
    )

    command = f"dbmd fit {quoted(str(path))} -k 10 --source source --label digit --n-init {STARTS} -o my-model"
    model.fit_info_["command"] = command + " --image-shape 8x8"
    model.save(output / "model", overwrite=True)
    page = write(model, output / "report.html", image_shape=IMAGE, title="Handwritten digits from three sources")
    _draw(output / "demo.png", model, data, X, source, found, accuracy)
    print_result(f"\nLook at the report: {printable(page)}")
    print_result(f"The same from the data in a file: {command}")
    if open_it:
        click.launch(page.resolve().as_uri())


def _digits() -> tuple[Any, Any, Any]:
    """Return scikit-learn's digits with noise put in, shape (n, 64), what they are, and where they come from."""
    from sklearn.datasets import load_digits

    X, digit = load_digits(return_X_y=True)
    rng = np.random.default_rng(SEED)
    source = np.array(list(NOISE_PUT_IN))[rng.integers(0, len(NOISE_PUT_IN), len(X))]
    X += rng.normal(size=X.shape) * np.array([NOISE_PUT_IN[name] for name in source])[:, None]
    return X, digit, source


def _write(path: Path, X: Any, digit: Any, source: Any) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    pixels = {f"row{i // 8}_column{i % 8}": X[:, i] for i in range(X.shape[1])}
    parquet.write_table(pa.table({"source": source, "digit": digit, **pixels}), path)


def _draw(path: Path, model: Any, data: Any, X: Any, source: Any, found: Any, accuracy: Any) -> None:
    """Draw the scans and what is left of them without the noise, and say where; without matplotlib, do nothing."""
    try:
        from dbmd.report.demo import draw
    except ModuleNotFoundError:
        return
    names = list(NOISE_PUT_IN)
    numbers = np.array([names.index(name) for name in source])
    draw(X, model.inverse_transform(model.transform(data)), numbers, NOISE_PUT_IN, found, accuracy, path)
    click.echo(f"\nLook at the picture: {printable(path)}")
