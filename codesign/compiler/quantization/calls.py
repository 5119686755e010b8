"""Calls of the integer vocabulary, as quantization makes them."""

from __future__ import annotations

import numpy as np

from codesign.compiler.quantization.forms import Affine, Average, Bounds, Matmul
from codesign.compiler.quantization.params import QuantParams
from codesign.diagnostics import Span
from codesign.dtypes import Array
from codesign.ir.relay.expr import Attrs, Call, Constant, Expr, OpRef
from codesign.ops.qnn.quantize import QuantizeAttrs
from codesign.ops.qnn.requantize import RequantizeAttrs


def operator_call(
    name: str, *args: Expr, attrs: Attrs | None = None, span: Span | None = None
) -> Call:
    """Return a call of an operator."""
    return Call(OpRef(name, span), args, attrs, span)


def quantize_attrs(params: QuantParams) -> QuantizeAttrs:
    """Return parameters as the attributes of qnn.quantize and qnn.dequantize."""
    return QuantizeAttrs(scale=params.scale, zero_point=params.zero_point, dtype=params.dtype)


def code_limits(bounds: Bounds, result: QuantParams) -> tuple[int, int]:
    """Return the least and greatest code that limits leave."""
    low = result.dtype.minimum if np.isneginf(bounds.low) else result.code(bounds.low)
    high = result.dtype.maximum if np.isposinf(bounds.high) else result.code(bounds.high)
    return low, max(low, high)


def requantized(
    acc: Expr,
    bias: Array,
    multiplier: Array,
    shift: Array,
    form: Affine | Matmul | Average,
    result: QuantParams,
    node: Call,
    axis: int = 1,
) -> Expr:
    """Return a layer's sums as codes of the node's result, channels along an axis."""
    low, high = code_limits(form.bounds, result)
    attrs = RequantizeAttrs(
        axis=axis,
        zero_point=result.zero_point,
        minimum=low,
        maximum=high,
        dtype=result.dtype,
    )
    constants = (Constant(each, node.span) for each in (bias, multiplier, shift))
    return operator_call("qnn.requantize", acc, *constants, attrs=attrs, span=node.span)
