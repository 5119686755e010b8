"""Quantized references against exact integers and fractions of plain Python, element by element."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from codesign.diagnostics import CodesignError
from codesign.dtypes import DType
from codesign.ops.nn.pool2d import Pool2DAttrs
from codesign.ops.qnn.dense import QDenseAttrs
from codesign.ops.qnn.matmul import QMatmulAttrs
from codesign.ops.qnn.quantize import QuantizeAttrs
from codesign.ops.qnn.requantize import RequantizeAttrs
from codesign.ops.qnn.sum_pool2d import QSumPool2DAttrs
from codesign.ops.table import OPERATORS
from tests.support.operator_cases import CASES, reference
from tests.support.operator_draws import Case

SEEDS = range(4)


def places(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    return product(*map(range, shape))


def requantized(exact: int, shift: int, attrs: Any) -> int:
    """`round` of a fraction is to the nearest integer, ties to the even one."""
    steps = round(Fraction(exact, 2**shift)) + attrs.zero_point
    return min(max(steps, attrs.minimum), attrs.maximum)


def window_sum(case: Case, place: tuple[int, ...], kernel: tuple[int, int], term: Any) -> int:
    data, attrs = case.args[0], case.attrs
    _, _, y, x = place
    top, left, _, _ = attrs.padding
    dilation = getattr(attrs, "dilation", (1, 1))
    total = 0
    for i, j in places(kernel):
        row = y * attrs.strides[0] + i * dilation[0] - top
        column = x * attrs.strides[1] + j * dilation[1] - left
        if 0 <= row < data.shape[2] and 0 <= column < data.shape[3]:
            total += term(row, column, i, j)
    return total


@pytest.mark.parametrize("seed", SEEDS)
def test_qnn_conv2d_equals_the_sum_of_its_definition(seed: int) -> None:
    case = CASES["qnn.conv2d"](np.random.default_rng(seed + 1))
    data, weight = case.args
    attrs: Any = case.attrs
    found = reference(OPERATORS["qnn.conv2d"], case)
    assert found.dtype == np.int32
    per_group = weight.shape[0] // attrs.groups
    for n, o, y, x in places(found.shape):
        first = o // per_group * weight.shape[1]

        def term(
            row: int, column: int, i: int, j: int, n: int = n, o: int = o, first: int = first
        ) -> int:
            return sum(
                (int(data[n, first + c, row, column]) - attrs.zero_point) * int(weight[o, c, i, j])
                for c in range(weight.shape[1])
            )

        assert found[n, o, y, x] == window_sum(case, (n, o, y, x), weight.shape[2:], term)


@pytest.mark.parametrize("seed", SEEDS)
def test_qnn_sum_pool2d_equals_the_sum_of_its_definition(seed: int) -> None:
    case = CASES["qnn.sum_pool2d"](np.random.default_rng(seed))
    data = case.args[0]
    attrs: Any = case.attrs
    found = reference(OPERATORS["qnn.sum_pool2d"], case)
    for n, c, y, x in places(found.shape):

        def term(row: int, column: int, i: int, j: int, n: int = n, c: int = c) -> int:
            return int(data[n, c, row, column]) - attrs.zero_point

        assert found[n, c, y, x] == window_sum(case, (n, c, y, x), attrs.pool_size, term)


def test_qnn_dense_equals_the_sum_of_its_definition() -> None:
    case = CASES["qnn.dense"](np.random.default_rng(0))
    data, weight = case.args
    found = reference(OPERATORS["qnn.dense"], case)
    for n, m in places(found.shape):
        terms = ((int(a) + 7) * int(b) for a, b in zip(data[n], weight[m], strict=True))
        assert found[n, m] == sum(terms)


def test_qnn_matmul_equals_the_sum_of_its_definition() -> None:
    lhs = np.array([[[1, -2]], [[3, 4]]], np.int8)
    rhs = np.array([[5, 6, -128], [7, 8, 127]], np.int8)
    attrs = QMatmulAttrs(lhs_zero_point=1, rhs_zero_point=-1)
    found = OPERATORS["qnn.matmul"].reference(lhs, rhs, attrs)
    assert found.tolist() == [[[-24, -27, -384]], [[36, 41, 130]]]


def test_qnn_dense_is_exact_where_float32_is_not() -> None:
    data = np.full((1, 4096), 127, np.int8)
    weight = np.full((1, 4096), 127, np.int8)
    weight[0, 0] = 126
    found = OPERATORS["qnn.dense"].reference(data, weight, QDenseAttrs(zero_point=-7))
    assert found[0, 0] == 134 * (4096 * 127 - 1)


@pytest.mark.parametrize("seed", SEEDS)
def test_qnn_requantize_equals_fractions(seed: int) -> None:
    case = CASES["qnn.requantize"](np.random.default_rng(seed + 1))
    acc, bias, multiplier, shift = case.args
    found = reference(OPERATORS["qnn.requantize"], case)
    assert found.dtype == np.int8
    for place in places(found.shape):
        c = place[1]
        exact = (int(acc[place]) + int(bias[c])) * int(multiplier[c])
        assert found[place] == requantized(exact, int(shift[c]), case.attrs)


@pytest.mark.parametrize("seed", SEEDS)
def test_qnn_add_equals_fractions(seed: int) -> None:
    case = CASES["qnn.add"](np.random.default_rng(seed))
    lhs, rhs = case.args
    a: Any = case.attrs
    found = reference(OPERATORS["qnn.add"], case)
    for place in places(found.shape):
        left = (int(lhs[place]) - a.lhs_zero_point) * a.lhs_multiplier
        right = (int(rhs[place]) - a.rhs_zero_point) * a.rhs_multiplier
        assert found[place] == requantized(left + right, a.shift, a)


@pytest.mark.parametrize("seed", SEEDS)
def test_qnn_multiply_equals_fractions(seed: int) -> None:
    case = CASES["qnn.multiply"](np.random.default_rng(seed))
    lhs, rhs = case.args
    a: Any = case.attrs
    found = reference(OPERATORS["qnn.multiply"], case)
    gate = np.broadcast_to(rhs, lhs.shape)
    for place in places(found.shape):
        exact = (int(lhs[place]) - a.lhs_zero_point) * (int(gate[place]) - a.rhs_zero_point)
        assert found[place] == requantized(exact * a.multiplier, a.shift, a)


def test_qnn_lookup_indexes_by_value() -> None:
    table = np.arange(-128, 128).astype(np.int8)[::-1].copy()
    every = np.arange(-128, 128).astype(np.int8)
    found = OPERATORS["qnn.lookup"].reference(every, table)
    assert found.tolist() == [-1 - int(each) for each in every]


def test_requantize_rounds_half_to_even() -> None:
    acc = np.array([[-24, -8, -7, 8, 7, 24, 2040, -2056]], np.int32).T
    one, zero, four = (np.array([each], np.int32) for each in (1, 0, 4))
    attrs = RequantizeAttrs(minimum=-(2**15), maximum=2**15 - 1, dtype=DType.INT16)
    found = OPERATORS["qnn.requantize"].reference(acc, zero, one, four, attrs)
    assert found.ravel().tolist() == [-2, 0, 0, 0, 0, 2, 128, -128]


def test_quantize_rounds_half_to_even_and_saturates() -> None:
    data = np.array([-1.5, -0.5, 0.5, 1.5, 2.5, 300, -300, np.inf, -np.inf], np.float32)
    attrs = QuantizeAttrs(scale=1.0, zero_point=0)
    found = OPERATORS["qnn.quantize"].reference(data, attrs)
    assert found.tolist() == [-2, 0, 0, 2, 2, 127, -128, 127, -128]


def test_quantize_divides_in_float32() -> None:
    """0.35 / 0.1 is 3.5 in float32 and rounds to 4; in float64 it lies below and rounds to 3."""
    value, scale = np.float32(0.35), np.float32(0.1)
    assert np.float64(value) / np.float64(scale) < 3.5
    found = OPERATORS["qnn.quantize"].reference(
        np.array([value]), QuantizeAttrs(scale=float(scale), zero_point=0)
    )
    assert found.tolist() == [4]


def test_quantize_turns_nan_into_the_zero_point() -> None:
    attrs = QuantizeAttrs(scale=1.0, zero_point=-3)
    assert OPERATORS["qnn.quantize"].reference(np.array([np.nan], np.float32), attrs)[0] == -3


def test_dequantize_inverts_quantize_on_its_values() -> None:
    attrs = QuantizeAttrs(scale=0.037, zero_point=11)
    every = np.arange(-128, 128).astype(np.int8)
    real = OPERATORS["qnn.dequantize"].reference(every, attrs)
    assert real.dtype == np.float32
    np.testing.assert_array_equal(OPERATORS["qnn.quantize"].reference(real, attrs), every)


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ([120] * 4, 120),
        ([1, 2, 2, 2], 2),
        ([-1, -2, -2, -2], -2),
        ([1, 1, 2, 2], 2),
        ([2, 2, 3, 3], 2),
    ],
)
def test_average_of_int8_accumulates_wide_and_rounds_half_to_even(
    window: list[int], expected: int
) -> None:
    data = np.array(window, np.int8).reshape(1, 1, 2, 2)
    attrs = Pool2DAttrs(pool_size=(2, 2))
    assert OPERATORS["nn.avg_pool2d"].reference(data, attrs).item() == expected
    assert OPERATORS["nn.global_avg_pool2d"].reference(data).item() == expected


def test_average_as_sum_and_requantize() -> None:
    data = np.full((1, 1, 7, 7), 127, np.int8)
    sums = OPERATORS["qnn.sum_pool2d"].reference(data, QSumPool2DAttrs(pool_size=(7, 7)))
    assert sums.item() == 49 * 127
    shift = 28
    multiplier = np.array([round(2**shift / 49)], np.int32)
    zero = np.zeros(1, np.int32)
    found = OPERATORS["qnn.requantize"].reference(
        sums, zero, multiplier, np.array([shift], np.int32), RequantizeAttrs()
    )
    assert found.item() == 127


@pytest.mark.parametrize(("multiplier", "shift"), [(2**23, 10), (-1, 10), (1, 57), (1, -1)])
def test_requantize_refuses_parameters_out_of_range(multiplier: int, shift: int) -> None:
    acc = np.zeros((1, 1), np.int32)
    parameters = [np.array([each], np.int32) for each in (0, multiplier, shift)]
    with pytest.raises(CodesignError, match="out of range"):
        OPERATORS["qnn.requantize"].reference(acc, *parameters, RequantizeAttrs())


def test_padding_never_wins_a_maximum_of_int8() -> None:
    data = np.full((1, 1, 2, 2), -128, np.int8)
    attrs = Pool2DAttrs(pool_size=(2, 2), padding=(1, 1, 1, 1))
    assert np.all(OPERATORS["nn.max_pool2d"].reference(data, attrs) == -128)
