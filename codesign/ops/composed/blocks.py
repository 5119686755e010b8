"""Blocks of space that become channels or samples, and back; and a batch of flat rows.

    nn.batch_flatten(%x)                            (n, c, h, w) to (n, c * h * w)
    nn.space_to_depth(%x, block_size=2)             (n, c, h, w) to (n, 4 * c, h / 2, w / 2)
    nn.depth_to_space(%x, block_size=2)             and back
    nn.space_to_batch_nd(%x, block_shape=[2, 2], paddings=[[0, 0], [1, 1]])
    nn.batch_to_space_nd(%x, block_shape=[2, 2], crops=[[0, 0], [1, 1]])

New channels count the place in the block first, then the old channel (`DCR`); `mode="CDR"` of
nn.depth_to_space reads them the other way round. Samples of nn.space_to_batch_nd count the place in
the block first too. `layout` is NCHW or NHWC.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Final, Literal, final

import numpy as np

from codesign.dtypes import Array
from codesign.ir.relay.expr import Attrs, Call, Expr
from codesign.ir.relay.types import TensorType, Type
from codesign.ops.composed.pieces import (
    attrs_of,
    composed,
    length_of,
    lengths,
    over,
    pad,
    reshaped,
    times,
)
from codesign.ops.gradients.expressions import op, tensor, transpose
from codesign.ops.nn.window import Pair
from codesign.ops.relations import (
    attributes,
    mistake,
    require_positive,
    require_rank,
    static_tensors,
)


@final
@dataclass(frozen=True, kw_only=True)
class SpaceToDepthAttrs(Attrs):
    """How many rows and columns a block has, and how data lies."""

    block_size: int
    layout: Literal["NCHW", "NHWC"] = "NCHW"


@final
@dataclass(frozen=True, kw_only=True)
class DepthToSpaceAttrs(Attrs):
    """As of nn.space_to_depth, and what channels count first."""

    block_size: int
    layout: Literal["NCHW", "NHWC"] = "NCHW"
    mode: Literal["DCR", "CDR"] = "DCR"


@final
@dataclass(frozen=True, kw_only=True)
class SpaceToBatchAttrs(Attrs):
    """The lengths of a block along the axes behind the first, and what is added around them."""

    block_shape: tuple[int, ...]
    paddings: tuple[Pair, ...]
    value: float = field(default=0.0, metadata={"text": "pad_value"})


@final
@dataclass(frozen=True, kw_only=True)
class BatchToSpaceAttrs(Attrs):
    """The lengths of a block along the axes behind the first, and what is cut off at the end."""

    block_shape: tuple[int, ...]
    crops: tuple[Pair, ...]


def _to_nhwc(value: Expr, layout: str) -> Expr:
    return transpose(value, (0, 2, 3, 1)) if layout == "NCHW" else value


def _from_nhwc(value: Expr, layout: str) -> Expr:
    return transpose(value, (0, 3, 1, 2)) if layout == "NCHW" else value


def _stored(layout: str, n: int, c: int, h: int, w: int) -> tuple[int, ...]:
    return (n, c, h, w) if layout == "NCHW" else (n, h, w, c)


def _image(call: Call, types: tuple[Type, ...], layout: str, block: int) -> tuple[int, ...]:
    """Return samples, channels, height and width of the argument."""
    (data,) = static_tensors(call, types, 1)
    require_rank(call, data, 4, "data")
    require_positive(call, (block,), "block size")
    if layout == "NCHW":
        return data.static_shape
    n, h, w, c = data.static_shape
    return n, c, h, w


def _space_to_depth_relation(call: Call, types: tuple[Type, ...]) -> Type:
    attrs = attributes(call, SpaceToDepthAttrs)
    block = attrs.block_size
    n, c, h, w = _image(call, types, attrs.layout, block)
    if h % block or w % block:
        raise mistake(call, "has blocks that do not divide its plane", f"{h} x {w} by {block}")
    shape = _stored(attrs.layout, n, c * block * block, h // block, w // block)
    return TensorType(shape, tensor(types[0]).dtype)


def _depth_to_space_relation(call: Call, types: tuple[Type, ...]) -> Type:
    attrs = attributes(call, DepthToSpaceAttrs)
    block = attrs.block_size
    n, c, h, w = _image(call, types, attrs.layout, block)
    if c % (block * block):
        raise mistake(call, "has blocks that do not divide its channels", f"{c} by {block**2}")
    shape = _stored(attrs.layout, n, c // (block * block), h * block, w * block)
    return TensorType(shape, tensor(types[0]).dtype)


def _space_to_depth(data: Array, attrs: SpaceToDepthAttrs) -> Array:
    block = attrs.block_size
    image = data if attrs.layout == "NCHW" else np.moveaxis(data, 3, 1)
    parts = [image[:, :, i::block, j::block] for i in range(block) for j in range(block)]
    result = np.concatenate(parts, axis=1)
    return np.ascontiguousarray(result if attrs.layout == "NCHW" else np.moveaxis(result, 1, 3))


def _depth_to_space(data: Array, attrs: DepthToSpaceAttrs) -> Array:
    block = attrs.block_size
    image = data if attrs.layout == "NCHW" else np.moveaxis(data, 3, 1)
    n, c, h, w = image.shape
    depth = c // (block * block)
    result = np.empty((n, depth, h * block, w * block), data.dtype)
    for i in range(block):
        for j in range(block):
            place = i * block + j
            first, stride = (place * depth, 1) if attrs.mode == "DCR" else (place, block * block)
            result[:, :, i::block, j::block] = image[:, first::stride][:, :depth]
    return np.ascontiguousarray(result if attrs.layout == "NCHW" else np.moveaxis(result, 1, 3))


def _expand_space_to_depth(call: Call, types: tuple[Type, ...]) -> Expr:
    attrs = attrs_of(call, SpaceToDepthAttrs)
    block, layout = attrs.block_size, attrs.layout
    (data,) = call.args
    sizes = lengths(data, types[0])
    n, h, w, c = sizes if layout == "NHWC" else (sizes[0], sizes[2], sizes[3], sizes[1])
    image = _to_nhwc(data, layout)
    apart = reshaped(image, (n, over(h, block), block, over(w, block), block, c))
    inside = transpose(apart, (0, 1, 3, 2, 4, 5))
    joined = reshaped(inside, (n, over(h, block), over(w, block), times(c, block * block)))
    return _from_nhwc(joined, layout)


def _expand_depth_to_space(call: Call, types: tuple[Type, ...]) -> Expr:
    attrs = attrs_of(call, DepthToSpaceAttrs)
    block, layout = attrs.block_size, attrs.layout
    (data,) = call.args
    sizes = lengths(data, types[0])
    n, h, w, c = sizes if layout == "NHWC" else (sizes[0], sizes[2], sizes[3], sizes[1])
    image = _to_nhwc(data, layout)
    depth = over(c, block * block)
    if attrs.mode == "DCR":
        apart = reshaped(image, (n, h, w, block, block, depth))
        inside = transpose(apart, (0, 1, 3, 2, 4, 5))
    else:
        apart = reshaped(image, (n, h, w, depth, block, block))
        inside = transpose(apart, (0, 1, 4, 2, 5, 3))
    joined = reshaped(inside, (n, times(h, block), times(w, block), depth))
    return _from_nhwc(joined, layout)


def _blocks(
    call: Call, types: tuple[Type, ...], block: tuple[int, ...], pairs: tuple[Pair, ...]
) -> TensorType:
    (data,) = static_tensors(call, types, 1)
    if not len(block) == len(pairs) <= len(data.shape) - 1:
        found = f"{len(block)} lengths, {len(pairs)} pairs, rank {len(data.shape)}"
        raise mistake(call, "needs a length and a pair for axes behind the first", found)
    require_positive(call, block, "block lengths")
    if any(each < 0 for pair in pairs for each in pair):
        raise mistake(call, "needs widths that are not negative", f"found {list(pairs)}")
    return data


def _to_batch_relation(call: Call, types: tuple[Type, ...]) -> Type:
    attrs = attributes(call, SpaceToBatchAttrs)
    data = _blocks(call, types, attrs.block_shape, attrs.paddings)
    n, *space = data.static_shape
    for axis, (block, pair) in enumerate(zip(attrs.block_shape, attrs.paddings, strict=True)):
        wide = space[axis] + sum(pair)
        if wide % block:
            raise mistake(call, "has blocks that do not divide an axis", f"{wide} by {block}")
        space[axis] = wide // block
    return TensorType((n * prod(attrs.block_shape), *space), data.dtype)


def _to_space_relation(call: Call, types: tuple[Type, ...]) -> Type:
    attrs = attributes(call, BatchToSpaceAttrs)
    data = _blocks(call, types, attrs.block_shape, attrs.crops)
    n, *space = data.static_shape
    if n % prod(attrs.block_shape):
        raise mistake(call, "has blocks that do not divide its samples", f"{n} samples")
    for axis, (block, pair) in enumerate(zip(attrs.block_shape, attrs.crops, strict=True)):
        space[axis] = space[axis] * block - sum(pair)
        if space[axis] < 0:
            raise mistake(call, "cuts off more elements than there are", f"crops {list(pair)}")
    return TensorType((n // prod(attrs.block_shape), *space), data.dtype)


def _to_batch(data: Array, attrs: SpaceToBatchAttrs) -> Array:
    widths = ((0, 0), *attrs.paddings, *((0, 0),) * (data.ndim - 1 - len(attrs.paddings)))
    wide = np.pad(data, widths, constant_values=np.asarray(attrs.value).astype(data.dtype))
    parts = [
        wide[
            (slice(None), *(slice(i, None, b) for i, b in zip(at, attrs.block_shape, strict=True)))
        ]
        for at in np.ndindex(*attrs.block_shape)
    ]
    return np.concatenate(parts, axis=0)


def _to_space(data: Array, attrs: BatchToSpaceAttrs) -> Array:
    block = attrs.block_shape
    n, *space = data.shape
    count = n // prod(block)
    rest = space[len(block) :]
    wide = np.empty(
        (count, *(s * b for s, b in zip(space, block, strict=False)), *rest), data.dtype
    )
    for number, at in enumerate(np.ndindex(*block)):
        inside = tuple(slice(i, None, b) for i, b in zip(at, block, strict=True))
        wide[(slice(None), *inside)] = data[number * count : (number + 1) * count]
    kept = tuple(
        slice(before, wide.shape[axis + 1] - after)
        for axis, (before, after) in enumerate(attrs.crops)
    )
    return np.ascontiguousarray(wide[(slice(None), *kept)])


def _expand_to_batch(call: Call, types: tuple[Type, ...]) -> Expr:
    attrs = attrs_of(call, SpaceToBatchAttrs)
    block, count = attrs.block_shape, len(attrs.block_shape)
    rank = len(tensor(types[0]).shape)
    rest = rank - 1 - count
    wide = pad(call.args[0], ((0, 0), *attrs.paddings, *((0, 0),) * rest), attrs.value)
    n, *space = lengths(call.args[0], types[0])
    parted: list[int | Expr] = []
    for axis, (each, pair) in enumerate(zip(block, attrs.paddings, strict=True)):
        length = space[axis]
        whole = length + sum(pair) if isinstance(length, int) else length_of(wide, axis + 1)
        parted.append(over(whole, each))
    apart: list[int | Expr] = [n]
    for outer, each in zip(parted, block, strict=True):
        apart += [outer, each]
    order = (*range(2, 2 * count + 1, 2), 0, *range(1, 2 * count, 2))
    behind = range(2 * count + 1, 2 * count + 1 + rest)
    turned = transpose(reshaped(wide, [*apart, *space[count:]]), (*order, *behind))
    return reshaped(turned, [times(n, prod(block)), *parted, *space[count:]])


def _expand_to_space(call: Call, types: tuple[Type, ...]) -> Expr:
    attrs = attrs_of(call, BatchToSpaceAttrs)
    block, count = attrs.block_shape, len(attrs.block_shape)
    rest = len(tensor(types[0]).shape) - 1 - count
    n, *space = lengths(call.args[0], types[0])
    samples = over(n, prod(block))
    apart = reshaped(call.args[0], [*block, samples, *space])
    order = [count]
    for axis in range(count):
        order += [count + 1 + axis, axis]
    behind = range(2 * count + 1, 2 * count + 1 + rest)
    turned = transpose(apart, (*order, *behind))
    long = [times(each, b) for each, b in zip(space[:count], block, strict=True)]
    wide = reshaped(turned, [samples, *long, *space[count:]])
    cuts = [(-before, -after) for before, after in attrs.crops]
    return pad(wide, ((0, 0), *cuts, *((0, 0),) * rest))


def _flatten_relation(call: Call, types: tuple[Type, ...]) -> Type:
    (data,) = static_tensors(call, types, 1)
    if not data.shape:
        raise mistake(call, "takes a batch", "found a scalar")
    return TensorType((data.static_shape[0], prod(data.static_shape[1:])), data.dtype)


def _flatten(data: Array) -> Array:
    return data.reshape(data.shape[0], prod(data.shape[1:]))


def _expand_flatten(call: Call, types: tuple[Type, ...]) -> Expr:
    (data,) = call.args
    first, *rest = lengths(data, types[0])
    row: int | Expr = prod(each for each in rest if isinstance(each, int))
    for each in rest:
        if not isinstance(each, int):
            row = times(each, row) if isinstance(row, int) else op("multiply", row, each)
    return reshaped(data, (first, row))


OPERATORS: Final = (
    composed("nn.batch_flatten", _flatten_relation, _flatten, _expand_flatten),
    composed(
        "nn.space_to_depth",
        _space_to_depth_relation,
        _space_to_depth,
        _expand_space_to_depth,
        SpaceToDepthAttrs,
    ),
    composed(
        "nn.depth_to_space",
        _depth_to_space_relation,
        _depth_to_space,
        _expand_depth_to_space,
        DepthToSpaceAttrs,
    ),
    composed(
        "nn.space_to_batch_nd", _to_batch_relation, _to_batch, _expand_to_batch, SpaceToBatchAttrs
    ),
    composed(
        "nn.batch_to_space_nd", _to_space_relation, _to_space, _expand_to_space, BatchToSpaceAttrs
    ),
)
"""Every operator of this file."""
