"""Opening data of any kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, get_args

from numpy.typing import DTypeLike

from dbmd.data.finite import Missing
from dbmd.data.options import DEFAULT_MEMORY, ColumnOptions
from dbmd.data.stream import ignore
from dbmd.dataset._anndata import HVG, is_anndata, open_anndata, variables
from dbmd.dataset._base import Dataset
from dbmd.dataset._collection import open_collection
from dbmd.dataset._files import open_files
from dbmd.dataset._on_device import open_on_device
from dbmd.engines._device_arrays import is_on_device
from dbmd.errors import DataError
from dbmd.registry import is_cluster, load_cluster


def is_path(data: Any) -> bool:
    """Return whether data are a path, or a list or tuple of paths."""
    several = isinstance(data, list | tuple) and bool(data)
    return isinstance(data, str | Path) or (several and all(isinstance(each, str | Path) for each in data))


def framework_of(data: Any) -> str | None:
    """Return the engine that data belong to by their type, "spark" or "dask"; None if they are of neither."""
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
    sample_weight: Any = None,
    missing: Missing = "error",
    layer: str | None = None,
    obsm: str | None = None,
    hvg: bool = False,
    transpose: bool = False,
) -> Dataset:
    """Open data of any size to fit: ``DBMD(10).fit(open_data("cells.parquet", source="batch"))``.

    Files are read once to check them. Small files are then kept in memory; larger ones are read again in every pass,
    in pieces of bounded size. DataFrames and arrays of Spark and Dask, and arrays on a GPU, stay where they are.

    Parameters
    ----------
    data : str, Path or iterable of them; a collection of Spark or Dask; an array on a GPU; or an AnnData
        Files (csv, parquet, npy, npz, mtx, h5ad), folders of them or of 10x, or addresses that pyarrow or fsspec can
        open. The samples are the rows of one file after the other; of an array of shape (height, width, m), they are
        its pixels. Or a DataFrame of Spark (columns of numbers, or one column of vectors
        or arrays), a dask.array of shape (n, m), a dask.dataframe, or a list of delayed arrays: these are computed
        once, and stay on the workers that computed them until the dataset is closed. Or an array or a CSR matrix in
        the memory of a GPU, of CuPy or of a library that shares its arrays with it: it stays there, and ``source`` and
        ``sample_weight`` are arrays. Or an AnnData, in memory or backed: ``source``, ``label`` and ``sample_weight``
        are columns of its ``obs``.
    source : str, optional
        The column with the name of the source of each sample; "@file": each file is a source of its own. Without it
        all samples are from one source. For a dask.array, an array of names of shape (n,); for delayed arrays, a list
        of such arrays.
    label : str, optional
        A column with known classes: never a feature, only compared with the clusters.
    columns : sequence of str, optional
        The features, in this order; by default all columns that have no other use.
    drop : sequence of str
        Columns to leave out.
    encode : sequence of str, or mapping of str to categories
        Columns of text to one-hot code. A mapping also gives the categories of each; other values are coded as zeros.
    dtype : dtype, optional
        Type to compute with, float32 or float64; by default the narrowest that holds the numbers.
    memory : int
        Bytes: data up to this size are kept in memory, and memberships up to a quarter of it. The workers of an engine
        other than the local one keep all data that have to be decoded.
    keep : sequence of str
        Columns that ``dbmd transform`` copies to its output. With any, the data are not kept in memory.
    on_rows : callable
        Called with the number of rows whenever some were read, from any thread: for a progress bar.
    header : bool, optional
        Whether csv files have a line with the names of the columns; by default, look.
    delimiter : str, optional
        What separates the fields of csv files; by default, look.
    engine : str
        The engine that will fit files. The workers of a cluster read them, and must find them under the same paths.
    n_nodes : int, optional
        Number of partitions of a collection of Spark or Dask; by default as it is.
    sample_weight : str, optional
        The column with the weight of each sample, a number >= 0: for how many samples it stands. Never a feature. For
        arrays of Dask, the weights themselves, as for ``source``.
    missing : {"error", "allow", "drop"}
        What to do with numbers that are missing (empty fields of csv, nulls of Parquet, NaN): refuse them, fit the
        others, or leave out samples that have any. The estimator must be told the same.
    layer, obsm : str, optional
        The layer, or the key of ``obsm``, of h5ad files or an AnnData to take instead of ``X``. The columns of
        ``obsm["X_pca"]`` are called X_pca-0, X_pca-1, ...
    hvg : bool
        Whether to take only the highly variable genes of h5ad files or an AnnData: those with a true
        ``var["highly_variable"]``.
    transpose : bool
        Whether the files have features in rows and samples in columns, as tables of genes x cells. The columns of csv
        are then the samples, and a first column without numbers names the features. npy files are transposed where
        they are; tables in other formats are held in memory for it.

    Returns
    -------
    Dataset
    """
    if missing not in get_args(Missing):
        raise ValueError(f"missing must be 'error', 'allow' or 'drop'. Got {missing!r}.")
    # A name alone is one name, not one for each letter.
    columns = [columns] if isinstance(columns, str) else columns
    drop = [drop] if isinstance(drop, str) else drop
    encode = [encode] if isinstance(encode, str) else encode
    hints = {"header": header, "delimiter": delimiter}
    rare = {"layer": layer, "obsm": obsm, "hvg": hvg, "transpose": transpose}
    hints |= {name: value for name, value in rare.items() if value}
    if is_anndata(data):
        if encode or keep or drop or dtype is not None or transpose or header is not None or delimiter is not None:
            raise DataError(
                "drop, dtype, encode, keep, header, delimiter and transpose are not for an AnnData: change it first."
            )
        return open_anndata(
            data,
            source=source,
            label=label,
            sample_weight=sample_weight,
            layer=layer,
            obsm=obsm,
            columns=columns,
            mask=variables(data, HVG) if hvg else None,
            memory=memory,
            missing=missing,
        )
    if framework_of(data) is None and is_on_device(data):
        if label is not None or columns is not None or drop or encode or keep or any(hints.values()):
            raise DataError("label, columns, drop, encode, keep and the like are not for arrays on a GPU.")
        return open_on_device(data, source=source, sample_weight=sample_weight, dtype=dtype, missing=missing)
    categories = encode if isinstance(encode, Mapping) else {}
    options = ColumnOptions(source, label, columns, drop, tuple(encode), keep, sample_weight, missing)
    paths = f"a collection of {framework_of(data)}" if framework_of(data) else data
    with ExitStack() as on_failure:
        session = None
        if is_path(data) and is_cluster(engine):
            session = on_failure.enter_context(closing(load_cluster(engine).Session()))  # once, for the fit too
            on_rows = ignore  # workers have no way to call it
            data = session.read(data)
        framework = framework_of(data)
        opened: Dataset
        if framework is None:
            if not isinstance(sample_weight, str | None):
                raise DataError("The weights of samples in files are named by a column: sample_weight='...'.")
            listed = [data] if isinstance(data, str | Path) else list(data)
            opened = open_files(listed, options, categories, dtype, memory, on_rows, hints, engine, session)
        elif encode or keep or any(value is not None for value in hints.values()):
            raise DataError(f"encode, keep, {', '.join(hints)} are for files that dbmd reads itself.")
        else:
            opened = open_collection(data, framework, options, dtype, n_nodes, paths, session)
        on_failure.pop_all()  # from now on the dataset closes the session
    return opened
