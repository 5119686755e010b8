"""Layers over three axes, said by those over two: data NCDHW, weights OIDHW.

    nn.conv3d(%x, %w, strides=[1, 1, 1], padding=[1, 1, 1, 1, 1, 1])
    nn.max_pool3d(%x, pool_size=[2, 2, 2])     nn.avg_pool3d(%x, pool_size=[2, 2, 2])

`padding` is (front, top, left, back, bottom, right). A convolution is the sum, over the planes of
its kernel, of convolutions of the planes that these meet; a pool is one over planes and then one
over their depth. Averages count what nn.avg_pool2d counts, along each axis.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Final, TypeAlias, final

import numpy as np

from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Attrs, Call, Expr
from codesign.ir.relay.types import TensorType, Type
from codesign.ops.composed.lines import Pool1DAttrs, pool_windows
from codesign.ops.composed.pieces import attrs_of, composed, known_shape, pad, piece
from codesign.ops.gradients.expressions import add, op, reshape, tensor, transpose
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.nn.pool2d import Pool2DAttrs, least
from codesign.ops.numeric import ieee
from codesign.ops.relations import (
    FLOATS,
    attributes,
    elements,
    mistake,
    operator_name,
    require_dtype,
    require_positive,
    require_rank,
    require_same_dtype,
    static_tensors,
)

Triple: TypeAlias = tuple[int, int, int]
Sextuple: TypeAlias = tuple[int, int, int, int, int, int]


@final
@dataclass(frozen=True, kw_only=True)
class Conv3DAttrs(Attrs):
    """Steps of the window, padding, steps in it, channel groups."""

    strides: Triple = (1, 1, 1)
    padding: Sextuple = (0, 0, 0, 0, 0, 0)
    dilation: Triple = (1, 1, 1)
    groups: int = 1


@final
@dataclass(frozen=True, kw_only=True)
class Pool3DAttrs(Attrs):
    """The window and its steps."""

    pool_size: Triple
    strides: Triple = (1, 1, 1)
    padding: Sextuple = (0, 0, 0, 0, 0, 0)
    dilation: Triple = (1, 1, 1)
    ceil_mode: bool = False
    count_include_pad: bool = False


def _outputs(
    call: Call, size: tuple[int, ...], kernel: Triple, attrs: Conv3DAttrs | Pool3DAttrs
) -> list[int]:
    """Return how many windows there are along each axis, at least one."""
    require_positive(call, (*kernel, *attrs.strides, *attrs.dilation), "kernel, steps and dilation")
    if min(attrs.padding) < 0:
        raise mistake(call, "needs padding that is not negative", f"found {list(attrs.padding)}")
    found = []
    for axis in range(3):
        covered = (kernel[axis] - 1) * attrs.dilation[axis] + 1
        before, after = attrs.padding[axis], attrs.padding[axis + 3]
        room = size[axis] + before + after - covered
        if room < 0:
            raise mistake(
                call, "has no output along an axis", f"{size[axis]} elements, {covered} covered"
            )
        if isinstance(attrs, Pool3DAttrs) and max(before, after) >= covered:
            raise mistake(call, "needs padding of less than its window", f"{before}, {after}")
        is_up = isinstance(attrs, Pool3DAttrs) and attrs.ceil_mode
        count = (-(-room // attrs.strides[axis]) if is_up else room // attrs.strides[axis]) + 1
        if is_up and (count - 1) * attrs.strides[axis] >= size[axis] + before:
            count -= 1
        found.append(count)
    return found


# --- convolution --------------------------------------------------------------------------------


def _conv_relation(call: Call, types: tuple[Type, ...]) -> Type:
    data, weight = static_tensors(call, types, 2)
    attrs = attributes(call, Conv3DAttrs)
    for each in (data, weight):
        require_rank(call, each, 5, "data and weights")
    require_dtype(call, data, FLOATS, "data")
    require_same_dtype(call, (data, weight))
    n, channels, *size = data.static_shape
    outputs, reduced, *kernel = weight.static_shape
    require_positive(call, (attrs.groups,), "groups")
    if channels % attrs.groups or outputs % attrs.groups or reduced != channels // attrs.groups:
        found = f"{channels} channels in {attrs.groups} groups, weight {list(weight.shape)}"
        raise mistake(call, "has a weight for other channels", found)
    windows = _outputs(call, tuple(size), (kernel[0], kernel[1], kernel[2]), attrs)
    return TensorType((n, outputs, *windows), data.dtype)


@ieee
def _conv(data: Array, weight: Array, attrs: Conv3DAttrs) -> Array:
    pairs = [(attrs.padding[axis], attrs.padding[axis + 3]) for axis in range(3)]
    wide = np.pad(data.astype(np.float64), ((0, 0), (0, 0), *pairs))
    outputs, reduced, *kernel = weight.shape
    counts = [
        (wide.shape[axis + 2] - (kernel[axis] - 1) * attrs.dilation[axis] - 1)
        // attrs.strides[axis]
        + 1
        for axis in range(3)
    ]
    result = np.zeros((len(data), outputs, *counts))
    per_group = outputs // attrs.groups
    for tap in product(*map(range, kernel)):
        seen = wide[
            (
                slice(None),
                slice(None),
                *(
                    slice(
                        tap[axis] * attrs.dilation[axis],
                        tap[axis] * attrs.dilation[axis]
                        + (counts[axis] - 1) * attrs.strides[axis]
                        + 1,
                        attrs.strides[axis],
                    )
                    for axis in range(3)
                ),
            )
        ]
        for group in range(attrs.groups):
            own = weight[group * per_group : (group + 1) * per_group]
            own = own[:, :, tap[0], tap[1], tap[2]]
            inside = seen[:, group * reduced : (group + 1) * reduced]
            into = result[:, group * per_group : (group + 1) * per_group]
            into += np.einsum("nc...,oc->no...", inside, own.astype(np.float64))
    return result.astype(data.dtype)


def _expand_conv(call: Call, types: tuple[Type, ...]) -> Expr:
    data, weight = call.args
    attrs = attrs_of(call, Conv3DAttrs)
    n, channels, _, height, width = known_shape(call, types[0])
    outputs, reduced, taps, *kernel = known_shape(call, types[1])
    result = tensor(_conv_relation(call, types)).static_shape
    front, top, left, back, bottom, right = attrs.padding
    step, far = attrs.strides[0], attrs.dilation[0]
    wide = pad(data, ((0, 0), (0, 0), (front, back), (0, 0), (0, 0)))
    inside = transpose(wide, (0, 2, 1, 3, 4))
    planes = Conv2DAttrs(
        strides=attrs.strides[1:],
        padding=(top, left, bottom, right),
        dilation=attrs.dilation[1:],
        groups=attrs.groups,
    )
    whole: Expr | None = None
    for tap in range(taps):
        seen = piece(inside, 1, tap * far, tap * far + (result[2] - 1) * step + 1, step)
        flat = reshape(seen, (n * result[2], channels, height, width))
        own = reshape(piece(weight, 2, tap, tap + 1), (outputs, reduced, *kernel))
        part = op("nn.conv2d", flat, own, attrs=planes)
        whole = part if whole is None else add(whole, part)
    assert whole is not None, "a kernel has a plane at least"
    apart = reshape(whole, (n, result[2], outputs, *result[3:]))
    return transpose(apart, (0, 2, 1, 3, 4))


def _conv_work(call: Call, types: tuple[Type, ...], result: Type) -> int:
    _, reduced, *kernel = tensor(types[1]).static_shape
    return 2 * elements(result) * reduced * int(np.prod(kernel))


# --- pools --------------------------------------------------------------------------------------


def _pool_relation(call: Call, types: tuple[Type, ...]) -> Type:
    (data,) = static_tensors(call, types, 1)
    attrs = attributes(call, Pool3DAttrs)
    require_rank(call, data, 5, "data")
    require_dtype(call, data, FLOATS, "data")
    n, channels, *size = data.static_shape
    windows = _outputs(call, tuple(size), attrs.pool_size, attrs)
    return TensorType((n, channels, *windows), data.dtype)


def _along(attrs: Pool3DAttrs, axis: int) -> Pool1DAttrs:
    return Pool1DAttrs(
        pool_size=(attrs.pool_size[axis],),
        strides=(attrs.strides[axis],),
        padding=(attrs.padding[axis], attrs.padding[axis + 3]),
        dilation=(attrs.dilation[axis],),
        ceil_mode=attrs.ceil_mode,
        count_include_pad=attrs.count_include_pad,
    )


def _max_pool(data: Array, attrs: Pool3DAttrs) -> Array:
    found = [pool_windows(_along(attrs, axis), data.shape[axis + 2]) for axis in range(3)]
    result = np.empty((*data.shape[:2], *map(len, found)), data.dtype)
    for place in np.ndindex(*map(len, found)):
        seen = [found[axis][place[axis]][0] for axis in range(3)]
        window = data[:, :, seen[0]][:, :, :, seen[1]][:, :, :, :, seen[2]]
        lowest = least(DType.of(data.dtype))
        result[(slice(None), slice(None), *place)] = window.max(axis=(2, 3, 4), initial=lowest)
    return result


@ieee
def _avg_pool(data: Array, attrs: Pool3DAttrs) -> Array:
    found = [pool_windows(_along(attrs, axis), data.shape[axis + 2]) for axis in range(3)]
    result = np.empty((*data.shape[:2], *map(len, found)))
    for place in np.ndindex(*map(len, found)):
        seen = [found[axis][place[axis]][0] for axis in range(3)]
        count = int(np.prod([max(found[axis][place[axis]][1], 1) for axis in range(3)]))
        window = data[:, :, seen[0]][:, :, :, seen[1]][:, :, :, :, seen[2]]
        result[(slice(None), slice(None), *place)] = (
            window.astype(np.float64).sum(axis=(2, 3, 4)) / count
        )
    return result.astype(data.dtype)


def _expand_pool(call: Call, types: tuple[Type, ...]) -> Expr:
    attrs = attrs_of(call, Pool3DAttrs)
    n, channels, depth, height, width = known_shape(call, types[0])
    windows = tensor(_pool_relation(call, types)).static_shape[2:]
    name = "nn.max_pool2d" if operator_name(call) == "nn.max_pool3d" else "nn.avg_pool2d"
    front, top, left, back, bottom, right = attrs.padding
    planes = Pool2DAttrs(
        pool_size=attrs.pool_size[1:],
        strides=attrs.strides[1:],
        padding=(top, left, bottom, right),
        dilation=attrs.dilation[1:],
        ceil_mode=attrs.ceil_mode,
        count_include_pad=attrs.count_include_pad,
    )
    flat = op(name, reshape(call.args[0], (n, channels * depth, height, width)), attrs=planes)
    columns = Pool2DAttrs(
        pool_size=(attrs.pool_size[0], 1),
        strides=(attrs.strides[0], 1),
        padding=(front, 0, back, 0),
        dilation=(attrs.dilation[0], 1),
        ceil_mode=attrs.ceil_mode,
        count_include_pad=attrs.count_include_pad,
    )
    rows = reshape(flat, (n, channels, depth, windows[1] * windows[2]))
    return reshape(op(name, rows, attrs=columns), (n, channels, *windows))


def _pool_work(call: Call, types: tuple[Type, ...], result: Type) -> int:
    return elements(result) * int(np.prod(attrs_of(call, Pool3DAttrs).pool_size))


OPERATORS: Final = (
    composed("nn.conv3d", _conv_relation, _conv, _expand_conv, Conv3DAttrs, work=_conv_work),
    composed(
        "nn.max_pool3d", _pool_relation, _max_pool, _expand_pool, Pool3DAttrs, work=_pool_work
    ),
    composed(
        "nn.avg_pool3d", _pool_relation, _avg_pool, _expand_pool, Pool3DAttrs, work=_pool_work
    ),
)
"""Every operator of this file."""
