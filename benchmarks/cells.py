"""Made-up single cells: counts of genes, a mixture of programs in each cell, most of them zero."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import brentq

ROWS = 2_000  # cells whose counts are drawn at a time


def cells(
    n: int = 100_000, m: int = 5_000, r: int = 20, *, filled: float = 0.05, seed: int = 0
) -> tuple[Any, NDArray[np.intp]]:
    """Return log(1 + counts) of cells that mix r programs, and the program that dominates in each.

    Genes differ in abundance by orders of magnitude; each program raises a twentieth of them. Cells differ in how many
    molecules are caught (log-normal); how many on the whole is set such that the part ``filled`` of the counts is not
    zero: a Poisson variable that is thinned is one of a smaller mean.

    Parameters
    ----------
    n, m, r : int
        Cells, genes, programs.
    filled : float
        Part of the entries that is not zero.
    seed : int
        Of all that is drawn.

    Returns
    -------
    X : CSR array of float32 of shape (n, m)
        The logarithms.
    label : array of int of shape (n,)
        The dominating program of each cell.
    """
    rng = np.random.default_rng(seed)
    abundance = rng.lognormal(0.0, 1.5, m)
    raised = np.where(rng.random((r, m)) < 0.05, rng.lognormal(2.0, 0.5, (r, m)), 1.0)
    programs = abundance * raised
    programs /= programs.sum(axis=1, keepdims=True)
    H = rng.dirichlet(np.full(r, 0.1), n)
    library = rng.lognormal(0.0, 0.3, n)

    means = library[:ROWS, None] * (H[:ROWS] @ programs)

    def too_full(log_depth: float) -> float:
        return float(-np.expm1(-np.exp(log_depth) * means).mean()) - filled

    depth = np.exp(brentq(too_full, np.log(1e-3), np.log(1e9)))
    pieces = []
    for start in range(0, n, ROWS):
        rows = slice(start, start + ROWS)
        counts = rng.poisson(depth * library[rows, None] * (H[rows] @ programs))
        piece = sparse.csr_array(counts.astype(np.float32))
        piece.data = np.log1p(piece.data)
        pieces.append(piece)
    return sparse.vstack(pieces, format="csr"), H.argmax(axis=1)
