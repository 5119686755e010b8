"""Importers of onnxruntime's elementwise and pooling operators on codes (domain com.microsoft).

All but averages are the operator on dequantized numbers, quantized again, each step in float32.
Averages are exact sums, scaled once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from codesign.compiler.frontend.onnx import activations, slicing
from codesign.compiler.frontend.onnx.builder import Builder
from codesign.compiler.frontend.onnx.node import Node
from codesign.compiler.frontend.onnx.quantized.qlinear import result_of, scalar_of
from codesign.compiler.frontend.onnx.quantized.requantize import Result, Sums, requantized
from codesign.compiler.frontend.onnx.quantized.signed import offset_of, signed
from codesign.compiler.frontend.onnx.quantized.sums import reach_of
from codesign.compiler.frontend.onnx.windows import (
    as_image,
    as_signal,
    pair,
    spatial_rank,
    window_pads,
)
from codesign.dtypes import DType
from codesign.ir.relay.expr import Expr
from codesign.ops.qnn.quantize import QuantizeAttrs
from codesign.ops.qnn.sum_pool2d import QSumPool2DAttrs

Importer = Callable[[Node, Builder], Expr]


def binary(name: str) -> Importer:
    """Return the importer of an operator of two quantized tensors."""

    def convert(node: Node, builder: Builder) -> Expr:
        lhs, rhs = _numbers(node, builder, 0), _numbers(node, builder, 3)
        return _quantized(builder, builder.call(name, lhs, rhs), result_of(node, 6, 7))

    return convert


def sigmoid(node: Node, builder: Builder) -> Expr:
    """Import QLinearSigmoid."""
    made = builder.call("sigmoid", _numbers(node, builder, 0))
    return _quantized(builder, made, result_of(node, 3, 4))


def leaky_relu(node: Node, builder: Builder) -> Expr:
    """Import QLinearLeakyRelu."""
    plain = replace(node, inputs=(_numbers(node, builder, 0),))
    return _quantized(builder, activations.leaky_relu(plain, builder), result_of(node, 3, 4))


def concat(node: Node, builder: Builder) -> Expr:
    """Import QLinearConcat: y's scale and zero, then (tensor, scale, zero) of each part."""
    result = result_of(node, 0, 1)
    parts = [
        _quantized(builder, _numbers(node, builder, place), result)
        for place in range(2, len(node.inputs), 3)
    ]
    return slicing.concat(replace(node, inputs=tuple(parts)), builder)


def average_pool(node: Node, builder: Builder) -> Expr:
    """Import QLinearAveragePool where every window has the same count to divide by."""
    rank = spatial_rank(node, builder)
    kernel, strides = pair(node, "kernel_shape", rank), pair(node, "strides", rank)
    image = as_image(builder, node.input(0))
    _, _, height, width = builder.shape_of(image)
    pads = window_pads(node, rank, (height, width), kernel, strides, (1, 1))
    if node.integer("ceil_mode", 0) or (any(pads) and not node.integer("count_include_pad", 0)):
        raise node.unsupported("its windows have different counts of elements")
    window = QSumPool2DAttrs(pool_size=kernel, strides=strides, padding=pads)
    return as_signal(builder, _average(node, builder, image, window), rank)


def global_average_pool(node: Node, builder: Builder) -> Expr:
    """Import QLinearGlobalAveragePool."""
    rank = spatial_rank(node, builder)
    image = as_image(builder, node.input(0))
    _, _, height, width = builder.shape_of(image)
    window = QSumPool2DAttrs(pool_size=(height, width))
    return as_signal(builder, _average(node, builder, image, window), rank)


def _average(node: Node, builder: Builder, image: Expr, window: QSumPool2DAttrs) -> Expr:
    if node.integer("channels_last", 0):
        raise node.unsupported("attribute channels_last = 1")
    offset = offset_of(builder.dtype_of(image))
    zero_point = int(scalar_of(node, 2, "zero point of the data")) - offset
    attrs = replace(window, zero_point=zero_point)
    acc = builder.call("qnn.sum_pool2d", signed(builder, image), attrs=attrs)
    count = np.float32(np.prod(window.pool_size))
    scale = (scalar_of(node, 1, "scale of the data").astype(np.float32) / count).reshape(1)
    ones = np.ones((1, int(count)), np.int8)
    reach = reach_of(ones, builder.dtype_of(image), zero_point + offset)
    made = Sums(acc, None, scale, 1, reach)
    return requantized(builder, made, result_of(node, 3, 4))


def _numbers(node: Node, builder: Builder, place: int) -> Expr:
    """Return a quantized tensor as numbers: its codes, scale and zero point are inputs in a row."""
    codes = node.input(place)
    zero = scalar_of(node, place + 2, "zero point") if node.optional(place + 2) else np.array(0)
    attrs = QuantizeAttrs(
        scale=float(scalar_of(node, place + 1, "scale")),
        zero_point=int(zero),
        dtype=builder.dtype_of(codes),
    )
    return builder.call("qnn.dequantize", codes, attrs=attrs)


def _quantized(builder: Builder, numbers: Expr, result: Result) -> Expr:
    if builder.dtype_of(numbers) is not DType.FLOAT32:
        raise AssertionError("dequantized numbers are float32")
    attrs = QuantizeAttrs(
        scale=float(result.scale), zero_point=result.zero_point, dtype=result.dtype
    )
    return builder.call("qnn.quantize", numbers, attrs=attrs)
