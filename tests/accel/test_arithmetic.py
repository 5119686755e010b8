"""The number rules against exact rational arithmetic, and the published rounding table."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from codesign.accel import arithmetic
from codesign.accel.arithmetic import Parameters
from codesign.accel.isa import Reduce, VectorOp
from codesign.diagnostics import CodesignError


def _clamp(value: int, bits: int) -> int:
    return max(-(1 << (bits - 1)), min((1 << (bits - 1)) - 1, value))


def test_the_published_accumulators_round_half_to_even() -> None:
    accumulators = [-24, -8, -7, 8, 7, 24, 2040, -2056]
    rounded = arithmetic.half_even_shift(accumulators, 4).tolist()
    assert rounded == [-2, 0, 0, 0, 0, 2, 128, -128]


@pytest.mark.parametrize("shift", [0, 1, 2, 7, 31, 55, 56])
def test_half_even_shift_is_pythons_round_of_the_exact_quotient(shift: int) -> None:
    rng = np.random.default_rng(shift)
    values = [int(v) for v in rng.integers(-(1 << 58), 1 << 58, 200)]
    values += [(2 * k + 1) << shift >> 1 for k in range(-9, 9)]
    values += [0, 1, -1, (1 << 61), -(1 << 61)]
    expected = [round(Fraction(value, 1 << shift)) for value in values]
    assert arithmetic.half_even_shift(values, shift).tolist() == expected


@pytest.mark.parametrize("bits", [2, 4, 8, 16, 32])
def test_saturate_and_wrap_differ_where_they_should(bits: int) -> None:
    top = (1 << (bits - 1)) - 1
    values = [top, top + 1, -top - 1, -top - 2]
    assert arithmetic.saturate(values, bits).tolist() == [top, top, -top - 1, -top - 1]
    assert arithmetic.wrap(values, bits).tolist() == [top, -top - 1, -top - 1, top]


EXTREME = [-(1 << 31), (1 << 31) - 1, -(1 << 15), (1 << 15) - 1, -257, -256, 255, 256, -1, 0, 1]


@pytest.mark.parametrize(
    ("op", "rule"),
    [
        (VectorOp.PASS, lambda x, y: x),
        (VectorOp.ADD, lambda x, y: _clamp(x + y, 32)),
        (VectorOp.SUB, lambda x, y: _clamp(x - y, 32)),
        (VectorOp.MIN, min),
        (VectorOp.MAX, max),
    ],
)
def test_combine_saturates_at_32_bits(op: VectorOp, rule: object) -> None:
    for x in EXTREME:
        for y in EXTREME:
            assert int(arithmetic.combine(op, x, y, 8)) == rule(x, y)  # type: ignore[operator]


@pytest.mark.parametrize("inp_bits", [4, 8, 16])
def test_products_of_operands_in_range_are_exact_or_saturate(inp_bits: int) -> None:
    edge = 1 << inp_bits
    for x in (-edge, edge - 1, -1, 0, 1):
        for y in (-(1 << 15), (1 << 15) - 1, -1, 0, 1):
            product = int(arithmetic.combine(VectorOp.MUL, x, y, inp_bits))
            assert product == _clamp(x * y, 32)


def test_products_take_the_low_bits_of_wide_operands() -> None:
    assert int(arithmetic.combine(VectorOp.MUL, 256, 1, 8)) == -256
    assert int(arithmetic.combine(VectorOp.MUL, 1, 1 << 15, 8)) == -(1 << 15)


def test_sums_saturate_at_every_step_in_order() -> None:
    top = (1 << 31) - 1
    so_far = np.array([top], np.int64)
    for term in (1, -1):
        so_far = arithmetic.reduce_step(Reduce.SUM, so_far, np.array([term], np.int64))
    assert so_far.tolist() == [top - 1]


@pytest.mark.parametrize("seed", range(4))
def test_requantize_is_exact_before_its_one_rounding(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = 300
    s = rng.choice([-(1 << 31), (1 << 31) - 1, *rng.integers(-(1 << 31), 1 << 31, 50)], count)
    bias = rng.choice([-(1 << 31), (1 << 31) - 1, *rng.integers(-(1 << 31), 1 << 31, 50)], count)
    multiplier = rng.choice([-(1 << 23), (1 << 23) - 1, *rng.integers(0, 1 << 23, 50)], count)
    shift = rng.integers(0, 57, count)
    y = rng.choice([-(1 << 16), (1 << 16) - 1, 3, 0], count)
    immediate, residual_shift = -(1 << 15), int(rng.choice([0, 24]))
    words = arithmetic.pack_parameters(bias, multiplier, shift)
    residual = arithmetic.residual_term(y, immediate, residual_shift)
    found = arithmetic.requantize(s, arithmetic.unpack_parameters(words), residual)
    for index in range(count):
        exact = (int(s[index]) + int(bias[index])) * int(multiplier[index])
        exact += int(y[index]) * immediate * 2**residual_shift
        assert found[index] == _clamp(round(Fraction(exact, 2 ** int(shift[index]))), 32)


def test_a_shift_above_56_is_refused() -> None:
    parameters = Parameters(*(np.array([value], np.int64) for value in (0, 1, 57)))
    with pytest.raises(CodesignError, match="a param word shifts by 57 bits, more than 56"):
        arithmetic.requantize([1], parameters)


def test_param_words_have_bias_multiplier_shift_from_the_low_end() -> None:
    word = int(arithmetic.pack_parameters([-2], [-3], [40])[0])
    assert word == 0x28_FFFFFD_FFFFFFFE
    words = np.array([word], np.uint64)
    assert [int(each[0]) for each in arithmetic.unpack_parameters(words)] == [-2, -3, 40]
    fields = [int(arithmetic.parameter_field(words, field)[0]) for field in range(4)]
    assert fields == [-2, -1, -3, 0x28FF]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((1 << 31, 0, 0), "bias of a param word must be from -2147483648 to 2147483647"),
        ((0, 1 << 23, 0), "multiplier of a param word must be from -8388608 to 8388607"),
        ((0, 0, 57), "shift of a param word must be from 0 to 56"),
        ((0, 0, -1), "shift of a param word must be from 0 to 56"),
    ],
)
def test_param_words_refuse_what_does_not_fit(values: tuple[int, ...], message: str) -> None:
    with pytest.raises(CodesignError, match=message):
        arithmetic.pack_parameters(*([value] for value in values))


def test_accumulators_of_16_bits_saturate_and_count_and_of_32_bits_wrap() -> None:
    limited, count = arithmetic.accumulate([32767, -32768, 5], [1, -1, 5], 16)
    assert (limited.tolist(), count) == ([32767, -32768, 10], 2)
    wrapped, count = arithmetic.accumulate([(1 << 31) - 1], [1], 32)
    assert (wrapped.tolist(), count) == ([-(1 << 31)], 0)


def test_table_entries_are_low_bytes() -> None:
    assert arithmetic.table_entry([-1, -128, 127, 300]).tolist() == [255, 128, 127, 44]
