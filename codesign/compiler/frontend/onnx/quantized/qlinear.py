"""Importers of quantized convolutions and products: QLinear…, QGemm, and those that give sums."""

from __future__ import annotations

import numpy as np

from codesign.compiler.frontend.onnx.builder import Builder
from codesign.compiler.frontend.onnx.convolution import convolution_attrs
from codesign.compiler.frontend.onnx.node import Node
from codesign.compiler.frontend.onnx.quantized.factors import Reach
from codesign.compiler.frontend.onnx.quantized.requantize import (
    Result,
    Sums,
    dequantized,
    requantized,
)
from codesign.compiler.frontend.onnx.quantized.sums import (
    Operand,
    centred_weight,
    convolution,
    matrix_product,
    product,
    reach_of,
    swapped,
)
from codesign.compiler.frontend.onnx.windows import as_image, as_signal, spatial_rank
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Constant, Expr


def scalar_of(node: Node, index: int, meaning: str) -> Array:
    """Return a known input of one element."""
    value = node.known(index, meaning)
    if value is None:
        raise node.malformed(f"input {index}, the {meaning}, is missing")
    if value.size != 1:
        raise node.unsupported(f"its {meaning} (input {index}) is not one number")
    return value.reshape(())


def scale_of(node: Node, index: int, meaning: str) -> Array:
    """Return a known scale, or one for each channel, as float32 [1] or [c]."""
    value = node.known(index, meaning)
    if value is None:
        raise node.malformed(f"input {index}, the {meaning}, is missing")
    return value.reshape(-1).astype(np.float32)


def result_of(node: Node, scale: int, zero_point: int) -> Result:
    """Return the codes that a node gives, by the places of its inputs."""
    zero = scalar_of(node, zero_point, "zero point of the result")
    return Result(
        scale=np.float32(scalar_of(node, scale, "scale of the result")),
        zero_point=int(zero),
        dtype=DType.of(zero.dtype),
    )


def operand_of(node: Node, codes: int, zero_point: int) -> Operand:
    """Return data with their one zero point, by the places of inputs."""
    zero = node.optional(zero_point)
    if isinstance(zero, Constant) and zero.value.size != 1:
        raise node.unsupported(f"its zero point (input {zero_point}) is not one number")
    return Operand(node.input(codes), zero)


def weight_of(node: Node, builder: Builder, weight: Expr, zero_point: int, axis: int) -> Array:
    """Return a known weight less its zero point; `axis` holds its output channels."""
    if not isinstance(weight, Constant):
        raise node.unsupported("its weight is computed at run time")
    zero = node.known(zero_point, "zero point of the weight")
    return centred_weight(weight.value, np.zeros(1) if zero is None else zero, axis)


def qlinear_conv(node: Node, builder: Builder) -> Expr:
    """Import QLinearConv: (x, scale, zero) (w, scale, zero) (y's scale, zero) bias."""
    if node.integer("channels_last", 0):
        raise node.unsupported("attribute channels_last = 1")
    scale = scalar_of(node, 1, "scale of the data") * scale_of(node, 4, "scale of the weight")
    bias = node.known(8, "bias")
    acc, weight = _convolution(node, builder, 3, 2, 5)
    reach = _reach(builder, operand_of(node, 0, 2), weight)
    made = Sums(acc, bias, scale, 1, reach)
    rank = spatial_rank(node, builder)
    return as_signal(builder, requantized(builder, made, result_of(node, 6, 7)), rank)


def conv_integer(node: Node, builder: Builder) -> Expr:
    """Import ConvInteger: x, w, zero of x, zero of w."""
    acc, _ = _convolution(node, builder, 1, 2, 3)
    return as_signal(builder, acc, spatial_rank(node, builder))


def _convolution(
    node: Node, builder: Builder, weight: int, data_zero: int, weight_zero: int
) -> tuple[Expr, Array]:
    data = operand_of(node, 0, data_zero)
    image = as_image(builder, data.codes)
    kernel = as_image(builder, node.input(weight))
    centred = weight_of(node, builder, kernel, weight_zero, 0)
    attrs = convolution_attrs(node, builder, image, kernel)
    return convolution(builder, Operand(image, data.zero_point), centred, attrs), centred


def qlinear_matmul(node: Node, builder: Builder) -> Expr:
    """Import QLinearMatMul: (a, scale, zero) (b, scale, zero) (y's scale, zero)."""
    scale = scalar_of(node, 1, "scale of the left") * scale_of(node, 4, "scale of the right")
    acc, reach = _matmul(node, builder, 3, 2, 5)
    axis = len(builder.shape_of(acc)) - 1
    made = Sums(acc, None, scale, axis, reach)
    return requantized(builder, made, result_of(node, 6, 7))


def matmul_integer(node: Node, builder: Builder) -> Expr:
    """Import MatMulInteger: a, b, zero of a, zero of b."""
    return _matmul(node, builder, 1, 2, 3)[0]


def matmul_integer_to_float(node: Node, builder: Builder) -> Expr:
    """Import MatMulIntegerToFloat: a, b, scale of a, of b, zero of a, of b, bias in float32."""
    acc, reach = _matmul(node, builder, 1, 4, 5)
    scale = scalar_of(node, 2, "scale of the left") * scale_of(node, 3, "scale of the right")
    axis = len(builder.shape_of(acc)) - 1
    made = dequantized(builder, Sums(acc, None, scale, axis, reach))
    bias = node.optional(6)
    return made if bias is None else builder.call("add", made, bias)


def _matmul(
    node: Node, builder: Builder, right: int, left_zero: int, right_zero: int
) -> tuple[Expr, Reach | None]:
    """Return the sums of a product, and what they can be where the weight is known."""
    lhs, other = operand_of(node, 0, left_zero), node.input(right)
    ranks = [len(builder.shape_of(each)) for each in (lhs.codes, other)]
    if min(ranks) < 2:
        raise node.unsupported("an operand is a vector")
    if isinstance(other, Constant) and ranks[1] == 2:
        weight = weight_of(node, builder, swapped(builder, other), right_zero, 0)
        return product(builder, lhs, weight), _reach(builder, lhs, weight)
    rhs = operand_of(node, right, right_zero)
    return matrix_product(builder, lhs, rhs), None


def _reach(builder: Builder, data: Operand, weight: Array) -> Reach:
    return reach_of(weight, builder.dtype_of(data.codes), data.known_zero_point)


def qgemm(node: Node, builder: Builder) -> Expr:
    """Import QGemm: (a, scale, zero) (b, scale, zero) bias, and y's scale and zero or neither."""
    if node.integer("transA", 0):
        raise node.unsupported("attribute transA = 1")
    other = node.input(3)
    if not node.integer("transB", 0):
        other = swapped(builder, other)
    weight = weight_of(node, builder, other, 5, 0)
    data = operand_of(node, 0, 2)
    acc = product(builder, data, weight)
    left = np.float32(node.number("alpha", 1.0)) * scalar_of(node, 1, "scale of the left")
    scale = (left * scale_of(node, 4, "scale of the right")).astype(np.float32)
    bias = node.known(6, "bias")
    flat = None if bias is None else bias.reshape(-1)
    made = Sums(acc, flat, scale, 1, _reach(builder, data, weight))
    if node.optional(7) is None:
        return dequantized(builder, made)
    return requantized(builder, made, result_of(node, 7, 8))
