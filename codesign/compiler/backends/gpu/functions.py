"""What the functions of index notation mean for arrays of operands; see `ir.tensor.compute.Fn`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from math import erf
from typing import Any, Final

import numpy as np

from codesign.dtypes import Array, DType
from codesign.ir.tensor.compute import Fn

_erf: Final = np.vectorize(erf, otypes=[np.float64])


def converted(value: Array, source: DType, dtype: DType) -> Array:
    """Return values as another type: floats to the nearest integer toward zero, NaN to 0."""
    if source.is_float and dtype.is_integer:
        whole = np.trunc(np.nan_to_num(np.asarray(value, np.float64), nan=0.0))
        low, high = dtype.minimum, dtype.maximum
        inside = np.where((whole > low) & (whole < high), whole, 0).astype(dtype.numpy)
        return np.where(whole <= low, low, np.where(whole >= high, high, inside)).astype(
            dtype.numpy
        )
    with np.errstate(over="ignore"):
        return np.asarray(value).astype(dtype.numpy)


def _divide(lhs: Array, rhs: Array) -> Array:
    if np.issubdtype(lhs.dtype, np.floating):
        return np.asarray(lhs / rhs)
    safe = np.where(rhs == 0, 1, rhs)
    quotient = np.abs(lhs.astype(object)) // np.abs(safe.astype(object))
    return np.asarray(quotient * np.sign(lhs) * np.sign(safe)).astype(lhs.dtype)


def _maximum(lhs: Array, rhs: Array) -> Array:
    return np.asarray(np.maximum(lhs, rhs))


def _minimum(lhs: Array, rhs: Array) -> Array:
    return np.asarray(np.minimum(lhs, rhs))


def _sigmoid(value: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-value)))


def _nearest(value: Array) -> Array:
    return np.rint(value).astype(np.int32)


def _xor(lhs: Array, rhs: Array) -> Array:
    return np.asarray(np.bitwise_xor(lhs, rhs))


FUNCTIONS: Final[Mapping[Fn, Callable[..., Any]]] = {
    Fn.ADD: operator.add,
    Fn.SUBTRACT: operator.sub,
    Fn.MULTIPLY: operator.mul,
    Fn.DIVIDE: _divide,
    Fn.POWER: np.power,
    Fn.MAXIMUM: _maximum,
    Fn.MINIMUM: _minimum,
    Fn.FMA: lambda a, b, c: a * b + c,
    Fn.NEGATE: operator.neg,
    Fn.ABS: np.abs,
    Fn.SQRT: np.sqrt,
    Fn.EXP: np.exp,
    Fn.LOG: np.log,
    Fn.TANH: np.tanh,
    Fn.ERF: _erf,
    Fn.SIGMOID: _sigmoid,
    Fn.FAST_EXP: np.exp,
    Fn.FAST_TANH: np.tanh,
    Fn.FLOOR: np.floor,
    Fn.CEIL: np.ceil,
    Fn.ROUND_EVEN: np.rint,
    Fn.NEAREST: _nearest,
    Fn.SHIFT_RIGHT: np.right_shift,
    Fn.SHIFT_LEFT: np.left_shift,
    Fn.EQUAL: np.equal,
    Fn.NOT_EQUAL: np.not_equal,
    Fn.LESS: np.less,
    Fn.LESS_EQUAL: np.less_equal,
    Fn.GREATER: np.greater,
    Fn.GREATER_EQUAL: np.greater_equal,
    Fn.AND: np.bitwise_and,
    Fn.OR: np.bitwise_or,
    Fn.XOR: _xor,
    Fn.SELECT: np.where,
}
"""By function; operands have one type, the result is converted to the node's."""
