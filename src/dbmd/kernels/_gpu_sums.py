"""Sums over samples and memberships on a GPU, see ``sums.cu``; of float32 on tensor cores, see ``tensor_sums.cu``.

They have the same bits however samples are cut, as long as each part but the last has a multiple of RUN samples.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbmd._utils.arrays import is_sparse
from dbmd.kernels import _gpu_sparse
from dbmd.kernels._cuda import coming, cupy, launch
from dbmd.kernels._gpu_products import NONE, TILE, aligned, has_tensor_cores, most_shared, tiles_of, vector
from dbmd.model.statistics import SampleSums

__all__ = ["Sums"]

GROUP = 256  # samples; sums of float32 over so many, and in sparse data over a segment
RUN = 8192  # samples; all other sums are of float64
MOST_THREADS = 128
UNROLL, DEPTH = 4, 3  # samples that a thread copies at once, and how often before it needs the first
MEMORY = 1 << 28  # bytes of sums over groups at a time, or one run's
MANY = 12  # components beyond which sums on tensor cores are faster
SAMPLES, STAGES = 16, 3  # samples that a block of these has at a time, and how many times
PAIRS = 6  # of tiles of H H^T that a warp has at a time


class Plan(NamedTuple):
    """How sums are computed; it depends on the numbers of features and memberships, not on that of samples.

    Attributes
    ----------
    source : str
        The source of the kernel.
    constants : dict
        Of the source.
    at_once, units : int
        Groups of samples that some blocks have together, and how many blocks these are.
    blocks : int
        Blocks that each group has for itself.
    shared : int
        Bytes of shared memory.
    further : tuple
        Further arguments: before the sums, and after them.
    """

    source: str
    constants: dict[str, Any]
    at_once: int
    units: int
    blocks: int
    shared: int
    further: tuple[tuple[Any, ...], tuple[Any, ...]]


@cache
def plan_of(m: int, r: int, size: int, norms: bool, group: int) -> Plan:
    """Return how to sum samples of m features with r memberships, in numbers of so many bytes, in groups."""
    vec, most = vector(m, size), 112 // size
    n_packs = m // vec
    tiles = -(-n_packs // MOST_THREADS)
    wide = -(-n_packs // tiles)
    threads = -(-wide // 32) * 32 if wide > MOST_THREADS // 2 else MOST_THREADS  # few of them are idle
    splits = -(-(r + norms) // most)
    cols = -(-(r + norms) // splits)
    pitch = -(-cols * size // 16) * 16 // size  # as there
    rows = max(1, 32 * 1024 // ((r + 4) * size))  # at a time, for H H^T
    room = max(group * pitch, 2 * threads, min(rows, group) * (r + 4))
    room = -(-room // 4) * 4  # what follows is copied 16 bytes at a time
    constants: dict[str, Any] = {"REAL": "float" if size == 4 else "double", "VEC": vec, "PACKS": 1, "COLS": cols}
    constants |= {"GROUP": group, "UNROLL": UNROLL, "DEPTH": DEPTH, "THREADS": threads}
    constants |= {"BLOCKS": 5 if cols <= 12 else 4 if cols <= 20 else 3}  # by their registers
    shared, further = (room + DEPTH * UNROLL * threads * vec) * size, ((np.int32(wide),), (np.int32(room),))
    units = tiles * -(-(r + norms) // cols)
    return Plan("sums", constants, min(threads // wide, group // UNROLL), units, 1, shared, further)


@cache
def tensor_plan_of(m: int, r: int, norms: bool, group: int) -> Plan:
    """Return the same for sums of float32 on tensor cores."""
    splits = tiles_of(r + norms)
    tiles, n_warps = splits[0][2], -(-m // 32)
    # As few warps as possible without a feature; of as many, the most.
    warps = min(range(min(n_warps, 4), 9), key=lambda count: (-(-n_warps // count) * count, -count))
    samples = min(SAMPLES, group)
    shared = 4 * (STAGES * samples * (32 * warps + 8 + r) + 2 * tiles * 32 * 8)
    constants: dict[str, Any] = {"FEATURES": 32 * warps, "TILES": tiles, "VEC": vector(m, 4), "SAMPLES": samples}
    constants |= {"DEPTH": STAGES, "GROUP": group, "THREADS": 32 * warps, "BLOCKS": 3 if tiles > 3 else 4}
    columns = r // TILE + 1  # tiles of H H^T
    blocks = -(-columns * (columns + 1) // (2 * PAIRS * warps))
    units = -(-n_warps // warps) * len(splits)
    further = (), (np.int32(shared // 4),)
    return Plan("tensor_sums", constants | {"REAL": "float", "PAIRS": PAIRS}, 1, units, blocks, shared, further)


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
    total : array of CuPy of shape (length(m, r, norms),), float64, optional
        Where to add them up, zeros.
    norms : bool
        Whether the total has room for the sums of the samples and of their squares.
    """

    def __init__(self, m: int, r: int, dtype: Any, total: Any = None, *, norms: bool = False) -> None:
        self._m, self._r, self._dtype, self._norms = m, r, np.dtype(dtype), norms
        self._arrived: Any = None  # returns the total when it is here
        self._total = total

    @staticmethod
    def length(m: int, r: int, *, norms: bool) -> int:
        """Return how many numbers the sums are: X H^T, shape (r or r + 2, m), and the Gram matrix of (H, 1)."""
        return (r + 2 * norms) * m + (r + 1) ** 2

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
        self._arrived = None
        xp, n, outputs = cupy(), Xt.shape[0], self._r + 2 * norms
        if self._total is None:
            self._norms = norms
            self._total = xp.zeros(self.length(self._m, self._r, norms=norms))
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
            is_all = end - start == n
            H, w = (Ht, weights) if is_all else (Ht[start:end], weights if weights is NONE else weights[start:end])
            if is_sparse(Xt):
                _gpu_sparse.sparse_sums(Xt, Ht, weights, norms, start // rows_of_part, len(parts), parts)
                plan = self._plan(on_tensor_cores=False)
                args = (H, w, np.int64(len(H)), np.int32(self._r), grams, *plan.further[1])
                self._launch(plan, "membership_sums", len(grams), args, shared=plan.shared)
            else:
                self._add_dense(Xt if is_all else Xt[start:end], H, w, parts, grams)
            self._add_groups(parts, parts_of_run, grams)

    def _add_dense(self, Xt: Any, Ht: Any, weights: Any, parts: Any, grams: Any) -> None:
        plan = self._plan(on_tensor_cores=True)
        is_here = plan.source == "sums"
        if not is_here:
            Ht = aligned(Ht, 4)
        sizes = np.int64(len(Xt)), np.int32(self._m), np.int32(self._r), np.int32(self._norms)
        before, after = plan.further
        args = (aligned(Xt, plan.constants["VEC"]), Ht, weights, *sizes, *before, parts, grams, *after)
        blocks = -(-len(grams) // plan.at_once) * plan.units + plan.blocks * len(grams)
        self._launch(plan, "dense_sums" if is_here else "tensor_sums", blocks, args, shared=plan.shared)

    def _plan(self, *, on_tensor_cores: bool) -> Plan:
        """Return how to compute the sums; the order of their terms does not depend on whether there are norms."""
        m, r = self._m, self._r
        if on_tensor_cores and r > MANY and self._dtype == np.float32 and has_tensor_cores():
            with_norms = tensor_plan_of(m, r, True, GROUP)
            if with_norms.shared <= most_shared(cupy().cuda.runtime.getDevice()):
                return with_norms if self._norms else tensor_plan_of(m, r, False, GROUP)
        return plan_of(m, r, self._dtype.itemsize, self._norms, GROUP)

    def _add_groups(self, parts: Any, parts_of_run: int, grams: Any) -> None:
        """Add the sums over groups of samples to the total."""
        plan = self._plan(on_tensor_cores=False)
        threads = plan.constants["THREADS"]
        n_runs = -(-len(parts) // parts_of_run)
        width, gram_width = (self._r + 2 * self._norms) * self._m, (self._r + 1) ** 2
        runs = cupy().empty((n_runs, width + gram_width))
        of_parts = parts, np.int32(len(parts)), np.int32(parts_of_run), np.int64(width)
        of_grams = grams, np.int32(len(grams)), np.int32(RUN // GROUP), np.int32(gram_width)
        count = np.int32(n_runs)
        self._launch(plan, "add_groups", -(-runs.size // threads), (*of_parts, *of_grams, runs, count))
        total_width = width + gram_width
        self._launch(plan, "add_runs", -(-total_width // threads), (runs, count, np.int64(total_width), self._total))

    def _launch(self, plan: Plan, name: str, blocks: int, args: tuple[Any, ...], *, shared: int = 0) -> None:
        launch(plan.source, name, min(blocks, 2**30), args, shared=shared, **plan.constants)

    def send(self) -> None:
        """Start to bring the sums here; no samples are added afterwards."""
        if self._total is not None:
            self._arrived = coming(self._total)

    def total(self) -> SampleSums:
        """Return the sums over the samples so far, as arrays of NumPy."""
        if self._arrived is None:
            self.send()
        length = self.length(self._m, self._r, norms=self._norms)
        return self.of_total(np.zeros(length) if self._arrived is None else self._arrived())

    def of_total(self, total: NDArray[np.float64]) -> SampleSums:
        """Return the sums, shape (:meth:`length`,), one by one."""
        m, r = self._m, self._r
        outputs = r + 2 * self._norms
        columns = total[: outputs * m].reshape(outputs, m)
        gram = total[outputs * m :].reshape(r + 1, r + 1)
        totals, squares = columns[r:] if self._norms else np.zeros((2, m))
        return SampleSums(columns[:r].T, gram[:r, :r], gram[r, :r], float(gram[r, r]), totals, squares)
