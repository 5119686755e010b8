"""Anchors: layers with a constant weight, whose channels can be scaled in the weight."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from codesign.dtypes import Array
from codesign.ir.relay.expr import Call, Constant, Expr, OpRef
from codesign.ir.relay.types import UNKNOWN, TensorType, Type
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.nn.conv2d_transpose import Conv2DTransposeAttrs

ANCHORS: Final = ("nn.conv2d", "nn.conv2d_transpose", "nn.dense")


def is_anchor(expr: Expr) -> bool:
    """Return whether an expression is a layer with a constant weight of floating point."""
    match expr:
        case Call(OpRef(name), (_, Constant(weight))):
            return name in ANCHORS and weight.dtype.kind == "f"
        case _:
            return False


def scaled_outputs(anchor: Call, weight: Array, scale: Array) -> Array:
    """Return the weight whose results are scaled, one number for each channel."""
    if not isinstance(anchor.attrs, Conv2DTransposeAttrs):
        return weight * scale.reshape((-1,) + (1,) * (weight.ndim - 1))
    inputs, outputs, height, width = weight.shape
    groups = anchor.attrs.groups
    parts = weight.reshape(groups, inputs // groups, outputs, height, width)
    scaled = parts * scale.reshape(groups, 1, outputs, 1, 1)
    return np.asarray(scaled.reshape(weight.shape))


def scaled_inputs(anchor: Call, weight: Array, scale: Array, shift: Array) -> tuple[Array, Array]:
    """Return the weight of data before its channels are scaled and shifted.

    And what the shift adds to each output.
    """
    match anchor.attrs:
        case Conv2DTransposeAttrs():
            return weight * scale.reshape(-1, 1, 1, 1), np.zeros(1)
        case Conv2DAttrs(groups=groups):
            outputs, inputs, height, width = weight.shape
            parts = weight.reshape(groups, outputs // groups, inputs, height, width)
            by_group = scale.reshape(groups, 1, inputs, 1, 1)
            by_tap = shift.reshape(groups, 1, inputs, 1, 1)
            moved = (parts * by_tap).sum(axis=(2, 3, 4)).reshape(outputs)
            return (parts * by_group).reshape(weight.shape), moved
        case _:
            return weight * scale, weight @ shift


def anchor_name(call: Call) -> str:
    """Return the operator of an anchor."""
    assert isinstance(call.callee, OpRef), "an anchor is an operator's call"
    return call.callee.name


def channel_axis(anchor: Call, types: Mapping[Expr, Type]) -> int:
    """Return the axis of the channels of an anchor's result."""
    return rank_of(types[anchor]) - 1 if anchor_name(anchor) == "nn.dense" else 1


def channels_of(anchor: Call, types: Mapping[Expr, Type]) -> int:
    """Return the number of channels of an anchor's result."""
    return shape_of(types[anchor])[channel_axis(anchor, types)]


def is_known(type_: Type) -> bool:
    """Return whether a type is that of a tensor of known lengths."""
    return isinstance(type_, TensorType) and UNKNOWN not in type_.shape


def rank_of(type_: Type) -> int:
    """Return the number of axes of a layer's tensor."""
    assert isinstance(type_, TensorType), "layers take and give tensors"
    return len(type_.shape)


def shape_of(type_: Type) -> tuple[int, ...]:
    """Return the shape of a layer's tensor."""
    assert isinstance(type_, TensorType), "layers take and give tensors"
    return type_.static_shape
