"""Quantized operators in index notation, exact to the bit.

A scaled value `v * m / 2**s` is computed in floating point only where it cannot round: where the
bits of v and m together fit the significand, one multiplication by `m * 2**-s` is exact and
rounding half to even is then the only rounding there is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

from codesign.compiler.lower.graph import Step
from codesign.compiler.lower.rule import Read, Rule, attrs_of, zero
from codesign.dtypes import DType
from codesign.ir.relay.expr import Attrs
from codesign.ir.tensor.compute import Convert, Expr, Fn, Literal, apply, convert
from codesign.ir.tensor.index import Index, element
from codesign.ir.tensor.uses import axes_of
from codesign.ops.qnn.add import QAddAttrs
from codesign.ops.qnn.multiply import QMultiplyAttrs
from codesign.ops.qnn.quantize import QuantizeAttrs
from codesign.ops.qnn.requantize import RequantizeAttrs

FLOAT_BITS: Final = 24
DOUBLE_BITS: Final = 53
NARROW_BITS: Final = 30
"""Magnitude of scaled values that become int32 before they are held to their limits."""


@final
@dataclass(frozen=True, kw_only=True)
class ExactScaleAttrs(Attrs):
    """`cpu.requantize`: as qnn.requantize, where the scale is a double and no product rounds.

    `is_narrow` says that all scaled values are far inside of int32, `is_wide` that sums with the
    bias may be outside.
    """

    axis: int
    zero_point: int
    minimum: int
    maximum: int
    dtype: DType
    is_narrow: bool
    is_wide: bool


def _output(rounded: Expr, zero_point: int, low: int, high: int, dtype: DType) -> Expr:
    """Saturate a rounded floating-point value: hold, convert, move by the zero point."""
    kind = rounded.dtype
    held = apply(Fn.MAXIMUM, rounded, Literal(float(low - zero_point), kind))
    held = apply(Fn.MINIMUM, held, Literal(float(high - zero_point), kind))
    moved = apply(Fn.ADD, Convert(held, DType.INT32), Literal(zero_point, DType.INT32))
    return convert(moved, dtype)


def _narrow_output(rounded: Expr, zero_point: int, low: int, high: int, dtype: DType) -> Expr:
    """Saturate a rounded int32 that is far from its limits."""
    moved = apply(Fn.ADD, rounded, Literal(zero_point, DType.INT32)) if zero_point else rounded
    held = apply(Fn.MAXIMUM, moved, Literal(low, DType.INT32))
    return convert(apply(Fn.MINIMUM, held, Literal(high, DType.INT32)), dtype)


def _centred(value: Expr, zero_point: int) -> Expr:
    wide = convert(value, DType.INT32)
    return apply(Fn.SUBTRACT, wide, Literal(zero_point, DType.INT32)) if zero_point else wide


def _times(value: Expr, factor: int) -> Expr:
    return apply(Fn.MULTIPLY, value, Literal(factor, value.dtype))


def _scaled(
    value: Expr, bits: int, multiplier: int, shift: int, limits: tuple[int, int, int, DType]
) -> Expr:
    """Return half_even(value * multiplier / 2**shift) within limits; `bits` hold the value."""
    needed = bits + multiplier.bit_length()
    kind = DType.FLOAT32 if needed <= FLOAT_BITS else DType.FLOAT64
    assert needed <= DOUBLE_BITS, "the operators' limits keep products small"
    scale = Literal(multiplier * 2.0**-shift, kind)
    scaled = apply(Fn.MULTIPLY, convert(value, kind), scale)
    if needed - shift <= NARROW_BITS:
        return _narrow_output(apply(Fn.NEAREST, scaled, dtype=DType.INT32), *limits)
    return _output(apply(Fn.ROUND_EVEN, scaled), *limits)


def _quantize(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    attrs = attrs_of(step, QuantizeAttrs)
    quotient = apply(Fn.DIVIDE, read(0, index), Literal(attrs.scale, DType.FLOAT32))
    rounded = apply(Fn.ROUND_EVEN, quotient)
    dtype = attrs.dtype
    return _output(rounded, attrs.zero_point, dtype.minimum, dtype.maximum, dtype)


def _dequantize(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    attrs = attrs_of(step, QuantizeAttrs)
    wide = convert(_centred(read(0, index), attrs.zero_point), DType.FLOAT32)
    return apply(Fn.MULTIPLY, wide, Literal(attrs.scale, DType.FLOAT32))


def _requantize_exact(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    attrs = attrs_of(step, ExactScaleAttrs)
    channel = (index[attrs.axis],)
    kind = DType.FLOAT64 if attrs.is_wide else DType.INT32
    moved = apply(Fn.ADD, convert(read(0, index), kind), convert(read(1, channel), kind))
    scaled = apply(Fn.MULTIPLY, convert(moved, DType.FLOAT64), read(2, channel))
    limits = (attrs.zero_point, attrs.minimum, attrs.maximum, attrs.dtype)
    if attrs.is_narrow:
        return _narrow_output(apply(Fn.NEAREST, scaled, dtype=DType.INT32), *limits)
    return _output(apply(Fn.ROUND_EVEN, scaled), *limits)


def _requantize(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    attrs = attrs_of(step, RequantizeAttrs)
    channel = (index[attrs.axis % len(index)],)
    wide = DType.INT64
    acc = convert(read(0, index), wide)
    bias, multiplier, shift = (convert(read(i, channel), wide) for i in (1, 2, 3))
    product = apply(Fn.MULTIPLY, apply(Fn.ADD, acc, bias), multiplier)
    rounded = _half_even(product, shift)
    zero_point = attrs.zero_point
    low, high = attrs.minimum - zero_point, attrs.maximum - zero_point
    held = apply(Fn.MAXIMUM, rounded, Literal(low, wide))
    held = apply(Fn.MINIMUM, held, Literal(high, wide))
    return convert(apply(Fn.ADD, held, Literal(zero_point, wide)), attrs.dtype)


def _half_even(product: Expr, shift: Expr) -> Expr:
    one = Literal(1, DType.INT64)
    quotient = apply(Fn.SHIFT_RIGHT, product, shift)
    rest = apply(Fn.SUBTRACT, product, apply(Fn.SHIFT_LEFT, quotient, shift))
    half = apply(Fn.SHIFT_RIGHT, apply(Fn.SHIFT_LEFT, one, shift), one)
    above = apply(Fn.GREATER, rest, half, dtype=DType.BOOL)
    equal = apply(Fn.EQUAL, rest, half, dtype=DType.BOOL)
    shifts = apply(Fn.GREATER, shift, zero(DType.INT64), dtype=DType.BOOL)
    is_odd = convert(apply(Fn.AND, quotient, one), DType.BOOL)
    tie = apply(Fn.AND, apply(Fn.AND, equal, shifts), is_odd)
    more = convert(apply(Fn.OR, above, tie), DType.INT64)
    return apply(Fn.ADD, quotient, more)


def _lookup(_step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    place = element(read(0, index), axes_of(index)) + 128
    return read(1, (place,))


def _add(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    attrs, dtype = attrs_of(step, QAddAttrs), step.result.dtype
    reach = (1 << dtype.bits) - 1
    bits = (reach * (abs(attrs.lhs_multiplier) + abs(attrs.rhs_multiplier))).bit_length()
    kind = DType.INT32 if bits < 32 else DType.FLOAT64
    lhs = convert(_centred(read(0, index), attrs.lhs_zero_point), kind)
    rhs = convert(_centred(read(1, index), attrs.rhs_zero_point), kind)
    lhs, rhs = _times(lhs, attrs.lhs_multiplier), _times(rhs, attrs.rhs_multiplier)
    limits = (attrs.zero_point, attrs.minimum, attrs.maximum, dtype)
    return _scaled(apply(Fn.ADD, lhs, rhs), bits, 1, attrs.shift, limits)


def _multiply(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    attrs = attrs_of(step, QMultiplyAttrs)
    gate = tuple(
        Index() if extent == 1 else each
        for extent, each in zip(step.inputs[1].shape, index, strict=True)
    )
    lhs = _centred(read(0, index), attrs.lhs_zero_point)
    rhs = _centred(read(1, gate), attrs.rhs_zero_point)
    dtype = step.result.dtype
    bits = 2 * dtype.bits
    kind = DType.INT32 if bits < 32 else DType.FLOAT64
    product = apply(Fn.MULTIPLY, convert(lhs, kind), convert(rhs, kind))
    limits = (attrs.zero_point, attrs.minimum, attrs.maximum, dtype)
    return _scaled(product, bits, attrs.multiplier, attrs.shift, limits)


RULES: Final[Mapping[str, Rule]] = {
    "qnn.quantize": _quantize,
    "qnn.dequantize": _dequantize,
    "qnn.requantize": _requantize,
    "cpu.requantize": _requantize_exact,
    "qnn.lookup": _lookup,
    "qnn.add": _add,
    "qnn.multiply": _multiply,
}
"""The rules by operator; all are elementwise."""
