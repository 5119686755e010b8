"""From 32-bit sums to codes, by the rule of onnxruntime's kernels.

    code = clip(half_even(float32(acc + bias) * factor) + zero_point)

The factor is a float32, and so is the product before it is rounded. Where a multiplier and a shift
provably give the same code for every sum, it is the accelerator's qnn.requantize.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from codesign.compiler.frontend.onnx.builder import Builder
from codesign.compiler.frontend.onnx.quantized.factors import FixedFactors, Reach, fixed_factors
from codesign.compiler.frontend.onnx.quantized.signed import offset_of, signed_type, unsigned
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Expr
from codesign.ops.cast import CastAttrs
from codesign.ops.clip import ClipAttrs
from codesign.ops.qnn.requantize import RequantizeAttrs


@final
@dataclass(frozen=True, slots=True)
class Result:
    """Codes that are wanted: their scale, zero point and type, and their limits where they have."""

    scale: np.float32
    zero_point: int
    dtype: DType
    minimum: int | None = None
    maximum: int | None = None

    @property
    def limits(self) -> tuple[int, int]:
        """Least and greatest code."""
        low = self.dtype.minimum if self.minimum is None else self.minimum
        return low, self.dtype.maximum if self.maximum is None else self.maximum


@final
@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """32-bit sums of channels on `axis`; `bias` int32 and `scale` float32 have one or all of them.

    `reach` is what the sums can be; None says that nothing is known of them.
    """

    acc: Expr
    bias: Array | None
    scale: Array
    axis: int
    reach: Reach | None


def requantized(builder: Builder, sums: Sums, result: Result) -> Expr:
    """Return the codes of sums."""
    channels = builder.shape_of(sums.acc)[sums.axis]
    factor = np.broadcast_to(sums.scale / result.scale, (channels,)).astype(np.float32)
    offset = offset_of(result.dtype)
    dtype = signed_type(result.dtype)
    low, high = (limit - result.zero_point for limit in result.limits)
    zero_point = result.zero_point - offset
    fixed = (
        fixed_factors(factor, reach, low, high)
        if (dtype is DType.INT8 and (reach := _reach_with_bias(sums)) is not None)
        else None
    )
    if fixed is not None:
        codes = _by_integers(builder, sums, fixed, zero_point, (low, high))
    else:
        scaled = _scaled(builder, sums, factor)
        codes = rounded(builder, scaled, low, high, zero_point, dtype)
    return unsigned(builder, codes, result.dtype)


def dequantized(builder: Builder, sums: Sums) -> Expr:
    """Return float32(acc + bias) * scale."""
    channels = builder.shape_of(sums.acc)[sums.axis]
    return _scaled(builder, sums, np.broadcast_to(sums.scale, (channels,)).astype(np.float32))


def rounded(
    builder: Builder, value: Expr, low: int, high: int, zero_point: int, dtype: DType
) -> Expr:
    """Return clip(half_even(value), low, high) + zero_point as integers."""
    nearest = builder.call("round", value)
    limits = ClipAttrs(minimum=float(low), maximum=float(high))
    held = builder.call("clip", nearest, attrs=limits)
    if zero_point:
        held = builder.call("add", held, builder.scalar(zero_point, held))
    return builder.call("cast", held, attrs=CastAttrs(dtype=dtype))


def along(builder: Builder, values: Array, axis: int, rank: int) -> Expr:
    """Return values [c] as a constant that broadcasts along an axis."""
    return builder.constant(np.ascontiguousarray(values).reshape(-1, *(1,) * (rank - axis - 1)))


def _reach_with_bias(sums: Sums) -> Reach | None:
    """Return what sums with their bias can be, None where they could leave 32 bits."""
    if sums.reach is None:
        return None
    bias = np.zeros(1, np.int64) if sums.bias is None else sums.bias.astype(np.int64)
    moved = Reach(sums.reach.least + bias, sums.reach.greatest + bias)
    return moved if sums.reach.is_within_32_bits and moved.is_within_32_bits else None


def _scaled(builder: Builder, sums: Sums, factor: Array) -> Expr:
    rank = len(builder.shape_of(sums.acc))
    acc = sums.acc
    if sums.bias is not None:
        acc = builder.call("add", acc, along(builder, sums.bias, sums.axis, rank))
    wide = builder.call("cast", acc, attrs=CastAttrs(dtype=DType.FLOAT32))
    return builder.call("multiply", wide, along(builder, factor, sums.axis, rank))


def _by_integers(
    builder: Builder,
    sums: Sums,
    fixed: FixedFactors,
    zero_point: int,
    limits: tuple[int, int],
) -> Expr:
    bias = np.zeros(1, np.int32) if sums.bias is None else sums.bias
    full = np.broadcast_to(bias, fixed.shift.shape).astype(np.int32)
    attrs = RequantizeAttrs(
        axis=sums.axis,
        zero_point=zero_point,
        minimum=limits[0] + zero_point,
        maximum=limits[1] + zero_point,
    )
    constants = (builder.constant(each) for each in (full, fixed.multiplier, fixed.shift))
    return builder.call("qnn.requantize", sums.acc, *constants, attrs=attrs)
