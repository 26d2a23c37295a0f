"""``dbmd fit``: from files to a model and a page to look at. The steps of a run are in _fit_run.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from dbmd.cli._groups import DATA, FIT, MAIN, MODEL, OUTPUT, RUN, GroupedCommand, option
from dbmd.cli._options import (
    CountOrAuto,
    LocalPath,
    Names,
    NumberOrName,
    Seconds,
    Shape,
    hvg_option,
    needs_image_shape,
    printing_options,
    reading_options,
)
from dbmd.config import INFERENCES, NOISES, SCALINGS, SHARES, Config
from dbmd.data.address import is_address, shown
from dbmd.errors import first_line
from dbmd.registry import names
from dbmd.report.ordered import PATTERNS, Patterns
from dbmd.storage import open_file

DEFAULT = Config()
# Options that say how data are read; all others are parameters of DBMD.
READING = (
    *("source", "sample_weight", "label", "columns", "drop", "encode"),
    *("dtype", "memory", "missing", "header", "delimiter", "layer", "obsm", "hvg", "transpose"),
)


@click.command(cls=GroupedCommand)
@click.argument("data", nargs=-1, required=True)
@option(
    "-k",
    "--components",
    "n_components",
    type=CountOrAuto(),
    group=MAIN,
    help="Number of patterns; auto: as many as two halves of the data agree on.  [default: those of --known]",
)
@option("-o", "--output", type=LocalPath(), required=True, group=MAIN, help="Directory for the model.")
@option("--source", group=MAIN, help="Column that names the source of each row; @file: each file is a source.")
@option("--halves", is_flag=True, group=MAIN, help="Fit two halves of the data, too: which patterns do both have?")
@option("--check", is_flag=True, group=MAIN, help="Say whether scaling, offsets or brightness would pay, by a sample.")
@option("--columns", type=Names(), group=DATA, help="Columns to take, with commas between them.  [default: all others]")
@option("--drop", multiple=True, group=DATA, help="Column to leave out. May be given several times.")
@option("--label", group=DATA, help="Column with known classes: no feature, only compared with the clusters.")
@option("--sample-weight", group=DATA, help="Column that says how often each row counts, >= 0.")
@option("--encode", multiple=True, group=DATA, help="Column of text to one-hot code. May be given several times.")
@option(
    "--scaling",
    type=click.Choice(SCALINGS),
    group=MODEL,
    help="Divide features by their standard deviation or range, or rows by their sum or norm.  [default: none]",
)
@option("--log", is_flag=True, group=MODEL, help="Take log(1 + x) of the data, before they are scaled.")
@option("--brightness", is_flag=True, group=MODEL, help="Rows are mixtures of patterns times a brightness, 0 to 1.")
@option(
    "--shares",
    type=click.Choice(SHARES),
    default=DEFAULT.shares,
    show_default=True,
    group=MODEL,
    help="With --brightness, memberships by coefficient, or by coefficient times norm of the pattern.",
)
@option(
    "--offsets/--no-offsets",
    default=DEFAULT.offsets,
    group=MODEL,
    help="Each source has an offset: batches, labs.",
)
@option("--nonnegative", is_flag=True, group=MODEL, help="Patterns have no negative entries: spectra, counts.")
@option(
    "--known",
    metavar="FILE",
    group=MODEL,
    help="Table of known patterns, a row each: a column of text has their names, all others are features.",
)
@option(
    "--noise",
    type=NumberOrName(*NOISES),
    default=DEFAULT.noise,
    show_default=True,
    group=MODEL,
    help="A noise level for each source, one for all, or a fixed variance.",
)
@option(
    "--lam",
    type=float,
    default=DEFAULT.lam,
    show_default=True,
    group=MODEL,
    help="Sparsity of the patterns, >= 0.",
)
@option(
    "--overwrite",
    is_flag=True,
    group=OUTPUT,
    help="Replace a model that is there; forget a checkpoint that is there.",
)
@option("--report/--no-report", "wants_report", default=True, group=OUTPUT, help="Write report.html into the model.")
@option("--image-shape", type=Shape(), group=OUTPUT, help="Show patterns as images in the report: 28x28.")
@option(
    "--map-shape",
    type=Shape(in_colours=False),
    group=OUTPUT,
    help="The rows are pixels of a picture, 95x95: show memberships as maps in the report.",
)
@option(
    "--patterns",
    type=click.Choice(PATTERNS),
    default="auto",
    show_default=True,
    group=OUTPUT,
    help="How the report shows patterns: along features in order, as images, or by the features that matter most.",
)
@option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    show_default=True,
    group=FIT,
    help="One seed, one result.",
)
@option("--n-init", type=int, default=DEFAULT.n_init, show_default=True, group=FIT, help="Starts; the best is kept.")
@option(
    "--init",
    default=DEFAULT.init,
    show_default=True,
    group=FIT,
    help="k-means++ (of a sample), k-means||, random, or an npy file of shape (k, features).",
)
@option(
    "--max-iter",
    type=int,
    default=DEFAULT.max_iter,
    show_default=True,
    group=FIT,
    help="Largest number of iterations; 0 if all patterns are known.",
)
@option(
    "--tol",
    type=float,
    default=DEFAULT.tol,
    show_default=True,
    group=FIT,
    help="How near to its limit W must be, relative to the size of its simplex ('map': decrease of the objective).",
)
@option(
    "--inference",
    type=click.Choice(INFERENCES),
    default=DEFAULT.inference,
    show_default=True,
    group=FIT,
    help="Integrate the memberships out, or take them at their peak, as the paper does.",
)
@option(
    "--alpha",
    type=float,
    default=DEFAULT.alpha,
    show_default=True,
    group=FIT,
    help="Dirichlet concentration, >= 1; 'map'.",
)
@option(
    "--effective-features",
    type=float,
    group=FIT,
    help="For how many features of equal, independent noise a row counts.  [default: estimated]",
)
@option(
    "--solver",
    type=click.Choice(names("solvers")),
    default=DEFAULT.solver,
    show_default=True,
    group=FIT,
    help="How the patterns of an iteration are computed.",
)
@option(
    "--solver-option",
    multiple=True,
    metavar="NAME=VALUE",
    group=FIT,
    help="rho, gamma, max_rounds, tol of the solver.",
)
@option("--resume", is_flag=True, group=RUN, help="Go on from the checkpoint of a run that was stopped or killed.")
@option(
    "--checkpoint",
    "every",
    type=Seconds(),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    group=RUN,
    help="How often to save the state, beside the model; also on Ctrl-C, SIGTERM and SIGHUP.",
)
@option(
    "--engine",
    type=click.Choice(names("engines")),
    default=DEFAULT.engine,
    show_default=True,
    group=RUN,
    help="Where the passes are computed: by the threads of this machine, on its GPU, or on a cluster.",
)
@option(
    "--nodes",
    "n_nodes",
    type=int,
    group=RUN,
    help="Number of nodes.  [default: one a file, at least one a thread]",
)
@reading_options
@hvg_option
@printing_options
def fit(
    data: tuple[str, ...],
    output: Path,
    overwrite: bool,
    resume: bool,
    every: float,
    check: bool,
    wants_report: bool,
    image_shape: tuple[int, ...] | None,
    map_shape: tuple[int, ...] | None,
    patterns: Patterns,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Fit DATA: csv, parquet, npy, npz, mtx or h5ad; files, folders of files, or addresses (s3://, http://).

    \b
    Examples:
      dbmd fit cells.h5ad -k 12 --source batch -o model
      dbmd fit measurements/ -k 8 --source @file -o model
      dbmd fit a.parquet b.parquet -k 10 --source lab --label kind --drop id -o model
      dbmd fit images.npy -k 10 --image-shape 28x28 -o model
      dbmd fit scene.npy -k 4 --map-shape 100x100 --brightness -o model
      dbmd fit pixels.npy --known minerals.csv --max-iter 0 --brightness -o model
      dbmd fit big.parquet -k 20 -o model --resume

    Files larger than memory are read piece by piece. The model directory gets report.html, a page to look at; `dbmd
    transform` gives the memberships of every row.
    """
    from dbmd.cli._fit_run import FitRun  # here, so that help and errors in options do not wait for it

    read = reading(options)
    params = parameters(**options, missing=read["missing"])
    Config(**params)  # a wrong value is reported now, not after the data were read
    needs_image_shape(patterns, image_shape)
    if not output.name:
        raise click.BadParameter("name a directory for the model to be made.", param_hint="-o")
    run = FitRun(
        data=data,
        read=read,
        params=params,
        output=output,
        overwrite=overwrite,
        resume=resume,
        checkpoint_seconds=every,
        check=check,
        wants_report=wants_report,
        image_shape=image_shape,
        map_shape=map_shape,
        patterns=patterns,
        quiet=quiet,
        as_json=as_json,
    )
    if resume and run.is_finished():
        run.keep_finished_model()
    else:
        run.prepare_folder()
        run.print_summary(run.fit_and_save())


def reading(options: dict[str, Any]) -> dict[str, Any]:
    """Take the options that say how data are read out of others, and return them as parameters of ``open_data``."""
    read = {name: options.pop(name) for name in READING}
    return read | {"missing": read["missing"] or DEFAULT.missing, "transpose": bool(read["transpose"])}


def parameters(
    *,
    seed: int,
    solver_option: tuple[str, ...],
    init: str,
    known: str | None,
    n_components: int | str | None,
    **options: Any,
) -> dict[str, Any]:
    """Return parameters of DBMD from options."""
    if known is not None:
        from dbmd.cli._known import read_known

        options["known"] = read_known(known)
    elif n_components is None:
        raise click.UsageError("Missing option '-k' / '--components'.")
    options["n_components"] = n_components if n_components is not None else len(options["known"])
    options |= {"random_state": seed, "init": init}
    if is_address(init):
        raise click.BadParameter(f"{shown(init)} is an address: name a file on this machine.", param_hint="--init")
    if init.endswith(".npy"):
        options["init"] = _start(init)
    if solver_option:
        pairs = [pair.partition("=") for pair in solver_option]
        try:
            options["solver_options"] = {
                name: int(value) if value.isdigit() else float(value) for name, _, value in pairs
            }
        except ValueError:
            raise click.BadParameter(f"{solver_option}: write NAME=VALUE, with a number.") from None
    return options


def _start(path: str) -> Any:
    """Return the components to start from, of an npy file."""
    with open_file(Path(path)) as file:
        try:
            start = np.lib.format.read_array(file, allow_pickle=False)
        except Exception as error:  # what NumPy raises on bytes gone wrong is not written down anywhere
            raise ValueError(f"{path}: cannot be read as an npy file of numbers ({first_line(error)}).") from error
    if start.dtype.kind not in "biuf":
        raise ValueError(f"{path}: the components to start from must be real numbers. Got an array of {start.dtype}.")
    return start
