"""Splitting samples in memory into nodes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.data.block import Block, consecutive_rows
from dbmd.model.node import Node


def partition(
    Xt: Any,
    source_codes: NDArray[np.intp] | int,
    n_nodes: int,
    dtype: np.dtype[Any] | None = None,
    class_codes: NDArray[np.intp] | None = None,
    weights: NDArray[np.float64] | None = None,
    off: NDArray[np.float64] | None = None,
) -> list[Node]:
    """Return nodes of consecutive samples, of sizes that differ by at most one; views, not copies.

    Parameters
    ----------
    Xt : array or CSR matrix of shape (n, m)
        The samples.
    source_codes : array of int of shape (n,), or an int
        The source of each sample, or of all.
    n_nodes : int
        Number of nodes; no more are made than there are samples.
    dtype : dtype, optional
        Type to compute with.
    class_codes : array of int of shape (n,), optional
        The known class of each sample.
    weights : array of shape (n,), optional
        For how many samples each stands; by default for itself.
    off : array of shape (n,), optional
        Squared distance of each sample from the space that they were projected on, if they were.

    Returns
    -------
    list of Node
    """
    n = Xt.shape[0]
    squares = off if off is None or weights is None else weights * off

    def summed(start: int, stop: int) -> dict[int, float]:
        if squares is None:
            return {}
        codes = np.broadcast_to(source_codes, n)[start:stop]
        return dict(enumerate(np.bincount(codes, squares[start:stop]).tolist()))

    edges = np.linspace(0, n, min(n_nodes, max(n, 1)) + 1).astype(int)
    return [
        Node(
            name=f"rows {start} to {stop - 1}",
            block=Block(
                consecutive_rows(Xt, int(start), int(stop)),
                source_codes if isinstance(source_codes, int) else source_codes[start:stop],
                first_row=int(start),
                as_type=dtype,
                class_codes=None if class_codes is None else class_codes[start:stop],
                weights=None if weights is None else weights[start:stop],
                off=summed(int(start), int(stop)),
            ),
        )
        for start, stop in pairwise(edges)
    ]
