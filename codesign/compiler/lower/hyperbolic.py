"""Inverses of sine and cosine, and hyperbolic functions, in index notation and in float64.

    asin x = atan(x / sqrt((1 - x) (1 + x)))        acos x = 2 atan(sqrt((1 - x) / (1 + x)))
    sinh x = (e^x - e^-x) / 2, near 0 a polynomial  cosh x = (e^x + e^-x) / 2
    asinh x = log1p(x + x^2 / (1 + sqrt(x^2 + 1)))  acosh x = log1p(t + sqrt(2 t + t^2)), t = x - 1
    atanh x = log1p(2 x / (1 - x)) / 2

Odd functions are computed for |x| and get the sign of x.

Source: S. Moshier, Cephes mathematical library (atan); W. Kahan, for log1p from log.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, pi, sqrt
from typing import Final, TypeAlias

from codesign.dtypes import DType
from codesign.ir.tensor.compute import Apply, Expr, Fn, Literal, apply, convert

Function: TypeAlias = Callable[[Expr], Expr]

_UPPER: Final = (
    *(-8.750608600031904122785e-01, -1.615753718733365076637e01, -7.500855792314704667340e01),
    *(-1.228866684490136173410e02, -6.485021904942025371773e01),
)
_LOWER: Final = (
    *(1.0, 2.485846490142306297962e01, 1.650270098316988542046e02),
    *(4.328810604912902668951e02, 4.853903996359136964868e02, 1.945506571482613964425e02),
)
_SINH: Final = (1 / 39916800, 1 / 362880, 1 / 5040, 1 / 120, 1 / 6)
_NEAR: Final = 0.3
"""Below it x^13 / 13! is less than 2e-16 of sinh x."""

_FAR: Final = 1e150
"""Above it squares come near the end of float64; asinh and acosh are log(2 x) there."""


def _in_double(function: Function) -> Function:
    return lambda x: convert(function(convert(x, DType.FLOAT64)), x.dtype)


def _odd(function: Function) -> Function:
    """Return an odd function from what it is for numbers that are not negative."""

    def whole(x: Expr) -> Expr:
        value = function(apply(Fn.ABS, x))
        below = apply(Fn.LESS, x, _number(0), dtype=DType.BOOL)
        signed = _select(below, apply(Fn.NEGATE, value), value)
        return _select(apply(Fn.EQUAL, x, _number(0), dtype=DType.BOOL), x, signed)

    return _in_double(whole)


def _number(value: float) -> Literal:
    return Literal(value, DType.FLOAT64)


def _select(condition: Expr, then: Expr, otherwise: Expr) -> Expr:
    return Apply(Fn.SELECT, (condition, then, otherwise), DType.FLOAT64)


def _polynomial(x: Expr, coefficients: tuple[float, ...]) -> Expr:
    value: Expr = _number(coefficients[0])
    for each in coefficients[1:]:
        value = apply(Fn.FMA, value, x, _number(each))
    return value


def _add(lhs: Expr, rhs: Expr) -> Expr:
    return apply(Fn.ADD, lhs, rhs)


def _multiply(lhs: Expr, rhs: Expr) -> Expr:
    return apply(Fn.MULTIPLY, lhs, rhs)


def _divide(lhs: Expr, rhs: Expr) -> Expr:
    return apply(Fn.DIVIDE, lhs, rhs)


def _root(x: Expr) -> Expr:
    return apply(Fn.SQRT, x)


def _above(x: Expr, limit: float) -> Expr:
    return apply(Fn.GREATER, x, _number(limit), dtype=DType.BOOL)


def _arc(x: Expr) -> Expr:
    """Return atan x of a number that is not negative: an eighth of a turn is taken off."""
    far, middle = _above(x, sqrt(2) + 1), _above(x, 0.66)
    turned = _divide(_number(-1), x)
    halved = _divide(_add(x, _number(-1)), _add(x, _number(1)))
    rest = _select(far, turned, _select(middle, halved, x))
    begin = _select(far, _number(pi / 2), _select(middle, _number(pi / 4), _number(0)))
    lost = _select(far, _number(_LOST), _select(middle, _number(_LOST / 2), _number(0)))
    square = _multiply(rest, rest)
    ratio = _divide(_polynomial(square, _UPPER), _polynomial(square, _LOWER))
    value = apply(Fn.FMA, _multiply(rest, square), ratio, rest)
    return _add(begin, _add(value, lost))


_LOST: Final = 6.123233995736765886130e-17
"""What pi / 2 lacks in float64."""


def _asin(x: Expr) -> Expr:
    beside = _multiply(_add(_number(1), apply(Fn.NEGATE, x)), _add(_number(1), x))
    return _arc(_divide(x, _root(beside)))


def _acos(x: Expr) -> Expr:
    ratio = _divide(_add(_number(1), apply(Fn.NEGATE, x)), _add(_number(1), x))
    return _multiply(_number(2), _arc(_root(ratio)))


def _sinh(x: Expr) -> Expr:
    half = apply(Fn.EXP, _multiply(x, _number(0.5)))
    other = _divide(_number(0.5), half)
    far = apply(Fn.SUBTRACT, _multiply(_multiply(_number(0.5), half), half), _divide(other, half))
    square = _multiply(x, x)
    near = apply(Fn.FMA, _multiply(x, square), _polynomial(square, _SINH), x)
    return _select(_above(x, _NEAR), far, _select(_is_nan(x), x, near))


def _cosh(x: Expr) -> Expr:
    size = apply(Fn.ABS, x)
    half = apply(Fn.EXP, _multiply(size, _number(0.5)))
    other = _divide(_divide(_number(0.5), half), half)
    return _add(_multiply(_multiply(_number(0.5), half), half), other)


def _is_nan(x: Expr) -> Expr:
    return apply(Fn.NOT_EQUAL, x, x, dtype=DType.BOOL)


def _log1p(x: Expr) -> Expr:
    """Return log(1 + x): what 1 + x loses is made good by the slope of the logarithm there."""
    one_more = _add(_number(1), x)
    logarithm = apply(Fn.LOG, one_more)
    slope = _divide(x, _add(one_more, _number(-1)))
    mended = _multiply(logarithm, slope)
    is_lost = apply(Fn.EQUAL, one_more, _number(1), dtype=DType.BOOL)
    is_far = apply(Fn.EQUAL, one_more, _number(inf), dtype=DType.BOOL)
    return _select(is_far, _number(inf), _select(is_lost, x, mended))


def _doubled_logarithm(x: Expr) -> Expr:
    return _add(apply(Fn.LOG, x), _number(0.6931471805599453))


def _asinh(x: Expr) -> Expr:
    square = _multiply(x, x)
    root = _root(_add(square, _number(1)))
    near = _log1p(_add(x, _divide(square, _add(_number(1), root))))
    return _select(_above(x, _FAR), _doubled_logarithm(x), near)


def _acosh(x: Expr) -> Expr:
    beyond = _add(x, _number(-1))
    room = _multiply(beyond, _add(x, _number(1)))
    near = _log1p(_add(beyond, _root(room)))
    return _select(_above(x, _FAR), _doubled_logarithm(x), near)


def _atanh(x: Expr) -> Expr:
    ratio = _divide(_add(x, x), _add(_number(1), apply(Fn.NEGATE, x)))
    return _multiply(_number(0.5), _log1p(ratio))


arc_sine: Final = _odd(_asin)
arc_cosine: Final = _in_double(_acos)
arc_tangent: Final = _odd(_arc)
sinh: Final = _odd(_sinh)
cosh: Final = _in_double(_cosh)
asinh: Final = _odd(_asinh)
acosh: Final = _in_double(_acosh)
atanh: Final = _odd(_atanh)
