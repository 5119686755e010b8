"""Quotients and remainders of every kind, and a rough error function.

    trunc_divide floor_divide       the quotient, rounded toward zero or down
    trunc_mod mod                   what is left of it: the sign of the dividend
    floor_mod                       the sign of the divisor
    fast_erf                        the error function; here it is as exact as `erf`

Of integers they are exact; a divisor of zero is refused, and the least integer by -1 wraps around.
Of floating point the quotient q is computed in float64 and the remainder is x - q * y there, then
rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from math import erf
from typing import Final

import numpy as np

from codesign.diagnostics import CodesignError
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Call, Constant, Expr
from codesign.ir.relay.types import Type
from codesign.ops.binary import broadcasting
from codesign.ops.composed.pieces import composed
from codesign.ops.gradients.expressions import cast, divide, multiply, op, subtract, tensor, where
from codesign.ops.numeric import ieee, in_double
from codesign.ops.operator import Expansion, Operator, Reference
from codesign.ops.relations import FLOATS, NUMBERS, elementwise, per_element


def _number(value: int, dtype: DType) -> Constant:
    return Constant(np.asarray(value, dtype.numpy))


def _quotient(lhs: Expr, rhs: Expr, dtype: DType, rounding: str) -> Expr:
    """Return the quotient rounded by `floor` or `trunc`, of two operands of one type."""
    quotient = divide(lhs, rhs)
    if dtype.is_float:
        return op(rounding, quotient)
    if rounding == "trunc":
        return quotient
    zero = _number(0, dtype)
    rest = subtract(lhs, multiply(quotient, rhs))
    differs = op("not_equal", op("less", rest, zero), op("less", rhs, zero))
    is_above = op("logical_and", op("not_equal", rest, zero), differs)
    return where(is_above, subtract(quotient, _number(1, dtype)), quotient)


def _expansion(rounding: str, *, is_rest: bool) -> Expansion:
    def expand(call: Call, types: tuple[Type, ...]) -> Expr:
        dtype = tensor(types[0]).dtype
        wide = DType.FLOAT64 if dtype.is_float else dtype
        lhs, rhs = (arg if wide is dtype else cast(arg, wide) for arg in call.args)
        value = _quotient(lhs, rhs, wide, rounding)
        if is_rest:
            value = subtract(lhs, multiply(value, rhs))
        return value if wide is dtype else cast(value, dtype)

    return expand


def _reference(name: str, *, floor: bool, is_rest: bool) -> Reference:
    @ieee
    def reference(lhs: Array, rhs: Array) -> Array:
        if lhs.dtype.kind == "f":
            wide_lhs, wide_rhs = lhs.astype(np.float64), rhs.astype(np.float64)
            quotient = (np.floor if floor else np.trunc)(wide_lhs / wide_rhs)
            value = wide_lhs - quotient * wide_rhs if is_rest else quotient
            return np.asarray(value).astype(lhs.dtype)
        if np.any(rhs == 0):
            raise CodesignError.of(f"{name} has an integer divisor of zero")
        if is_rest:
            return np.asarray((np.mod if floor else np.fmod)(lhs, rhs)).astype(lhs.dtype)
        down = np.floor_divide(lhs, rhs)
        if floor:
            return np.asarray(down)
        return np.asarray(down + ((np.mod(lhs, rhs) != 0) & ((lhs < 0) != (rhs < 0)))).astype(
            lhs.dtype
        )

    return reference


def _operator(name: str, rounding: str, *, is_rest: bool) -> Operator:
    return composed(
        name,
        broadcasting(NUMBERS),
        _reference(name, floor=rounding == "floor", is_rest=is_rest),
        _expansion(rounding, is_rest=is_rest),
        work=per_element(3),
        refuses=True,
    )


_erf_of_each: Final[Callable[[Array], object]] = np.frompyfunc(erf, 1, 1)


def _erf(data: Array) -> Array:
    return np.asarray(_erf_of_each(data)).astype(np.float64)


def _expand_erf(call: Call, _types: tuple[Type, ...]) -> Expr:
    return op("erf", *call.args)


OPERATORS: Final = (
    _operator("trunc_divide", "trunc", is_rest=False),
    _operator("floor_divide", "floor", is_rest=False),
    _operator("trunc_mod", "trunc", is_rest=True),
    _operator("mod", "trunc", is_rest=True),
    _operator("floor_mod", "floor", is_rest=True),
    composed("fast_erf", elementwise(FLOATS), in_double(_erf), _expand_erf, work=per_element(1)),
)
"""Every operator of this file."""
