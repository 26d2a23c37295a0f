"""Short rows of numbers in vector registers.

LLVM vectorises long loops. For rows of ten or twenty numbers, the code that it puts around the loop (do the rows
overlap? what remains at the end?) costs more than the loop. So these functions are written in vectors of ``LANES``
numbers. Rows are slices of flat float64 arrays, padded to a multiple of ``LANES``. Indices are not checked.
"""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

__all__ = [
    "LANES",
    "SIDE",
    "add_gram_tile",
    "add_multiple",
    "add_product_tile",
    "add_two_multiples",
    "below",
    "combine",
    "inlined",
    "invert",
    "jit",
    "multiply",
    "padded",
    "scale",
    "subtract_products",
]

LANES = 4
SIDE = 8  # samples side by side, in two registers: elimination waits for its last result, and one would not be enough

# Of fast mathematics only fused multiply-adds and reciprocals: with reordering, the result of a sample would depend on
# the compiler, and NaN and infinity must keep their meaning.
jit = numba.njit(nogil=True, cache=True, fastmath={"contract", "nsz", "arcp"}, error_model="numpy")

# For functions that are called once for each sample: passing arrays takes longer than what they do.
inlined = numba.njit(
    nogil=True, cache=True, fastmath={"contract", "nsz", "arcp"}, error_model="numpy", forceinline=True
)


@jit
def padded(n: Any) -> Any:
    """Return the least multiple of LANES that is at least n."""
    return (n + LANES - 1) // LANES * LANES


_VECTOR, _SIDE_BY_SIDE = ir.VectorType(ir.DoubleType(), LANES), ir.VectorType(ir.DoubleType(), SIDE)


def _pointer(context: Any, builder: Any, of_type: Any, array: Any, index: Any, vector: Any = _VECTOR) -> Any:
    """Return a pointer to the vector of LANES (or more) numbers from an index on in a flat array."""
    data = context.make_array(of_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), vector.as_pointer())


def _repeated(builder: Any, number: Any) -> Any:
    """Return a vector of LANES times the same number."""
    undefined = ir.Constant(_VECTOR, ir.Undefined)
    one = builder.insert_element(undefined, number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))


def _sum_with_product(builder: Any, total: Any, factor: Any, vector: Any) -> Any:
    """Return the vector total + factor * vector; factor is a number."""
    product = builder.fmul(_repeated(builder, factor), vector, flags=["contract"])
    return builder.fadd(total, product, flags=["contract"])


@intrinsic
def add_multiple(typing: Any, y: Any, j: Any, factor: Any, x: Any, i: Any) -> Any:
    """Add factor * x[i : i + LANES] to y[j : j + LANES] in place; x and y are flat float64 arrays."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        y, j, factor, x, i = args
        target = _pointer(context, builder, signature.args[0], y, j)
        source = _pointer(context, builder, signature.args[3], x, i)
        total = _sum_with_product(builder, builder.load(target, align=8), factor, builder.load(source, align=8))
        builder.store(total, target, align=8)
        return context.get_dummy_value()

    return types.void(y, j, factor, x, i), generate


@intrinsic
def add_two_multiples(typing: Any, y: Any, j: Any, factor: Any, x: Any, i: Any, second: Any, l: Any) -> Any:
    """Add factor * x[i : i + LANES] + second * x[l : l + LANES] to y[j : j + LANES] in place; flat float64 arrays."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        y, j, factor, x, i, second, l = args
        target = _pointer(context, builder, signature.args[0], y, j)
        total = builder.load(target, align=8)
        for number, index in ((factor, i), (second, l)):
            source = _pointer(context, builder, signature.args[3], x, index)
            total = _sum_with_product(builder, total, number, builder.load(source, align=8))
        builder.store(total, target, align=8)
        return context.get_dummy_value()

    return types.void(y, j, factor, x, i, second, l), generate


@intrinsic
def combine(typing: Any, y: Any, j: Any, x: Any, i: Any, count: Any, T: Any, start: Any, stride: Any) -> Any:
    """Set y[j : j + LANES] to the sum over l < count of x[i + l] times row l of a matrix, plus row ``count``.

    Row l is T[start + l * stride :][:LANES]. All arrays are flat; y and T are float64, x is float32 or float64.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        y, j, x, i, count, T, start, stride = args
        numbers = context.make_array(signature.args[2])(context, builder, x).data

        def row(l: Any) -> Any:
            index = builder.add(start, builder.mul(l, stride))
            return builder.load(_pointer(context, builder, signature.args[5], T, index), align=8)

        total = cgutils.alloca_once_value(builder, row(count))
        with cgutils.for_range(builder, count) as loop:
            factor = builder.load(builder.gep(numbers, [builder.add(i, loop.index)]))
            if signature.args[2].dtype == types.float32:
                factor = builder.fpext(factor, ir.DoubleType())
            builder.store(_sum_with_product(builder, builder.load(total), factor, row(loop.index)), total)
        builder.store(builder.load(total), _pointer(context, builder, signature.args[0], y, j), align=8)
        return context.get_dummy_value()

    return types.void(y, j, x, i, count, T, start, stride), generate


@intrinsic
def below(typing: Any, y: Any, j: Any, bound: Any) -> Any:
    """Return an integer whose bit k says whether y[j + k] is below a bound, for k < LANES; y is flat, float64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        y, j, bound = args
        numbers = builder.load(_pointer(context, builder, signature.args[0], y, j), align=8)
        are = builder.fcmp_ordered("<", numbers, _repeated(builder, bound))
        return builder.zext(builder.bitcast(are, ir.IntType(LANES)), ir.IntType(64))

    return types.int64(y, j, bound), generate


@intrinsic
def multiply(typing: Any, y: Any, j: Any, x: Any, i: Any, z: Any, l: Any, v: Any, k: Any) -> Any:
    """Set y[j : j + SIDE] to the products of x[i : i + SIDE], z[l : l + SIDE] and v[k : k + SIDE]; flat, float64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def pointer(n: int) -> Any:
            return _pointer(context, builder, signature.args[n], args[n], args[n + 1], _SIDE_BY_SIDE)

        x, z, v = (builder.load(pointer(n), align=8) for n in (2, 4, 6))
        builder.store(builder.fmul(builder.fmul(z, v), x), pointer(0), align=8)
        return context.get_dummy_value()

    return types.void(y, j, x, i, z, l, v, k), generate


@intrinsic
def scale(typing: Any, y: Any, j: Any, x: Any, i: Any, z: Any, l: Any) -> Any:
    """Set y[j : j + SIDE] to the products of x[i : i + SIDE] and z[l : l + SIDE]; flat, float64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def pointer(n: int) -> Any:
            return _pointer(context, builder, signature.args[n], args[n], args[n + 1], _SIDE_BY_SIDE)

        x, z = (builder.load(pointer(n), align=8) for n in (2, 4))
        builder.store(builder.fmul(x, z), pointer(0), align=8)
        return context.get_dummy_value()

    return types.void(y, j, x, i, z, l), generate


@intrinsic
def invert(typing: Any, y: Any, j: Any, x: Any, i: Any, z: Any, l: Any, least: Any) -> Any:
    """Set y[j : j + SIDE] to 1 / (x[i : i + SIDE] + z[l : l + SIDE]), and least[:SIDE] to those sums if they are less.

    All arrays are flat, float64.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def pointer(n: int, index: Any) -> Any:
            return _pointer(context, builder, signature.args[n], args[n], index, _SIDE_BY_SIDE)

        x, z = (builder.load(pointer(n, args[n + 1]), align=8) for n in (2, 4))
        lowest = pointer(6, ir.Constant(ir.IntType(64), 0))
        total, before = builder.fadd(x, z), builder.load(lowest, align=8)
        ones = ir.Constant(_SIDE_BY_SIDE, [1.0] * SIDE)
        builder.store(builder.fdiv(ones, total), pointer(0, args[1]), align=8)
        is_less = builder.fcmp_ordered("<", total, before)
        builder.store(builder.select(is_less, total, before), lowest, align=8)
        return context.get_dummy_value()

    return types.void(y, j, x, i, z, l, least), generate


@intrinsic
def subtract_products(
    typing: Any, y: Any, j: Any, x: Any, i: Any, x_step: Any, z: Any, l: Any, z_step: Any, count: Any
) -> Any:
    """Subtract the sum of products of ``count`` vectors, entry by entry, from y[j : j + SIDE] in place.

    Vector k is x[i + k * x_step :][:SIDE], to be multiplied by z[l + k * z_step :][:SIDE]; flat float64 arrays.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        y, j, x, i, x_step, z, l, z_step, count = args

        def vector(which: int, array: Any, start: Any, step: Any, k: Any) -> Any:
            index = builder.add(start, builder.mul(k, step))
            return builder.load(_pointer(context, builder, signature.args[which], array, index, _SIDE_BY_SIDE), align=8)

        target = _pointer(context, builder, signature.args[0], y, j, _SIDE_BY_SIDE)
        total = cgutils.alloca_once_value(builder, builder.load(target, align=8))
        with cgutils.for_range(builder, count) as loop:
            first, second = vector(2, x, i, x_step, loop.index), vector(5, z, l, z_step, loop.index)
            product = builder.fmul(first, second, flags=["contract"])
            builder.store(builder.fsub(builder.load(total), product, flags=["contract"]), total)
        builder.store(builder.load(total), target, align=8)
        return context.get_dummy_value()

    return types.void(y, j, x, i, x_step, z, l, z_step, count), generate


@intrinsic
def add_gram_tile(
    typing: Any, y: Any, x: Any, sign: Any, W: Any, rows: Any, first: Any, last: Any, width: Any, k: Any, c: Any
) -> Any:
    """Set a tile of y, LANES rows from k on and LANES columns from c on, to that of x + sign * sum of w w'.

    The sum is over the rows w of W whose numbers are ``rows[first:last]``. All matrices are flat, with rows of
    ``width`` numbers; ``rows`` is an array of int64. The tile stays in registers.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        y, x, sign, W, rows, first, last, width, k, c = args
        numbers = context.make_array(signature.args[4])(context, builder, rows).data
        entries = context.make_array(signature.args[3])(context, builder, W).data
        none = ir.Constant(_VECTOR, [0.0] * LANES)
        totals = [cgutils.alloca_once_value(builder, none) for _ in range(LANES)]
        with cgutils.for_range(builder, builder.sub(last, first)) as loop:
            start = builder.mul(builder.load(builder.gep(numbers, [builder.add(first, loop.index)])), width)
            vector = builder.load(_pointer(context, builder, signature.args[3], W, builder.add(start, c)), align=8)
            for a, total in enumerate(totals):
                index = builder.add(builder.add(start, k), ir.Constant(ir.IntType(64), a))
                factor = builder.load(builder.gep(entries, [index]))
                builder.store(_sum_with_product(builder, builder.load(total), factor, vector), total)
        for a, total in enumerate(totals):
            row = builder.add(k, ir.Constant(ir.IntType(64), a))
            index = builder.add(builder.mul(row, width), c)
            before = builder.load(_pointer(context, builder, signature.args[1], x, index), align=8)
            after = _sum_with_product(builder, before, sign, builder.load(total))
            builder.store(after, _pointer(context, builder, signature.args[0], y, index), align=8)
        return context.get_dummy_value()

    return types.void(y, x, sign, W, rows, first, last, width, k, c), generate


@intrinsic
def add_product_tile(typing: Any, y: Any, W: Any, rows: Any, first: Any, width: Any, S: Any, count: Any, c: Any) -> Any:
    """Add w'S to rows of y, for LANES rows w of W and LANES columns of S from c on.

    The numbers of the rows, ``rows[first : first + LANES]``, differ. Entry k < count of w is multiplied by row k of S.
    All matrices are flat, with rows of ``width`` numbers; ``rows`` is an array of int64. The tile stays in registers.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        y, W, rows, first, width, S, count, c = args
        numbers = context.make_array(signature.args[2])(context, builder, rows).data
        entries = context.make_array(signature.args[1])(context, builder, W).data
        starts, totals, targets = [], [], []
        for a in range(LANES):
            number = builder.load(builder.gep(numbers, [builder.add(first, ir.Constant(ir.IntType(64), a))]))
            starts.append(builder.mul(number, width))
            targets.append(_pointer(context, builder, signature.args[0], y, builder.add(starts[a], c)))
            totals.append(cgutils.alloca_once_value(builder, builder.load(targets[a], align=8)))
        with cgutils.for_range(builder, count) as loop:
            index = builder.add(builder.mul(loop.index, width), c)
            vector = builder.load(_pointer(context, builder, signature.args[5], S, index), align=8)
            for start, total in zip(starts, totals, strict=True):
                factor = builder.load(builder.gep(entries, [builder.add(start, loop.index)]))
                builder.store(_sum_with_product(builder, builder.load(total), factor, vector), total)
        for target, total in zip(targets, totals, strict=True):
            builder.store(builder.load(total), target, align=8)
        return context.get_dummy_value()

    return types.void(y, W, rows, first, width, S, count, c), generate
