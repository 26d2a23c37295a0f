"""``dbmd demo``: handwritten digits from three sources of different noise."""

from __future__ import annotations

import time
from pathlib import Path

import click
import numpy as np

NOISE_PUT_IN = (1.0, 8.0, 30.0)  # standard deviations; pixels go from 0 to 16
SEED = 0


@click.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("demo"),
    show_default=True,
    help="Folder for the picture.",
)
def demo(output: Path) -> None:
    """Fit 1,797 real handwritten digits that come from three sources, one clean, one noisy, one very noisy.

    Needs no network and no file. Prints the noise levels found and the accuracy against k-means, and draws a picture.
    """
    from sklearn.cluster import KMeans
    from sklearn.datasets import load_digits

    from dbmd import DBMD
    from dbmd.metrics import clustering_accuracy

    X, digit = load_digits(return_X_y=True)
    rng = np.random.default_rng(SEED)
    source = rng.integers(0, len(NOISE_PUT_IN), len(X))
    X_noisy = X + rng.normal(size=X.shape) * np.array(NOISE_PUT_IN)[source][:, None]

    click.echo(f"{len(X)} handwritten digits of {X.shape[1]} pixels, from three sources. No labels are used.")
    clock = time.perf_counter()
    model = DBMD(n_components=10, n_init=4, random_state=SEED).fit(X_noisy, source=source)
    seconds = time.perf_counter() - clock
    kmeans = KMeans(10, n_init=10, random_state=SEED).fit(X_noisy)

    found = np.sqrt(model.noise_variance_)
    everyone = np.ones(len(X), bool)
    groups = {f"source {c}": source == c for c in model.sources_} | {"all": everyone}
    accuracy = {
        name: tuple(clustering_accuracy(digit[rows], labels[rows]) for labels in (model.labels_, kmeans.labels_))
        for name, rows in groups.items()
    }
    click.echo(f"dbmd fitted {model.n_iter_} iterations (best of 4 starts) in {seconds:.1f} s.\n")
    click.echo("             noise       noise       accuracy    accuracy")
    click.echo("             put in      found       dbmd        k-means")
    for name, (ours, theirs) in accuracy.items():
        levels = "-           -    "
        if name != "all":
            c = int(name.split()[1])
            levels = f"{NOISE_PUT_IN[c]:<12.1f}{found[c]:<5.1f}"
        click.echo(f"  {name:<11}{levels}       {ours:<12.2f}{theirs:.2f}")
    click.echo(
        "\nOne very noisy source spoils k-means for everyone. dbmd finds how noisy each source is, from the data"
        "\nalone, and lets it count accordingly. (What ten components cannot express, about 2.3 here, counts as noise.)"
    )

    try:
        from dbmd.report.demo import draw
    except ModuleNotFoundError as error:
        click.echo(f"\nNo picture: {error.name} is not installed. Install it with: pip install 'dbmd[report]'")
        return
    output.mkdir(parents=True, exist_ok=True)
    path = output / "demo.png"
    memberships = model.transform(X_noisy, source=source)
    draw(X_noisy, model.inverse_transform(memberships), source, NOISE_PUT_IN, found, accuracy, path)
    click.echo(f"\nThe picture is in {path}.")
