"""Blocks of samples with gaps, and what holds for them by definition."""

from dataclasses import replace
from itertools import pairwise

import numpy as np

from dbmd.data.block import Block, Samples
from dbmd.model.node import Node


class WithGaps(Samples):
    """Samples in memory where NaN is a gap: chunks have a number there, and ``gaps``.

    Parameters
    ----------
    block : Block
        Dense samples, with NaN.
    fill : array of shape (m,), optional
        What stands in for gaps; by default zeros, and the result must not depend on it.
    mark_all : bool
        Whether chunks without gaps have a mask, too.
    """

    def __init__(self, block, fill=None, *, mark_all=False):
        self.first_row, self._fill, self._mark_all = block.first_row, fill, mark_all
        self._gaps = np.isnan(block.Xt)
        self._block = replace(block, Xt=np.where(self._gaps, 0.0 if fill is None else fill, block.Xt))

    shape = property(lambda self: self._block.shape)
    dtype = property(lambda self: self._block.dtype)
    is_sparse = False
    is_contiguous = property(lambda self: self._block.is_contiguous)

    def windows(self):
        return self._block.windows()

    def chunks(self, shift=None):
        for chunk in self._block.chunks(shift):
            gaps = self._gaps[chunk.rows]
            yield chunk._replace(gaps=gaps if self._mark_all or gaps.any() else None)


def nodes_with_gaps(Xt, source_codes=0, n_nodes=1, **options):
    """Return nodes of consecutive samples; NaN are gaps."""
    edges = np.linspace(0, len(Xt), n_nodes + 1).astype(int)
    return [
        Node(
            f"node {i}",
            WithGaps(
                Block(Xt[i:j], source_codes if isinstance(source_codes, int) else source_codes[i:j], first_row=int(i)),
                **options,
            ),
        )
        for i, j in pairwise(edges)
    ]
