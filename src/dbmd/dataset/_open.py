"""Opening data of any kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from numpy.typing import DTypeLike

from dbmd.data.options import DEFAULT_MEMORY, ColumnOptions
from dbmd.data.stream import ignore
from dbmd.dataset._base import Dataset
from dbmd.dataset._collection import open_collection
from dbmd.dataset._files import open_files
from dbmd.errors import DataError
from dbmd.registry import load_cluster


def is_path(data: Any) -> bool:
    """Say whether data are a path, or several."""
    several = isinstance(data, list | tuple) and bool(data)
    return isinstance(data, str | Path) or (several and all(isinstance(each, str | Path) for each in data))


def framework_of(data: Any) -> str | None:
    """Return the engine that data belong to by their type: of Spark or Dask; None: to no one."""
    if isinstance(data, list | tuple) and data:
        return framework_of(data[0])
    return {"pyspark": "spark", "dask": "dask", "dask_expr": "dask"}.get(type(data).__module__.split(".")[0])


def open_data(
    data: Any,
    *,
    source: Any = None,
    label: str | None = None,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    encode: Sequence[str] | Mapping[str, Sequence[Any]] = (),
    dtype: DTypeLike | None = None,
    memory: int = DEFAULT_MEMORY,
    keep: Sequence[str] = (),
    on_rows: Callable[[int], object] = ignore,
    header: bool | None = None,
    delimiter: str | None = None,
    engine: str = "local",
    n_nodes: int | None = None,
) -> Dataset:
    """Open data of any size to fit: ``DBMD(10).fit(open_data("cells.parquet", source="batch"))``.

    Files are read once to see whether they are sound. What is small is then kept in memory; what is not is read again
    in every pass, in bounded pieces. DataFrames and arrays of Spark and Dask stay where they are.

    Parameters
    ----------
    data : str, Path or iterable of them; or a collection of Spark or Dask
        Files (csv, parquet, npy, npz, h5ad), folders of them, or addresses that pyarrow or fsspec can open. Their rows
        are taken one file after the other. Or a DataFrame of Spark (columns of numbers, or one column of vectors or
        arrays), a dask.array of shape (n, m), a dask.dataframe, or a list of delayed arrays: these are computed once,
        and lie where they were computed until the dataset is closed.
    source : str, optional
        The column that names the source of each sample; "@file": each file is a source of its own. Without it all
        samples are of one source. For a dask.array, an array of names of shape (n,); for delayed arrays, a list of
        them.
    label : str, optional
        A column with known classes: never a feature, only compared with the clusters found.
    columns : sequence of str, optional
        The columns to take as features, in this order; by default all others.
    drop : sequence of str
        Columns to leave out.
    encode : sequence of str, or mapping of str to categories
        Columns of text to one-hot code. With a mapping, the categories are given.
    dtype : dtype, optional
        Type to compute with, float32 or float64; by default the least that holds the numbers.
    memory : int
        Bytes: data up to this size are kept in memory, and memberships up to a quarter of it. With another engine than
        the local one its workers keep all that has to be decoded.
    keep : sequence of str
        Columns to hand through to who reads the rows; the data then stay in their files.
    on_rows : callable
        Told how many rows were read whenever some were, in any thread: for a progress bar.
    header : bool, optional
        Whether csv files have a line with names; found out by default.
    delimiter : str, optional
        Of csv files; found out by default.
    engine : str
        The engine that is to fit files: it reads them, too, on its workers, which must find them under the same paths.
    n_nodes : int, optional
        Into how many nodes to cut a collection of Spark or Dask; by default as it is.

    Returns
    -------
    Dataset
    """
    # A name alone is one name, not one for each letter.
    columns = [columns] if isinstance(columns, str) else columns
    drop = [drop] if isinstance(drop, str) else drop
    encode = [encode] if isinstance(encode, str) else encode
    hints = {"header": header, "delimiter": delimiter}
    categories = encode if isinstance(encode, Mapping) else {}
    options = ColumnOptions(source, label, columns, drop, tuple(encode), keep)
    paths = f"a collection of {framework_of(data)}" if framework_of(data) else data
    with ExitStack() as on_failure:
        session = None
        if engine != "local" and is_path(data):
            session = on_failure.enter_context(closing(load_cluster(engine).Session()))  # once, for the fit too
            on_rows = ignore  # workers have no way to call it
            data = session.read(data)
        framework = framework_of(data)
        opened: Dataset
        if framework is None:
            listed = [data] if isinstance(data, str | Path) else list(data)
            opened = open_files(listed, options, categories, dtype, memory, on_rows, hints, engine, session)
        elif encode or keep or header is not None or delimiter is not None:
            raise DataError("encode, keep, header and delimiter are for files that dbmd reads itself.")
        else:
            opened = open_collection(data, framework, options, dtype, n_nodes, paths, session)
        on_failure.pop_all()  # from now on the dataset closes the session
    return opened
