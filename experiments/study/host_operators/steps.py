"""Steps of chains of the accelerator's operators: each is a call and, beside it, its integers.

Rows lie along the channels, one row to a position: [1, length, 1, rows]. So the array sums a row as
a product with ones, and a second product gives each of its elements what was found of the sum. Each
step takes its scale from the very integers that it is judged on: better than a calibration could.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, final

import numpy as np

from codesign.compiler.interpreter import apply
from codesign.compiler.quantization.fixed_point import common_shift, fixed_point
from codesign.dtypes import Array
from codesign.ir.relay.expr import Attrs, Constant, Expr
from codesign.ops.qnn.add import QAddAttrs
from codesign.ops.qnn.conv2d import QConv2DAttrs
from codesign.ops.qnn.multiply import QMultiplyAttrs
from codesign.ops.qnn.requantize import RequantizeAttrs
from codesign.ops.table import call

LEVELS: Final = 255
"""Steps from the least int8 to the greatest: results that are never negative use them all."""

COPIES: Final = 16
"""Channels of the sum of a row: a tile of the array, for which it takes no longer than for one.

Each copy is rounded from a sixteenth of a step further on, so that together they hold four bits
more than one.
"""

_LEAST_RANGE: Final = 2.0**-20
"""What lies between the least and the greatest of what is told apart, where all are alike."""

Function: TypeAlias = Callable[[Array], Array]
"""A function of real numbers, element by element."""


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Codes:
    """A call and its integers; an integer q means (q - zero_point) * scale + offset."""

    expr: Expr
    integers: Array
    scale: float
    zero_point: int = 0
    offset: float = 0.0

    @property
    def real(self) -> Array:
        """What the integers mean, float64."""
        return self.meaning(self.integers)

    def meaning(self, integers: Array) -> Array:
        """Return what integers of this scale mean, float64."""
        return (integers.astype(np.float64) - self.zero_point) * self.scale + self.offset


def table(data: Codes, function: Function, low: float, high: float) -> Codes:
    """Return a function of the data by a table, in all 256 steps from `low` to `high`."""
    scale = max(high - low, _LEAST_RANGE) / LEVELS
    results = function(data.meaning(np.arange(-128, 128)))
    entries = np.clip(np.rint((results - low) / scale) - 128, -128, 127).astype(np.int8)
    result = _call("qnn.lookup", data, entries)
    return replace(result, scale=scale, zero_point=-128, offset=low)


def row_sums(data: Codes, *, zero_point: int) -> Codes:
    """Return the sums of rows of data without an offset, in `COPIES` channels.

    The zero point is 0, or -128 for sums that are never negative.
    """
    length = data.integers.shape[1]
    ones = np.ones((COPIES, length, 1, 1), np.int8)
    sums = _call("qnn.conv2d", data, ones, attrs=QConv2DAttrs(zero_point=data.zero_point))
    step = max(int(np.abs(sums.integers).max()), 1) / (127 - zero_point)
    bias = np.rint((np.arange(COPIES) - (COPIES - 1) / 2) / COPIES * step)
    result = _requantized(sums, 1 / step, bias, zero_point)
    return replace(result, scale=step * data.scale)


def spread(data: Codes, length: int, scale: float, *, zero_point: int, offset: float) -> Codes:
    """Return the mean of the copies for each element of a row, in steps of `scale`."""
    ones = np.ones((length, COPIES, 1, 1), np.int8)
    sums = _call("qnn.conv2d", data, ones, attrs=QConv2DAttrs(zero_point=data.zero_point))
    unit = data.scale / COPIES
    bias = np.full(length, np.rint((data.offset - offset) / unit))
    result = _requantized(sums, unit / scale, bias, zero_point)
    return replace(result, scale=scale, offset=offset)


def less_copies(data: Codes, copies: Codes, scale: float, *, zero_point: int, top: float) -> Codes:
    """Return the data less the mean of the copies, in steps of `scale`; `zero_point` means `top`.

    A sum adds no number of its own: the data's zero point is moved, and what is left of the copies
    is spread in as fine steps as hold it.
    """
    values = copies.real
    middle = (values.max() + values.min()) / 2
    moved = data.zero_point + round((middle + top - data.offset) / data.scale)
    moved = min(max(moved, -128), 127)
    offset = data.offset + (moved - data.zero_point) * data.scale - top
    step = max(float(np.abs(values - offset).max()), _LEAST_RANGE) / 127
    length = data.integers.shape[1]
    less = spread(copies, length, step, zero_point=0, offset=offset)
    left, right, shift = common_shift(data.scale / scale, step / scale)
    attrs = QAddAttrs(
        lhs_zero_point=moved,
        rhs_zero_point=0,
        lhs_multiplier=left,
        rhs_multiplier=-right,
        shift=shift,
        zero_point=zero_point,
    )
    result = _call("qnn.add", data, less, attrs=attrs)
    return replace(result, scale=scale, zero_point=zero_point, offset=top)


def product(left: Codes, right: Codes, scale: float) -> Codes:
    """Return the products of two that have no offsets, in steps of `scale`."""
    multiplier, shift = fixed_point(np.array(left.scale * right.scale / scale))
    attrs = QMultiplyAttrs(
        lhs_zero_point=left.zero_point,
        rhs_zero_point=right.zero_point,
        multiplier=int(multiplier),
        shift=int(shift),
        zero_point=0,
    )
    return replace(_call("qnn.multiply", left, right, attrs=attrs), scale=scale)


def _requantized(sums: Codes, factor: float, bias: Array, zero_point: int) -> Codes:
    multiplier, shift = fixed_point(np.full(bias.shape, factor))
    parameters = (bias.astype(np.int32), multiplier, shift)
    result = _call(
        "qnn.requantize", sums, *parameters, attrs=RequantizeAttrs(zero_point=zero_point)
    )
    return replace(result, zero_point=zero_point)


def _call(name: str, *args: Codes | Array, attrs: Attrs | None = None) -> Codes:
    """Return a call and its integers, whose meaning the caller states."""
    exprs = (each.expr if isinstance(each, Codes) else Constant(each) for each in args)
    values = tuple(each.integers if isinstance(each, Codes) else each for each in args)
    expr = call(name, *exprs, attrs=attrs)
    integers = apply(expr, values)
    assert isinstance(integers, np.ndarray), "these operators give one tensor"
    return Codes(expr=expr, integers=integers, scale=1.0)
