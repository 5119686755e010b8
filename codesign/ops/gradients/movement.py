"""Gradients of operators that move elements, and of those that fill tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Final

import numpy as np

from codesign.ir.relay.expr import Constant, Expr, Project, Tuple
from codesign.ir.relay.types import UNKNOWN, TensorType, TupleType, Type
from codesign.ops.axis import AxisAttrs
from codesign.ops.expand_dims import ExpandDimsAttrs, SqueezeAttrs
from codesign.ops.gradients.elementwise import is_flat
from codesign.ops.gradients.expressions import (
    cast,
    collapse,
    expand_dims,
    is_float,
    is_static,
    op,
    reshape,
    static,
    tensor,
    total,
    transpose,
)
from codesign.ops.layout_transform import LayoutTransformAttrs
from codesign.ops.like import ReshapeLikeAttrs
from codesign.ops.nn.pad import PadAttrs
from codesign.ops.operator import Forward, Gradient, NotDifferentiable
from codesign.ops.repeating import RepeatAttrs, TileAttrs, aligned
from codesign.ops.split import SplitAttrs
from codesign.ops.strided_slice import StridedSliceAttrs, slices
from codesign.ops.transpose import TransposeAttrs


def _reshaped(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    data = call.types[0]
    rest = (None,) * (len(call.args) - 1)
    if not is_static(data):
        return (op("reshape_like", adjoint, call.args[0], attrs=ReshapeLikeAttrs()), *rest)
    if tensor(data).shape == tensor(call.result_type).shape:
        return (adjoint, *rest)
    return (reshape(adjoint, tensor(data).static_shape), *rest)


def _cast_like(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    if not is_float(call.types[0]) or not is_float(call.result_type):
        return None, None
    return cast(adjoint, tensor(call.types[0]).dtype), None


def _layout_transform(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    attrs = call.attrs
    assert isinstance(attrs, LayoutTransformAttrs), "the attributes of layout_transform"
    back = LayoutTransformAttrs(src_layout=attrs.dst_layout, dst_layout=attrs.src_layout)
    return (op("layout_transform", adjoint, attrs=back),)


def _expand_dims(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    attrs = call.attrs
    assert isinstance(attrs, ExpandDimsAttrs), "the attributes of expand_dims"
    rank = len(tensor(call.types[0]).shape)
    begin = attrs.axis if attrs.axis >= 0 else rank + 1 + attrs.axis
    return (total(adjoint, range(begin, begin + attrs.num_newaxis)),)


def _stack(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    attrs = call.attrs
    assert isinstance(attrs, AxisAttrs), "the attributes of stack"
    axis = attrs.axis % len(tensor(call.result_type).shape)
    (parts,) = call.types
    assert isinstance(parts, TupleType), "stack takes a tuple"
    sections = SplitAttrs(indices_or_sections=len(parts.fields), axis=axis)
    pieces = op("split", adjoint, attrs=sections)
    dropped = SqueezeAttrs(axis=(axis,))
    found = [
        op("squeeze", Project(pieces, index), attrs=dropped) for index in range(len(parts.fields))
    ]
    return (Tuple(tuple(found)),)


def _tile(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    attrs = call.attrs
    assert isinstance(attrs, TileAttrs), "the attributes of tile"
    shape = static("tile", call.types[0])
    pairs = [(count, length) for length, count in aligned(shape, attrs.reps)]
    apart = reshape(adjoint, [int(each) for pair in pairs for each in pair if each is not UNKNOWN])
    summed = total(apart, range(0, 2 * len(pairs), 2))
    return (reshape(summed, shape),)


def _repeat(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    attrs = call.attrs
    assert isinstance(attrs, RepeatAttrs), "the attributes of repeat"
    shape = static("repeat", call.types[0])
    axis = attrs.axis % len(shape)
    apart = reshape(adjoint, (*shape[: axis + 1], attrs.repeats, *shape[axis + 1 :]))
    return (total(apart, [axis + 1]),)


def _reverse(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    return (op("reverse", adjoint, attrs=call.attrs),)


def _dyn_reshape(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    return op("reshape_like", adjoint, call.args[0], attrs=ReshapeLikeAttrs()), None


def _dyn_spread(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    return op("collapse_sum_like", adjoint, call.args[0]), None


def _transpose(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    attrs = call.attrs
    assert isinstance(attrs, TransposeAttrs), "the attributes of transpose"
    rank = len(tensor(call.result_type).shape)
    axes = [axis % rank for axis in attrs.axes] or list(reversed(range(rank)))
    return (transpose(adjoint, [axes.index(axis) for axis in range(rank)]),)


def _concatenate(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    attrs = call.attrs
    assert isinstance(attrs, AxisAttrs), "the attributes of concatenate"
    (parts,) = call.types
    assert isinstance(parts, TupleType), "concatenate takes a tuple"
    axis = attrs.axis % len(tensor(call.result_type).shape)
    lengths = [static("concatenate", each)[axis] for each in parts.fields]
    where = tuple(accumulate(lengths))[:-1]
    return (op("split", adjoint, attrs=SplitAttrs(indices_or_sections=where, axis=axis)),)


def _split(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    attrs = call.attrs
    assert isinstance(attrs, SplitAttrs), "the attributes of split"
    axis = attrs.axis % len(tensor(call.types[0]).shape)
    return (op("concatenate", adjoint, attrs=AxisAttrs(axis=axis)),)


def padded(value: Expr, widths: Sequence[tuple[int, int]]) -> Expr:
    """Return the value with zeros around it; negative widths cut off."""
    if not any(before or after for before, after in widths):
        return value
    return op("nn.pad", value, attrs=PadAttrs(pad_width=tuple(widths)))


def spread_steps(value: Expr, shape: Sequence[int], steps: Sequence[int]) -> Expr:
    """Return the value with `step - 1` zeros after each element along each axis but for the last.

    A length n becomes (n - 1) * step + 1; 0 stays 0.
    """
    if all(step == 1 for step in steps):
        return value
    pairs = [extent for each in shape for extent in (each, 1)]
    apart = [(0, extra) for step in steps for extra in (0, step - 1)]
    wide = padded(reshape(value, pairs), apart)
    whole = reshape(wide, [each * step for each, step in zip(shape, steps, strict=True)])
    ends = [(0, 0 if each == 0 else 1 - step) for each, step in zip(shape, steps, strict=True)]
    return padded(whole, ends)


def _reversed(value: Expr, axes: Sequence[int]) -> Expr:
    if not axes:
        return value
    far = -(1 << 40)
    attrs = StridedSliceAttrs(
        begin=(-1,) * len(axes),
        end=(far,) * len(axes),
        strides=(-1,) * len(axes),
        axes=tuple(axes),
    )
    return op("strided_slice", value, attrs=attrs)


def _strided_slice(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    """Spread the elements by the strides, turn reversed axes, and pad up to the data's shape."""
    attrs = call.attrs
    assert isinstance(attrs, StridedSliceAttrs), "the attributes of strided_slice"
    shape = static("strided_slice", call.types[0])
    lengths = static("strided_slice", call.result_type)
    steps, widths, turned = [], [], []
    for axis, (each, size) in enumerate(zip(slices(attrs, len(shape)), shape, strict=True)):
        first, _, step = each.indices(size)
        covered = (lengths[axis] - 1) * abs(step) + 1 if lengths[axis] else 0
        low = first if step > 0 else first - covered + 1
        low = low if covered else 0
        steps.append(abs(step))
        widths.append((low, size - low - covered))
        if step < 0 and lengths[axis] > 1:
            turned.append(axis)
    return (padded(spread_steps(_reversed(adjoint, turned), lengths, steps), widths),)


def _broadcast_to(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    rest = (None,) * (len(call.args) - 1)
    return (collapse(adjoint, call.result_type, call.types[0], call.args[0]), *rest)


def _full(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    return (total(adjoint, range(len(tensor(call.result_type).shape))),)


def _full_like(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    return (None, *_full(call, adjoint))


def _one_hot(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    """Return the sums over hot places for `on` and over the others for `off`."""
    indices, on, off = call.args
    assert isinstance(call.result_type, TensorType), "one_hot gives a tensor"
    axes = range(len(call.result_type.shape))
    one, zero = op("ones_like", on), op("zeros_like", off)
    hot = op("one_hot", indices, one, zero, attrs=call.attrs)
    cold = op("one_hot", indices, zero, one, attrs=call.attrs)
    return (
        None,
        total(op("multiply", adjoint, hot), axes),
        total(op("multiply", adjoint, cold), axes),
    )


def _hot_rows(indices: Expr, indices_type: Type, length: int, like: Type) -> Expr:
    """Return Tensor[(count, length)]: 1 where an index, also a negative one, means the place."""
    kind = tensor(indices_type).dtype.numpy
    if len(tensor(indices_type).shape) == 1:
        flat = expand_dims(indices, 1)
    else:
        flat = reshape(indices, (int(np.prod(static("take", indices_type))), 1))
    here = op("equal", flat, Constant(np.arange(length).astype(kind)))
    if np.issubdtype(kind, np.signedinteger):
        from_end = op("equal", flat, Constant(np.arange(-length, 0).astype(kind)))
        here = op("logical_or", here, from_end)
    dtype = tensor(like).dtype.numpy
    return op("where", here, Constant(np.ones((), dtype)), Constant(np.zeros((), dtype)))


def _take(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    """Add every row that was read to the row that it came from: a product with 0 and 1."""
    attrs = call.attrs
    assert isinstance(attrs, AxisAttrs), "the attributes of take"
    shape = static("take", call.types[0])
    axis = attrs.axis % len(shape)
    places = call.types[1]
    hot = _hot_rows(call.args[1], call.types[1], shape[axis], call.types[0])
    rows = adjoint
    if len(tensor(places).shape) != 1:
        count = int(np.prod(static("take", places)))
        rows = reshape(adjoint, (*shape[:axis], count, *shape[axis + 1 :]))
    rank = len(shape)
    order = (*(each for each in range(rank) if each != axis), axis)
    product = op("nn.dense", transpose(rows, order), transpose(hot, (1, 0)))
    back = (*range(axis), rank - 1, *range(axis, rank - 1))
    return transpose(product, back), None


def _gather_elements(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    attrs = call.attrs
    assert isinstance(attrs, AxisAttrs), "the attributes of gather_elements"
    shape, read = (static("gather_elements", each) for each in call.types)
    axis = attrs.axis % len(shape)
    hot = _hot_rows(call.args[1], call.types[1], shape[axis], call.types[0])
    hot = reshape(hot, (*read, shape[axis]))
    spread = op("multiply", hot, reshape(adjoint, (*read, 1)))
    rank = len(shape)
    summed = total(spread, (axis,))
    back = (*range(axis), rank - 1, *range(axis, rank - 1))
    widths = [
        (0, 0 if each == axis else size - covered)
        for each, (size, covered) in enumerate(zip(shape, read, strict=True))
    ]
    return padded(transpose(summed, back), widths), None


def _gather_nd(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    """Mark the place that each index tuple means, in row-major order; then add up rows."""
    shape, read = (static("gather_nd", each) for each in call.types)
    depth = read[-1]
    count = int(np.prod(read[:-1]))
    inner = int(np.prod(shape[depth:]))
    hot: Expr | None = None
    for axis in range(depth):
        begin = StridedSliceAttrs(begin=(axis,), end=(axis + 1,), axes=(len(read) - 1,))
        index = op("strided_slice", call.args[1], attrs=begin)
        kind = TensorType((*read[:-1], 1), tensor(call.types[1]).dtype)
        one = _hot_rows(index, kind, shape[axis], call.types[0])
        if hot is None:
            hot = one
            continue
        before = int(np.prod(shape[:axis]))
        pair = op(
            "multiply",
            reshape(hot, (count, before, 1)),
            reshape(one, (count, 1, shape[axis])),
        )
        hot = reshape(pair, (count, before * shape[axis]))
    assert hot is not None, "an index tuple has a number at least"
    rows = transpose(reshape(adjoint, (count, inner)), (1, 0))
    product = op("nn.dense", transpose(hot, (1, 0)), rows)
    return reshape(product, shape), None


GRADIENTS: Final[Mapping[str, Gradient | NotDifferentiable]] = {
    "reshape": _reshaped,
    "reshape_like": _reshaped,
    "squeeze": _reshaped,
    "expand_dims": _expand_dims,
    "transpose": _transpose,
    "concatenate": _concatenate,
    "split": _split,
    "strided_slice": _strided_slice,
    "broadcast_to": _broadcast_to,
    "broadcast_to_like": _broadcast_to,
    "cast_like": _cast_like,
    "layout_transform": _layout_transform,
    "stack": _stack,
    "tile": _tile,
    "repeat": _repeat,
    "reverse": _reverse,
    "arange": NotDifferentiable("it reads nothing"),
    "shape_of": NotDifferentiable("lengths are integers"),
    "dyn.reshape": _dyn_reshape,
    "dyn.broadcast_to": _dyn_spread,
    "dyn.full": _dyn_spread,
    "dyn.zeros": NotDifferentiable("what it reads are integers, which have no gradient"),
    "dyn.arange": NotDifferentiable("what it reads is an integer, which has no gradient"),
    "dyn.ones": NotDifferentiable("what it reads are integers, which have no gradient"),
    "take": _take,
    "gather_elements": _gather_elements,
    "gather_nd": _gather_nd,
    "zeros": is_flat,
    "ones": is_flat,
    "zeros_like": is_flat,
    "ones_like": is_flat,
    "full": _full,
    "full_like": _full_like,
    "one_hot": _one_hot,
}
"""The rule of every operator of this kind."""
