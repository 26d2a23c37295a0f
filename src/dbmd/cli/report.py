"""``dbmd report``: a page of a saved model."""

from __future__ import annotations

from pathlib import Path

import click

from dbmd._utils.model_files import REPORT
from dbmd._utils.text import printable
from dbmd.cli._options import LocalPath, Shape
from dbmd.cli._output import print_result


@click.command()
@click.argument("model", type=LocalPath(exists=True, file_okay=False))
@click.option("-o", "--output", type=LocalPath(dir_okay=False), help=f"The page.  [default: MODEL/{REPORT}]")
@click.option(
    "--image-shape",
    type=Shape(),
    metavar="HxW",
    help="The features are pixels: show the patterns as pictures of this height and width, or HxWx3 in colours.",
)
@click.option("--title", help="Heading of the page.")
@click.option("--open", "open_it", is_flag=True, help="Open the page in the browser.")
def report(
    model: Path, output: Path | None, image_shape: tuple[int, ...] | None, title: str | None, open_it: bool
) -> None:
    """Write a page about the model in the folder MODEL: what was found, in words and charts.

    The page is one html file that needs no other file and no network: send it to anyone.

    \b
    Examples:
      dbmd report digits-model
      dbmd report digits-model --image-shape 8x8 --open
      dbmd report digits-model -o digits.html --title "Digits from three clinics"
    """
    from dbmd.estimator import load
    from dbmd.report.page import write

    path = write(load(model), output or model / REPORT, image_shape=image_shape, title=title)
    print_result(f"The report is in {printable(path)}.")
    if open_it:
        click.launch(path.resolve().as_uri())
