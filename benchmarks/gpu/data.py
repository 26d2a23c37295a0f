"""Made-up data for the GPU, drawn in threads: the same for any number of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks.cells import cells
from benchmarks.plan import available_cores

ROWS = 8_192  # drawn by one generator
COPIES = 8  # of the cells that are drawn


def mixture(n: int, m: int, r: int, seed: int, dtype: str = "float32") -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return samples that mix r components, Dirichlet(0.2), with noise of 0.3, and the components.

    Parameters
    ----------
    n, m, r : int
        Samples, features, components.
    seed : int
        Of all that is drawn.
    dtype : str
        Type of the samples.

    Returns
    -------
    X : array of shape (n, m)
        The samples.
    W : array of shape (m, r)
        The components: half of their entries are zero.
    """
    W = np.maximum(np.random.default_rng(seed).normal(size=(m, r)), 0.0)
    return mixed(W, n, 0.2, seed, dtype), W


def mixed(W: NDArray[np.float64], n: int, concentration: float, seed: int, dtype: str = "float32") -> NDArray[Any]:
    """Return n samples that mix the columns of W, shape (m, r), with noise of 0.3, shape (n, m)."""
    m, r = W.shape
    X = np.empty((n, m), dtype)

    def draw(start: int) -> None:
        rows = X[start : start + ROWS]
        rng = np.random.default_rng([seed, start])
        H = rng.dirichlet(np.full(r, concentration), len(rows)).astype(dtype)
        rng.standard_normal(out=rows, dtype=X.dtype.type)
        rows *= 0.3
        rows += H @ W.T.astype(dtype)

    with ThreadPoolExecutor(available_cores()) as pool:
        list(pool.map(draw, range(0, n, ROWS)))
    return X


def repeated(n: int, m: int, r: int, seed: int) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return a mixture of so many samples, the first 200,000 of them again and again: as much memory, but soon made."""
    X, W = mixture(min(n, 200_000), m, r, seed)
    if len(X) == n:
        return X, W
    filled = np.empty((n, m), X.dtype)

    def copy(start: int) -> None:
        rows = filled[start : start + len(X)]
        rows[:] = X[: len(rows)]

    with ThreadPoolExecutor(available_cores()) as pool:
        list(pool.map(copy, range(0, n, len(X))))
    return filled, W


def sparse_cells(n: int, m: int, r: int, seed: int) -> Any:
    """Return made-up cells as a CSR array of shape (n, m), an eighth of them drawn and each of these eight times."""
    part, _ = cells(n // COPIES, m, r, seed=seed)
    return sparse.vstack([part] * COPIES, format="csr")
