"""Collections of Dask, that is arrays, DataFrames and delayed arrays: as nodes, and to map a function over."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import dask
import dask.array as da
import numpy as np
import pyarrow as pa

from dbmd._utils.arrays import namespace
from dbmd.engines._device_arrays import as_device_array, brought_here, device_of, is_on_device
from dbmd.errors import DataError
from dbmd.model.node import Node


def columns_of(data: Any) -> dict[str, str] | None:
    """Return for each column of a dask.dataframe "number" or the name of its type; None for arrays."""
    if not hasattr(data, "dtypes"):
        return None
    kinds = zip(data.columns, data.dtypes, strict=True)
    return {str(name): "number" if getattr(kind, "kind", "O") in "biuf" else str(kind) for name, kind in kinds}


def to_nodes(
    data: Any,
    to_node: Callable[..., Node],
    *,
    n_nodes: int | None,
    names: Sequence[str] = (),
    sources: Any = None,
    weights: Any = None,
) -> list[Any]:
    """Return a collection of Dask as delayed nodes; see :meth:`dbmd.protocols.Cluster.distribute`.

    Parameters
    ----------
    data : dask.array, dask.dataframe, or list of delayed arrays
        The samples.
    to_node : callable
        ``to_node(block, index, sources, weights)``, or of a frame ``to_node(pyarrow.Table, index)``, returns a node.
    n_nodes : int, optional
        Number of nodes; by default one for each chunk, partition or array.
    names : sequence of str
        The columns of a DataFrame that are needed.
    sources : array-like or dask.array of shape (n,), or list of delayed arrays, optional
        The source of each sample, if data are arrays.
    weights : array-like or dask.array of shape (n,), or list of delayed arrays, optional
        The weight of each sample, if data are arrays.
    """
    if isinstance(data, list | tuple):
        given = []
        for what, each in (("sources", sources), ("weights", weights)):
            each = [None] * len(data) if each is None else list(each)
            if len(each) != len(data):
                raise DataError(
                    f"There must be an array of {what} for each of the {len(data)} blocks. Got {len(each)}."
                )
            given.append(each)
        make = dask.delayed(partial(_array_node, to_node), pure=False)
        return [make(block, i, *own) for i, (block, *own) in enumerate(zip(data, *given, strict=True))]
    if names:
        frame = _with_text_names(data)[list(names)]
        frame = frame if n_nodes is None else frame.repartition(npartitions=n_nodes)
        make = dask.delayed(partial(_table_node, to_node), pure=False)
        return [make(partition, i) for i, partition in enumerate(frame.to_delayed())]
    data = by_rows(data)
    if n_nodes is not None:
        data = data.rechunk({0: -(-data.shape[0] // n_nodes)})
    blocks = data.to_delayed().ravel().tolist()
    sources, weights = _by_chunk(sources, data, "source"), _by_chunk(weights, data, "weight")
    return to_nodes(blocks, to_node, n_nodes=None, sources=sources, weights=weights)


def _by_chunk(values: Any, data: Any, what: str) -> list[Any] | None:
    """Return the delayed pieces of an array of shape (n,), one for each chunk of rows of an array of shape (n, m)."""
    if values is None:
        return None
    values = values if isinstance(values, da.Array) else da.from_array(np.asarray(values))
    if values.ndim == 1 and np.isnan([*values.shape, data.shape[0]]).any():
        # Lengths are not known yet: match chunk by chunk. Each chunk is checked when it is computed.
        return list(values.to_delayed().ravel().tolist())
    if values.ndim != 1 or values.shape[0] != data.shape[0]:
        raise DataError(f"There must be a {what} for each of the {data.shape[0]} samples. Got shape {values.shape}.")
    return list(values.rechunk((data.chunks[0],)).to_delayed().ravel().tolist())


def map_rows(function: Callable[..., Any], data: Any, source: Any, names: Sequence[str], width: int) -> Any:
    """Return function(rows, sources) as a dask.array that is not computed yet, with ``width`` numbers for each row.

    Of a DataFrame, the lengths of the partitions are computed, from one of its columns.

    Parameters
    ----------
    function : callable
        Called with an array of rows, and with an array of their sources if these are given.
    data : dask.array or dask.dataframe
        The samples.
    source : array-like or dask.array of shape (n,), or the name of a column, optional
        Their sources.
    names : sequence of str
        The columns of a DataFrame to take; if empty, all but that of the source.
    width : int
        Number of columns of the result.
    """
    if hasattr(data, "dtypes"):
        data = _with_text_names(data)
        names = names or [name for name in data.columns if not isinstance(source, str) or name != source]
        # Chunks of unknown length cannot be sliced, stored or joined to others. One column is enough to count them.
        lengths = tuple(data[[names[0]]].map_partitions(len).compute())
        if isinstance(source, str):
            source = _with_numpy_types(data[[source]], object)[source].to_dask_array(lengths=lengths)
        data = _with_numpy_types(data[list(names)], np.float64).to_dask_array(lengths=lengths)
    data = by_rows(data)
    dtype = np.float32 if np.result_type(data.dtype, np.float32) == np.float32 else np.float64
    given = []
    if source is not None:
        source = source if isinstance(source, da.Array) else da.from_array(np.asarray(source))
        given = [source if np.isnan(source.shape[0]) else source.rechunk((data.chunks[0],)), "i"]
    return da.blockwise(
        function,
        "ik",
        data,
        "ij",
        *given,
        concatenate=True,
        new_axes={"k": width},
        dtype=dtype,
        meta=namespace(data._meta).empty((0, 0), dtype),  # memberships are where the samples are
    )


def _with_text_names(frame: Any) -> Any:
    """Return a DataFrame whose column names are text, as in files."""
    other = {name: str(name) for name in frame.columns if not isinstance(name, str)}
    return frame.rename(columns=other) if other else frame


def _with_numpy_types(frame: Any, dtype: Any) -> Any:
    """Return a DataFrame whose columns of types of pandas are converted to a type of NumPy."""
    own = {name: dtype for name, kind in frame.dtypes.items() if not isinstance(kind, np.dtype)}
    return frame.astype(own) if own else frame


def by_rows(data: Any) -> Any:
    """Return an array with chunks of whole rows."""
    if data.ndim != 2:
        raise DataError(f"The data must have two dimensions, samples and features. Got shape {data.shape}.")
    if data.numblocks[1] == 1:
        return data
    warnings.warn(
        f"The array has {data.numblocks[1]} chunks of columns; samples must be whole, so it is rechunked. Chunk it by "
        "rows, rechunk({1: -1}), and store it so, to save the traffic.",
        stacklevel=2,
    )
    return data.rechunk({1: -1})


def _table_node(to_node: Callable[..., Node], partition: Any, index: int) -> Node:
    if hasattr(partition, "to_arrow"):  # cuDF
        return to_node(partition.to_arrow(preserve_index=False), index)
    return to_node(pa.Table.from_pandas(partition, preserve_index=False), index)


def _array_node(to_node: Callable[..., Node], block: Any, index: int, sources: Any, weights: Any) -> Node:
    """Return a node of an array; one in the memory of a GPU stays there."""
    block = as_device_array(block) if is_on_device(block) else block
    with device_of(block if is_on_device(block) else None):
        return to_node(block, index, brought_here(sources), brought_here(weights))
