"""Gradients of operators that work element by element, with and without broadcasting.

Where a function has a corner, the rule takes the derivative from the right or, of two equal
operands, gives everything to the left one; where it jumps nothing flows back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log, pi, sqrt
from typing import Final, TypeAlias

from codesign.ir.relay.expr import Expr
from codesign.ir.relay.types import Type
from codesign.ops.clip import ClipAttrs
from codesign.ops.gradients.expressions import (
    add,
    along_axis,
    cast,
    collapse,
    divide,
    is_float,
    multiply,
    negative,
    number,
    op,
    subtract,
    tensor,
    total,
    where,
)
from codesign.ops.nn.activations import HardSigmoidAttrs, LeakyReluAttrs
from codesign.ops.operator import Forward, Gradient, NotDifferentiable

Derivative: TypeAlias = Callable[[Expr, Expr, Type], Expr]
"""`(x, y, type of both) -> dy/dx`, element by element."""

Partials: TypeAlias = Callable[[Forward, Expr], tuple[Expr, Expr]]
"""`(call, adjoint) -> adjoints of both operands`, in the shape of the result."""


def _unary(derivative: Derivative) -> Gradient:
    def rule(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
        slope = derivative(call.args[0], call.result, call.result_type)
        return (multiply(adjoint, slope),)

    return rule


def _binary(partials: Partials) -> Gradient:
    def rule(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
        both = partials(call, adjoint)
        return tuple(
            collapse(each, call.result_type, type_, arg)
            for each, type_, arg in zip(both, call.types, call.args, strict=True)
        )

    return rule


def is_flat(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    """Say that nothing flows back: the result is constant but for jumps, or of no influence."""
    return (None,) * len(call.args)


def _chosen(condition: Expr, adjoint: Expr, like: Type) -> Expr:
    return where(condition, adjoint, number(0, like))


def _negative(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    return (negative(adjoint),)


def _abs(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    zero = number(0, call.result_type)
    below = op("less", call.args[0], zero)
    return (where(below, negative(adjoint), adjoint),)


def _copy(_call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    return (adjoint,)


def _relu(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    above = op("greater", call.args[0], number(0, call.result_type))
    return (_chosen(above, adjoint, call.result_type),)


def _clip(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    attrs = call.attrs
    assert isinstance(attrs, ClipAttrs), "the attributes of clip"
    (x,) = call.args
    low = op("greater_equal", x, number(attrs.minimum, call.result_type))
    high = op("less_equal", x, number(attrs.maximum, call.result_type))
    return (_chosen(op("logical_and", low, high), adjoint, call.result_type),)


def _hard_sigmoid(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    attrs = call.attrs
    assert isinstance(attrs, HardSigmoidAttrs), "the attributes of nn.hard_sigmoid"
    y, type_ = call.result, call.result_type
    low, high = op("greater", y, number(0, type_)), op("less", y, number(1, type_))
    sloped = multiply(adjoint, number(attrs.alpha, type_))
    return (_chosen(op("logical_and", low, high), sloped, type_),)


def _leaky_relu(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    attrs = call.attrs
    assert isinstance(attrs, LeakyReluAttrs), "the attributes of nn.leaky_relu"
    above = op("greater", call.args[0], number(0, call.result_type))
    return (where(above, adjoint, multiply(adjoint, number(attrs.alpha, call.result_type))),)


def _prelu(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    data, slope = call.args
    rank = len(tensor(call.types[0]).shape)
    above = op("greater", data, number(0, call.result_type))
    to_data = where(above, adjoint, multiply(adjoint, along_axis(slope, 1, rank)))
    to_slope = where(above, number(0, call.result_type), multiply(adjoint, data))
    return to_data, total(to_slope, [axis for axis in range(rank) if axis != 1])


def _exp(_x: Expr, y: Expr, _type: Type) -> Expr:
    return y


def _log(x: Expr, _y: Expr, type_: Type) -> Expr:
    return divide(number(1, type_), x)


def _logarithm(base: float) -> Derivative:
    return lambda x, _y, type_: divide(number(1 / log(base), type_), x)


def _sin(x: Expr, _y: Expr, _type: Type) -> Expr:
    return op("cos", x)


def _cos(x: Expr, _y: Expr, _type: Type) -> Expr:
    return negative(op("sin", x))


def _tan(_x: Expr, y: Expr, type_: Type) -> Expr:
    return add(multiply(y, y), number(1, type_))


def _asin(x: Expr, _y: Expr, type_: Type) -> Expr:
    return op("rsqrt", subtract(number(1, type_), multiply(x, x)))


def _acos(x: Expr, y: Expr, type_: Type) -> Expr:
    return negative(_asin(x, y, type_))


def _atan(x: Expr, _y: Expr, type_: Type) -> Expr:
    return divide(number(1, type_), add(multiply(x, x), number(1, type_)))


def _sinh(x: Expr, _y: Expr, _type: Type) -> Expr:
    return op("cosh", x)


def _cosh(x: Expr, _y: Expr, _type: Type) -> Expr:
    return op("sinh", x)


def _asinh(x: Expr, _y: Expr, type_: Type) -> Expr:
    return op("rsqrt", add(multiply(x, x), number(1, type_)))


def _acosh(x: Expr, _y: Expr, type_: Type) -> Expr:
    return op("rsqrt", subtract(multiply(x, x), number(1, type_)))


def _atanh(x: Expr, _y: Expr, type_: Type) -> Expr:
    return divide(number(1, type_), subtract(number(1, type_), multiply(x, x)))


def _sqrt(_x: Expr, y: Expr, type_: Type) -> Expr:
    return divide(number(0.5, type_), y)


def _rsqrt(x: Expr, y: Expr, type_: Type) -> Expr:
    return divide(multiply(number(-0.5, type_), y), x)


def _erf(x: Expr, _y: Expr, type_: Type) -> Expr:
    return multiply(number(2 / sqrt(pi), type_), op("exp", negative(multiply(x, x))))


def _tanh(_x: Expr, y: Expr, type_: Type) -> Expr:
    return subtract(number(1, type_), multiply(y, y))


def _sigmoid(_x: Expr, y: Expr, type_: Type) -> Expr:
    return multiply(y, subtract(number(1, type_), y))


def _hard_swish(x: Expr, _y: Expr, type_: Type) -> Expr:
    inside = add(multiply(x, number(1 / 3, type_)), number(0.5, type_))
    middle = op("less", op("abs", x), number(3, type_))
    ends = where(op("less", x, number(0, type_)), number(0, type_), number(1, type_))
    return where(middle, inside, ends)


def _gelu(x: Expr, _y: Expr, type_: Type) -> Expr:
    share = op("erf", multiply(x, number(1 / sqrt(2), type_)))
    below = multiply(number(0.5, type_), add(number(1, type_), share))
    bell = op("exp", multiply(number(-0.5, type_), multiply(x, x)))
    return add(below, multiply(multiply(x, bell), number(1 / sqrt(2 * pi), type_)))


def _silu(x: Expr, y: Expr, type_: Type) -> Expr:
    share = op("sigmoid", x)
    return add(share, multiply(y, subtract(number(1, type_), share)))


def _add(_call: Forward, adjoint: Expr) -> tuple[Expr, Expr]:
    return adjoint, adjoint


def _subtract(_call: Forward, adjoint: Expr) -> tuple[Expr, Expr]:
    return adjoint, negative(adjoint)


def _multiply(call: Forward, adjoint: Expr) -> tuple[Expr, Expr]:
    lhs, rhs = call.args
    return multiply(adjoint, rhs), multiply(adjoint, lhs)


def _divide(call: Forward, adjoint: Expr) -> tuple[Expr, Expr]:
    _, rhs = call.args
    share = divide(adjoint, rhs)
    return share, negative(multiply(share, call.result))


def _power(call: Forward, adjoint: Expr) -> tuple[Expr, Expr]:
    """Let nothing flow where a base of 0 has no logarithm and an exponent of 0 no slope."""
    base, exponent = call.args
    type_ = call.result_type
    zero, one = number(0, type_), number(1, type_)
    slope = multiply(exponent, op("power", base, subtract(exponent, one)))
    slope = where(op("equal", exponent, zero), zero, slope)
    is_positive = op("greater", base, zero)
    logarithm = op("log", where(is_positive, base, one))
    return multiply(adjoint, slope), multiply(adjoint, multiply(call.result, logarithm))


def _extreme(comparison: str) -> Partials:
    def partials(call: Forward, adjoint: Expr) -> tuple[Expr, Expr]:
        zero = number(0, call.result_type)
        left = op(comparison, *call.args)
        return where(left, adjoint, zero), where(left, zero, adjoint)

    return partials


def _where(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    condition, then, otherwise = call.args
    zero = number(0, call.result_type)
    return (
        None,
        collapse(where(condition, adjoint, zero), call.result_type, call.types[1], then),
        collapse(where(condition, zero, adjoint), call.result_type, call.types[2], otherwise),
    )


def _cast(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    if not is_float(call.types[0]) or not is_float(call.result_type):
        return (None,)
    return (cast(adjoint, tensor(call.types[0]).dtype),)


_BITS: Final = NotDifferentiable("it computes on the bits of integers")

TRUTHS: Final = NotDifferentiable("its result is true or false")
"""Why comparisons and logic have no gradient."""

GRADIENTS: Final[Mapping[str, Gradient | NotDifferentiable]] = {
    "negative": _negative,
    "abs": _abs,
    "exp": _unary(_exp),
    "fast_exp": _unary(_exp),
    "log": _unary(_log),
    "log2": _unary(_logarithm(2)),
    "log10": _unary(_logarithm(10)),
    "sin": _unary(_sin),
    "cos": _unary(_cos),
    "tan": _unary(_tan),
    "asin": _unary(_asin),
    "acos": _unary(_acos),
    "atan": _unary(_atan),
    "sinh": _unary(_sinh),
    "cosh": _unary(_cosh),
    "asinh": _unary(_asinh),
    "acosh": _unary(_acosh),
    "atanh": _unary(_atanh),
    "copy": _copy,
    "sign": is_flat,
    "trunc": is_flat,
    "isnan": TRUTHS,
    "isinf": TRUTHS,
    "isfinite": TRUTHS,
    "sqrt": _unary(_sqrt),
    "rsqrt": _unary(_rsqrt),
    "erf": _unary(_erf),
    "tanh": _unary(_tanh),
    "fast_tanh": _unary(_tanh),
    "sigmoid": _unary(_sigmoid),
    "ceil": is_flat,
    "floor": is_flat,
    "round": is_flat,
    "logical_not": TRUTHS,
    "bitwise_not": _BITS,
    "nn.relu": _relu,
    "nn.hard_swish": _unary(_hard_swish),
    "nn.gelu": _unary(_gelu),
    "nn.silu": _unary(_silu),
    "nn.hard_sigmoid": _hard_sigmoid,
    "nn.leaky_relu": _leaky_relu,
    "nn.prelu": _prelu,
    "clip": _clip,
    "cast": _cast,
    "add": _binary(_add),
    "subtract": _binary(_subtract),
    "multiply": _binary(_multiply),
    "divide": _binary(_divide),
    "power": _binary(_power),
    "maximum": _binary(_extreme("greater_equal")),
    "minimum": _binary(_extreme("less_equal")),
    "equal": TRUTHS,
    "not_equal": TRUTHS,
    "less": TRUTHS,
    "less_equal": TRUTHS,
    "greater": TRUTHS,
    "greater_equal": TRUTHS,
    "logical_and": TRUTHS,
    "logical_or": TRUTHS,
    "logical_xor": TRUTHS,
    "bitwise_and": _BITS,
    "bitwise_or": _BITS,
    "bitwise_xor": _BITS,
    "left_shift": _BITS,
    "right_shift": _BITS,
    "where": _where,
}
"""The rule of every operator of this kind."""
