"""Reductions, pools, products of matrices and convolutions in index notation.

Products here are the general form, for weights that are not constant or shapes that no
hand-blocked kernel takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Final

from codesign.compiler.lower.graph import Step
from codesign.compiler.lower.rule import Read, Rule, attrs_of, zero
from codesign.dtypes import DType
from codesign.ir.tensor.compute import (
    Apply,
    Expr,
    Fn,
    Guarded,
    Literal,
    Position,
    Reduce,
    Reduction,
    apply,
    convert,
)
from codesign.ir.tensor.index import Axis, Index, at
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.nn.conv2d_transpose import Conv2DTransposeAttrs
from codesign.ops.nn.pool2d import Pool2DAttrs
from codesign.ops.qnn.conv2d import QConv2DAttrs
from codesign.ops.qnn.dense import QDenseAttrs
from codesign.ops.qnn.sum_pool2d import QSumPool2DAttrs
from codesign.ops.reduce import ArgReduceAttrs, ReduceAttrs

_LONG: Final = 2048
"""Float32 sums of more terms are taken in float64."""


def _initial(kind: Reduction, dtype: DType) -> Literal:
    match kind:
        case Reduction.SUM:
            return Literal(0, dtype)
        case Reduction.PRODUCT:
            return Literal(1, dtype)
        case Reduction.MAXIMUM:
            return Literal(float("-inf") if dtype.is_float else dtype.minimum, dtype)
        case Reduction.MINIMUM:
            return Literal(float("inf") if dtype.is_float else dtype.maximum, dtype)


def _reduce(kind: Reduction, axes: tuple[Axis, ...], body: Expr) -> Expr:
    length = prod(axis.extent for axis in axes)
    is_sum = kind in (Reduction.SUM, Reduction.PRODUCT)
    if is_sum and body.dtype is DType.FLOAT32 and length > _LONG:
        wide = convert(body, DType.FLOAT64)
        return convert(Reduce(kind, axes, wide, _initial(kind, DType.FLOAT64)), DType.FLOAT32)
    return Reduce(kind, axes, body, _initial(kind, body.dtype))


def _reduction(kind: Reduction) -> Rule:
    def rule(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
        attrs = attrs_of(step, ReduceAttrs)
        shape = step.inputs[0].shape
        reduced = {axis % len(shape) for axis in attrs.axis} or set(range(len(shape)))
        axes = {axis: Axis(f"r{axis}", shape[axis]) for axis in sorted(reduced)}
        kept = iter(index)
        source = []
        for axis in range(len(shape)):
            if axis in axes:
                source.append(at(axes[axis]))
                if attrs.keepdims:
                    next(kept)
            else:
                source.append(next(kept))
        return _reduce(kind, tuple(axes.values()), read(0, tuple(source)))

    return rule


def _argmax(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    """Operand 1 is the greatest element, the axis kept; a NaN is greatest."""
    attrs = attrs_of(step, ArgReduceAttrs)
    shape = step.inputs[0].shape
    axis = attrs.axis % len(shape)
    over = Axis("r", shape[axis])
    after = axis + 1 if attrs.keepdims else axis
    source = (*index[:axis], at(over), *index[after:])
    x = read(0, source)
    greatest = read(1, (*index[:axis], Index(), *index[after:]))
    found = apply(Fn.EQUAL, x, greatest, dtype=DType.BOOL)
    if x.dtype.is_float:
        is_nan = apply(Fn.NOT_EQUAL, x, x, dtype=DType.BOOL)
        found = apply(Fn.OR, found, is_nan, dtype=DType.BOOL)
    last = attrs.select_last_index
    nowhere = Literal(-1 if last else shape[axis], DType.INT64)
    place = Apply(Fn.SELECT, (found, Position(at(over)), nowhere), DType.INT64)
    kind = Reduction.MAXIMUM if last else Reduction.MINIMUM
    return convert(Reduce(kind, (over,), place, nowhere), attrs.dtype)


def _window_axes(size: tuple[int, int]) -> tuple[Axis, Axis]:
    return Axis("ky", size[0]), Axis("kx", size[1])


def _pool(
    step: Step,
    index: tuple[Index, ...],
    read: Read,
    kind: Reduction,
    attrs: Pool2DAttrs | QSumPool2DAttrs,
) -> Reduce:
    n, c, y, x = index
    _, _, height, width = step.inputs[0].shape
    rows, columns = _window_axes(attrs.pool_size)
    (down, right), (top, left, _, _) = attrs.strides, attrs.padding
    step_y, step_x = attrs.dilation if isinstance(attrs, Pool2DAttrs) else (1, 1)
    row = y * down + at(rows) * step_y - top
    column = x * right + at(columns) * step_x - left
    body = read(0, (n, c, row, column))
    if isinstance(attrs, QSumPool2DAttrs):
        centre = Literal(attrs.zero_point, DType.INT32)
        body = apply(Fn.SUBTRACT, convert(body, DType.INT32), centre)
    initial = _initial(kind, body.dtype)
    inside = Guarded(((row, 0, height), (column, 0, width)), body, initial)
    return Reduce(kind, (rows, columns), inside, initial)


def _max_pool(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    return _pool(step, index, read, Reduction.MAXIMUM, attrs_of(step, Pool2DAttrs))


def _sum_pool(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    return _pool(step, index, read, Reduction.SUM, attrs_of(step, QSumPool2DAttrs))


def windows_sum(step: Step, index: tuple[Index, ...], read: Read, attrs: Pool2DAttrs) -> Expr:
    """Return the sum of what a window meets of the data; of integers in float64."""
    dtype = step.result.dtype

    def widened(number: int, place: tuple[Index, ...]) -> Expr:
        value = read(number, place)
        return value if dtype.is_float else convert(value, DType.FLOAT64)

    return _pool(step, index, widened, Reduction.SUM, attrs)


def _avg_pool(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    """Operand 1 is the number of elements that each window's sum is divided by."""
    dtype = step.result.dtype
    total = windows_sum(step, index, read, attrs_of(step, Pool2DAttrs))
    count = convert(read(1, (index[2], index[3])), total.dtype)
    average = apply(Fn.DIVIDE, total, count)
    if dtype.is_float:
        return average
    return convert(apply(Fn.ROUND_EVEN, average), dtype)


def _global_pool(kind: Reduction) -> Rule:
    def rule(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
        n, c, _, _ = index
        _, _, height, width = step.inputs[0].shape
        rows, columns = _window_axes((height, width))
        body = read(0, (n, c, at(rows), at(columns)))
        if kind is Reduction.MAXIMUM:
            return _reduce(kind, (rows, columns), body)
        dtype = step.result.dtype
        if not dtype.is_float:
            body = convert(body, DType.FLOAT64)
        total = _reduce(kind, (rows, columns), body)
        mean = apply(Fn.DIVIDE, total, Literal(float(height * width), total.dtype))
        return mean if dtype.is_float else convert(apply(Fn.ROUND_EVEN, mean), dtype)

    return rule


def _dense(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    k = Axis("k", step.inputs[0].shape[-1])
    *rows, column = index
    data, weight = read(0, (*rows, at(k))), read(1, (column, at(k)))
    if isinstance(step.attrs, QDenseAttrs):
        data = apply(
            Fn.SUBTRACT, convert(data, DType.INT32), Literal(step.attrs.zero_point, DType.INT32)
        )
        weight = convert(weight, DType.INT32)
    product = apply(Fn.MULTIPLY, data, weight)
    total = Reduce(Reduction.SUM, (k,), product, zero(product.dtype))
    return convert(total, step.result.dtype)


def _matmul(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    lhs, rhs = step.inputs
    k = Axis("k", lhs.shape[-1])
    *batch, row, column = index

    def batch_of(shape: tuple[int, ...]) -> tuple[Index, ...]:
        own = batch[len(batch) - (len(shape) - 2) :]
        return tuple(
            Index() if extent == 1 else each for extent, each in zip(shape[:-2], own, strict=True)
        )

    left = read(0, (*batch_of(lhs.shape), row, at(k)))
    right = read(1, (*batch_of(rhs.shape), at(k), column))
    product = apply(Fn.MULTIPLY, left, right)
    return Reduce(Reduction.SUM, (k,), product, zero(product.dtype))


def _conv2d(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    attrs = step.attrs
    assert isinstance(attrs, Conv2DAttrs | QConv2DAttrs), "the attributes of a convolution"
    n, c, y, x = index
    _, _, height, width = step.inputs[0].shape
    outputs, per_group, *size = step.inputs[1].shape
    group = c // (outputs // attrs.groups)
    inner = Axis("ic", per_group)
    rows, columns = _window_axes((size[0], size[1]))
    row = y * attrs.strides[0] + at(rows) * attrs.dilation[0] - attrs.padding[0]
    column = x * attrs.strides[1] + at(columns) * attrs.dilation[1] - attrs.padding[1]
    data = read(0, (n, group * per_group + at(inner), row, column))
    weight = read(1, (c, at(inner), at(rows), at(columns)))
    if isinstance(attrs, QConv2DAttrs):
        centre = Literal(attrs.zero_point, DType.INT32)
        data = apply(Fn.SUBTRACT, convert(data, DType.INT32), centre)
        weight = convert(weight, DType.INT32)
    product = apply(Fn.MULTIPLY, data, weight)
    nothing = zero(product.dtype)
    limits = ((row, 0, height), (column, 0, width))
    if not all(low <= each.bounds()[0] and each.bounds()[1] < high for each, low, high in limits):
        product = Guarded(limits, product, nothing)
    total = Reduce(Reduction.SUM, (inner, rows, columns), product, nothing)
    return convert(total, step.result.dtype)


def _conv2d_transpose(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    attrs = attrs_of(step, Conv2DTransposeAttrs)
    n, c, y, x = index
    _, channels, height, width = step.inputs[0].shape
    _, per_group, *size = step.inputs[1].shape
    inner = Axis("ic", channels // attrs.groups)
    rows, columns = _window_axes((size[0], size[1]))
    row = y + attrs.padding[0] - at(rows) * attrs.dilation[0]
    column = x + attrs.padding[1] - at(columns) * attrs.dilation[1]
    (down, right) = attrs.strides
    channel = (c // per_group) * inner.extent + at(inner)
    data = read(0, (n, channel, row // down, column // right))
    weight = read(1, (channel, c % per_group, at(rows), at(columns)))
    conditions = (
        (row % down, 0, 1),
        (column % right, 0, 1),
        (row // down, 0, height),
        (column // right, 0, width),
    )
    product = apply(Fn.MULTIPLY, data, weight)
    inside = Guarded(conditions, product, zero(product.dtype))
    return Reduce(Reduction.SUM, (inner, rows, columns), inside, zero(product.dtype))


RULES: Final[Mapping[str, Rule]] = {
    "sum": _reduction(Reduction.SUM),
    "prod": _reduction(Reduction.PRODUCT),
    "max": _reduction(Reduction.MAXIMUM),
    "min": _reduction(Reduction.MINIMUM),
    "cpu.argmax": _argmax,
    "nn.max_pool2d": _max_pool,
    "cpu.avg_pool2d": _avg_pool,
    "qnn.sum_pool2d": _sum_pool,
    "nn.global_avg_pool2d": _global_pool(Reduction.SUM),
    "nn.global_max_pool2d": _global_pool(Reduction.MAXIMUM),
    "nn.dense": _dense,
    "qnn.dense": _dense,
    "nn.matmul": _matmul,
    "nn.conv2d": _conv2d,
    "qnn.conv2d": _conv2d,
    "nn.conv2d_transpose": _conv2d_transpose,
}
"""The rules by operator."""
