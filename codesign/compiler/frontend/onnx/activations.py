"""Importers of elementwise activations."""

from __future__ import annotations

import numpy as np

from codesign.compiler.frontend.onnx.builder import Builder
from codesign.compiler.frontend.onnx.node import Node
from codesign.ir.relay.expr import Expr
from codesign.ops.clip import ClipAttrs
from codesign.ops.nn.activations import HardSigmoidAttrs, LeakyReluAttrs


def clip(node: Node, builder: Builder) -> Expr:
    """Import Clip: bounds are attributes before opset 11, optional inputs from then on."""
    x = node.input(0)
    if node.opset < 11:
        low, high = node.number("min", -np.inf), node.number("max", np.inf)
    else:
        lows, highs = node.known(1, "minimum"), node.known(2, "maximum")
        low = -np.inf if lows is None else float(lows.reshape(()))
        high = np.inf if highs is None else float(highs.reshape(()))
    if low == -np.inf and high == np.inf:
        return x
    if low == 0 and high == np.inf:
        return builder.call("nn.relu", x)
    # Where minimum > maximum, ONNX gives the maximum everywhere.
    return builder.call("clip", x, attrs=ClipAttrs(minimum=min(low, high), maximum=high))


def hard_sigmoid(node: Node, builder: Builder) -> Expr:
    """Import HardSigmoid: clip(alpha x + beta, 0, 1)."""
    attrs = HardSigmoidAttrs(alpha=node.number("alpha", 0.2), beta=node.number("beta", 0.5))
    return builder.call("nn.hard_sigmoid", node.input(0), attrs=attrs)


def leaky_relu(node: Node, builder: Builder) -> Expr:
    """Import LeakyRelu."""
    attrs = LeakyReluAttrs(alpha=node.number("alpha", 0.01))
    return builder.call("nn.leaky_relu", node.input(0), attrs=attrs)


def prelu(node: Node, builder: Builder) -> Expr:
    """Import PRelu: x where x is not negative, slope times x elsewhere; the slope broadcasts."""
    x, slope = node.input(0), node.input(1)
    zero = builder.scalar(0.0, x)
    negative = builder.call("multiply", builder.call("minimum", x, zero), slope)
    return builder.call("add", builder.call("nn.relu", x), negative)


def gelu(node: Node, builder: Builder) -> Expr:
    """Import Gelu in its exact form; the tanh form is written out."""
    x = node.input(0)
    if node.text("approximate", "none") == "none":
        return builder.call("nn.gelu", x)

    def times(value: Expr, factor: float) -> Expr:
        return builder.call("multiply", value, builder.scalar(factor, x))

    cube = builder.call("multiply", builder.call("multiply", x, x), x)
    inner = times(builder.call("add", x, times(cube, 0.044715)), float(np.sqrt(2 / np.pi)))
    gate = builder.call("add", builder.call("tanh", inner), builder.scalar(1.0, x))
    return times(builder.call("multiply", x, gate), 0.5)


def elu(node: Node, builder: Builder) -> Expr:
    """Import Elu: x where x is positive, alpha (exp(x) - 1) elsewhere."""
    x = node.input(0)
    falling = builder.call("exp", builder.call("minimum", x, builder.scalar(0.0, x)))
    below = builder.call("subtract", falling, builder.scalar(1.0, x))
    scaled = builder.call("multiply", below, builder.scalar(node.number("alpha", 1.0), x))
    return builder.call("add", builder.call("nn.relu", x), scaled)


def softplus(node: Node, builder: Builder) -> Expr:
    """Import Softplus as max(x, 0) + log(1 + exp(-|x|)), which does not overflow."""
    x = node.input(0)
    falling = builder.call("exp", builder.call("negative", builder.call("abs", x)))
    log = builder.call("log", builder.call("add", falling, builder.scalar(1.0, x)))
    return builder.call("add", builder.call("nn.relu", x), log)
