"""Islands of floating point between DequantizeLinear and QuantizeLinear, as integers.

A convolution or a product whose data and weight are dequantized, and whose bias has the scale of
their products, is what QLinearConv and QGemm say when its result is quantized. A clip or ReLU
before that is a limit of the codes. What only moves or picks elements, and is quantized as it was,
moves codes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np

from codesign.compiler.frontend.onnx.builder import Builder
from codesign.compiler.frontend.onnx.codes import Codes
from codesign.compiler.frontend.onnx.quantized.requantize import Result, Sums, requantized
from codesign.compiler.frontend.onnx.quantized.signed import MOVES
from codesign.compiler.frontend.onnx.quantized.sums import (
    Operand,
    centred_weight,
    convolution,
    product,
    reach_of,
)
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Call, Constant, Expr, OpRef
from codesign.ops.clip import ClipAttrs
from codesign.ops.nn.conv2d import Conv2DAttrs


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Layer:
    """A convolution or product of dequantized codes."""

    call: Call
    data: Codes
    weight: Array
    scale: Array
    bias: Array | None = None


def integer_island(builder: Builder, value: Expr, result: Result) -> Expr | None:
    """Return the codes of a value that floating point stands for; None where it is no island."""
    moved = _moved(builder, value, result)
    if moved is not None:
        return moved
    inner, limited = _limited(value, result)
    layer = _layer(builder, inner)
    if layer is None:
        return None
    data = Operand(layer.data.codes, builder.constant(layer.data.zero_point))
    if isinstance(layer.call.attrs, Conv2DAttrs):
        acc = convolution(builder, data, layer.weight, layer.call.attrs)
    else:
        acc = product(builder, data, layer.weight)
    axis = 1 if isinstance(layer.call.attrs, Conv2DAttrs) else len(builder.shape_of(acc)) - 1
    kind = builder.dtype_of(layer.data.codes)
    reach = reach_of(layer.weight, kind, data.known_zero_point)
    return requantized(builder, Sums(acc, layer.bias, layer.scale, axis, reach), limited)


def _moved(builder: Builder, value: Expr, result: Result) -> Expr | None:
    """Return the codes of what stands in other places before, if they mean the same there."""
    source = builder.codes.get(value)
    if source is not None:
        is_same = (
            source.is_uniform
            and source.scale.reshape(()) == result.scale
            and int(source.zero_point.reshape(())) == result.zero_point
            and builder.dtype_of(source.codes) is result.dtype
        )
        return source.codes if is_same else None
    match value:
        case Call(callee=OpRef(name=name), args=(data,), attrs=attrs) if name in MOVES:
            codes = _moved(builder, data, result)
            return None if codes is None else builder.call(name, codes, attrs=attrs)
        case _:
            return None


def _limited(value: Expr, result: Result) -> tuple[Expr, Result]:
    """Return what stands before clips and ReLUs, and the limits that they are to codes."""
    match value:
        case Call(callee=OpRef(name="nn.relu"), args=(inner,)):
            low, high = 0.0, np.inf
        case Call(callee=OpRef(name="clip"), args=(inner,), attrs=ClipAttrs() as attrs):
            low, high = attrs.minimum, attrs.maximum
        case _:
            return value, result
    source, limited = _limited(inner, result)
    least, greatest = (_code(each, result) for each in (low, high))
    before = limited.limits
    # The outer clip has the last word.
    bounds = [min(max(each, least), greatest) for each in before]
    return source, replace(limited, minimum=bounds[0], maximum=bounds[1])


def _code(value: float, result: Result) -> int:
    steps = np.rint(np.float32(value) / result.scale)
    return int(
        np.clip(float(steps) + result.zero_point, result.dtype.minimum, result.dtype.maximum)
    )


def _layer(builder: Builder, value: Expr) -> _Layer | None:
    match value:
        case Call(callee=OpRef(name="nn.conv2d" | "nn.dense"), args=(data, weight)):
            return _product(builder, value, data, weight)
        case Call(callee=OpRef(name="nn.bias_add" | "add"), args=(source, bias)):
            return _biased(builder, source, bias)
        case _:
            return None


def _product(builder: Builder, call: Call, data: Expr, weight: Expr) -> _Layer | None:
    left, right = builder.codes.get(data), builder.codes.get(weight)
    if left is None or right is None or not left.is_uniform or right.axis not in (None, 0):
        return None
    if not isinstance(right.codes, Constant) or right.codes.value.dtype.itemsize != 1:
        return None
    if builder.dtype_of(left.codes) not in (DType.INT8, DType.UINT8):
        return None
    centred = centred_weight(right.codes.value, right.zero_point, 0)
    return _Layer(call, left, centred, left.scale * right.scale)


def _biased(builder: Builder, source: Expr, bias: Expr) -> _Layer | None:
    layer = _layer(builder, source)
    codes = builder.codes.get(bias)
    if layer is None or layer.bias is not None or codes is None:
        return None
    is_bias = isinstance(codes.codes, Constant) and codes.codes.value.dtype == np.int32
    if not is_bias or np.any(codes.zero_point) or not isinstance(codes.codes, Constant):
        return None
    if codes.codes.value.size != len(layer.weight):
        return None
    if not np.allclose(codes.scale, layer.scale, rtol=1e-5, atol=0):
        return None
    return replace(layer, bias=codes.codes.value.reshape(-1))
