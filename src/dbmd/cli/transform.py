"""``dbmd transform``: memberships of every row of files, in the order of the rows."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from dbmd._utils.text import printable
from dbmd.cli._groups import DATA, MAIN, OUTPUT, GroupedCommand, option
from dbmd.cli._options import LocalPath, Names, printing_options, reading_options
from dbmd.cli._output import print_json, print_result
from dbmd.cli._phases import Phases
from dbmd.cli._progress import duration
from dbmd.data.address import shown
from dbmd.errors import DataError
from dbmd.report.numbers import plural
from dbmd.storage import remove_leftovers, temporary_name

FORMATS = (".parquet", ".csv", ".npy", ".h5ad")
READING = "reading the data"


@click.command(cls=GroupedCommand)
@click.argument("model", type=LocalPath())
@click.argument("data", nargs=-1, required=True)
@option(
    "-o",
    "--output",
    type=LocalPath(dir_okay=False),
    required=True,
    group=MAIN,
    help="File: parquet, csv, npy or h5ad.",
)
@option(
    "--source",
    group=MAIN,
    help="Column that names the source of each row.  [default: as in the fit, if it is there]",
)
@option(
    "--keep",
    multiple=True,
    group=MAIN,
    help="Column to copy into the output, an id say. May be given several times.",
)
@option(
    "--std",
    is_flag=True,
    group=MAIN,
    help="Write standard deviations of the memberships, too: columns NAME_std of parquet and csv.",
)
@option(
    "--kind",
    type=click.Choice(["peak", "mean"]),
    default="peak",
    show_default=True,
    group=MAIN,
    help="Which memberships: those of the largest posterior probability, or posterior means.",
)
@option(
    "--columns", type=Names(), group=DATA, help="Columns to take, with commas between them.  [default: as in the fit]"
)
@option("--drop", multiple=True, group=DATA, help="Column to leave out. May be given several times.")
@option("--overwrite", is_flag=True, group=OUTPUT, help="Replace a file that is there.")
@reading_options
@printing_options
def transform(
    model: Path,
    data: tuple[str, ...],
    output: Path,
    source: str | None,
    keep: tuple[str, ...],
    columns: tuple[str, ...] | None,
    drop: tuple[str, ...],
    std: bool,
    kind: str,
    overwrite: bool,
    quiet: bool,
    as_json: bool,
    **read: Any,
) -> None:
    """Find the memberships of every row of DATA in the clusters of a MODEL, and write them with the cluster.

    \b
    Examples:
      dbmd transform model cells.h5ad -o memberships.parquet
      dbmd transform model cells.h5ad --keep donor -o memberships.h5ad
      dbmd transform model new/*.csv --keep id -o memberships.csv
      dbmd transform model images.npy -o H.npy

    The output has a row for each row of DATA, in order: cluster (the largest membership), dbmd0, dbmd1, ... (which sum
    to one; named as the patterns, if those are known), with --std dbmd0_std, dbmd1_std, ..., and brightness, if the
    model has it. Of h5ad files, the names of cells come first, obs_names. An npy file has the memberships alone. An
    h5ad file has no X, but obsm X_dbmd, obs dbmd (the cluster) and the model, as dbmd.tl.dbmd stores them. A row that
    is left out (--missing drop) has the cluster -1. DATA may be of any size.
    """
    from dbmd.data.files import open_readers
    from dbmd.dataset import open_data
    from dbmd.engines.local import available_threads
    from dbmd.estimator import load
    from dbmd.estimator._memberships import Wanted, membership_model
    from dbmd.estimator._uncertainty import w_errors
    from dbmd.estimator.fitted import FittedArrays
    from dbmd.memberships import iter_memberships

    if output.suffix not in FORMATS:
        raise click.BadParameter(f"{output} must end in one of {', '.join(FORMATS)}.", param_hint="-o")
    if output.exists() and not overwrite:
        raise FileExistsError(f"{output} is there. Choose another name, or allow it to be overwritten (--overwrite).")
    if not output.parent.is_dir():
        raise FileNotFoundError(f"{output.parent}: no such folder to write {output.name} to.")
    if keep and output.suffix == ".npy":
        raise click.BadParameter("an npy file holds memberships alone: write parquet or csv.", param_hint="--keep")
    if std and output.suffix not in (".parquet", ".csv"):
        raise click.BadParameter(
            f"{output.suffix[1:]} files have no place for standard deviations: write parquet or csv.",
            param_hint="--std",
        )
    clock = time.perf_counter()
    fitted = load(model)
    read["missing"] = fitted.missing = read["missing"] or fitted.missing
    arrays = FittedArrays.of(fitted)
    wanted = Wanted(kind, std, w_errors(fitted) if std else None)
    names, own = fitted.get_feature_names_out(), ("cluster", "brightness") if fitted.brightness else ("cluster",)
    own = (*own, *(f"{name}_std" for name in names)) if std else own
    reserved = ({"dbmd", "dbmd_brightness"} if output.suffix == ".h5ad" else {*own, *names}).intersection(keep)
    if reserved:
        raise click.BadParameter(f"the output has a column {min(reserved)!r} of its own.", param_hint="--keep")
    if {*own}.intersection(names) and output.suffix in (".parquet", ".csv"):
        raise ValueError(
            f"{model}: a pattern is called {min({*own}.intersection(names))!r}, as a column of the output is. Write an "
            "npy file, or give the pattern another name in --known."
        )
    about = fitted.fit_info_.get("data") or {}
    read |= {name: about.get(name) for name in ("header", "delimiter") if read[name] is None}
    if read["layer"] is read["obsm"] is None and data[0].lower().endswith(".h5ad"):
        read |= {name: about.get(name) for name in ("layer", "obsm")}
    hints = {name: value for name, value in read.items() if name not in ("missing", "dtype")}
    if read["transpose"] is None:  # as in the fit, unless the files say themselves what is a sample
        as_they_are = open_readers(data, **hints | {"transpose": False}) if about.get("transpose") else ()
        hints["transpose"] = bool(as_they_are) and not any(reader.is_oriented for reader in as_they_are)
    read["transpose"] = hints["transpose"]
    readers = open_readers(data, **hints)
    chosen = _as_in_the_fit(fitted, readers[0], needs_source=arrays.noise_matters or not wanted.is_plain)
    chosen |= {k: v for k, v in {"source": source, "columns": columns, "drop": drop}.items() if v}
    row_names = readers[0].row_names if len({reader.row_names for reader in readers}) == 1 else None
    if row_names is not None and output.suffix != ".npy":
        keep = tuple(dict.fromkeys((row_names, *keep)))
    with Phases(READING, quiet=quiet) as progress:
        dataset = open_data(data, keep=keep, on_rows=partial(_count_while_reading, progress), **chosen, **read)
        if dataset.shape[1] != fitted.n_features_in_:
            raise DataError(
                f"{shown(data[0])}: has {dataset.shape[1]} features where the model has {fitted.n_features_in_}. "
                "Say which to take with --columns or --drop."
            )
        n, left_out = dataset.shape[0], [0]
        block = dataset.nodes(1, arrays.parts.n_patterns)[0].samples
        block = block if arrays.preparation is None else arrays.preparation.of(block)
        progress.phase("finding the noise of the sources")
        pieces = iter_memberships(block, membership_model(arrays, dataset, wanted), n_threads=available_threads())
        progress.phase("finding memberships")
        progress.rows_of_a_pass = n
        _write(output, _counting(_shown(pieces, progress), left_out), fitted, n, row_names)
    seconds = time.perf_counter() - clock
    if as_json:
        print_json({"output": str(output), "n_samples": n, "left_out": sum(left_out), "seconds": round(seconds, 3)})
    elif not quiet:
        missing = f" {sum(left_out):,} of them have no memberships, for values are missing." if any(left_out) else ""
        print_result(f"{plural(n, 'row')} in {duration(seconds)}: {printable(output)}.{missing}")


def _as_in_the_fit(fitted: Any, there: Any, *, needs_source: bool) -> dict[str, Any]:
    """Return how to choose columns, features and sources, as in the fit; ``there`` is the reader of the first file."""
    from dbmd.data.options import EACH_FILE

    about = fitted.fit_info_.get("data") or {}
    chosen: dict[str, Any] = {}
    names = list(getattr(fitted, "feature_names_in_", ()))
    unnamed = list(there.columns) == [str(i) for i in range(len(there.columns))]
    if names and not (unnamed and len(there.columns) == len(names)):
        encode = about.get("encode") or {}
        hot = {f"{name}={value}" for name, values in encode.items() for value in values}
        chosen = {"columns": [name for name in names if name not in hot], "encode": encode}
    source = about.get("source")
    if needs_source and source in (EACH_FILE, *there.columns, *there.annotations):
        chosen["source"] = source
    return chosen


def _count_while_reading(progress: Phases, rows: int) -> None:
    """Count rows that are read; later those are counted whose memberships are found."""
    if progress.name == READING:
        progress.read(rows)


def _shown(pieces: Iterable[Any], progress: Phases) -> Iterable[Any]:
    """Yield the pieces, and count their rows."""
    for piece in pieces:
        yield piece
        progress.read(len(piece[1]))


def _counting(pieces: Iterable[Any], left_out: list[int]) -> Iterable[Any]:
    """Yield the pieces, and append for each the number of rows that are left out."""
    for piece in pieces:
        left_out.append(int(np.isnan(piece[1][:, 0]).sum()))
        yield piece


def _write(path: Path, pieces: Iterable[Any], fitted: Any, n: int, row_names: str | None) -> None:
    """Write pieces to a file with a temporary name, and rename it when it is complete."""
    remove_leftovers(path)
    temporary = temporary_name(path)
    try:
        if path.suffix == ".npy":
            _write_npy(temporary, pieces, (n, len(fitted.components_)))
        elif path.suffix == ".h5ad":
            _write_h5ad(temporary, pieces, fitted, n, row_names)
        else:
            _write_table(temporary, pieces, fitted, path.suffix)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _write_npy(path: Path, pieces: Iterable[Any], shape: tuple[int, int]) -> None:
    with open(path, "wb") as file:
        for i, (_, Ht, _) in enumerate(pieces):
            if not i:
                header = {"descr": np.lib.format.dtype_to_descr(Ht.dtype), "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, header)
            file.write(np.ascontiguousarray(Ht).data)


def _write_h5ad(path: Path, pieces: Iterable[Any], fitted: Any, n: int, row_names: str | None) -> None:
    from dbmd.data.formats._h5ad_writer import H5adWriter
    from dbmd.memberships import labels_of
    from dbmd.tl import facts

    r, m = fitted.components_.shape
    components = [str(name) for name in getattr(fitted, "component_names_", range(r))]
    features = [str(name) for name in getattr(fitted, "feature_names_in_", range(m))]
    with ExitStack() as stack:
        writer = None
        for window, Ht, brightness in pieces:
            if writer is None:
                made = H5adWriter(path, (n, r), Ht.dtype, components, has_brightness=fitted.brightness)
                writer = stack.enter_context(made)
            kept = dict(window.extra)
            writer.add(Ht, labels_of(Ht), brightness, kept.pop(row_names, None), kept)
        if writer is not None:
            writer.finish(features, fitted.components_, facts(fitted))


def _write_table(path: Path, pieces: Iterable[Any], fitted: Any, suffix: str) -> None:
    import pyarrow as pa
    from pyarrow import csv, parquet

    from dbmd.memberships import labels_of

    names = fitted.get_feature_names_out()
    writer = schema = None
    try:
        for window, Ht, brightness in pieces:
            columns = {**window.extra, "cluster": labels_of(Ht[:, : len(names)]).astype(np.int32)}
            each = [*names, *(f"{name}_std" for name in names)][: Ht.shape[1]]
            columns |= {str(name): np.ascontiguousarray(Ht[:, k]) for k, name in enumerate(each)}
            columns |= {"brightness": brightness} if fitted.brightness else {}
            table = pa.table(columns)
            if writer is None:
                schema = table.schema
                nested = [field.name for field in schema if pa.types.is_nested(field.type)]
                if nested and suffix == ".csv":
                    raise DataError(f"The column {nested[0]!r} to keep holds lists, which csv cannot. Write parquet.")
                writer = (parquet.ParquetWriter if suffix == ".parquet" else csv.CSVWriter)(path, schema)
            elif table.schema != schema:
                table = _as_before(table, schema)
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()


def _as_before(table: Any, schema: Any) -> Any:
    """Return a table with the types of the pieces before it."""
    import pyarrow as pa

    try:
        return table.cast(schema)
    except (pa.ArrowException, ValueError) as error:
        what = str(error).splitlines()[0]
        raise DataError(f"The columns to keep are of different types in different files ({what}).") from error
