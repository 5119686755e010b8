"""Elementwise and broadcasting operators in index notation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil, floor, inf, log, sqrt
from typing import Final

from codesign.compiler.lower import hyperbolic
from codesign.compiler.lower.graph import Step
from codesign.compiler.lower.rule import Read, Rule, attrs_of, read_broadcast, zero
from codesign.compiler.lower.trigonometry import cosine, sine, tangent
from codesign.dtypes import DType
from codesign.ir.tensor.compute import Apply, Expr, Fn, Literal, apply, convert, literal_like
from codesign.ir.tensor.index import Index
from codesign.ops.cast import CastAttrs
from codesign.ops.clip import ClipAttrs
from codesign.ops.nn.activations import HardSigmoidAttrs, LeakyReluAttrs
from codesign.ops.nn.batch_norm import BatchNormAttrs
from codesign.ops.nn.bias_add import BiasAddAttrs


def _unary(body: Callable[[Expr], Expr]) -> Rule:
    def rule(_step: Step, index: tuple[Index, ...], read: Read) -> Expr:
        return body(read(0, index))

    return rule


def _binary(function: Fn, result: DType | None = None) -> Rule:
    def rule(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
        lhs = read_broadcast(step, 0, index, read)
        rhs = read_broadcast(step, 1, index, read)
        return apply(function, lhs, rhs, dtype=result)

    return rule


def _function(function: Fn) -> Rule:
    return _unary(lambda x: apply(function, x))


def _fast(function: Fn, exact: Fn) -> Rule:
    """Return the rule of a function that is computed roughly, but for float64."""
    return _unary(lambda x: apply(exact if x.dtype is DType.FLOAT64 else function, x))


def _held(x: Expr, low: float, high: float) -> Expr:
    above = apply(Fn.MAXIMUM, x, literal_like(low, x))
    return apply(Fn.MINIMUM, above, literal_like(high, x))


def _relu(x: Expr) -> Expr:
    return apply(Fn.MAXIMUM, x, literal_like(0, x))


def _affine(x: Expr, factor: float, offset: float) -> Expr:
    return apply(Fn.FMA, x, literal_like(factor, x), literal_like(offset, x))


def _hard_swish(x: Expr) -> Expr:
    return apply(Fn.MULTIPLY, x, _held(_affine(x, 1 / 6, 0.5), 0, 1))


def _gelu(x: Expr) -> Expr:
    half = apply(Fn.MULTIPLY, x, literal_like(0.5, x))
    error = apply(Fn.ERF, apply(Fn.MULTIPLY, x, literal_like(1 / sqrt(2), x)))
    return apply(Fn.FMA, half, error, half)


def _silu(x: Expr) -> Expr:
    return apply(Fn.MULTIPLY, x, apply(Fn.SIGMOID, x))


def _rsqrt(x: Expr) -> Expr:
    return apply(Fn.DIVIDE, literal_like(1, x), apply(Fn.SQRT, x))


def _sign(x: Expr) -> Expr:
    above = apply(Fn.GREATER, x, zero(x.dtype), dtype=DType.BOOL)
    below = apply(Fn.LESS, x, zero(x.dtype), dtype=DType.BOOL)
    least = literal_like(0 if x.dtype.is_integer and x.dtype.minimum == 0 else -1, x)
    lower = Apply(Fn.SELECT, (below, least, x), x.dtype)
    return Apply(Fn.SELECT, (above, literal_like(1, x), lower), x.dtype)


def _trunc(x: Expr) -> Expr:
    below = apply(Fn.LESS, x, zero(x.dtype), dtype=DType.BOOL)
    return Apply(Fn.SELECT, (below, apply(Fn.CEIL, x), apply(Fn.FLOOR, x)), x.dtype)


def _logarithm(base: float) -> Rule:
    def body(x: Expr) -> Expr:
        wide = x if x.dtype is DType.FLOAT64 else convert(x, DType.FLOAT32)
        scaled = apply(Fn.MULTIPLY, apply(Fn.LOG, wide), literal_like(1 / log(base), wide))
        return convert(scaled, x.dtype)

    return _unary(body)


def _is_nan(x: Expr) -> Expr:
    return apply(Fn.NOT_EQUAL, x, x, dtype=DType.BOOL)


def _size_is(function: Fn) -> Rule:
    def body(x: Expr) -> Expr:
        return apply(function, apply(Fn.ABS, x), literal_like(inf, x), dtype=DType.BOOL)

    return _unary(body)


def _not(x: Expr) -> Expr:
    return apply(Fn.XOR, x, literal_like(1, x))


def _complement(x: Expr) -> Expr:
    ones = 1 if x.dtype is DType.BOOL else x.dtype.maximum if x.dtype.minimum == 0 else -1
    return apply(Fn.XOR, x, literal_like(ones, x))


def _shift(function: Fn) -> Rule:
    def rule(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
        lhs = read_broadcast(step, 0, index, read)
        rhs = read_broadcast(step, 1, index, read)
        distance = apply(Fn.AND, rhs, literal_like(rhs.dtype.bits - 1, rhs))
        return apply(function, lhs, distance)

    return rule


def _hard_sigmoid(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    attrs = attrs_of(step, HardSigmoidAttrs)
    return _held(_affine(read(0, index), attrs.alpha, attrs.beta), 0, 1)


def _below_zero(x: Expr, slope: Expr) -> Expr:
    positive = apply(Fn.GREATER, x, zero(x.dtype), dtype=DType.BOOL)
    return Apply(Fn.SELECT, (positive, x, apply(Fn.MULTIPLY, x, slope)), x.dtype)


def _leaky_relu(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    x = read(0, index)
    return _below_zero(x, literal_like(attrs_of(step, LeakyReluAttrs).alpha, x))


def _prelu(_step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    return _below_zero(read(0, index), read(1, (index[1],)))


def _clip(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    attrs = attrs_of(step, ClipAttrs)
    x = read(0, index)
    low, high = attrs.minimum, attrs.maximum
    if not x.dtype.is_float:
        least, greatest = x.dtype.minimum, x.dtype.maximum
        low = ceil(min(max(low, least), greatest))
        high = floor(min(max(high, least), greatest))
    return _held(x, low, high)


def _bias_add(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    axis = attrs_of(step, BiasAddAttrs).axis % len(index)
    return apply(Fn.ADD, read(0, index), read(1, (index[axis],)))


def _cast(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    return convert(read(0, index), attrs_of(step, CastAttrs).dtype)


def _where(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    condition, then, otherwise = (read_broadcast(step, i, index, read) for i in range(3))
    return Apply(Fn.SELECT, (condition, then, otherwise), then.dtype)


def _batch_norm(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    gamma, beta, mean, variance = (read(i, (index[1],)) for i in range(1, 5))
    x = read(0, index)
    epsilon = literal_like(attrs_of(step, BatchNormAttrs).epsilon, x)
    deviation = apply(Fn.SQRT, apply(Fn.ADD, variance, epsilon))
    normal = apply(Fn.DIVIDE, apply(Fn.SUBTRACT, x, mean), deviation)
    return apply(Fn.FMA, normal, gamma, beta)


def _scale_shift(_step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    return apply(Fn.FMA, read(0, index), read(1, (index[1],)), read(2, (index[1],)))


def _filled(value: int) -> Rule:
    def rule(step: Step, _index: tuple[Index, ...], _read: Read) -> Expr:
        return Literal(value, step.result.dtype)

    return rule


def _full(_step: Step, _index: tuple[Index, ...], read: Read) -> Expr:
    return read(0, ())


def _full_like(_step: Step, _index: tuple[Index, ...], read: Read) -> Expr:
    return read(1, ())


def _divide(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    lhs = read_broadcast(step, 0, index, read)
    rhs = read_broadcast(step, 1, index, read)
    if lhs.dtype.is_float:
        return apply(Fn.DIVIDE, lhs, rhs)
    one, minus_one = Literal(1, rhs.dtype), Literal(-1, rhs.dtype)
    is_zero = apply(Fn.EQUAL, rhs, zero(rhs.dtype), dtype=DType.BOOL)
    safe = Apply(Fn.SELECT, (is_zero, one, rhs), rhs.dtype)
    if rhs.dtype.minimum == 0:
        return apply(Fn.DIVIDE, lhs, safe)
    negates = apply(Fn.EQUAL, rhs, minus_one, dtype=DType.BOOL)
    safe = Apply(Fn.SELECT, (negates, one, safe), rhs.dtype)
    quotient = apply(Fn.DIVIDE, lhs, safe)
    return Apply(Fn.SELECT, (negates, apply(Fn.NEGATE, lhs), quotient), lhs.dtype)


RULES: Final[Mapping[str, Rule]] = {
    "negative": _function(Fn.NEGATE),
    "abs": _function(Fn.ABS),
    "exp": _function(Fn.EXP),
    "log": _function(Fn.LOG),
    "log2": _logarithm(2),
    "log10": _logarithm(10),
    "sin": _unary(sine),
    "cos": _unary(cosine),
    "tan": _unary(tangent),
    "asin": _unary(hyperbolic.arc_sine),
    "acos": _unary(hyperbolic.arc_cosine),
    "atan": _unary(hyperbolic.arc_tangent),
    "sinh": _unary(hyperbolic.sinh),
    "cosh": _unary(hyperbolic.cosh),
    "asinh": _unary(hyperbolic.asinh),
    "acosh": _unary(hyperbolic.acosh),
    "atanh": _unary(hyperbolic.atanh),
    "copy": _unary(lambda x: x),
    "bitwise_not": _unary(_complement),
    "sign": _unary(_sign),
    "trunc": _unary(_trunc),
    "isnan": _unary(_is_nan),
    "isinf": _size_is(Fn.EQUAL),
    "isfinite": _size_is(Fn.LESS),
    "sqrt": _function(Fn.SQRT),
    "rsqrt": _unary(_rsqrt),
    "erf": _function(Fn.ERF),
    "tanh": _function(Fn.TANH),
    "sigmoid": _function(Fn.SIGMOID),
    "fast_exp": _fast(Fn.FAST_EXP, Fn.EXP),
    "fast_tanh": _fast(Fn.FAST_TANH, Fn.TANH),
    "ceil": _function(Fn.CEIL),
    "floor": _function(Fn.FLOOR),
    "round": _function(Fn.ROUND_EVEN),
    "logical_not": _unary(_not),
    "nn.relu": _unary(_relu),
    "nn.hard_swish": _unary(_hard_swish),
    "nn.gelu": _unary(_gelu),
    "nn.silu": _unary(_silu),
    "nn.hard_sigmoid": _hard_sigmoid,
    "nn.leaky_relu": _leaky_relu,
    "nn.prelu": _prelu,
    "nn.batch_norm": _batch_norm,
    "cpu.scale_shift": _scale_shift,
    "clip": _clip,
    "nn.bias_add": _bias_add,
    "cast": _cast,
    "where": _where,
    "zeros": _filled(0),
    "ones": _filled(1),
    "full": _full,
    "zeros_like": _filled(0),
    "ones_like": _filled(1),
    "full_like": _full_like,
    "add": _binary(Fn.ADD),
    "subtract": _binary(Fn.SUBTRACT),
    "multiply": _binary(Fn.MULTIPLY),
    "divide": _divide,
    "power": _binary(Fn.POWER),
    "maximum": _binary(Fn.MAXIMUM),
    "minimum": _binary(Fn.MINIMUM),
    "equal": _binary(Fn.EQUAL, DType.BOOL),
    "not_equal": _binary(Fn.NOT_EQUAL, DType.BOOL),
    "less": _binary(Fn.LESS, DType.BOOL),
    "less_equal": _binary(Fn.LESS_EQUAL, DType.BOOL),
    "greater": _binary(Fn.GREATER, DType.BOOL),
    "greater_equal": _binary(Fn.GREATER_EQUAL, DType.BOOL),
    "logical_and": _binary(Fn.AND, DType.BOOL),
    "logical_or": _binary(Fn.OR, DType.BOOL),
    "logical_xor": _binary(Fn.XOR, DType.BOOL),
    "bitwise_and": _binary(Fn.AND),
    "bitwise_or": _binary(Fn.OR),
    "bitwise_xor": _binary(Fn.XOR),
    "left_shift": _shift(Fn.SHIFT_LEFT),
    "right_shift": _shift(Fn.SHIFT_RIGHT),
}
"""The rules by operator; their results depend on the operands' elements at the same index."""
