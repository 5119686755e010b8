"""Sine, cosine and tangent in index notation: the period is taken off in float64.

With n = round(x * 2 / pi) the rest r = x - n * pi / 2 lies within pi / 4 of 0, and sine and cosine
of it are polynomials. pi has 106 bits here, so that r is exact to 2**-50 for arguments up to 2**30.

Source: K. C. Ng, fdlibm (__kernel_sin, __kernel_cos).
"""

from __future__ import annotations

from typing import Final

from codesign.dtypes import DType
from codesign.ir.tensor.compute import Apply, Expr, Fn, Literal, apply, convert

_HIGH: Final = 1.5707963267948966
_LOW: Final = 6.123233995736766e-17
_SINE: Final = (
    *(1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06),
    *(-1.98412698298579493134e-04, 8.33333333332248946124e-03, -1.66666666666666324348e-01),
)
_COSINE: Final = (
    *(-1.13596475577881948265e-11, 2.08757232129817482790e-09, -2.75573143513906633035e-07),
    *(2.48015872894767294178e-05, -1.38888888888741095749e-03, 4.16666666666666019037e-02),
)


def sine(x: Expr) -> Expr:
    """Return sin(x)."""
    return convert(_quarter(convert(x, DType.FLOAT64), 0), x.dtype)


def cosine(x: Expr) -> Expr:
    """Return cos(x)."""
    return convert(_quarter(convert(x, DType.FLOAT64), 1), x.dtype)


def tangent(x: Expr) -> Expr:
    """Return sin(x) / cos(x)."""
    wide = convert(x, DType.FLOAT64)
    return convert(apply(Fn.DIVIDE, _quarter(wide, 0), _quarter(wide, 1)), x.dtype)


def _number(value: float) -> Literal:
    return Literal(value, DType.FLOAT64)


def _quarter(x: Expr, ahead: int) -> Expr:
    """Return the sine of x and so many quarters of a turn."""
    turns = apply(Fn.ROUND_EVEN, apply(Fn.MULTIPLY, x, _number(2 / 3.141592653589793)))
    rest = apply(Fn.FMA, turns, _number(-_HIGH), x)
    rest = apply(Fn.FMA, turns, _number(-_LOW), rest)
    place = apply(Fn.ADD, turns, _number(ahead))
    whole = apply(Fn.FLOOR, apply(Fn.MULTIPLY, place, _number(0.25)))
    quadrant = apply(Fn.FMA, whole, _number(-4.0), place)
    is_lower = apply(Fn.GREATER, quadrant, _number(1.5), dtype=DType.BOOL)
    half = apply(Fn.FLOOR, apply(Fn.MULTIPLY, quadrant, _number(0.5)))
    odd = apply(Fn.FMA, half, _number(-2.0), quadrant)
    is_odd = apply(Fn.GREATER, odd, _number(0.5), dtype=DType.BOOL)
    value = Apply(Fn.SELECT, (is_odd, _cosine(rest), _sine(rest)), DType.FLOAT64)
    return Apply(Fn.SELECT, (is_lower, apply(Fn.NEGATE, value), value), DType.FLOAT64)


def _polynomial(x: Expr, coefficients: tuple[float, ...]) -> Expr:
    value: Expr = _number(coefficients[0])
    for each in coefficients[1:]:
        value = apply(Fn.FMA, value, x, _number(each))
    return value


def _sine(r: Expr) -> Expr:
    square = apply(Fn.MULTIPLY, r, r)
    cube = apply(Fn.MULTIPLY, square, r)
    return apply(Fn.FMA, cube, _polynomial(square, _SINE), r)


def _cosine(r: Expr) -> Expr:
    square = apply(Fn.MULTIPLY, r, r)
    fourth = apply(Fn.MULTIPLY, square, square)
    near = apply(Fn.FMA, square, _number(-0.5), _number(1.0))
    return apply(Fn.FMA, fourth, _polynomial(square, _COSINE), near)
