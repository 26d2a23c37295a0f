"""``dbmd patterns``: the patterns of a saved model as a table, all features of them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import click
import numpy as np

from dbmd._utils.text import printable
from dbmd.cli._options import LocalPath
from dbmd.cli._output import print_result
from dbmd.report.numbers import plural
from dbmd.storage import write_file

FORMATS = (".csv", ".tsv", ".parquet")
HERE = Path("-")


@click.command()
@click.argument("model", type=LocalPath())
@click.option(
    "-o",
    "--output",
    type=LocalPath(dir_okay=False, allow_dash=True),
    default=HERE,
    help="File: csv, tsv or parquet; - for standard output, as csv.  [default: -]",
)
@click.option("--long", "in_rows", is_flag=True, help="Write a row for each pattern and feature, with ranks.")
@click.option(
    "--top", type=click.IntRange(min=1), metavar="N", help="Write N features of each pattern, in rows as --long."
)
@click.option("--overwrite", is_flag=True, help="Replace a file that is there.")
def patterns(model: Path, output: Path, in_rows: bool, top: int | None, overwrite: bool) -> None:
    """Write the patterns of a MODEL as a table.

    \b
    Examples:
      dbmd patterns digits-model -o patterns.csv
      dbmd patterns digits-model --top 20 -o -
      dbmd patterns digits-model --long -o patterns.parquet

    The table has a row for each feature, in the order of the data: its name, or its number if features have no names;
    its value in each pattern (dbmd0, dbmd1, ... as in the output of dbmd transform, or the names of known patterns);
    and, where they are known, the standard deviations (dbmd0_std, ...).

    With --long a row is a pattern, a feature, its value, its std, its difference from the mean of all patterns,
    weighted by their sizes, and its rank: 1 is the feature in which the pattern differs most. A few features in very
    different units are ranked relative to how much the patterns vary in each.
    """
    from dbmd.estimator import load

    if output != HERE:
        _check_output(output, overwrite)
    fitted = load(model)
    table = _rows(fitted, top) if in_rows or top is not None else _columns(fitted, model)
    if output == HERE:
        click.echo(_written(table, ".csv"), nl=False)
        return
    write_file(output, _written(table, output.suffix.lower()))
    r, m = fitted.components_.shape
    print_result(f"{plural(r, 'pattern')} of {plural(m, 'feature')}: {printable(output)}.")


def _check_output(output: Path, overwrite: bool) -> None:
    if output.suffix.lower() not in FORMATS:
        raise click.BadParameter(f"{output} must end in one of {', '.join(FORMATS)}, or be -.", param_hint="-o")
    if output.exists() and not overwrite:
        raise FileExistsError(f"{output} is there. Choose another name, or allow it to be overwritten (--overwrite).")
    if not output.parent.is_dir():
        raise FileNotFoundError(f"{output.parent}: no such folder to write {output.name} to.")


def _columns(fitted: Any, model: Path) -> Any:
    """Return a table with a row for each feature and a column for each pattern."""
    import pyarrow as pa

    W, std = fitted.components_, getattr(fitted, "components_std_", None)
    names = [str(name) for name in fitted.get_feature_names_out()]
    columns = [("feature", _features(fitted)), *zip(names, W, strict=True)]
    if std is not None:
        columns += [(f"{name}_std", row) for name, row in zip(names, std, strict=True)]
    heads = [name for name, _ in columns]
    twice = next((name for name in heads if heads.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"{model}: two columns of the table would be called {twice!r}. Write it in rows, with --long.")
    return pa.table({name: np.ascontiguousarray(values) for name, values in columns})


def _rows(fitted: Any, top: int | None) -> Any:
    """Return a table with a row for each pattern and feature, those of a pattern by rank."""
    import pyarrow as pa

    from dbmd.report.basis import mean_of, rank_weight, used_of

    W, std = np.asarray(fitted.components_, float), getattr(fitted, "components_std_", None)
    sizes = np.asarray(fitted.cluster_sizes_, float)
    difference = W - mean_of(W, sizes)
    strength = np.abs(difference) * rank_weight(difference[used_of(sizes)])
    order = np.argsort(-strength, axis=1, kind="stable")[:, :top]
    count = order.shape[1]
    columns = {
        "pattern": np.repeat([str(name) for name in fitted.get_feature_names_out()], count),
        "feature": _features(fitted)[order.ravel()],
        "value": np.take_along_axis(np.asarray(fitted.components_), order, axis=1).ravel(),
    }
    if std is not None:
        columns["std"] = np.take_along_axis(np.asarray(std), order, axis=1).ravel()
    columns["difference"] = np.take_along_axis(difference, order, axis=1).ravel()
    columns["rank"] = np.tile(np.arange(1, count + 1), len(W))
    return pa.table(columns)


def _features(fitted: Any) -> Any:
    """Return the names of the features, or their numbers."""
    names = getattr(fitted, "feature_names_in_", None)
    return np.arange(fitted.components_.shape[1]) if names is None else np.array([str(name) for name in names], object)


def _written(table: Any, suffix: str) -> bytes:
    from pyarrow import csv, parquet

    buffer = io.BytesIO()
    if suffix == ".parquet":
        parquet.write_table(table, buffer)
    else:
        csv.write_csv(
            table, buffer, csv.WriteOptions(delimiter="\t" if suffix == ".tsv" else ",", quoting_style="needed")
        )
    return buffer.getvalue()
