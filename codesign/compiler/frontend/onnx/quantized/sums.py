"""32-bit sums of quantized convolutions and products, zero points of data and weights taken away.

Weights less their zero point have 8 bits, or 9 where it lies aside; then they are int16. A zero
point of the data that is known at run time only is multiplied with the weights' own sums.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from codesign.compiler.frontend.onnx.builder import Builder
from codesign.compiler.frontend.onnx.quantized.factors import Reach
from codesign.compiler.frontend.onnx.quantized.signed import offset_of, signed
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Constant, Expr
from codesign.ops.cast import CastAttrs
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.qnn.conv2d import QConv2DAttrs
from codesign.ops.qnn.dense import QDenseAttrs
from codesign.ops.qnn.matmul import QMatmulAttrs
from codesign.ops.reshape import ReshapeAttrs
from codesign.ops.transpose import TransposeAttrs

_EXACT_FLOAT32 = 1 << 24


@final
@dataclass(frozen=True, slots=True, eq=False)
class Operand:
    """Codes and their zero point, None where it is zero."""

    codes: Expr
    zero_point: Expr | None = None

    @property
    def known_zero_point(self) -> int | None:
        """The zero point as a number, None where it is computed at run time."""
        match self.zero_point:
            case None:
                return 0
            case Constant(value):
                return int(value.reshape(()))
            case _:
                return None


def centred_weight(weight: Array, zero_point: Array, axis: int) -> Array:
    """Return a weight less its zero point (one, or one for each place of `axis`), int8 or int16."""
    rest = (1,) * (weight.ndim - axis - 1)
    moved = weight.astype(np.int32) - zero_point.astype(np.int32).reshape(-1, *rest)
    fits = moved.size == 0 or (moved.min() >= -128 and moved.max() <= 127)
    return moved.astype(np.int8 if fits else np.int16)


def reach_of(weight: Array, codes: DType, zero_point: int | None) -> Reach:
    """Return the least and greatest sums over `weight[0]` that codes can give.

    Padding contributes nothing; without a zero point it may be any code.
    """
    low, high = codes.minimum, codes.maximum
    least = low - (high if zero_point is None else zero_point)
    greatest = high - (low if zero_point is None else zero_point)
    rows = weight.astype(np.int64).reshape(len(weight), math.prod(weight.shape[1:]))
    below = np.minimum(rows * min(least, 0), rows * max(greatest, 0)).sum(axis=1)
    above = np.maximum(rows * min(least, 0), rows * max(greatest, 0)).sum(axis=1)
    return Reach(below, above)


def convolution(builder: Builder, data: Operand, weight: Array, attrs: Conv2DAttrs) -> Expr:
    """Return the sums of data less their zero point with a weight that has none."""
    codes = signed(builder, data.codes)
    known, rest = _zero_point(builder, data)
    constant = builder.constant(weight)

    def call(image: Expr, zero_point: int) -> Expr:
        window = QConv2DAttrs(
            strides=attrs.strides,
            padding=attrs.padding,
            dilation=attrs.dilation,
            groups=attrs.groups,
            zero_point=zero_point,
        )
        return builder.call("qnn.conv2d", image, constant, attrs=window)

    acc = call(codes, known)
    if rest is None:
        return acc
    _, *image = builder.shape_of(codes)
    ones = builder.constant(np.ones((1, *image), np.int8))
    return builder.call("subtract", acc, builder.call("multiply", call(ones, 0), rest))


def product(builder: Builder, data: Operand, weight: Array) -> Expr:
    """Return the sums of rows of data less their zero point with a weight [m, k] that has none."""
    codes = signed(builder, data.codes)
    known, rest = _zero_point(builder, data)
    *lead, inner = builder.shape_of(codes)
    rows = builder.call("reshape", codes, attrs=ReshapeAttrs(shape=(math.prod(lead), inner)))
    flat = rows if len(lead) != 1 else codes
    attrs = QDenseAttrs(zero_point=known)
    acc = builder.call("qnn.dense", flat, builder.constant(weight), attrs=attrs)
    if rest is not None:
        whole = builder.constant(weight.astype(np.int64).sum(axis=1).astype(np.int32))
        acc = builder.call("subtract", acc, builder.call("multiply", whole, rest))
    if len(lead) == 1:
        return acc
    return builder.call("reshape", acc, attrs=ReshapeAttrs(shape=(*lead, len(weight))))


def matrix_product(builder: Builder, lhs: Operand, rhs: Operand) -> Expr:
    """Return the sums of two stacks of matrices, both known at run time only, as int32.

    Where a zero point is known at run time only too, they are taken in floating point that is wide
    enough to be exact.
    """
    (left_zero, left_rest), (right_zero, right_rest) = (
        _zero_point(builder, each) for each in (lhs, rhs)
    )
    if left_rest is None and right_rest is None:
        codes = (signed(builder, each.codes) for each in (lhs, rhs))
        attrs = QMatmulAttrs(lhs_zero_point=left_zero, rhs_zero_point=right_zero)
        return builder.call("qnn.matmul", *codes, attrs=attrs)
    inner = builder.shape_of(lhs.codes)[-1]
    bits = sum(builder.dtype_of(each.codes).bits for each in (lhs, rhs))
    is_exact = inner << bits <= _EXACT_FLOAT32
    kind = CastAttrs(dtype=DType.FLOAT32 if is_exact else DType.FLOAT64)
    left, right = (builder.call("cast", _centred(builder, each), attrs=kind) for each in (lhs, rhs))
    made = builder.call("nn.matmul", left, right)
    return builder.call("cast", made, attrs=CastAttrs(dtype=DType.INT32))


def swapped(builder: Builder, matrix: Expr) -> Expr:
    """Return a matrix with its axes swapped."""
    return builder.call("transpose", matrix, attrs=TransposeAttrs(axes=(1, 0)))


def _zero_point(builder: Builder, data: Operand) -> tuple[int, Expr | None]:
    """Return the zero point of signed codes: as a number, or what is to be taken away besides."""
    offset = offset_of(builder.dtype_of(data.codes))
    known = data.known_zero_point
    if known is not None or data.zero_point is None:
        return (known or 0) - offset, None
    wide = builder.call("cast", data.zero_point, attrs=CastAttrs(dtype=DType.INT32))
    return -offset, builder.call("reshape", wide, attrs=ReshapeAttrs(shape=()))


def _centred(builder: Builder, operand: Operand) -> Expr:
    wide = builder.call("cast", operand.codes, attrs=CastAttrs(dtype=DType.INT32))
    if operand.zero_point is None:
        return wide
    zero = builder.call("cast", operand.zero_point, attrs=CastAttrs(dtype=DType.INT32))
    return builder.call("subtract", wide, zero)
