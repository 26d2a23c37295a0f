"""Samples as a DataFrame of Spark with a column of vectors, dense or sparse."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from scipy import sparse

DENSE, SPARSE = 1, 0  # how Spark marks the two kinds of vectors
ROWS = 50_000  # in a row group


@contextmanager
def cached_frame(spark: Any, X: Any) -> Iterator[Any]:
    """Give samples as a DataFrame with the columns row and features that is computed and in memory."""
    from pyspark.ml.linalg import VectorUDT
    from pyspark.sql.types import LongType, StructField, StructType

    schema = StructType([StructField("row", LongType()), StructField("features", VectorUDT())])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "samples.parquet"
        with parquet.ParquetWriter(path, _table(X[:1], 0).schema, use_dictionary=False) as writer:
            for start in range(0, X.shape[0], ROWS):
                writer.write_table(_table(X[start : start + ROWS], start))
        partitions = 2 * spark.sparkContext.defaultParallelism
        frame = spark.read.schema(schema).parquet(str(path)).repartition(partitions).cache()
        frame.count()
        try:
            yield frame
        finally:
            frame.unpersist()


def _table(X: Any, first: int) -> pa.Table:
    """Return samples as Spark stores a vector: kind, and for sparse ones length and indices, and values."""
    n, m = X.shape
    kind = pa.array(np.full(n, SPARSE if sparse.issparse(X) else DENSE, np.int8))
    if sparse.issparse(X):
        edges = pa.array(X.indptr.astype(np.int32))
        size = pa.array(np.full(n, m, np.int32))
        indices = pa.ListArray.from_arrays(edges, pa.array(X.indices.astype(np.int32)))
        values = pa.ListArray.from_arrays(edges, pa.array(X.data.astype(np.float64)))
    else:
        size, indices = pa.nulls(n, pa.int32()), pa.nulls(n, pa.list_(pa.int32()))
        edges = pa.array(np.arange(0, n * m + 1, m, dtype=np.int32))
        values = pa.ListArray.from_arrays(edges, pa.array(np.ascontiguousarray(X, np.float64).ravel()))
    vectors = pa.StructArray.from_arrays([kind, size, indices, values], ["type", "size", "indices", "values"])
    return pa.table({"row": np.arange(first, first + n), "features": vectors})
