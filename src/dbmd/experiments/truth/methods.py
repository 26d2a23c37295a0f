"""What is compared. All take samples and return memberships."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from sklearn.cluster import KMeans
from sklearn.decomposition import NMF

from dbmd.errors import needs
from dbmd.estimator import DBMD
from dbmd.experiments.experiment import Setting
from dbmd.experiments.truth.data import Float, Mixtures


class Found(NamedTuple):
    """What a method found.

    Attributes
    ----------
    memberships : array of shape (n, r)
        In rows on the simplex.
    iterations : int
        Their number.
    patterns : array of shape (r, m), optional
        What is mixed.
    sigmas : array of shape (n_sources,), optional
        Standard deviations of the noise.
    rows : array of int, optional
        The samples that were taken, if not all.
    """

    memberships: Float
    iterations: int
    patterns: Float | None = None
    sigmas: Float | None = None
    rows: Any = None


Method = Callable[[Mixtures, int, Setting], Found]


def dbmd(data: Mixtures, seed: int, setting: Setting, **parameters: Any) -> Found:
    """Fit DBMD with its defaults but for some parameters; it knows the sources."""
    model = DBMD(data.memberships.shape[1], random_state=seed, **parameters)
    found = model.fit_transform(data.X, source=data.source)
    return Found(found, model.n_iter_, model.components_, np.sqrt(model.noise_variance_))


def k_means(data: Mixtures, seed: int, setting: Setting) -> Found:
    """Cluster by k-means: a sample belongs to its cluster alone."""
    r = data.memberships.shape[1]
    model = KMeans(r, n_init=10, random_state=seed).fit(data.X)
    return Found(np.eye(r)[model.labels_], model.n_iter_, model.cluster_centers_)


def nmf(data: Mixtures, seed: int, setting: Setting) -> Found:
    """Factorise by scikit-learn's NMF; what is negative becomes zero."""
    model = NMF(data.memberships.shape[1], init="nndsvda", max_iter=1000, random_state=seed)
    coefficients = model.fit_transform(np.maximum(data.X, 0.0))
    return Found(shares(coefficients), model.n_iter_)


def archetypes(data: Mixtures, seed: int, setting: Setting) -> Found:
    """Find archetypes, mixtures of samples that the others are mixtures of, by the package ``archetypes``."""
    options, r = setting["archetypes"], data.memberships.shape[1]
    rows = _some(data, options["samples"], seed)
    with _in_silence(), needs("method 'archetypes'", "archetypes", "peers"):
        package = import_module("archetypes")
        model = package.AA(r, max_iter=options["max_iter"], random_state=seed).fit(data.X[rows])
    return Found(model.A_, model.n_iter_, model.archetypes_, rows=rows)


def minimum_volume_nmf(data: Mixtures, seed: int, setting: Setting) -> Found:
    """Factorise by the minimum-volume NMF of the package ``nn-fac``; what is negative becomes zero.

    It has the Kullback-Leibler divergence only: version 0.3.5 accepts the squared error, and has no update for it.
    """
    options, rng = setting["nn_fac"], np.random.default_rng(seed)
    rows = _some(data, options["samples"], seed)
    X, r = np.maximum(data.X[rows].T, 1e-12), data.memberships.shape[1]
    start = {"init": "custom", "W_0": rng.random((len(X), r)), "H_0": rng.random((r, len(rows)))}
    with _in_silence(), needs("method 'nn-fac'", "nn_fac", "peers"):
        factorise = import_module("nn_fac.min_vol_nmf").minvol_beta_nmf
        _, H, costs, _ = factorise(X, r, beta=1, n_iter_max=options["max_iter"], lambda_init=options["volume"], **start)
    return Found(shares(H.T), len(costs), rows=rows)


METHODS: dict[str, Method] = {
    "k-means": k_means,
    "nmf": nmf,
    "nn-fac": minimum_volume_nmf,
    "archetypes": archetypes,
    "map": partial(dbmd, inference="map"),
    "map, 150 iterations": partial(dbmd, inference="map", tol=0.0, max_iter=150),
    "evidence": partial(dbmd, inference="evidence"),
}
NONNEGATIVE = ("nmf", "nn-fac")


def shares(coefficients: Float) -> Float:
    """Return nonnegative coefficients, shape (n, r), as memberships.

    A factorisation leaves the scale of each component open. It is chosen by least squares such that a sample's
    coefficients sum to one, as nearly as they can; then they are divided by their sum.
    """
    scales, _ = nnls(coefficients, np.ones(len(coefficients)))
    scaled = coefficients * scales
    return scaled / np.maximum(scaled.sum(axis=1, keepdims=True), 1e-12)


def _some(data: Mixtures, n: int, seed: int) -> NDArray[np.intp]:
    """Return the numbers of so many samples at random, or of all if there are not more, in their order."""
    return np.sort(np.random.default_rng(seed).permutation(len(data.X))[:n])


@contextmanager
def _in_silence() -> Iterator[None]:
    """Around packages that print when they are imported, and warn of their own ways."""
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield
