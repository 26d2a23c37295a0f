"""The H-step on a device: which of ``h_few.cu``, ``h_many.cu`` and ``h_inside.cu`` to start, with how many threads.

Without a prior, samples are solved on faces of the simplex, and those that are left by the interior-point method, which
finds them by a mark: the host does not wait to learn whether there are any.
"""

from __future__ import annotations

import threading
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.kernels._cuda import cupy, launch
from dbmd.kernels._tolerance import tolerances

__all__ = [
    "FEW",
    "REAL",
    "as_rows",
    "attribute",
    "even",
    "solve_few",
    "solve_h",
    "start_inside",
    "start_many",
    "triangle",
]

FEW = 12  # components that fit in the registers of one thread
MANY = 384  # threads of a block that searches faces of more, each with 168 registers
REGULAR = 1e5  # largest entry of the inverse of Q + 1 1' that is used
THREADS = 128
REAL = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}
NUMBERS = 1 << 25  # of a product with all samples at a time
BLOCKS = 1 << 14  # of a grid: samples beyond are taken in turns


def solve_h(Q: NDArray[Any], Bt: Any, a: NDArray[Any], Ht0: Any = None, out: Any = None) -> Any:
    """Return for every row b of Bt the minimiser of 1/2 h'Qh - b'h - sum_k a_k ln h_k on the simplex.

    Parameters
    ----------
    Q : array of shape (r, r), of NumPy
        W'W, positive semidefinite, in squared units of the data.
    Bt : array of shape (n, r), float32 or float64
        Rows x'W, in squared units of the data. The computation is in float64 for either type.
    a : array of shape (r,), of NumPy
        Weights >= 0 of the logarithms, sigma^2 (alpha0 - 1), in squared units of the data. Zero is the limit of small
        weights.
    Ht0 : array of shape (n, r), optional
        Where to start, rows on the simplex. By default the centre of the simplex.
    out : array of shape (n, r), optional
        Where to write the result; may be Ht0 itself.

    Returns
    -------
    array of shape (n, r)
        Memberships, of the type of Bt: all positive, rows sum to one.
    """
    if out is None:
        out = cupy().empty(Bt.shape, Bt.dtype)
    if not Bt.size:
        return out
    result = out if out.flags.c_contiguous else cupy().empty(Bt.shape, Bt.dtype)
    start = None if Ht0 is None else as_rows(Ht0, Bt.dtype)
    Q, weights, unit, tol = _in_units(np.asarray(Q, np.float64).tobytes(), np.asarray(a, np.float64).tobytes())
    solve = _solve_inside if np.any(a) else solve_few if len(Q) <= FEW else _solve_many
    solve(Q, as_rows(Bt), weights, start, result, unit, tol)
    if result is not out:
        out[...] = result
    return out


@lru_cache(maxsize=8)  # they are the same chunk after chunk
def _in_units(Q: bytes, a: bytes) -> tuple[NDArray[np.float64], NDArray[np.float64], float, float]:
    """Return W'W and the weights of the logarithms over a scale, one over the scale, and the tolerance."""
    weights = np.frombuffer(a)
    matrix = np.frombuffer(Q).reshape(len(weights), len(weights))
    scale, weights, tol = tolerances(matrix, weights)
    return matrix / scale, weights, 1.0 / scale, tol


def as_rows(array: Any, dtype: Any = None) -> Any:
    """Return an array of the device as one whose rows are one after the other, of a type."""
    if array.flags.c_contiguous and (dtype is None or array.dtype == dtype):
        return array
    return cupy().ascontiguousarray(array, dtype)


def attribute(name: str) -> int:
    """Return an attribute of the current device."""
    return _attributes(cupy().cuda.Device().id)[name]


@cache
def _attributes(device: int) -> dict[str, int]:
    found: dict[str, int] = cupy().cuda.Device(device).attributes
    return found


def _room_in(numbers: int, lanes: int) -> tuple[int, int, dict[str, int]]:
    """Return how to lay out the workspace of a kernel in which some threads share a sample.

    Parameters
    ----------
    numbers : int
        Numbers of float64 that each sample needs.
    lanes : int
        Threads that share a sample.

    Returns
    -------
    threads : int
        Number of threads of a block.
    shared : int
        Bytes of shared memory of a block.
    constants : dict
        What tells the kernel that shared memory is too small, and the workspace is in global memory; or nothing.
    """
    most = attribute("MaxSharedMemoryPerBlockOptin")
    for threads in (THREADS, THREADS // 2, THREADS // 4):
        shared = 8 * numbers * threads // lanes
        # As many blocks at a time as there are registers for, or at least two, or one.
        if shared <= most // 4 or (threads == THREADS // 4 and shared <= most):
            return threads, shared, {}
    return THREADS, 0, {"ROOMS_OUTSIDE": 1}


# -- few components ----------------------------------------------------------------------------------------------------


def solve_few(
    Q: NDArray[np.float64],
    Bt: Any,
    weights: NDArray[np.float64],
    Ht0: Any,
    out: Any,
    unit: float,
    tol: float,
    counted: Any = None,
    per_noise: float = 0.0,
) -> Any:
    """Start the search of faces for few components, without a prior; return Q over the noise.

    Parameters
    ----------
    Q : array of shape (r, r), of NumPy
        W'W / scale.
    Bt, Ht0, out : array of shape (n, r)
        As in :func:`solve_h`; ``out`` is contiguous.
    weights : array of shape (r,), of NumPy
        Weights of the logarithms over the scale.
    unit, tol, counted
        As in :func:`start_inside`.
    per_noise : float
        Scale over the variance of the noise.

    Returns
    -------
    array of shape (r, r), float64
        Q times ``per_noise``.
    """
    n, r = Bt.shape
    given, has_inverse = _given(Q.tobytes(), r, float(weights[0]))
    kept = cupy().empty(r * (2 * r + 1))  # Q, the weights, and Q times per_noise
    tile = 512 // Bt.dtype.itemsize * (THREADS // 32)
    args = (Bt, Ht0, out, np.int64(n), np.float64(unit), np.int32(has_inverse), given, np.float64(per_noise), kept)
    launch("h_few", "solve_few", _blocks(n, tile), (*args, counted), R=r, THREADS=THREADS, REAL=REAL[Bt.dtype])
    start_inside(kept, None, Bt, None, out, unit, tol, only_marked=True, counted=counted)
    return kept[r * (r + 1) :].reshape(r, r)


@lru_cache(maxsize=8)
def _given(Q: bytes, r: int, weight: float) -> tuple[NDArray[Any], bool]:
    """Return the struct ``Matrices`` of ``h_few.cu``, an argument of its kernel, and whether N can be used."""
    matrix = np.frombuffer(Q).reshape(r, r)
    N, has_inverse = _inverse(matrix)
    lower, N_ones = np.tri(r, dtype=np.bool_), N.sum(axis=1)
    numbers = np.concatenate([(matrix + 1.0)[lower], N[lower], N_ones, [N_ones.sum(), weight]])
    return numbers.view([("numbers", np.float64, (len(numbers),))]).reshape(()), has_inverse


def _inverse(Q: NDArray[np.float64]) -> tuple[NDArray[np.float64], bool]:
    """Return the inverse of Q + 1 1', shape (r, r), and whether it can be used; else it is zero."""
    try:
        N: NDArray[np.float64] = np.asarray(np.linalg.inv(Q + 1.0), np.float64)
    except np.linalg.LinAlgError:
        return np.zeros_like(Q), False
    if np.abs(N).max() <= REGULAR:
        return N, True
    return np.zeros_like(Q), False


def _blocks(n: int, per_block: int) -> int:
    return min(-(-n // per_block), BLOCKS)


# -- many components ---------------------------------------------------------------------------------------------------


def _solve_many(
    Q: NDArray[np.float64], Bt: Any, weights: NDArray[np.float64], Ht0: Any, out: Any, unit: float, tol: float
) -> None:
    M, Q_and_weights, has_inverse = _matrices.of(Q, weights)
    n, r = Bt.shape
    some = max(NUMBERS // r, 1)
    Nb = cupy().empty((min(some, n) if has_inverse else 0, r))
    for first in range(0, n, some):
        rows = slice(first, min(first + some, n))
        start = None if Ht0 is None else Ht0[rows]
        if has_inverse:
            _multiply(M[r * r :], Bt[rows], unit, Nb)
        start_many(M, Nb if has_inverse else None, None, Bt[rows], start, out[rows], unit)
    start_inside(Q_and_weights, None, Bt, None, out, unit, tol, only_marked=True)


def _multiply(N: Any, Bt: Any, unit: float, out: Any) -> None:
    """Write ``unit`` times Bt, shape (n, r), times N, rows of r numbers, to the first rows of ``out``."""
    n, r = Bt.shape
    room = attribute("MaxSharedMemoryPerBlockOptin")
    shared, constants = _tiles(r, room)
    at_a_time = max(min(448 // constants["THREADS"], room // shared), 1)  # 448: as there
    tiles = -(-n // constants["ROWS"]) * -(-r // constants["COLUMNS"])
    blocks = min(tiles, at_a_time * attribute("MultiProcessorCount"))
    args = (Bt, np.int64(n), np.int32(r), np.float64(unit), N, out)
    launch("h_start", "multiply", blocks, args, shared=shared, REAL=REAL[Bt.dtype], **constants)


@cache
def _tiles(r: int, room: int) -> tuple[int, dict[str, int]]:
    """Return how ``multiply`` cuts its result: bytes of shared memory of a block, at most ``room``, and macros."""
    rows = 128
    for depth in (64, 32):
        columns = 8 * -(-r // (8 * -(-r // depth)))  # as even as it can be
        width = (max(min(r, depth), columns) + 1) // 4 * 4 + 2
        shared = 8 * (rows * width + even(min(r, depth)) * columns)
        if shared <= room:
            break
    return shared, {"THREADS": rows // 8 * columns // 4, "ROWS": rows, "COLUMNS": columns, "DEPTH": depth}


def start_many(M: Any, Nb: Any, units: Any, Bt: Any, Ht0: Any, out: Any, unit: float) -> None:
    """Start to search faces, for any number of components.

    Parameters
    ----------
    M : array
        As in :class:`_Matrices`; or, of shape (n, r, r), W'W of each sample in a unit of its own, plus 1 1'.
    Nb : array of shape (n, r), optional
        Bt times the inverse in M, if that can be used.
    units : array of shape (n,), optional
        Factor of each sample's Bt, negative if its memberships are not unique: those samples are only marked.
    Bt, Ht0, out : array of shape (n, r)
        As in :func:`solve_h`.
    unit : float
        Factor of Bt if all have the same.
    """
    n, r = Bt.shape
    limit, rooms = r if Nb is None else r // 2, None
    shared, constants = _layout(r, limit, attribute("MaxSharedMemoryPerBlockOptin"))
    samples = constants["THREADS"] // constants["LANES"]
    blocks = min(-(-n // samples), attribute("MultiProcessorCount"), BLOCKS)
    if not shared:
        rooms = cupy().empty(2 * _room(limit) * samples * blocks)
    args = (Bt, Ht0, out, np.int64(n), np.int32(r), np.int32(limit), np.float64(unit), M, Nb, units, rooms)
    launch("h_many", "solve_many", blocks, args, shared=shared, REAL=REAL[Bt.dtype], **constants, **_own(units))


@cache
def _layout(r: int, limit: int, room: int) -> tuple[int, dict[str, int]]:
    """Return how ``solve_many`` uses shared memory: one block at a time, as large as there is room for.

    Parameters
    ----------
    r : int
        Number of components.
    limit : int
        Most of them that are eliminated; fewer than r if all samples have the same matrices, and N can be used.
    room : int
        Bytes of shared memory that a block may have.

    Returns
    -------
    shared : int
        Those that it has, or zero: then the workspace is in global memory.
    constants : dict
        Macros.
    """
    # The more threads share a sample, the more there are; with fewer, each number that one loads is used more often.
    lanes = 4 if r <= 32 else 8 if r <= 64 else 16 if r <= 128 else 32
    constants = {"LANES": lanes, "SLOTS": 2 * -(-r // (2 * lanes))}
    matrices, sample = 16 * (r + 3) * even(r + 3), 16 * _room(limit)
    if limit == r or 2 * matrices > room:  # samples should have at least as much as their matrices
        matrices = 0
    threads = min((room - matrices) // sample * lanes // 32 * 32, MANY)
    if threads == 0:
        return 0, {"THREADS": 2 * THREADS, "ROOMS_OUTSIDE": 1, **constants}
    if matrices:
        constants["STAGED"] = 1
    return matrices + threads // lanes * sample, {"THREADS": threads, **constants}


def _room(limit: int) -> int:
    """Return the size of ``ROOM`` in ``h_many.cu``, pairs of numbers of float64 that each sample needs."""
    half = 2 * -(-limit // 4)
    return half * (half + 3) + -(-half // 4)


def _own(units: Any) -> dict[str, int]:
    return {} if units is None else {"OWN": 1}


class _Matrices(threading.local):
    """What kernels need of Q, on the device; it is the same chunk after chunk."""

    key: tuple[Any, ...] | None = None
    arrays: tuple[Any, Any, bool]

    def of(self, Q: NDArray[np.float64], weights: NDArray[np.float64]) -> tuple[Any, Any, bool]:
        """Return Q + 1 1' and its inverse, Q and the weights, and whether the inverse can be used.

        Parameters
        ----------
        Q : array of shape (r, r)
            W'W / scale.
        weights : array of shape (r,)
            Weights of the logarithms.

        Returns
        -------
        M : array of shape (2 r^2 + r + 1,)
            Q + 1 1', its inverse N, N 1 and 1'N 1.
        Q_and_weights : array of shape (r^2 + r,)
            One after the other.
        has_inverse : bool
            Whether N can be used.
        """
        key = (cupy().cuda.Device().id, cupy().cuda.get_current_stream().ptr, Q.tobytes(), weights.tobytes())
        if key != self.key:
            N, has_inverse = _inverse(Q)
            N_ones = N.sum(axis=1)
            parts = [Q + 1.0, N, N_ones, N_ones.sum(), Q, weights]
            packed = cupy().asarray(np.concatenate([np.ravel(part) for part in parts]))
            split = 2 * Q.size + len(Q) + 1
            self.key, self.arrays = key, (packed[:split], packed[split:], has_inverse)
        return self.arrays


_matrices = _Matrices()


def even(n: int) -> int:
    """Return n, or n + 1 if it is odd."""
    return n + n % 2


def triangle(n: int) -> int:
    """Return the size of a lower triangle whose rows have even lengths."""
    return 2 * ((n + 1) // 2) * (n // 2 + 1)


# -- the interior-point method -----------------------------------------------------------------------------------------


def _solve_inside(
    Q: NDArray[np.float64], Bt: Any, weights: NDArray[np.float64], Ht0: Any, out: Any, unit: float, tol: float
) -> None:
    start_inside(_matrices.of(Q, weights)[1], None, Bt, Ht0, out, unit, tol, only_marked=False)


def start_inside(
    Q: Any,
    units: Any,
    Bt: Any,
    Ht0: Any,
    out: Any,
    unit: float,
    tol: float,
    *,
    only_marked: bool,
    weights: Any = None,
    counted: Any = None,
) -> None:
    """Start the interior-point method.

    Parameters
    ----------
    Q : array of shape (r^2 + r,) or more, or (n, r, r)
        W'W / scale, and the weights of the logarithms; or as in :func:`start_many`.
    units, Bt, Ht0, out
        As in :func:`start_many`. Samples whose memberships are not unique start from the centre.
    unit : float
        Factor of Bt, 1 / scale, if all have the same.
    tol : float
        Largest error of the optimality conditions, for the same unit.
    only_marked : bool
        Whether to take only samples that are marked in ``out``.
    weights : array of shape (r,), optional
        Weights of the logarithms in squared units of the data, if each sample has a unit of its own.
    counted : array of shape (2,), uint64, optional
        How many samples have been marked so far, those of earlier calls included, and where to count entries of Bt, of
        samples that are taken, that are not finite.
    """
    n, r = Bt.shape
    lanes, slots = (4, 3) if r <= 12 else (8, -(-r // 8)) if r <= 32 else (32, -(-r // 32))
    constants = {"LANES": lanes, "SLOTS": slots, "REAL": REAL[Bt.dtype], **_own(units)}
    args = (
        *(Bt, Ht0, out, np.int64(n), np.int32(r), np.int32(only_marked), np.float64(unit), np.float64(tol), Q),
        *(Q[r * r :] if weights is None else weights, units),
    )
    numbers = triangle(r) + 4 * even(r)
    threads, shared, outside = _room_in(numbers, lanes)
    blocks, rooms = _blocks(n, threads), None  # a warp looks at 32 samples at a time
    if outside:
        blocks = min(blocks, 2 * attribute("MultiProcessorCount"))
        rooms = cupy().empty(numbers * (threads // lanes) * blocks)
    constants = {"THREADS": threads, **outside, **constants}
    launch("h_inside", "solve_inside", blocks, (*args, rooms, counted), shared=shared, **constants)
