"""Mixtures with known memberships: made up, a hyperspectral scene, and mixtures of cells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.data.datasets import load
from dbmd.data.datasets.origin import folder, missing, reading
from dbmd.experiments.experiment import Setting
from dbmd.experiments.noisy_mnist.mixtures import prepare

Float = NDArray[np.floating[Any]]
JASPER = "jasperRidge2_R198.mat"


@dataclass(frozen=True, eq=False)
class Mixtures:
    """Samples, and the truth about them.

    Attributes
    ----------
    X : array of shape (n, m)
        The samples.
    memberships : array of shape (n, r)
        The true ones, in rows on the simplex.
    source : array of int of shape (n,), optional
        The source of each sample, if there are several.
    patterns : array of shape (r, m), optional
        What was mixed, where it is known.
    sigmas : list of float, optional
        The standard deviation of the noise of each source, where it is known.
    """

    X: Float
    memberships: Float
    source: NDArray[np.intp] | None = None
    patterns: Float | None = None
    sigmas: list[float] | None = None


def mixtures(
    seed: int, *, alpha: float, snr: float, components: int, n: int, m: int = 50, largest: float = 1.0
) -> Mixtures:
    """Return mixtures of patterns that are uniform in [0, 1], with white noise.

    Parameters
    ----------
    seed : int
        Of everything.
    alpha : float
        Of the Dirichlet distribution of the memberships; below 1 most samples are near a corner or an edge.
    snr : float
        The mean variance of a feature before the noise over that of the noise, in dB.
    components, n, m : int
        Numbers of patterns, samples and features.
    largest : float, default=1.0
        Samples with a larger membership are rejected.

    Returns
    -------
    Mixtures
    """
    rng = np.random.default_rng(seed)
    patterns = rng.random((components, m))
    H = np.empty((0, components))
    while len(H) < n:
        drawn = rng.dirichlet(np.full(components, alpha), n)
        H = np.vstack([H, drawn[drawn.max(axis=1) <= largest]])[:n]
    clean = H @ patterns
    sigma = np.sqrt(clean.var(axis=0).mean() / 10 ** (snr / 10))
    return Mixtures(clean + sigma * rng.normal(size=clean.shape), H, patterns=patterns, sigmas=[float(sigma)])


def levels(seed: int, *, sigmas: list[float], n: int, m: int = 8, components: int = 3) -> Mixtures:
    """Return mixtures from sources of different noise, as in ``examples/gallery/plot_evidence.py``."""
    rng = np.random.default_rng(seed)
    source = rng.integers(0, len(sigmas), n)
    patterns = 3.0 * rng.normal(size=(m, components)).T
    H = rng.dirichlet(np.full(components, 0.4), n)
    noise = rng.normal(size=(n, m)) * np.array(sigmas)[source, None]
    return Mixtures(H @ patterns + noise, H, source, patterns, sigmas)


@lru_cache(maxsize=1)
def jasper(seed: int = 0) -> Mixtures:
    """Return the scene Jasper Ridge: 10,000 pixels, 198 bands, abundances of tree, water, dirt and road."""
    from scipy.io import loadmat

    found = folder("hsi_jasper")
    if found is None:
        raise missing("hsi_jasper", JASPER, "and there is no download of it")
    with reading(found / JASPER):
        scene = loadmat(found / JASPER)
        return Mixtures(scene["Y"].T / float(scene["maxValue"].item()), scene["A"].T)


@lru_cache(maxsize=1)
def cellmix(seed: int = 0, *, genes: int) -> Mixtures:
    """Return mixtures of cells: relative counts of the genes that vary most, each with variance one."""
    found = load("cellmix")
    assert found.source is not None
    assert found.truth is not None
    return Mixtures(prepare(found.X, genes), found.truth, np.unique(found.source, return_inverse=True)[1])


KINDS: dict[str, Callable[..., Mixtures]] = {
    "mixtures": mixtures,
    "levels": levels,
    "jasper": jasper,
    "cellmix": cellmix,
}


def made(about: Setting, seed: int) -> Mixtures:
    """Return a set from its entry in the setting; of real ones, there is one for all seeds."""
    return KINDS[about["kind"]](seed, **{k: v for k, v in about.items() if k not in ("name", "kind", "fewer")})


def matched(found: Float, truth: Float) -> Float:
    """Return the columns of ``found`` in the order that comes nearest to the truth, both of shape (n, r).

    The truth names the components, and has no other part in this.
    """
    from scipy.optimize import linear_sum_assignment

    squares = ((found[:, :, None] - truth[:, None, :]) ** 2).sum(axis=0)
    own, theirs = linear_sum_assignment(squares)
    return found[:, own[np.argsort(theirs)]]


def membership_error(found: Float, truth: Float) -> float:
    """Return the root mean square error of memberships, both of shape (n, r), after matching the components."""
    return float(np.sqrt(((matched(found, truth) - truth) ** 2).mean()))


def pattern_error(found: Float, truth: Float) -> float:
    """Return the error of patterns, both of shape (r, m), relative to their norm, after matching them."""
    return float(np.linalg.norm(matched(found.T, truth.T) - truth.T) / np.linalg.norm(truth))
