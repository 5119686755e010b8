"""Weights of a convolution as the array reads them: in tiles, by groups, over unrolled patches."""

from __future__ import annotations

import numpy as np

from codesign.accel.config import AccelConfig
from codesign.compiler.backends.accel.layer import Window
from codesign.dtypes import Array
from codesign.ir.executable.layout import Patches


def is_depthwise(weight: Array, groups: int, config: AccelConfig) -> bool:
    """Whether a convolution runs per channel on the vector unit."""
    alone = groups == weight.shape[0] and weight.shape[1] == 1
    return alone and groups > 1 and config.has_multiplier


def apart(weight: Array, widths: tuple[int, ...], block_in: int) -> Array:
    """Return int8[out, in] with zero columns behind each part, so that parts begin with a tile."""
    ends = np.cumsum(widths)
    parts = np.split(weight, ends[:-1], axis=1)
    padded = [np.pad(part, ((0, 0), (0, -part.shape[1] % block_in))) for part in parts]
    return np.concatenate(padded, axis=1)


def weight_tiles(weight: Array, groups: int, config: AccelConfig) -> tuple[Array, tuple[int, ...]]:
    """Return weights in tiles and the first input tile of each output tile.

    `weight` is int8[out, in / groups, kh, kw]. A tile of outputs reads the input tiles that its
    groups touch, as many as the tile that touches most; weights of other groups are zero.
    """
    out, per_group, kh, kw = weight.shape
    block_in, block_out = config.block_in, config.block_out
    inputs = -(-per_group * groups // block_in)
    outputs = -(-out // block_out)
    spans = []
    for tile in range(outputs):
        low, high = tile * block_out, min(out, (tile + 1) * block_out) - 1
        group_low, group_high = low * groups // out, high * groups // out
        spans.append(
            (group_low * per_group // block_in, -(-(group_high + 1) * per_group // block_in))
        )
    most = max(stop - start for start, stop in spans)
    first = tuple(min(start, inputs - most) for start, _ in spans)
    tiles = np.zeros((outputs, block_out, most * block_in, kh, kw), np.int8)
    for o in range(out):
        start = (o * groups // out) * per_group - first[o // block_out] * block_in
        tiles[o // block_out, o % block_out, start : start + per_group] = weight[o]
    split = tiles.reshape(outputs, block_out, most, block_in, kh, kw)
    return np.ascontiguousarray(split.transpose(0, 2, 4, 5, 1, 3)), first


def unrolled(weight: Array, window: Window, patches: Patches) -> tuple[Array, Window]:
    """Return the weight and the window of a convolution over what the host has unrolled."""
    out, inputs, kh, kw = weight.shape
    fold_h, fold_w = patches.kernel
    parts = weight.reshape(out, inputs, kh // fold_h, fold_h, kw // fold_w, fold_w)
    order = parts.transpose(0, 3, 5, 1, 2, 4)
    folded = order.reshape(out, fold_h * fold_w * inputs, kh // fold_h, kw // fold_w)
    top, left, bottom, right = window.padding
    rows, columns = fold_h == kh, fold_w == kw
    return folded, Window(
        kernel=(folded.shape[2], folded.shape[3]),
        strides=(1 if rows else window.strides[0], 1 if columns else window.strides[1]),
        dilation=window.dilation,
        padding=(
            0 if rows else top,
            0 if columns else left,
            0 if rows else bottom,
            0 if columns else right,
        ),
    )
