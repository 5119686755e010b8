"""Importers of QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear."""

from __future__ import annotations

from typing import Final

import numpy as np

from codesign.compiler.frontend.onnx.builder import Builder
from codesign.compiler.frontend.onnx.codes import Codes
from codesign.compiler.frontend.onnx.node import Node
from codesign.compiler.frontend.onnx.quantized.islands import integer_island
from codesign.compiler.frontend.onnx.quantized.requantize import Result, rounded
from codesign.compiler.frontend.onnx.quantized.signed import offset_of, signed
from codesign.compiler.frontend.onnx.tensors import element_type
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Call, Constant, Expr
from codesign.ops.cast import CastAttrs
from codesign.ops.qnn.quantize import QuantizeAttrs
from codesign.ops.reduce import ReduceAttrs
from codesign.ops.repeating import RepeatAttrs
from codesign.ops.reshape import ReshapeAttrs

_CODES: Final = frozenset({DType.INT8, DType.UINT8, DType.INT16, DType.UINT16})


def quantize_linear(node: Node, builder: Builder) -> Expr:
    """Import QuantizeLinear; a convolution or product of codes before it becomes integer."""
    x, scale, zero = node.input(0), node.input(1), node.optional(2)
    dtype = _result_type(node, builder)
    known = _known(scale), _known(zero)
    is_uniform = (
        known[0] is not None and known[0].size == 1 and (zero is None or known[1] is not None)
    )
    if is_uniform and builder.dtype_of(x) is DType.FLOAT32 and known[0] is not None:
        zero_point = 0 if known[1] is None else int(known[1].reshape(-1)[0])
        wanted = Result(np.float32(known[0].reshape(())), zero_point, dtype)
        made = integer_island(builder, x, wanted)
        if made is not None:
            return made
        attrs = QuantizeAttrs(scale=float(wanted.scale), zero_point=zero_point, dtype=dtype)
        return builder.call("qnn.quantize", x, attrs=attrs)
    if not builder.dtype_of(x).is_float:
        x = builder.call("cast", x, attrs=CastAttrs(dtype=builder.dtype_of(scale)))
    steps = builder.call("divide", x, _along(node, builder, scale, x))
    nearest = _as_float32(builder, builder.call("round", steps))
    if zero is not None:
        nearest = builder.call("add", nearest, _as_float32(builder, _along(node, builder, zero, x)))
    return rounded(builder, nearest, dtype.minimum, dtype.maximum, 0, dtype)


def dequantize_linear(node: Node, builder: Builder) -> Expr:
    """Import DequantizeLinear; what it was made of is remembered for a QuantizeLinear behind."""
    x, scale, zero = node.input(0), node.input(1), node.optional(2)
    made = _dequantized(node, builder, x, scale, zero)
    known, zeros = _known(scale), _known(zero)
    is_blocked = node.integer("block_size", 0) > 0
    if known is not None and (zero is None or zeros is not None) and not is_blocked:
        axis = None if known.size == 1 else node.axis(node.integer("axis", 1), _rank(builder, x))
        zero_point = np.zeros(1, np.int64) if zeros is None else zeros.astype(np.int64)
        scales = known.reshape(-1).astype(np.float32)
        builder.codes[made] = Codes(x, scales, zero_point.reshape(-1), axis)
    return made


def dynamic_quantize_linear(node: Node, builder: Builder) -> tuple[Expr, ...]:
    """Import DynamicQuantizeLinear: codes of uint8, and the scale and zero point of their range."""
    x = node.input(0)
    zero, steps = builder.scalar(0.0, x), builder.scalar(255.0, x)
    low = builder.call("minimum", builder.call("min", x, attrs=ReduceAttrs()), zero)
    high = builder.call("maximum", builder.call("max", x, attrs=ReduceAttrs()), zero)
    scale = builder.call("divide", builder.call("subtract", high, low), steps)
    is_flat = builder.call("equal", scale, zero)
    scale = builder.call("where", is_flat, builder.scalar(1.0, x), scale)
    start = builder.call("divide", low, scale)
    zero_point = rounded(
        builder, builder.call("negative", start), 0, DType.UINT8.maximum, 0, DType.UINT8
    )
    moved = builder.call("round", builder.call("divide", x, scale))
    moved = builder.call("add", moved, _as_float32(builder, zero_point))
    codes = rounded(builder, moved, 0, DType.UINT8.maximum, 0, DType.UINT8)
    return codes, scale, zero_point


def _result_type(node: Node, builder: Builder) -> DType:
    zero = node.optional(2)
    wanted = node.integer("output_dtype", 0)
    dtype = DType.UINT8 if wanted == 0 else element_type(wanted)
    if zero is not None:
        dtype = builder.dtype_of(zero)
    if dtype not in _CODES or dtype is None:
        raise node.unsupported("its codes are not of 8 or 16 bits")
    return dtype


def _dequantized(node: Node, builder: Builder, x: Expr, scale: Expr, zero: Expr | None) -> Expr:
    known, zeros = _known(scale), _known(zero)
    dtype = builder.dtype_of(x)
    is_plain = dtype in _CODES and builder.dtype_of(scale) is DType.FLOAT32
    is_known = known is not None and known.size == 1 and (zero is None or zeros is not None)
    if is_plain and is_known and known is not None and not isinstance(x, Constant):
        zero_point = 0 if zeros is None else int(zeros.reshape(-1)[0])
        if isinstance(x, Call):
            x, zero_point = signed(builder, x), zero_point - offset_of(dtype)
        attrs = QuantizeAttrs(
            scale=float(known.reshape(())), zero_point=zero_point, dtype=builder.dtype_of(x)
        )
        return builder.call("qnn.dequantize", x, attrs=attrs)
    wide = CastAttrs(dtype=DType.INT32)
    centred = builder.call("cast", x, attrs=wide)
    if zero is not None:
        moved = builder.call("cast", _along(node, builder, zero, x), attrs=wide)
        centred = builder.call("subtract", centred, moved)
    numbers = builder.call("cast", centred, attrs=CastAttrs(dtype=builder.dtype_of(scale)))
    return builder.call("multiply", numbers, _along(node, builder, scale, x))


def _along(node: Node, builder: Builder, values: Expr, x: Expr) -> Expr:
    """Return scales or zero points in a shape that broadcasts to the data's."""
    shape = builder.shape_of(values)
    whole = builder.shape_of(x)
    block = node.integer("block_size", 0)
    if block > 0:
        axis = node.axis(node.integer("axis", 1), len(whole))
        spread = builder.call("repeat", values, attrs=RepeatAttrs(repeats=block, axis=axis))
        if builder.shape_of(spread) != whole:
            raise node.unsupported(f"blocks of {block} do not fill axis {axis} of {whole}")
        return spread
    if int(np.prod(shape)) == 1:
        return builder.call("reshape", values, attrs=ReshapeAttrs(shape=()))
    axis = node.axis(node.integer("axis", 1), len(whole))
    if shape != (whole[axis],):
        raise node.malformed(f"scales or zero points of shape {shape} for axis {axis} of {whole}")
    rest = (1,) * (len(whole) - axis - 1)
    return builder.call("reshape", values, attrs=ReshapeAttrs(shape=(*shape, *rest)))


def _as_float32(builder: Builder, value: Expr) -> Expr:
    if builder.dtype_of(value) is DType.FLOAT32:
        return value
    return builder.call("cast", value, attrs=CastAttrs(dtype=DType.FLOAT32))


def _rank(builder: Builder, x: Expr) -> int:
    return len(builder.shape_of(x))


def _known(value: Expr | None) -> Array | None:
    return value.value if isinstance(value, Constant) else None
