"""``dbmd rank``: how many patterns the data have, and a page with the curve. The steps of a run are in _rank_run.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from dbmd.cli._groups import DATA, FIT, MAIN, MODEL, OUTPUT, RUN, GroupedCommand, group_of, option
from dbmd.cli._options import Counts, LocalPath, printing_options
from dbmd.cli.fit import DEFAULT, fit, parameters, reading
from dbmd.config import Config

# What `dbmd fit` has and this has not: a start of given patterns, and what saves a long run.
LEFT_OUT = ("init", "resume", "every")
SHARED = [
    each
    for each in fit.params
    if each.name not in LEFT_OUT
    and (group_of(each) in (DATA, MODEL, FIT, RUN) or each.name == "source")
    and isinstance(each, click.Option)
]


@click.command(cls=GroupedCommand, params=[*SHARED])
@click.argument("data", nargs=-1, required=True)
@option(
    "-k",
    "--components",
    "n_components",
    type=Counts(),
    group=MAIN,
    help="Numbers of patterns to try: 2:12, 2:30:4 or 3,5,8.  [default: 2:12, or as many as the data allow]",
)
@option("-o", "--output", type=LocalPath(), required=True, group=MAIN, help="Directory for the page and the numbers.")
@option(
    "--splits",
    "n_splits",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    group=MAIN,
    help="In how many ways the data are split into halves.",
)
@option("--overwrite", is_flag=True, group=OUTPUT, help="Replace what is there.")
@printing_options
@click.pass_context
def rank(
    context: click.Context,
    /,
    data: tuple[str, ...],
    n_components: tuple[int, ...] | None,
    output: Path,
    n_splits: int,
    overwrite: bool,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Say how many patterns DATA have: as many as two halves of the data agree on.

    \b
    Examples:
      dbmd rank cells.h5ad --source batch -o rank
      dbmd rank measurements/ -k 2:20 --source @file --scaling standard -o rank
      dbmd rank pixels.npy -k 3,4,5,6 --brightness -o rank

    For each number, halves of the data are fitted and compared; of large data, halves of some thousand rows. The
    directory gets rank.html, a page to look at, and the numbers as rank.csv and rank.json.
    """
    from dbmd.cli._rank_run import RankRun  # here, so that help and errors in options do not wait for it

    read = reading(options)
    params = parameters(**options, init=str(DEFAULT.init), n_components="auto", missing=read["missing"])
    Config(**params)  # a wrong value is reported now, not after the data were read
    if not output.name:
        raise click.BadParameter("name a directory to be made.", param_hint="-o")
    RankRun(
        data=data,
        read=read,
        params=params,
        tried=n_components,
        n_splits=n_splits,
        output=output,
        overwrite=overwrite,
        options_of_fit=_given(context),
        quiet=quiet,
        as_json=as_json,
    ).run()


rank.params.sort(key=lambda each: each.name == "source")  # the options of its own come first


def _given(context: click.Context) -> list[str]:
    """Return the options of `dbmd fit` that were given here, as arguments: the fit that follows takes them, too."""
    arguments: list[str] = []
    for each in SHARED:
        value = context.params[each.name or ""]
        if context.get_parameter_source(each.name or "") is not ParameterSource.COMMANDLINE:
            continue
        if isinstance(value, bool):
            arguments.append(each.opts[-1] if value else each.secondary_opts[-1])
        elif each.multiple:
            arguments += [part for one in value for part in (each.opts[-1], str(one))]
        else:
            arguments += [each.opts[-1], ",".join(map(str, value)) if isinstance(value, tuple) else str(value)]
    return arguments
