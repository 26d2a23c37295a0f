"""What is compared: DBMD, k-means of scikit-learn and of Spark, Scalable-NMF. All take samples and return labels."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbmd.data.partition import partition
from dbmd.engines.local import Engine, available_threads
from dbmd.errors import EngineError
from dbmd.estimator import DBMD
from dbmd.experiments import scalable_nmf


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples to be clustered. They are what they are: two of them are the same only if they are one.

    Attributes
    ----------
    X : array of shape (n, m)
        The samples.
    classes : array of int of shape (n,)
        Their classes, 0 to r - 1.
    """

    X: NDArray[Any]
    classes: NDArray[np.intp]


class Clusters(NamedTuple):
    """What a method found.

    Attributes
    ----------
    labels : array of int of shape (n,)
        The cluster of each sample.
    iterations : int
        Passes or rounds.
    seconds : float, optional
        Of the fit alone, where other things had to be done as well.
    """

    labels: NDArray[Any]
    iterations: int
    seconds: float | None = None


Method = Callable[[Samples, int, int], Clusters]


def dbmd(**parameters: Any) -> Method:
    """Return DBMD with these parameters as a method."""

    def fit(samples: Samples, r: int, seed: int) -> Clusters:
        clock = time.perf_counter()
        model = DBMD(r, random_state=seed, **parameters).fit(samples.X)
        return Clusters(model.labels_, model.n_iter_, time.perf_counter() - clock)

    return fit


def k_means(samples: Samples, r: int, seed: int) -> Clusters:
    """Cluster by scikit-learn's KMeans: k-means++, one start."""
    from sklearn.cluster import KMeans

    model = KMeans(r, n_init=1, random_state=seed).fit(samples.X)
    return Clusters(model.labels_, model.n_iter_)


def nmf(samples: Samples, r: int, seed: int, *, refine: bool = True) -> Clusters:
    """Cluster by Scalable-NMF: XRAY, memberships by non-negative least squares or as picked, the largest counts."""
    with Engine(partition(samples.X, 0, available_threads())) as engine:
        model = scalable_nmf.separable_nmf(engine.ask, r, shift=True)
        return Clusters(scalable_nmf.labels(engine.ask, model, refine=refine), 1)


def nmf_as_picked(samples: Samples, r: int, seed: int) -> Clusters:
    """Cluster by Scalable-NMF by the rule of the paper: the largest of the picked features."""
    return nmf(samples, r, seed, refine=False)


def k_means_parallel(samples: Samples, r: int, seed: int) -> Clusters:
    """Cluster by the KMeans of Spark MLlib, with its defaults (k-means||, 20 rounds); samples are cached first."""
    from pyspark.ml.clustering import KMeans

    frame = _frame(samples)
    clock = time.perf_counter()
    model = KMeans(k=r, seed=seed).fit(frame)
    seconds = time.perf_counter() - clock
    found = model.transform(frame).select("row", "prediction").toArrow()
    labels = np.empty(len(samples.X), int)
    labels[found["row"].to_numpy()] = found["prediction"].to_numpy()
    return Clusters(labels, int(model.summary.numIter), seconds)


COMPETITORS: dict[str, Method] = {
    "k-means": k_means,
    "k-means||": k_means_parallel,
    "nmf": nmf,
    "nmf, as picked": nmf_as_picked,
}


@cache
def no_spark() -> str:
    """Return why Spark cannot be started; nothing if it can."""
    try:
        _session()
    except (ImportError, EngineError) as error:
        return str(error)
    return ""


@cache
def _session() -> Any:
    from dbmd.engines._spark_session import Session

    # Cached samples are twice as large there; without this a JVM takes a gigabyte, and reads them from disk.
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", "--driver-memory 6g pyspark-shell")
    return Session()


@lru_cache(1)
def _frame(samples: Samples) -> Any:
    """Return the samples as a cached DataFrame with the columns row and features, the only one that is cached."""
    import pyarrow as pa
    from pyarrow import parquet
    from pyspark.ml.functions import array_to_vector

    X, spark = samples.X, _session().spark
    spark.catalog.clearCache()
    values = pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(X).ravel()), X.shape[1])
    table = pa.table({"row": np.arange(len(X)), "values": values.cast(pa.list_(values.type.value_type))})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "samples.parquet"
        parquet.write_table(table, path, row_group_size=len(X) // (2 * available_threads()) + 1)
        read = spark.read.parquet(str(path)).repartition(2 * available_threads())
        frame = read.select("row", array_to_vector("values").alias("features")).cache()
        frame.count()
    return frame
