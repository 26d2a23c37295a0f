"""The products of samples with W on a GPU: ``products.cu`` for dense samples, ``sparse.cu`` for CSR.

For more than a few components, those of float32 are computed on tensor cores where there are some,
``tensor_products.cu``. They are computed in the type of the samples, never in one that is less precise. A sample's do
not depend on how many others there are, as those of a library do, which chooses its way by the number of rows.
"""

from __future__ import annotations

from functools import cache
from math import gcd
from typing import Any, NamedTuple

import numpy as np

from dbmd._utils.arrays import is_sparse
from dbmd.kernels._cuda import cupy, launch
from dbmd.kernels._gpu_sparse import sparse_products

__all__ = ["NONE", "products"]

NONE = np.int64(0)  # no array
MULTIPROCESSORS, SHARED, GENERATION = 16, 97, 75  # numbers of attributes of a device
TENSOR_CORES = 8  # the generation from which on they take float32
MANY = 20  # components beyond which products on tensor cores are faster
TILE, MOST_TILES = 8, 8  # components that tensor cores take together; how many times in a launch
ROWS, FEATURES, DEPTH = 128, 32, 4  # samples and features that a block has at a time, and how many times


def products(Xt: Any, W: Any, offset: Any = None) -> Any:
    """Return Xt W - offset, shape (n, r).

    Parameters
    ----------
    Xt : array of CuPy, or CSR matrix of CuPy, of shape (n, m)
        The samples, float32 or float64.
    W : array of CuPy of shape (m, r), of the same type
        The basis.
    offset : array of CuPy of shape (r,), of the same type, optional
        What is subtracted from each row.
    """
    W = cupy().ascontiguousarray(W)
    Bt = cupy().empty((Xt.shape[0], W.shape[1]), W.dtype)
    if Bt.size:
        compute = sparse_products if is_sparse(Xt) else _dense_products
        compute(Xt, W, NONE if offset is None else offset, Bt)
    return Bt


class Plan(NamedTuple):
    """How products with W are computed; it depends on the numbers of features and components, not on that of samples.

    Attributes
    ----------
    constants : dict
        Of the source.
    columns : int
        Components of a launch.
    rows : int
        Samples that a block has at a time.
    tile : int
        Features that a block has at a time.
    shared : int
        Bytes of shared memory.
    """

    constants: dict[str, Any]
    columns: int
    rows: int
    tile: int
    shared: int


def _dense_products(Xt: Any, W: Any, offset: Any, Bt: Any) -> None:
    (n, m), r = Xt.shape, W.shape[1]
    if r > MANY and Xt.dtype == np.float32 and has_tensor_cores():
        _tensor_products(Xt, W, offset, Bt)
        return
    plan = plan_of(m, r, Xt.dtype, most_shared(cupy().cuda.runtime.getDevice()))
    Xt = aligned(Xt, plan.constants["VEC"])
    blocks = min(-(-n // plan.rows), n_multiprocessors() * plan.constants["BLOCKS"])
    for first in range(0, r, plan.columns):
        count = min(plan.columns, r - first)
        sizes = np.int32(r), np.int32(first), np.int32(count)
        args = (Xt, np.int64(n), np.int32(m), W, *sizes, offset, Bt, np.int32(plan.tile))
        launch("products", "dense_products", blocks, args, shared=plan.shared, **plan.constants)


def _tensor_products(Xt: Any, W: Any, offset: Any, Bt: Any) -> None:
    (n, m), r = Xt.shape, W.shape[1]
    Xt = aligned(Xt, vector(m, 4))
    most = most_shared(cupy().cuda.runtime.getDevice())
    for first, count, tiles in tiles_of(r):
        stage, depth = 4 * (ROWS + TILE * tiles) * FEATURES, DEPTH
        while depth * stage > most:  # small cards
            depth -= 1
        constants = {"ROWS": ROWS, "TILES": tiles, "VEC": vector(m, 4), "DEPTH": depth, "THREADS": ROWS, "BLOCKS": 2}
        basis = cupy().empty(-(-m // FEATURES) * FEATURES * TILE * tiles, np.float32)
        columns = np.int32(r), np.int32(first), np.int32(count)
        launch("tensor_products", "lay_out", -(-basis.size // ROWS), (W, np.int32(m), *columns, basis), **constants)
        args = (Xt, np.int64(n), np.int32(m), basis, *columns, offset, Bt)
        blocks = min(-(-n // ROWS), 2 * n_multiprocessors())
        launch("tensor_products", "tensor_products", blocks, args, shared=depth * stage, **constants)


def tiles_of(n_columns: int) -> list[tuple[int, int, int]]:
    """Return for each launch on tensor cores the first column, their number, and the number of tiles of them."""
    launches = -(-n_columns // (TILE * MOST_TILES))
    tiles = -(-n_columns // (TILE * launches))
    return [
        (first, min(TILE * tiles, n_columns - first), tiles)  # all launches have the same kernel
        for first in range(0, n_columns, TILE * tiles)
    ]


def has_tensor_cores() -> bool:
    """Return whether the current device has tensor cores that take float32."""
    return _attribute(GENERATION, cupy().cuda.runtime.getDevice()) >= TENSOR_CORES


@cache
def plan_of(m: int, r: int, dtype: Any, most: int) -> Plan:
    """Return how to compute products with W, shape (m, r), with at most so many bytes of shared memory in a block."""
    size = np.dtype(dtype).itemsize
    vec = vector(m, size)
    # All sums of a thread are in its registers.
    columns = -(-r // -(-r // (224 // size)))  # as many in each launch
    if size == 4:
        rows, split, along, threads = (4, 1, 16, 512) if columns <= 20 else (4, 2, 8, 256)
    else:
        rows, split, along, threads = (4, 1, 16, 384) if columns <= 12 else (2, 2, 8, 384)
    unit = along // gcd(along, rows)
    cols = -(-columns // (split * unit)) * unit
    pitch = (cols * split | 1) * vec * size  # bytes of VEC features
    step = along * vec
    depth, whole = 2, -(-m // step) * step
    while _arriving(depth, rows, threads, vec, size) + along * pitch > most:  # small cards; sums stay the same
        threads //= 2
    for more in (4, 3):
        if _arriving(more, rows, threads, vec, size) + min(whole, 1024) // vec * pitch <= most:
            depth = more
            break
    arriving = _arriving(depth, rows, threads, vec, size)
    tile = min(whole, (most - arriving) // (pitch * along) * step)
    constants = {"REAL": real(dtype), "VEC": vec, "ROWS": rows, "COLS": cols, "SPLIT": split, "LANES": along * split}
    constants |= {"THREADS": threads, "BLOCKS": 1, "DEPTH": depth}
    return Plan(constants, columns, threads // (along * split) * rows, tile, arriving + tile // vec * pitch)


def _arriving(depth: int, rows: int, threads: int, vec: int, size: int) -> int:
    """Return the bytes of samples that are on their way to a block."""
    return depth * rows * threads * vec * size


def real(dtype: Any) -> str:
    """Return the name of a type in C."""
    return "float" if np.dtype(dtype) == np.float32 else "double"


def vector(m: int, size: int) -> int:
    """Return how many features of so many bytes are loaded at once, at most 16 bytes: a divisor of their number."""
    return gcd(m, 16 // size)


def aligned(Xt: Any, vec: int) -> Any:
    """Return samples as an array whose rows follow each other and begin where ``vec`` numbers can be loaded at once."""
    Xt = cupy().ascontiguousarray(Xt)
    return Xt if Xt.data.ptr % (vec * Xt.dtype.itemsize) == 0 else Xt.copy()


def n_multiprocessors() -> int:
    """Return the number of multiprocessors of the current device."""
    return _attribute(MULTIPROCESSORS, cupy().cuda.runtime.getDevice())


def most_shared(device: int) -> int:
    """Return the largest number of bytes of shared memory that a block may have."""
    return _attribute(SHARED, device)


@cache
def _attribute(number: int, device: int) -> int:
    return int(cupy().cuda.runtime.deviceGetAttribute(number, device))
