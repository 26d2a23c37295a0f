"""What is compared: each method with its defaults, timed from samples in memory to labels.

A method is a context manager of samples, r and a seed. What it does before it hands out its fit is not timed: imports,
compilation, a fit of a few samples, for Spark the session and the cached DataFrame.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.counted import counted
from benchmarks.sets import Samples

FEW = 2_000  # samples of the fit that warms up


class Fitted(NamedTuple):
    """What a fit found.

    Attributes
    ----------
    labels : callable
        Returns the cluster of each sample, shape (n,); not timed.
    about : dict
        For the record: ``passes`` over the data (for NMF iterations, of which each reads them twice), ``converged``.
    """

    labels: Callable[[], NDArray[Any]]
    about: dict[str, Any]


Fit = Callable[[], Fitted]
Method = Callable[[Samples, int], AbstractContextManager[Fit]]


@contextmanager
def dbmd(samples: Samples, seed: int) -> Iterator[Fit]:
    """DBMD with its defaults."""
    from dbmd import DBMD

    _warm_up(DBMD(samples.r, random_state=0, max_iter=3), samples)

    def fit() -> Fitted:
        with counted(samples.X.shape[0]) as count:
            model = DBMD(n_components=samples.r, random_state=seed).fit(samples.X)
        about = {"iterations": model.n_iter_, "objective": model.objective_, "converged": model.fit_info_["converged"]}
        return Fitted(lambda: model.labels_, about | count.record())

    yield fit


@contextmanager
def k_means(samples: Samples, seed: int) -> Iterator[Fit]:
    """KMeans of scikit-learn from one start."""
    from sklearn.cluster import KMeans

    _warm_up(KMeans(samples.r, n_init=1, random_state=0), samples)

    def fit() -> Fitted:
        model = KMeans(samples.r, n_init=1, random_state=seed).fit(samples.X)
        about = {"passes": model.n_iter_, "converged": model.n_iter_ < model.max_iter, "most": model.max_iter}
        return Fitted(lambda: model.labels_, about)

    yield fit


@contextmanager
def mini_batch_k_means(samples: Samples, seed: int) -> Iterator[Fit]:
    """MiniBatchKMeans of scikit-learn."""
    from sklearn.cluster import MiniBatchKMeans

    _warm_up(MiniBatchKMeans(samples.r, random_state=0), samples)

    def fit() -> Fitted:
        model = MiniBatchKMeans(samples.r, random_state=seed).fit(samples.X)
        passes = model.n_steps_ * model.batch_size / samples.X.shape[0]
        return Fitted(lambda: model.labels_, {"passes": passes, "converged": passes < model.max_iter})

    yield fit


@contextmanager
def nmf(samples: Samples, seed: int) -> Iterator[Fit]:
    """NMF of scikit-learn, at most 200 iterations as by default; the largest share is the label."""
    from sklearn.decomposition import NMF

    _warm_up(NMF(samples.r, random_state=0, max_iter=3), samples)

    def fit() -> Fitted:
        model = NMF(samples.r, random_state=seed)
        H = model.fit_transform(samples.X)
        about = {"passes": model.n_iter_, "converged": model.n_iter_ < model.max_iter, "most": model.max_iter}
        return Fitted(lambda: H.argmax(axis=1), about)

    yield fit


@contextmanager
def mini_batch_nmf(samples: Samples, seed: int) -> Iterator[Fit]:
    """MiniBatchNMF of scikit-learn; the largest share is the label."""
    from sklearn.decomposition import MiniBatchNMF

    _warm_up(MiniBatchNMF(samples.r, random_state=0, max_iter=3), samples)

    def fit() -> Fitted:
        model = MiniBatchNMF(samples.r, random_state=seed)
        H = model.fit_transform(samples.X)
        passes = model.n_steps_ * min(model.batch_size, samples.X.shape[0]) / samples.X.shape[0]
        about = {"passes": passes, "converged": passes < model.max_iter, "most": model.max_iter}
        return Fitted(lambda: H.argmax(axis=1), about)

    yield fit


@contextmanager
def mllib_k_means(samples: Samples, seed: int) -> Iterator[Fit]:
    """KMeans of Spark MLlib: k-means||, at most 20 rounds as by default, on a cached DataFrame of vectors."""
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", "--driver-memory 8g pyspark-shell")
    os.environ["MASTER"] = f"local[{os.environ.get('DBMD_NUM_THREADS', '*')}]"
    from pyspark.ml.clustering import KMeans

    from benchmarks.vectors import cached_frame
    from dbmd.engines._spark_session import Session

    session = Session()
    try:
        with cached_frame(session.spark, samples.X[:FEW]) as few:
            KMeans(k=samples.r, seed=0).fit(few)
        with cached_frame(session.spark, samples.X) as frame:

            def fit() -> Fitted:
                estimator = KMeans(k=samples.r, seed=seed)
                model = estimator.fit(frame)
                rounds, most = int(model.summary.numIter), estimator.getMaxIter()

                def labels() -> NDArray[Any]:
                    found = model.transform(frame).select("row", "prediction").toArrow()
                    labels = np.empty(samples.X.shape[0], int)
                    labels[found["row"].to_numpy()] = found["prediction"].to_numpy()
                    return labels

                return Fitted(labels, {"passes": rounds, "converged": rounds < most, "most": most})

            yield fit
    finally:
        session.close()


METHODS: dict[str, Method] = {
    "dbmd": dbmd,
    "k_means": k_means,
    "mini_batch_k_means": mini_batch_k_means,
    "nmf": nmf,
    "mini_batch_nmf": mini_batch_nmf,
    "mllib_k_means": mllib_k_means,
}
TITLES = {
    "dbmd": "dbmd",
    "k_means": "scikit-learn KMeans (n_init=1)",
    "mini_batch_k_means": "scikit-learn MiniBatchKMeans",
    "nmf": "scikit-learn NMF",
    "mini_batch_nmf": "scikit-learn MiniBatchNMF",
    "mllib_k_means": "Spark MLlib KMeans",
}
NEED_NONNEGATIVE = ("nmf", "mini_batch_nmf")


def _warm_up(model: Any, samples: Samples) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(samples.X[:FEW])
