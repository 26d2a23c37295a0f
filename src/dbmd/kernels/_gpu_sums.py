"""Sums over samples and memberships on a GPU, see ``sums.cu``; of float32 on tensor cores, see ``tensor_sums.cu``.

They have the same bits however samples are cut, as long as each part but the last has a multiple of RUN samples.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from dbmd._utils.arrays import is_sparse
from dbmd.kernels import _gpu_sparse
from dbmd.kernels._cuda import coming, cupy, launch
from dbmd.kernels._gpu_products import NONE, TILE, aligned, has_tensor_cores, most_shared, real, tiles_of, vector
from dbmd.model.statistics import SampleSums

__all__ = ["Sums"]

GROUP = 256  # samples; sums of float32 over so many, and in sparse data over a segment
RUN = 8192  # samples; all other sums are of float64
MOST_THREADS = 128
UNROLL, DEPTH = 4, 3  # samples that a thread copies at once, and how often before it needs the first
MEMORY = 1 << 27  # bytes of sums over groups at a time, or one run's
MANY = 12  # components from which on sums on tensor cores are faster
SAMPLES, STAGES = 16, 3  # samples that a block of these has at a time, and how many times


class TensorPlan(NamedTuple):
    """How sums are computed on tensor cores.

    Attributes
    ----------
    constants : dict
        Of the source.
    units : int
        Blocks for each group of samples.
    shared : int
        Bytes of shared memory.
    """

    constants: dict[str, Any]
    units: int
    shared: int


@cache
def tensor_plan(m: int, r: int, norms: bool, group: int) -> TensorPlan:
    """Return how to sum samples of m features with r memberships, in groups, on tensor cores."""
    splits = tiles_of(r + norms)
    tiles = splits[0][2]
    n_warps = -(-m // 32)
    # As few warps as possible without a feature; of as many, the most.
    warps = min(range(min(n_warps, 4), 9), key=lambda count: (-(-n_warps // count) * count, -count))
    samples = min(SAMPLES, group)
    shared = 4 * (STAGES * samples * (32 * warps + 8 + r) + 2 * tiles * 32 * 8)
    pairs_of_block, columns = 6 * warps, r // TILE + 1
    batches = -(-columns * (columns + 1) // (2 * pairs_of_block))
    constants: dict[str, Any] = {"FEATURES": 32 * warps, "TILES": tiles, "VEC": vector(m, 4), "SAMPLES": samples}
    constants |= {
        "DEPTH": STAGES,
        "GROUP": group,
        "THREADS": 32 * warps,
        "BLOCKS": 3 if tiles > 3 else 4,
        "REAL": "float",
    }
    return TensorPlan(constants, -(-n_warps // warps) * len(splits) + batches, shared)


class Sums:
    """Sums over samples and their memberships, on the current device.

    Parameters
    ----------
    m : int
        Number of features.
    r : int
        Number of memberships of a sample.
    dtype : dtype
        Of the samples, float32 or float64.
    """

    def __init__(self, m: int, r: int, dtype: Any) -> None:
        self._m, self._r, self._dtype = m, r, np.dtype(dtype)
        self._norms = False
        self._arrived: Any = None  # returns the total when it is here
        self._total: Any = None  # X H^T, shape (r or r + 2, m), and after it the Gram matrix, shape (r + 1, r + 1)

    def add(self, Xt: Any, Ht: Any, weights: Any = None, *, norms: bool = False) -> None:
        """Add samples.

        Parameters
        ----------
        Xt : array or CSR matrix of CuPy of shape (n, m)
            The samples.
        Ht : array of CuPy of shape (n, r), of the same type
            Their memberships.
        weights : array of CuPy of shape (n,), float64, optional
            How often each sample counts; by default once.
        norms : bool
            Whether the sums of the samples and of their squares are needed as well: for all samples, or for none.
        """
        xp, n, outputs = cupy(), Xt.shape[0], self._r + 2 * norms
        if self._total is None:
            self._norms = norms
            self._total = xp.zeros(outputs * self._m + (self._r + 1) ** 2)
        assert self._norms == norms
        Ht = xp.ascontiguousarray(Ht)
        weights = NONE if weights is None else xp.ascontiguousarray(weights, np.float64)
        rows_of_part = _gpu_sparse.SEGMENT if is_sparse(Xt) else GROUP
        parts_of_run = RUN // rows_of_part
        rows = max(1, MEMORY // (parts_of_run * outputs * self._m * self._dtype.itemsize)) * RUN
        for start in range(0, n, rows):
            end = min(n, start + rows)
            parts = xp.empty((-(-(end - start) // rows_of_part), outputs, self._m), self._dtype)
            grams = xp.empty((-(-(end - start) // GROUP), self._r + 1, self._r + 1))
            H = Ht[start:end]
            w = weights if weights is NONE else weights[start:end]
            if is_sparse(Xt):
                _gpu_sparse.sparse_sums(Xt, Ht, weights, norms, start // rows_of_part, len(parts), parts)
                self._launch("membership_sums", len(grams), (H, w, np.int64(len(H)), np.int32(self._r), grams))
            else:
                self._add_dense(Xt[start:end], H, w, norms, parts, grams)
            self._add_groups(parts, parts_of_run, grams)

    def _add_dense(self, Xt: Any, Ht: Any, weights: Any, norms: bool, parts: Any, grams: Any) -> None:
        if self._r > MANY and self._dtype == np.float32 and has_tensor_cores():
            with_norms = tensor_plan(self._m, self._r, True, GROUP)
            if with_norms.shared <= most_shared(cupy().cuda.runtime.getDevice()):
                plan = with_norms if norms else tensor_plan(self._m, self._r, False, GROUP)
                self._add_on_tensor_cores(plan, Xt, Ht, weights, norms, parts, grams)
                return
        n_packs = self._m // self._vec
        tiles = -(-n_packs // MOST_THREADS)
        wide = -(-n_packs // tiles)
        n_tiles = -(-len(grams) // (self._threads // wide)) * tiles * -(-(self._r + norms) // self._cols)
        sizes = np.int64(len(Xt)), np.int32(self._m), np.int32(self._r), np.int32(norms), np.int32(wide)
        args = (aligned(Xt, self._vec), Ht, weights, *sizes, parts, grams)
        self._launch("dense_sums", n_tiles + len(grams), args)

    def _add_on_tensor_cores(
        self, plan: TensorPlan, Xt: Any, Ht: Any, weights: Any, norms: bool, parts: Any, grams: Any
    ) -> None:
        sizes = np.int64(len(Xt)), np.int32(self._m), np.int32(self._r), np.int32(norms)
        args = (aligned(Xt, self._vec), aligned(Ht, 4), weights, *sizes, parts, grams, np.int32(plan.shared // 4))
        blocks = min(len(grams) * plan.units, 2**30)
        launch("tensor_sums", "tensor_sums", blocks, args, shared=plan.shared, **plan.constants)

    def _add_groups(self, parts: Any, parts_of_run: int, grams: Any) -> None:
        """Add the sums over groups of samples to the total."""
        n_runs = -(-len(parts) // parts_of_run)
        width, gram_width = parts[0].size, grams[0].size
        runs = cupy().empty((n_runs, width + gram_width))
        of_parts = parts, np.int32(len(parts)), np.int32(parts_of_run), np.int64(width)
        of_grams = grams, np.int32(len(grams)), np.int32(RUN // GROUP), np.int32(gram_width)
        self._launch(
            "add_groups", -(-runs.size // self._threads), (*of_parts, *of_grams, runs, np.int32(n_runs)), is_sum=False
        )
        sizes = np.int32(n_runs), np.int64(width + gram_width)
        self._launch("add_runs", -(-(width + gram_width) // self._threads), (runs, *sizes, self._total), is_sum=False)

    @property
    def _vec(self) -> int:
        """Features that a thread loads at once."""
        return vector(self._m, self._dtype.itemsize)

    @property
    def _threads(self) -> int:
        """Threads of a block: few of them are idle."""
        n_packs = self._m // self._vec
        wide = -(-n_packs // -(-n_packs // MOST_THREADS))
        return -(-wide // 32) * 32 if wide > MOST_THREADS // 2 else MOST_THREADS

    @property
    def _cols(self) -> int:
        """Components of a thread."""
        most = 112 // self._dtype.itemsize
        splits = -(-(self._r + self._norms) // most)
        return -(-(self._r + self._norms) // (4 * splits)) * 4

    def _launch(self, name: str, blocks: int, args: tuple[Any, ...], *, is_sum: bool = True) -> None:
        """Start a kernel; those that add up samples have shared memory."""
        size, cols, vec, threads, shared = self._dtype.itemsize, self._cols, self._vec, self._threads, 0
        if is_sum:
            rows = max(1, 32 * 1024 // ((self._r + 4) * size))  # at a time, for H H^T
            room = max(GROUP * cols, 2 * threads, min(rows, GROUP) * (self._r + 4))
            room = -(-room // 4) * 4  # what follows is copied 16 bytes at a time
            args, shared = (*args, np.int32(room)), (room + DEPTH * UNROLL * threads * vec) * size
        blocks_of_processor = 5 if cols <= 12 else 4 if cols <= 20 else 3  # by their registers
        constants: dict[str, Any] = {"REAL": real(self._dtype), "VEC": vec, "PACKS": 1, "COLS": cols, "GROUP": GROUP}
        constants |= {"UNROLL": UNROLL, "DEPTH": DEPTH, "THREADS": threads, "BLOCKS": blocks_of_processor}
        launch("sums", name, min(blocks, 2**30), args, shared=shared, **constants)

    def send(self) -> None:
        """Start to bring the sums here; no samples are added afterwards."""
        if self._total is not None:
            self._arrived = coming(self._total)

    def total(self) -> SampleSums:
        """Return the sums over the samples so far, as arrays of NumPy."""
        m, r = self._m, self._r
        outputs = r + 2 * self._norms
        if self._arrived is None:
            self.send()
        packed = np.zeros(outputs * m + (r + 1) ** 2) if self._arrived is None else self._arrived()
        columns = packed[: outputs * m].reshape(outputs, m)
        gram = packed[outputs * m :].reshape(r + 1, r + 1)
        totals, squares = columns[r:] if self._norms else np.zeros((2, m))
        return SampleSums(columns[:r].T, gram[:r, :r], gram[r, :r], float(gram[r, r]), totals, squares)
