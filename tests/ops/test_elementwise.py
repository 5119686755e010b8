"""Elementwise references against Python's math, and the corners of the number rules."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from codesign.diagnostics import CodesignError
from codesign.dtypes import DType
from codesign.ops.cast import CastAttrs
from codesign.ops.clip import ClipAttrs
from codesign.ops.reduce import ReduceAttrs
from codesign.ops.table import OPERATORS

VALUES = np.array([0.0, 0.5, 1.0, -1.0, 2.5, -2.5, 3.5, 7.25, -0.001, 12.0], np.float32)

MEANINGS: dict[str, Callable[[float], float]] = {
    "negative": lambda x: -x,
    "abs": abs,
    "exp": math.exp,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "atan": math.atan,
    "sinh": math.sinh,
    "cosh": math.cosh,
    "asinh": math.asinh,
    "copy": lambda x: x,
    "trunc": math.trunc,
    "sign": lambda x: math.copysign(1, x) if x else 0.0,
    "erf": math.erf,
    "tanh": math.tanh,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "ceil": math.ceil,
    "floor": math.floor,
    "round": round,
    "nn.relu": lambda x: max(x, 0.0),
    "nn.hard_swish": lambda x: x * min(max(x / 6 + 0.5, 0), 1),
    "nn.gelu": lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2))),
    "nn.silu": lambda x: x / (1 + math.exp(-x)),
}


@pytest.mark.parametrize("name", sorted(MEANINGS))
def test_unary_reference_is_the_rounded_true_value(name: str) -> None:
    expected = np.array([MEANINGS[name](float(x)) for x in VALUES]).astype(np.float32)
    np.testing.assert_array_max_ulp(OPERATORS[name].reference(VALUES), expected, maxulp=1)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("asin", [-1.0, -0.75, 1e-6, 0.999, 1.0]),
        ("acos", [-1.0, -0.75, 1e-6, 0.999, 1.0]),
        ("acosh", [1.0, 1.0001, 2.5, 1e30]),
        ("atanh", [-0.999, -0.5, 1e-6, 0.75]),
    ],
)
def test_functions_of_an_interval(name: str, values: list[float]) -> None:
    data = np.array(values, np.float32)
    expected = np.array([getattr(math, name)(float(x)) for x in data]).astype(np.float32)
    np.testing.assert_array_max_ulp(OPERATORS[name].reference(data), expected, maxulp=1)


def test_bits() -> None:
    lhs, rhs = np.array([12, -7, 127], np.int8), np.array([10, 3, -128], np.int8)
    values = list(zip(lhs.tolist(), rhs.tolist(), strict=True))
    assert OPERATORS["bitwise_and"].reference(lhs, rhs).tolist() == [a & b for a, b in values]
    assert OPERATORS["bitwise_or"].reference(lhs, rhs).tolist() == [a | b for a, b in values]
    assert OPERATORS["bitwise_xor"].reference(lhs, rhs).tolist() == [a ^ b for a, b in values]
    assert OPERATORS["bitwise_not"].reference(lhs).tolist() == [~a for a in lhs.tolist()]


def test_shifts_keep_signs_and_take_distances_modulo_the_width() -> None:
    right = OPERATORS["right_shift"].reference
    assert right(np.array([-128, 127], np.int8), np.array([3, 9], np.int8)).tolist() == [-16, 63]
    assert right(np.array([128], np.uint8), np.array([3], np.uint8)).tolist() == [16]
    left = OPERATORS["left_shift"].reference
    assert left(np.array([65, 1], np.int8), np.array([1, 8], np.int8)).tolist() == [-126, 1]


@pytest.mark.parametrize("name", ["log", "sqrt", "rsqrt", "log2", "log10"])
def test_functions_of_positive_numbers(name: str) -> None:
    meaning = {
        "log2": math.log2,
        "log10": math.log10,
        "log": math.log,
        "sqrt": math.sqrt,
        "rsqrt": lambda x: 1 / math.sqrt(x),
    }[name]
    values = np.array([1e-3, 0.5, 2.0, 1e6], np.float32)
    expected = np.array([meaning(float(x)) for x in values]).astype(np.float32)
    np.testing.assert_array_max_ulp(OPERATORS[name].reference(values), expected, maxulp=1)


def test_invalid_arguments_give_nan_and_infinity_silently() -> None:
    values = np.array([-1.0, 0.0], np.float32)
    assert np.isnan(OPERATORS["log"].reference(values)[0])
    assert OPERATORS["log"].reference(values)[1] == -np.inf
    assert OPERATORS["rsqrt"].reference(values)[1] == np.inf


@pytest.mark.parametrize("name", ["nn.relu", "maximum", "minimum", "clip"])
def test_nan_is_not_swallowed(name: str) -> None:
    nan = np.array([np.nan], np.float32)
    extra = {
        "nn.relu": (),
        "maximum": (np.float32(1),),
        "minimum": (np.float32(1),),
        "clip": (ClipAttrs(minimum=0.0, maximum=1.0),),
    }
    assert np.isnan(OPERATORS[name].reference(nan, *extra[name])[0])


@pytest.mark.parametrize(
    ("values", "through", "final", "expected"),
    [
        (np.array([-1, 0, 2]), DType.BOOL, DType.INT32, [1, 0, 1]),
        (np.array([300], np.int32), DType.UINT8, DType.INT32, [44]),
        (np.array([-1], np.int8), DType.UINT8, DType.INT32, [255]),
        (np.array([16777217], np.int32), DType.FLOAT32, DType.INT32, [16777216]),
        (
            np.array([np.nan, 1e30, -1e30, -1.9], np.float32),
            DType.INT32,
            DType.INT64,
            [0, 2**31 - 1, -(2**31), -1],
        ),
        (np.array([1e30, -1e30], np.float32), DType.INT64, DType.INT64, [2**63 - 1, -(2**63)]),
        (np.array([-1.5, 300.7], np.float32), DType.UINT8, DType.INT32, [0, 255]),
    ],
)
def test_casts_are_not_merged(
    values: np.ndarray, through: DType, final: DType, expected: list[int]
) -> None:
    cast = OPERATORS["cast"].reference
    found = cast(cast(values, CastAttrs(dtype=through)), CastAttrs(dtype=final))
    assert found.dtype == final.numpy
    assert found.tolist() == expected


def test_integer_division_truncates_and_refuses_zero() -> None:
    divide = OPERATORS["divide"].reference
    lhs, rhs = np.array([7, -7, 7, -7, 6], np.int32), np.array([2, 2, -2, -2, -3], np.int32)
    assert divide(lhs, rhs).tolist() == [3, -3, -3, 3, -2]
    with pytest.raises(CodesignError, match="divisor of zero"):
        divide(lhs, np.zeros(5, np.int32))


def test_integer_division_of_the_least_integer_wraps() -> None:
    least = np.array([-128], np.int8)
    assert OPERATORS["divide"].reference(least, np.array([-1], np.int8)).tolist() == [-128]


def test_clip_of_integers_tightens_its_bounds() -> None:
    data = np.array([-5, 0, 5], np.int8)
    attrs = ClipAttrs(minimum=-1.5, maximum=math.inf)
    assert OPERATORS["clip"].reference(data, attrs).tolist() == [-1, 0, 5]


def test_sum_of_an_empty_axis_is_zero_and_product_one() -> None:
    empty = np.zeros((2, 0), np.float32)
    attrs = ReduceAttrs(axis=(1,))
    assert OPERATORS["sum"].reference(empty, attrs).tolist() == [0, 0]
    assert OPERATORS["prod"].reference(empty, attrs).tolist() == [1, 1]


def test_float_sum_is_rounded_once() -> None:
    data = np.array([1e8, 1.0, -1e8], np.float32)
    assert OPERATORS["sum"].reference(data, ReduceAttrs()) == 1.0
