"""The uncertainty of memberships on a device: which of the kernels of ``covariance.cu`` to start.

Up to :data:`dbmd.kernels._gpu_h_step.FEW` components, samples are counted face by face, and the covariances of the
faces are computed at the end. With more, and for samples with weights, which are not whole numbers, that of each sample
is computed. Either way the sums have the same bits however samples are cut into chunks, as long as chunks begin at
multiples of :data:`RUN` rows.

All this is done on a stream beside the current one, which goes on with what else is to be done with the samples: many
of these kernels leave most of a device idle.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.kernels._cuda import coming, cupy, going, launch, stream_beside
from dbmd.kernels._gpu_h_step import FEW, REAL, as_rows, attribute, even, triangle

__all__ = ["RUN", "UNIT", "FaceCovariance", "add_covariances", "add_up", "sum_log", "unpacked"]

RUN = 8192  # samples whose sums are added up before they are added to the total
UNIT = 256  # samples that one block adds up
FEWER = 32  # the same where a sum has few entries: some ten thousand samples must keep all multiprocessors busy
FACES = 32  # the same for faces
SMALL = 29  # components of most faces: there is room for several samples at a time
THREADS = 128


class FaceCovariance:
    """The sum of the covariances of memberships over samples of one noise level.

    Parameters
    ----------
    Q : array of shape (r, r), of NumPy
        Gram matrix of W, about any origin, in squared units of the data.
    noise : float
        Variance of the noise in the plane of W, in squared units of the data.
    room : tuple of arrays of CuPy, optional
        For few components: Q / noise, shape (r, r), and zeros, one after the other, for the sums, shape
        (:meth:`length`,), and for the numbers of samples on each face, shape (2^r,).
    """

    def __init__(self, Q: NDArray[np.float64], noise: float, room: tuple[Any, Any] | None = None) -> None:
        self._r, self._Q, self._noise = len(Q), Q, noise
        self._Q_over_noise: Any = None  # on the device
        self._totals: Any = None
        self._zeros: Any = None  # for what is counted
        if room is not None:
            self._Q_over_noise, zeros = room
            n_sums = self.length(self._r)
            self._totals, self._zeros = zeros[:n_sums], zeros[n_sums:].view(np.uint64)
        self._counts: Any = None  # samples on each face
        self._arrived: Any = None  # returns the sums when they are here
        self._beside = stream_beside()
        self._in_use: tuple[Any, ...] = ()  # arrays that the other stream may still read

    def add(self, Ht: Any, weights: Any = None, *, after: Any = None) -> None:
        """Add samples.

        Parameters
        ----------
        Ht : array of CuPy of shape (n, r)
            Their memberships.
        weights : array of CuPy of shape (n,), optional
            How often each counts, by default once.
        after : event, optional
            When both are ready; by default after all that is queued on the current stream.
        """
        n, r = Ht.shape
        if not n:
            return
        self._wait()
        self._arrived = None
        Ht = as_rows(Ht)
        weights = None if weights is None else as_rows(weights, np.float64)
        self._in_use = (Ht, weights)
        after = cupy().cuda.get_current_stream().record() if after is None else after
        with self._beside:
            self._beside.wait_event(after)
            if r > FEW or weights is not None:
                self._load()
                self._add(Ht, weights, None, n, FEWER if r <= 64 else UNIT)
                return
            if self._counts is None:
                self._counts = cupy().zeros(1 << r, np.uint64) if self._zeros is None else self._zeros
                self._zeros = None
            blocks = min(-(-n // 512), 2 * attribute("MultiProcessorCount"))
            args = (Ht, np.int64(n), np.int32(r), self._counts)
            launch("face_counts", "count_faces", blocks, args, shared=4 << r, THREADS=512, REAL=REAL[Ht.dtype])

    @staticmethod
    def length(r: int) -> int:
        """Return how many numbers the sums are: over small and over large faces."""
        return 2 * (r * (r + 1) // 2 + 1)

    def send(self) -> None:
        """Start to compute the sums, and to bring them here; no samples are added afterwards."""
        self.complete()
        if self._totals is not None:
            self._arrived = coming(self._totals)

    def complete(self) -> None:
        """Start to compute what is left to be computed, which the current stream waits for."""
        if self._counts is not None:
            with self._beside:
                self._load()
                self._add(None, None, self._counts, 1 << self._r, FACES)
            self._in_use = (self._counts,)
            self._counts = None
        self._wait()

    def _wait(self) -> None:
        """Let the current stream wait for the other one: from then on it may use the memory of what that has read."""
        if self._in_use:
            cupy().cuda.get_current_stream().wait_event(self._beside.record())
            self._in_use = ()

    def total(self) -> tuple[NDArray[np.float64], float]:
        """Return the sum over the samples of S_F, shape (r, r), and of the gains in log-determinant."""
        if self._arrived is None:
            self.send()
        return self.of_totals(np.zeros(self.length(self._r)) if self._arrived is None else self._arrived())

    def of_totals(self, totals: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        """Return sums, shape (:meth:`length`,), as :meth:`total` does."""
        small, large = totals.reshape(2, -1)
        return unpacked(small + large, self._r)

    def _load(self) -> None:
        """Put Q / noise and sums of zero on the device, if they are not there."""
        if self._Q_over_noise is None:
            self._Q_over_noise = going(self._Q / self._noise, dtype=np.float64)
        if self._totals is None:
            self._totals = cupy().zeros(self.length(self._r))

    def _add(self, Ht: Any, weights: Any, counts: Any, n: int, unit: int) -> None:
        """Add the covariances of samples, or of faces that were counted.

        Parameters
        ----------
        Ht, weights
            As in :meth:`add`, or None.
        counts : array of shape (2^r,), optional
            Those of the kernel ``count_faces``.
        n : int
            Number of samples, or of faces.
        unit : int
            Number of them that one block adds up.
        """
        r, totals = self._r, self._totals.reshape(2, -1)
        real = "float" if Ht is None else REAL[Ht.dtype]
        n_units = -(-n // unit)
        sums = cupy().empty((n_units, totals.shape[1]))
        for fewest, most, total in ((2, min(r, SMALL), totals[0]), (SMALL + 1, r, totals[1])):
            if fewest <= most:
                add_covariances(Ht, weights, counts, n, r, fewest, most, self._Q_over_noise, sums, unit, REAL=real)
                add_up(sums, total, RUN // unit if counts is None else None)


def add_covariances(
    Ht: Any,
    weights: Any,
    counts: Any,
    n: int,
    r: int,
    fewest: int,
    most: int,
    Q: Any,
    sums: Any,
    unit: int,
    **constants: Any,
) -> None:
    """Start the kernel of that name.

    Parameters
    ----------
    Ht, weights, counts, n, r, fewest, most, Q, sums
        As there.
    unit : int
        Number of samples that one block adds up.
    **constants
        Further macros.
    """
    lanes, blocks, outside = 8 if most <= SMALL else 32, min(len(sums), 1 << 14), None
    threads, shared = _threads(r, most, lanes, unit)
    if shared > attribute("MaxSharedMemoryPerBlockOptin"):
        threads, shared = THREADS, _lists(r, 0, THREADS // lanes, unit)
        blocks = min(blocks, 2 * attribute("MultiProcessorCount"))
        outside = cupy().empty(blocks * (threads // lanes) * triangle(most))
        constants["ROOMS_OUTSIDE"] = 1
    args = (Ht, weights, counts, np.int64(n), np.int32(r), np.int32(fewest), np.int32(most), Q, sums, outside)
    constants = {"LANES": lanes, "UNIT": unit, "THREADS": threads, **constants}
    launch("covariance", "add_covariances", blocks, args, shared=shared, **constants)


def _threads(r: int, most: int, lanes: int, unit: int) -> tuple[int, int]:
    """Return the numbers of threads of a block and of bytes of shared memory that it needs, which may be too many."""
    for threads in (THREADS, THREADS // 2, THREADS // 4):
        groups = threads // lanes
        shared = 8 * (groups * triangle(most) + even(r * (r + 1) // 2 + 1)) + _lists(r, most, groups, unit)
        if shared <= attribute("MaxSharedMemoryPerBlockOptin"):
            break
    return threads, shared


def _lists(r: int, most: int, groups: int, unit: int) -> int:
    """Return the bytes of weights, sizes and members of some groups, of two lists of a unit, and of rows of entries.

    Where triangles are in global memory, ``most`` is zero: the rows are computed.
    """
    return even(8 * groups + 4 * groups + 2 * groups * r + 4 * unit + most * (most + 1))


def add_up(sums: Any, total: Any, per_run: int | None) -> None:
    """Add the rows of ``sums``, shape (n, k), to ``total``, shape (k,), in place.

    They are added ``per_run`` rows at a time, or, without that, one by one.
    """
    n, k = sums.shape
    constants: dict[str, Any] = {"THREADS": 64, "UNIT": UNIT, "PER_RUN": per_run or 1, "REAL": "float"}
    if per_run is not None:
        runs = cupy().empty((-(-n // per_run), k))
        args = (sums, np.int64(n), np.int32(k), runs)
        launch("runs", "add_rows", min(-(-runs.size // 64), 1 << 14), args, **constants)
        sums = runs
    launch("runs", "add_up", -(-k // 64), (sums, np.int64(len(sums)), np.int32(k), total), **constants)


def unpacked(total: NDArray[np.float64], r: int) -> tuple[NDArray[np.float64], float]:
    """Return a symmetric matrix, shape (r, r), whose lower triangle comes first in ``total``, and what comes after."""
    return total[_places(r)], float(total[-1])


@cache
def _places(r: int) -> NDArray[np.intp]:
    """Return for each entry of a symmetric matrix, shape (r, r), its number in the lower triangle by rows."""
    row, column = np.indices((r, r))
    low, high = np.minimum(row, column), np.maximum(row, column)
    return np.asarray(high * (high + 1) // 2 + low)


def sum_log(Ht: Any) -> NDArray[np.float64]:
    """Return the sums over the samples of ln Ht, shape (r,), float64; Ht is of shape (n, r) and positive."""
    n, r = Ht.shape
    if not n:
        return np.zeros(r)
    n_units = -(-n // UNIT)
    sums, total = cupy().empty((n_units, r)), cupy().zeros(r)
    args = (as_rows(Ht), np.int64(n), np.int32(r), sums)
    constants: dict[str, Any] = {"UNIT": UNIT, "PER_RUN": RUN // UNIT, "REAL": REAL[Ht.dtype]}
    launch("runs", "sum_logs", min(-(-n_units * r // THREADS), 1 << 14), args, THREADS=THREADS, **constants)
    add_up(sums, total, RUN // UNIT)
    result: NDArray[np.float64] = total.get()
    return result
