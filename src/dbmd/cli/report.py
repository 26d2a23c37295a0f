"""``dbmd report``: a page of a saved model."""

from __future__ import annotations

from pathlib import Path

import click

from dbmd._utils.model_files import REPORT
from dbmd._utils.text import printable
from dbmd.cli._options import LocalPath, Shape, needs_image_shape
from dbmd.cli._output import print_result
from dbmd.report.ordered import PATTERNS, Patterns


@click.command()
@click.argument("model", type=LocalPath(exists=True, file_okay=False))
@click.option("-o", "--output", type=LocalPath(dir_okay=False), help=f"The page.  [default: MODEL/{REPORT}]")
@click.option(
    "--image-shape",
    type=Shape(),
    metavar="HxW",
    help="The features are pixels: show the patterns as pictures of this height and width, or HxWx3 in colours.",
)
@click.option(
    "--map-shape",
    type=Shape(in_colours=False),
    metavar="HxW",
    help="The rows are pixels of a picture: show memberships as maps.  [default: as in the fit]",
)
@click.option(
    "--memberships",
    type=LocalPath(exists=True, dir_okay=False),
    metavar="FILE",
    help="npy file of `dbmd transform`: for --map-shape, if it was not given to the fit.",
)
@click.option(
    "--patterns",
    type=click.Choice(PATTERNS),
    default="auto",
    show_default=True,
    help="How to show patterns: along features in order, as images, or by the features that matter most.",
)
@click.option("--title", help="Heading of the page.")
@click.option("--open", "open_it", is_flag=True, help="Open the page in the browser.")
def report(
    model: Path,
    output: Path | None,
    image_shape: tuple[int, ...] | None,
    map_shape: tuple[int, ...] | None,
    memberships: Path | None,
    patterns: Patterns,
    title: str | None,
    open_it: bool,
) -> None:
    """Write a page about the model in the folder MODEL: what was found, in words and charts.

    The page is one html file that needs no other file and no network: send it to anyone.

    \b
    Examples:
      dbmd report digits-model
      dbmd report digits-model --image-shape 8x8 --open
      dbmd report digits-model -o digits.html --title "Digits from three clinics"
      dbmd report scene-model --map-shape 100x100 --memberships H.npy
    """
    from dbmd.cli._map import read_memberships, saved_map
    from dbmd.estimator import load
    from dbmd.report.page import write

    needs_image_shape(patterns, image_shape)
    fitted = load(model)
    found = None
    if memberships is None:
        kept = saved_map(fitted, model)
        if map_shape is not None and (kept is None or kept.shape != map_shape):
            has = "no map" if kept is None else f"a map of {kept.shape[0]}x{kept.shape[1]} pixels"
            raise click.BadParameter(
                f"the model has {has}. Give the memberships of all rows, as `dbmd transform MODEL DATA -o H.npy` "
                "writes them: --memberships H.npy.",
                param_hint="--map-shape",
            )
        found = kept
    elif map_shape is None:
        raise click.BadParameter("memberships are shown as maps: give --map-shape, too.", param_hint="--memberships")
    path = write(
        fitted,
        output or model / REPORT,
        image_shape=image_shape,
        map_shape=map_shape,
        memberships=found if memberships is None else read_memberships(memberships),
        patterns=patterns,
        title=title,
    )
    print_result(f"The report is in {printable(path)}.")
    if open_it:
        click.launch(path.resolve().as_uri())
