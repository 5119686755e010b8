"""What is known of a scalar expression's value without running it."""

from __future__ import annotations

from codesign.dtypes import DType
from codesign.ir.tensor.compute import Apply, Convert, Expr, Fn, Literal

_INFINITY = float("inf")


def fits(expr: Expr, dtype: DType) -> bool:
    """Whether an integer expression's value is certainly one of an integer type."""
    if not dtype.is_integer:
        return False
    low, high = value_range(expr)
    return dtype.minimum <= low and high <= dtype.maximum


def value_range(expr: Expr) -> tuple[float, float]:
    """Least and greatest value, infinite where nothing is known."""
    match expr:
        case Literal(value, _):
            return value, value
        case Apply(Fn.MAXIMUM, (lhs, rhs), _):
            (a, b), (c, d) = value_range(lhs), value_range(rhs)
            return max(a, c), max(b, d)
        case Apply(Fn.MINIMUM, (lhs, rhs), _):
            (a, b), (c, d) = value_range(lhs), value_range(rhs)
            return min(a, c), min(b, d)
        case Apply(Fn.ADD, (lhs, Literal(value, _)), _):
            low, high = value_range(lhs)
            return low + value, high + value
        case Convert(value, dtype) if dtype.is_integer:
            low, high = value_range(value)
            if dtype.minimum <= low and high <= dtype.maximum:
                return low, high
            return dtype.minimum, dtype.maximum
        case _ if expr.dtype.is_integer:
            return expr.dtype.minimum, expr.dtype.maximum
        case _:
            return -_INFINITY, _INFINITY
