"""Gradients of pools, padding and resizing: what flows back goes where the windows have looked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from codesign.dtypes import Array
from codesign.ir.relay.expr import Constant, Expr
from codesign.ops.gradients.expressions import (
    add,
    array,
    broadcast_to,
    concatenate,
    contract_axis,
    divide,
    expand_dims,
    multiply,
    number,
    op,
    reshape,
    static,
    tensor,
    total,
    where,
)
from codesign.ops.gradients.layouts import in_any_layout
from codesign.ops.gradients.movement import padded, spread_steps
from codesign.ops.gradients.products import scattered
from codesign.ops.image.resize2d import ResizeAttrs, nearest, source_places
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.nn.pad import PadAttrs
from codesign.ops.nn.pool2d import Pool2DAttrs
from codesign.ops.operator import Forward, Gradient, NotDifferentiable
from codesign.ops.strided_slice import StridedSliceAttrs


def _pool(call: Forward) -> Pool2DAttrs:
    assert isinstance(call.attrs, Pool2DAttrs), "the attributes of a pool"
    return call.attrs


def _fits_exactly(attrs: Pool2DAttrs, size: tuple[int, ...]) -> bool:
    """Return whether the windows lie side by side and cover everything once."""
    return (
        attrs.strides == attrs.pool_size
        and attrs.dilation == (1, 1)
        and attrs.padding == (0, 0, 0, 0)
        and all(each % step == 0 for each, step in zip(size, attrs.strides, strict=True))
    )


def _max_pool2d(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    """Elements of a window that are equal to its greatest one share what flows back."""
    attrs = _pool(call)
    shape = static("nn.max_pool2d", call.types[0])
    if _fits_exactly(attrs, shape[2:]):
        return (_by_blocks(call, adjoint, attrs, shape),)
    return (_by_taps(call, adjoint, attrs, shape),)


def _by_blocks(call: Forward, adjoint: Expr, attrs: Pool2DAttrs, shape: tuple[int, ...]) -> Expr:
    n, c, height, width = shape
    rows, columns = attrs.pool_size
    split = (n, c, height // rows, rows, width // columns, columns)
    single = (n, c, height // rows, 1, width // columns, 1)
    type_ = call.result_type
    is_best = op("equal", reshape(call.args[0], split), reshape(call.result, single))
    shares = where(is_best, number(1, type_), number(0, type_))
    share = divide(reshape(adjoint, single), total(shares, (3, 5), keepdims=True))
    return reshape(multiply(shares, share), shape)


def _by_taps(call: Forward, adjoint: Expr, attrs: Pool2DAttrs, shape: tuple[int, ...]) -> Expr:
    """Look at each place of the kernel by itself: a strided slice of the padded data."""
    result = static("nn.max_pool2d", call.result_type)
    type_ = call.result_type
    top, left, _, _ = attrs.padding
    rooms = _room(attrs, result, shape)
    around = ((0, 0), (0, 0), (top, rooms[0] - top - shape[2]), (left, rooms[1] - left - shape[3]))
    wide = op("nn.pad", call.args[0], attrs=PadAttrs(pad_width=around, value=-np.inf))
    first = [
        (i * attrs.dilation[0], j * attrs.dilation[1])
        for i in range(attrs.pool_size[0])
        for j in range(attrs.pool_size[1])
    ]
    taps = [expand_dims(_tap(wide, at, attrs, result), 4) for at in first]
    is_best = op("equal", concatenate(taps, 4), expand_dims(call.result, 4))
    shares = where(is_best, number(1, type_), number(0, type_))
    share = divide(expand_dims(adjoint, 4), total(shares, (4,), keepdims=True))
    back = multiply(shares, share)
    whole: Expr | None = None
    for place, at in enumerate(first):
        piece = StridedSliceAttrs(begin=(place,), end=(place + 1,), axes=(4,))
        one = reshape(op("strided_slice", back, attrs=piece), result)
        spread = spread_steps(one, result, (1, 1, *attrs.strides))
        covered = [(result[k + 2] - 1) * attrs.strides[k] + 1 for k in (0, 1)]
        low = (at[0] - top, at[1] - left)
        ends = tuple((low[k], shape[k + 2] - low[k] - covered[k]) for k in (0, 1))
        placed = padded(spread, ((0, 0), (0, 0), *ends))
        whole = placed if whole is None else add(whole, placed)
    assert whole is not None, "a kernel has a place"
    return whole


def _room(attrs: Pool2DAttrs, result: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the height and width that windows and data reach over together, padding included."""
    rows, columns = (
        max(
            (result[k + 2] - 1) * attrs.strides[k]
            + (attrs.pool_size[k] - 1) * attrs.dilation[k]
            + 1,
            attrs.padding[k] + shape[k + 2],
        )
        for k in (0, 1)
    )
    return rows, columns


def _tap(wide: Expr, at: tuple[int, int], attrs: Pool2DAttrs, result: tuple[int, ...]) -> Expr:
    ends = tuple(at[k] + (result[k + 2] - 1) * attrs.strides[k] + 1 for k in (0, 1))
    piece = StridedSliceAttrs(begin=at, end=ends, strides=attrs.strides, axes=(2, 3))
    return op("strided_slice", wide, attrs=piece)


def _avg_pool2d(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    """Spread each result's share over its window: a transposed convolution with ones."""
    attrs = _pool(call)
    shape = static("nn.avg_pool2d", call.types[0])
    result = static("nn.avg_pool2d", call.result_type)
    share = divide(adjoint, array(_counts(attrs, shape, result), call.result_type))
    kind = tensor(call.result_type).dtype.numpy
    ones = Constant(np.ones((shape[1], 1, *attrs.pool_size), kind))
    window = Conv2DAttrs(
        strides=attrs.strides, padding=attrs.padding, dilation=attrs.dilation, groups=shape[1]
    )
    spread = scattered(
        share,
        ones,
        shape=result,
        size=(shape[2], shape[3]),
        window=window,
        kernel=attrs.pool_size,
    )
    return (spread,)


def _counts(attrs: Pool2DAttrs, shape: tuple[int, ...], result: tuple[int, ...]) -> Array:
    """Return how many elements each window's sum is divided by, Tensor[(height, width)]."""
    lines = []
    for k in (0, 1):
        before, after = attrs.padding[k], attrs.padding[k + 2]
        low, high = (0, shape[k + 2])
        if attrs.count_include_pad:
            low, high = -before, shape[k + 2] + after
        first = np.arange(result[k + 2]) * attrs.strides[k] - before
        taps = first[:, None] + np.arange(attrs.pool_size[k]) * attrs.dilation[k]
        lines.append(((taps >= low) & (taps < high)).sum(axis=1))
    return np.asarray(np.maximum(np.outer(*lines), 1))


def _global_avg_pool2d(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    shape = static("nn.global_avg_pool2d", call.types[0])
    share = divide(adjoint, number(shape[2] * shape[3], call.result_type))
    return (broadcast_to(share, shape),)


def _global_max_pool2d(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    type_ = call.result_type
    is_best = op("equal", call.args[0], call.result)
    shares = where(is_best, number(1, type_), number(0, type_))
    share = divide(adjoint, total(shares, (2, 3), keepdims=True))
    return (multiply(shares, share),)


def _pad(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    attrs = call.attrs
    assert isinstance(attrs, PadAttrs), "the attributes of nn.pad"
    if attrs.mode == "constant":
        return (padded(adjoint, [(-before, -after) for before, after in attrs.pad_width]),)
    shape = static("nn.pad", call.types[0])
    for axis, (length, widths) in enumerate(zip(shape, attrs.pad_width, strict=True)):
        if any(widths):
            source = np.pad(np.arange(length), widths, mode=attrs.mode)
            adjoint = contract_axis(adjoint, call.types[0], axis, _hot(source, length).T)
    return (adjoint,)


def _hot(source: Array, length: int) -> Array:
    """Return the matrix (places, length) that reads the element `source` at each place."""
    return np.asarray(source[:, None] == np.arange(length), np.float64)


def _resize2d(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    """Resizing is a product with a matrix along each axis; what flows back meets its transpose."""
    attrs = call.attrs
    assert isinstance(attrs, ResizeAttrs), "the attributes of image.resize2d"
    shape = static("image.resize2d", call.types[0])
    for k in (0, 1):
        matrix = _resizing(attrs, k, shape[k + 2])
        adjoint = contract_axis(adjoint, call.result_type, k + 2, matrix.T)
    return (adjoint,)


def _resizing(attrs: ResizeAttrs, axis: int, size: int) -> Array:
    places = source_places(attrs, axis, size)
    if attrs.method == "nearest_neighbor":
        return _hot(nearest(attrs, places, size), size)
    held = np.clip(places, 0, size - 1)
    low = np.floor(held).astype(np.int64)
    share = (held - low)[:, None]
    above = np.minimum(low + 1, size - 1)
    return np.asarray(_hot(low, size) * (1 - share) + _hot(above, size) * share)


GRADIENTS: Final[Mapping[str, Gradient | NotDifferentiable]] = {
    "nn.max_pool2d": in_any_layout(_max_pool2d),
    "nn.avg_pool2d": in_any_layout(_avg_pool2d),
    "nn.global_avg_pool2d": _global_avg_pool2d,
    "nn.global_max_pool2d": _global_max_pool2d,
    "nn.pad": _pad,
    "image.resize2d": _resize2d,
}
"""The rule of every operator of this kind."""
