"""Layers over one axis, said by those over two: data NCW, weights OIW (transposed: IOW).

    nn.conv1d(%x, %w, strides=[1], padding=[1, 1])      nn.conv1d_transpose(%x, %w, strides=[2])
    nn.max_pool1d(%x, pool_size=[2])                    nn.avg_pool1d(%x, pool_size=[2])
    image.resize1d(%x, size=[7], method="linear")

A plane of height 1 stands for the line; attributes mean along the line what those of the layers
over planes mean along the width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, floor
from typing import Final, Literal, TypeAlias, final

import numpy as np

from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Attrs, Call, Expr
from codesign.ir.relay.types import TensorType, Type
from codesign.ops.composed.pieces import as_called, composed
from codesign.ops.expand_dims import SqueezeAttrs
from codesign.ops.gradients.expressions import expand_dims, op
from codesign.ops.image import resize2d
from codesign.ops.image.resize2d import ResizeAttrs
from codesign.ops.nn import conv2d, conv2d_transpose, pool2d
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.nn.conv2d_transpose import Conv2DTransposeAttrs
from codesign.ops.nn.pool2d import Pool2DAttrs
from codesign.ops.nn.window import Pair
from codesign.ops.numeric import ieee
from codesign.ops.operator import Expansion, Operator, Relation
from codesign.ops.relations import attributes, elements, require_rank, static_tensors

One: TypeAlias = tuple[int]


@final
@dataclass(frozen=True, kw_only=True)
class Conv1DAttrs(Attrs):
    """Steps of the window, padding (left, right), steps in it, channel groups."""

    strides: One = (1,)
    padding: Pair = (0, 0)
    dilation: One = (1,)
    groups: int = 1


@final
@dataclass(frozen=True, kw_only=True)
class Conv1DTransposeAttrs(Attrs):
    """As of nn.conv1d; `output_padding` lengthens the result at the right."""

    strides: One = (1,)
    padding: Pair = (0, 0)
    output_padding: One = (0,)
    dilation: One = (1,)
    groups: int = 1


@final
@dataclass(frozen=True, kw_only=True)
class Pool1DAttrs(Attrs):
    """The window and its steps; padding is (left, right)."""

    pool_size: One
    strides: One = (1,)
    padding: Pair = (0, 0)
    dilation: One = (1,)
    ceil_mode: bool = False
    count_include_pad: bool = False


@final
@dataclass(frozen=True, kw_only=True)
class Resize1DAttrs(Attrs):
    """The new width, and how its elements are found, as of image.resize2d."""

    size: One
    method: Literal["nearest_neighbor", "linear"] = "linear"
    coordinate_transformation_mode: Literal["half_pixel", "asymmetric", "align_corners"] = (
        "half_pixel"
    )
    rounding_method: Literal["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"] = (
        "round_prefer_floor"
    )


InPlane: TypeAlias = Callable[[Attrs | None], Attrs]
"""The attributes of the layer over planes."""


def _conv(attrs: Attrs | None) -> Attrs:
    assert isinstance(attrs, Conv1DAttrs), "the attributes of nn.conv1d"
    return Conv2DAttrs(
        strides=(1, *attrs.strides),
        padding=(0, attrs.padding[0], 0, attrs.padding[1]),
        dilation=(1, *attrs.dilation),
        groups=attrs.groups,
    )


def _transposed(attrs: Attrs | None) -> Attrs:
    assert isinstance(attrs, Conv1DTransposeAttrs), "the attributes of nn.conv1d_transpose"
    return Conv2DTransposeAttrs(
        strides=(1, *attrs.strides),
        padding=(0, attrs.padding[0], 0, attrs.padding[1]),
        output_padding=(0, *attrs.output_padding),
        dilation=(1, *attrs.dilation),
        groups=attrs.groups,
    )


def _pool(attrs: Attrs | None) -> Attrs:
    assert isinstance(attrs, Pool1DAttrs), "the attributes of pools over one axis"
    return Pool2DAttrs(
        pool_size=(1, *attrs.pool_size),
        strides=(1, *attrs.strides),
        padding=(0, attrs.padding[0], 0, attrs.padding[1]),
        dilation=(1, *attrs.dilation),
        ceil_mode=attrs.ceil_mode,
        count_include_pad=attrs.count_include_pad,
    )


def _resize(attrs: Attrs | None) -> Attrs:
    assert isinstance(attrs, Resize1DAttrs), "the attributes of image.resize1d"
    return ResizeAttrs(
        size=(1, *attrs.size),
        method=attrs.method,
        coordinate_transformation_mode=attrs.coordinate_transformation_mode,
        rounding_method=attrs.rounding_method,
    )


def _relation(plane: Operator, kind: type[Attrs], in_plane: InPlane, count: int) -> Relation:
    """Return the relation of a layer over one axis from that of the layer over planes."""

    def relation(call: Call, types: tuple[Type, ...]) -> Type:
        lines = static_tensors(call, types, count)
        attributes(call, kind)
        for each in lines:
            require_rank(call, each, 3, "data and weights")
        planes = tuple(_as_plane(each) for each in lines)
        found = plane.relation(as_called(call, in_plane(call.attrs)), planes)
        assert isinstance(found, TensorType), "layers give tensors"
        n, c, _, w = found.shape
        return TensorType((n, c, w), found.dtype)

    return relation


def _as_plane(line: TensorType) -> TensorType:
    n, c, w = line.shape
    return TensorType((n, c, 1, w), line.dtype)


def _expansion(name: str, in_plane: InPlane) -> Expansion:
    def expand(call: Call, _types: tuple[Type, ...]) -> Expr:
        planes = tuple(expand_dims(arg, 2) for arg in call.args)
        found = op(name, *planes, attrs=in_plane(call.attrs))
        return op("squeeze", found, attrs=SqueezeAttrs(axis=(2,)))

    return expand


@ieee
def _conv1d(data: Array, weight: Array, attrs: Conv1DAttrs) -> Array:
    (left, right), (step,), (far,) = attrs.padding, attrs.strides, attrs.dilation
    widths = ((0, 0), (0, 0), (max(left, 0), max(right, 0)))
    wide = np.pad(data.astype(np.float64), widths)
    wide = wide[:, :, max(-left, 0) : wide.shape[2] - max(-right, 0)]
    outputs, _, taps = weight.shape
    length = (wide.shape[2] - (taps - 1) * far - 1) // step + 1
    result = np.zeros((len(data), outputs, length))
    for group in range(attrs.groups):
        inside = np.array_split(wide, attrs.groups, axis=1)[group]
        own = np.array_split(weight.astype(np.float64), attrs.groups, axis=0)[group]
        into = np.array_split(result, attrs.groups, axis=1)[group]
        for x in range(length):
            seen = inside[:, :, x * step : x * step + (taps - 1) * far + 1 : far]
            into[:, :, x] = np.einsum("ncw,ocw->no", seen, own)
    return result.astype(data.dtype)


@ieee
def _conv1d_transpose(data: Array, weight: Array, attrs: Conv1DTransposeAttrs) -> Array:
    (left, right), (step,), (far,) = attrs.padding, attrs.strides, attrs.dilation
    inputs, per_group, taps = weight.shape
    size = data.shape[2]
    whole = (size - 1) * step + (taps - 1) * far + 1 + attrs.output_padding[0]
    result = np.zeros((len(data), per_group * attrs.groups, max(whole, 0)))
    for channel in range(inputs):
        group = channel // (inputs // attrs.groups)
        for place in range(per_group):
            into = result[:, group * per_group + place]
            for tap in range(taps):
                begin = tap * far
                into[:, begin : begin + (size - 1) * step + 1 : step] += (
                    data[:, channel].astype(np.float64) * weight[channel, place, tap]
                )
    return result[:, :, left : whole - right].astype(data.dtype)


def pool_windows(attrs: Pool1DAttrs, size: int) -> list[tuple[Array, int]]:
    """Return the places of each window that lie in the data, and how many places it has."""
    (left, right), (step,), (far,) = attrs.padding, attrs.strides, attrs.dilation
    (taps,) = attrs.pool_size
    room = size + left + right - (taps - 1) * far - 1
    count = (ceil(room / step) if attrs.ceil_mode else floor(room / step)) + 1
    if attrs.ceil_mode and (count - 1) * step >= size + left:
        count -= 1
    found = []
    for window in range(count):
        seen = window * step - left + np.arange(taps) * far
        inside = seen[(seen >= 0) & (seen < size)]
        declared = int(np.sum((seen >= -left) & (seen < size + right)))
        found.append((inside, declared if attrs.count_include_pad else len(inside)))
    return found


def _max_pool1d(data: Array, attrs: Pool1DAttrs) -> Array:
    windows = [
        data[:, :, inside].max(axis=2, initial=pool2d.least(DType.of(data.dtype)))
        for inside, _ in pool_windows(attrs, data.shape[2])
    ]
    return np.stack(windows, axis=2).astype(data.dtype)


@ieee
def _avg_pool1d(data: Array, attrs: Pool1DAttrs) -> Array:
    wide = data.astype(np.float64)
    windows = [
        wide[:, :, inside].sum(axis=2) / max(count, 1)
        for inside, count in pool_windows(attrs, data.shape[2])
    ]
    whole = np.stack(windows, axis=2)
    return (whole if data.dtype.kind == "f" else np.rint(whole)).astype(data.dtype)


def _resize1d(data: Array, attrs: Resize1DAttrs) -> Array:
    """Return each result from its place in the data, as image.resize2d counts places."""
    size, (new,) = data.shape[2], attrs.size
    match attrs.coordinate_transformation_mode:
        case "half_pixel":
            found = [(i + 0.5) * size / new - 0.5 for i in range(new)]
        case "asymmetric":
            found = [i * size / new for i in range(new)]
        case "align_corners":
            found = [i * (size - 1) / max(new - 1, 1) for i in range(new)]
    if attrs.method == "linear":
        line = data.astype(np.float64)
        held = np.clip(found, 0, size - 1)
        low = np.floor(held).astype(int)
        share = held - low
        high = np.minimum(low + 1, size - 1)
        between = line[:, :, low] * (1 - share) + line[:, :, high] * share
        return np.asarray(between).astype(data.dtype)
    rounded = {
        "round_prefer_floor": lambda x: ceil(x - 0.5),
        "round_prefer_ceil": lambda x: floor(x + 0.5),
        "floor": floor,
        "ceil": ceil,
    }[attrs.rounding_method]
    nearest = [min(max(rounded(each), 0), size - 1) for each in found]
    return np.take(data, nearest, axis=2)


def _work(call: Call, types: tuple[Type, ...], result: Type) -> int:
    """Return a product and a sum for each weight that a result meets."""
    assert isinstance(types[1], TensorType), "the relation has seen to it"
    _, reduced, taps = types[1].static_shape
    return 2 * elements(result) * reduced * taps


def _transposed_work(call: Call, types: tuple[Type, ...], result: Type) -> int:
    assert isinstance(types[1], TensorType), "the relation has seen to it"
    _, per_group, taps = types[1].static_shape
    return 2 * elements(types[0]) * per_group * taps


def _pools(name: str) -> Operator:
    return next(each for each in pool2d.OPERATORS if each.name == name)


OPERATORS: Final = (
    composed(
        "nn.conv1d",
        _relation(conv2d.OPERATOR, Conv1DAttrs, _conv, 2),
        _conv1d,
        _expansion("nn.conv2d", _conv),
        Conv1DAttrs,
        work=_work,
    ),
    composed(
        "nn.conv1d_transpose",
        _relation(conv2d_transpose.OPERATOR, Conv1DTransposeAttrs, _transposed, 2),
        _conv1d_transpose,
        _expansion("nn.conv2d_transpose", _transposed),
        Conv1DTransposeAttrs,
        work=_transposed_work,
    ),
    composed(
        "nn.max_pool1d",
        _relation(_pools("nn.max_pool2d"), Pool1DAttrs, _pool, 1),
        _max_pool1d,
        _expansion("nn.max_pool2d", _pool),
        Pool1DAttrs,
    ),
    composed(
        "nn.avg_pool1d",
        _relation(_pools("nn.avg_pool2d"), Pool1DAttrs, _pool, 1),
        _avg_pool1d,
        _expansion("nn.avg_pool2d", _pool),
        Pool1DAttrs,
    ),
    composed(
        "image.resize1d",
        _relation(resize2d.OPERATOR, Resize1DAttrs, _resize, 1),
        _resize1d,
        _expansion("image.resize2d", _resize),
        Resize1DAttrs,
    ),
)
"""Every operator of this file."""
