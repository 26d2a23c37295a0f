"""Short rows of numbers in vector registers.

LLVM vectorises long loops. For rows of ten or twenty numbers what it puts around the loop (do the rows overlap? what is
left over?) costs more than the loop, so these are written out as vectors of ``LANES`` numbers. Rows are pieces of flat
arrays of float64, padded to a multiple of that.
"""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

__all__ = ["LANES", "add_multiple", "add_two_multiples", "below", "combine", "jit", "padded"]

LANES = 4

# Fused multiply-adds and reciprocals are all we ask for: reordering would make a sample's result depend on the
# compiler's mood, and NaN and infinity must stay what they are.
jit = numba.njit(nogil=True, cache=True, fastmath={"contract", "nsz", "arcp"}, error_model="numpy")


@jit
def padded(n: Any) -> Any:
    """Return the least multiple of LANES that is not below n."""
    return (n + LANES - 1) // LANES * LANES


_VECTOR = ir.VectorType(ir.DoubleType(), LANES)


def _place(context: Any, builder: Any, of_type: Any, array: Any, index: Any) -> Any:
    """Return where LANES numbers from an index on are in a flat array."""
    data = context.make_array(of_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), _VECTOR.as_pointer())


def _repeated(builder: Any, number: Any) -> Any:
    """Return a vector of one number."""
    undefined = ir.Constant(_VECTOR, ir.Undefined)
    one = builder.insert_element(undefined, number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))


def _sum_with_product(builder: Any, total: Any, factor: Any, vector: Any) -> Any:
    product = builder.fmul(_repeated(builder, factor), vector, flags=["contract"])
    return builder.fadd(total, product, flags=["contract"])


@intrinsic
def add_multiple(typing: Any, y: Any, j: Any, factor: Any, x: Any, i: Any) -> Any:
    """Add factor * x[i : i + LANES] to y[j : j + LANES], flat arrays of float64; nothing is checked."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        y, j, factor, x, i = args
        target = _place(context, builder, signature.args[0], y, j)
        source = _place(context, builder, signature.args[3], x, i)
        total = _sum_with_product(builder, builder.load(target, align=8), factor, builder.load(source, align=8))
        builder.store(total, target, align=8)
        return context.get_dummy_value()

    return types.void(y, j, factor, x, i), generate


@intrinsic
def add_two_multiples(typing: Any, y: Any, j: Any, factor: Any, x: Any, i: Any, second: Any, l: Any) -> Any:
    """Add factor * x[i : i + LANES] + second * x[l : l + LANES] to y[j : j + LANES], as :func:`add_multiple` does."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        y, j, factor, x, i, second, l = args
        target = _place(context, builder, signature.args[0], y, j)
        total = builder.load(target, align=8)
        for number, index in ((factor, i), (second, l)):
            source = _place(context, builder, signature.args[3], x, index)
            total = _sum_with_product(builder, total, number, builder.load(source, align=8))
        builder.store(total, target, align=8)
        return context.get_dummy_value()

    return types.void(y, j, factor, x, i, second, l), generate


@intrinsic
def combine(typing: Any, y: Any, j: Any, x: Any, i: Any, count: Any, T: Any, start: Any, stride: Any) -> Any:
    """Set y[j : j + LANES] to the sum over l < count of x[i + l] times row l of a matrix, plus row ``count``.

    Its rows, of which LANES numbers are taken, stand ``stride`` apart in T, the first at ``start``. Flat arrays of
    float64, x of float32 or float64; nothing is checked.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        y, j, x, i, count, T, start, stride = args
        numbers = context.make_array(signature.args[2])(context, builder, x).data

        def row(l: Any) -> Any:
            index = builder.add(start, builder.mul(l, stride))
            return builder.load(_place(context, builder, signature.args[5], T, index), align=8)

        total = cgutils.alloca_once_value(builder, row(count))
        with cgutils.for_range(builder, count) as loop:
            factor = builder.load(builder.gep(numbers, [builder.add(i, loop.index)]))
            if signature.args[2].dtype == types.float32:
                factor = builder.fpext(factor, ir.DoubleType())
            builder.store(_sum_with_product(builder, builder.load(total), factor, row(loop.index)), total)
        builder.store(builder.load(total), _place(context, builder, signature.args[0], y, j), align=8)
        return context.get_dummy_value()

    return types.void(y, j, x, i, count, T, start, stride), generate


@intrinsic
def below(typing: Any, y: Any, j: Any, bound: Any) -> Any:
    """Return which of y[j : j + LANES] are below a bound, as the bits of an integer."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        y, j, bound = args
        numbers = builder.load(_place(context, builder, signature.args[0], y, j), align=8)
        are = builder.fcmp_ordered("<", numbers, _repeated(builder, bound))
        return builder.zext(builder.bitcast(are, ir.IntType(LANES)), ir.IntType(64))

    return types.int64(y, j, bound), generate
