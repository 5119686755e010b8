"""Importers of normalizations and softmaxes."""

from __future__ import annotations

import math

from codesign.compiler.frontend.onnx.builder import Builder
from codesign.compiler.frontend.onnx.node import Node
from codesign.ir.relay.expr import Expr
from codesign.ops.axis import AxisAttrs
from codesign.ops.nn.batch_norm import BatchNormAttrs
from codesign.ops.reduce import ReduceAttrs
from codesign.ops.reshape import ReshapeAttrs


def batch_normalization(node: Node, builder: Builder) -> Expr:
    """Import the normalization by stored statistics; training is refused by name."""
    if node.integer("training_mode", 0):
        raise node.unsupported("attribute training_mode = 1 (statistics of the batch)")
    if node.integer("spatial", 1) != 1:
        raise node.unsupported("attribute spatial = 0 (statistics per element)")
    if len([name for name in node.outputs if name]) > 1:
        raise node.unsupported("outputs beyond the first belong to training")
    attrs = BatchNormAttrs(epsilon=node.number("epsilon", 1e-5))
    return builder.call("nn.batch_norm", *(node.input(i) for i in range(5)), attrs=attrs)


def layer_normalization(node: Node, builder: Builder) -> Expr:
    """Import the normalization over the last axes, written out: (x - mean) / sqrt(var + e)."""
    if len([name for name in node.outputs if name]) > 1:
        raise node.unsupported("its mean or its inverse deviation is asked for")
    x = node.input(0)
    rank = len(builder.shape_of(x))
    axes = tuple(range(node.axis(node.integer("axis", -1), rank), rank))
    normalized = _standardize(builder, x, axes, node.number("epsilon", 1e-5))
    scaled = builder.call("multiply", normalized, node.input(1))
    bias = node.optional(2)
    return scaled if bias is None else builder.call("add", scaled, bias)


def instance_normalization(node: Node, builder: Builder) -> Expr:
    """Import the normalization of every channel of every sample over its own elements."""
    x = node.input(0)
    shape = builder.shape_of(x)
    axes = tuple(range(2, len(shape)))
    normalized = _standardize(builder, x, axes, node.number("epsilon", 1e-5))
    per_channel = ReshapeAttrs(shape=(shape[1],) + (1,) * len(axes))
    scale, bias = (builder.call("reshape", node.input(i), attrs=per_channel) for i in (1, 2))
    return builder.call("add", builder.call("multiply", normalized, scale), bias)


def _standardize(builder: Builder, x: Expr, axes: tuple[int, ...], epsilon: float) -> Expr:
    over = ReduceAttrs(axis=axes, keepdims=True)
    centred = builder.call("subtract", x, builder.call("mean", x, attrs=over))
    square = builder.call("multiply", centred, centred)
    variance = builder.call("mean", square, attrs=over)
    shifted = builder.call("add", variance, builder.scalar(epsilon, x))
    return builder.call("divide", centred, builder.call("sqrt", shifted))


def softmax(node: Node, builder: Builder) -> Expr:
    """Import Softmax."""
    return _softmax(node, builder, "nn.softmax")


def log_softmax(node: Node, builder: Builder) -> Expr:
    """Import LogSoftmax."""
    return _softmax(node, builder, "nn.log_softmax")


def _softmax(node: Node, builder: Builder, name: str) -> Expr:
    x = node.input(0)
    shape = builder.shape_of(x)
    axis = node.axis(node.integer("axis", -1 if node.opset >= 13 else 1), len(shape))
    if node.opset >= 13 or axis == len(shape) - 1:
        return builder.call(name, x, attrs=AxisAttrs(axis=axis))
    # Before opset 13 all axes from `axis` on are one.
    flat = ReshapeAttrs(shape=(math.prod(shape[:axis]), math.prod(shape[axis:])))
    result = builder.call(name, builder.call("reshape", x, attrs=flat), attrs=AxisAttrs(axis=-1))
    return builder.call("reshape", result, attrs=ReshapeAttrs(shape=shape))
