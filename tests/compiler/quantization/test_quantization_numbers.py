"""The numbers of quantization: histograms, ranges, multipliers, integer layers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codesign.compiler.quantization.config import QuantizationConfig, RangeMethod
from codesign.compiler.quantization.fixed_point import (
    FactorOutOfRangeError,
    common_shift,
    fixed_point,
)
from codesign.compiler.quantization.histogram import Histogram
from codesign.compiler.quantization.layers import NoIntegerLayerError, integer_layer
from codesign.compiler.quantization.params import Grid, QuantParams
from codesign.compiler.quantization.ranges import choose
from codesign.dtypes import Array

FACTORS = st.floats(min_value=2.0**-33, max_value=2.0**22, allow_nan=False)


@given(factor=FACTORS)
def test_a_multiplier_is_the_nearest_of_23_bits(factor: float) -> None:
    multiplier, shift = (int(each) for each in fixed_point(np.array(factor)))
    assert 2**22 <= multiplier < 2**23
    assert 0 <= shift <= 56
    error = abs(Fraction(multiplier, 2**shift) - Fraction(factor))
    assert error <= Fraction(1, 2 ** (shift + 1))


@pytest.mark.parametrize(
    ("factor", "multiplier", "shift"),
    [
        (1.0, 2**22, 22),
        (0.75, 3 * 2**21, 23),
        (2.0**-34, 2**22, 56),
        (2.0**-40, 2**16, 56),
        (0.0, 0, 0),
        (1 - 2.0**-30, 2**22, 22),
        (2.0**22, 2**22, 0),
    ],
)
def test_factors_worked_out_by_hand(factor: float, multiplier: int, shift: int) -> None:
    found = fixed_point(np.array(factor))
    assert (int(found[0]), int(found[1])) == (multiplier, shift)


@pytest.mark.parametrize("factor", [2.0**23, -1.0, np.inf, np.nan])
def test_a_factor_out_of_range_is_refused(factor: float) -> None:
    with pytest.raises(FactorOutOfRangeError):
        fixed_point(np.array(factor))


@given(lhs=st.floats(2.0**-20, 2.0**14), rhs=st.floats(2.0**-20, 2.0**14))
def test_a_sum_has_multipliers_of_16_bits(lhs: float, rhs: float) -> None:
    left, right, shift = common_shift(lhs, rhs)
    assert max(left, right) <= 2**15 - 1
    assert max(left, right) >= 2**14 - 1
    assert abs(Fraction(left, 2**shift) - Fraction(lhs)) <= Fraction(1, 2 ** (shift + 1))
    assert abs(Fraction(right, 2**shift) - Fraction(rhs)) <= Fraction(1, 2 ** (shift + 1))


@given(low=st.floats(-1e6, 1e6), high=st.floats(-1e6, 1e6))
def test_zero_has_a_code_of_its_own(low: float, high: float) -> None:
    params = Grid().covering(min(low, high), max(low, high))
    assert -128 <= params.zero_point <= 127
    assert params.code(0.0) == params.zero_point
    assert params.low <= min(low, high, 0) + params.scale
    assert params.high >= max(low, high, 0) - params.scale


@given(
    parts=st.lists(
        st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=20), min_size=1, max_size=6
    )
)
def test_a_histogram_counts_what_came_whatever_the_order(parts: list[list[float]]) -> None:
    histogram = Histogram(bins=256)
    for part in parts:
        histogram.add(np.array(part, np.float32))
    values = np.concatenate([np.array(part, np.float32) for part in parts])
    assert histogram.counts.sum() == values.size
    assert (histogram.least, histogram.greatest) == (values.min(), values.max())
    edges = np.arange(257) * histogram.bin_width - histogram.half_width
    np.testing.assert_array_equal(histogram.counts, np.histogram(values, edges)[0])


def test_a_histogram_leaves_strangers_out() -> None:
    histogram = Histogram()
    histogram.add(np.array([1.0, np.nan, np.inf, -2.0]))
    assert histogram.strangers == 2
    assert (histogram.least, histogram.greatest) == (-2.0, 1.0)


def _histogram(values: Array) -> Histogram:
    histogram = Histogram()
    histogram.add(values)
    return histogram


def test_the_range_of_least_error_cuts_a_rare_outlier() -> None:
    values = np.concatenate([np.random.default_rng(0).normal(size=20000), [40.0]])
    params = choose(_histogram(values), QuantizationConfig())
    plain = choose(_histogram(values), QuantizationConfig(method=RangeMethod.MINMAX))
    assert plain.high == pytest.approx(40, rel=0.02)

    def error(chosen: QuantParams) -> float:
        return float(np.square(chosen.values(chosen.codes(values)) - values).sum())

    assert error(params) < error(plain)


def test_a_percentile_keeps_its_share() -> None:
    values = np.random.default_rng(0).uniform(0, 1, 100_000)
    config = QuantizationConfig(method=RangeMethod.PERCENTILE, percentile=80)
    params = choose(_histogram(values), config)
    assert params.high == pytest.approx(0.9, abs=0.01)


def test_what_a_saturating_function_ignores_costs_no_codes() -> None:
    values = np.random.default_rng(0).normal(0, 20, 20000)
    histogram = _histogram(values)
    params = choose(histogram, QuantizationConfig(), lambda x: np.clip(x, -3, 3))
    assert -4 < params.low <= -2.9
    assert 2.9 <= params.high < 4


def test_a_layer_worked_out_by_hand() -> None:
    weight = np.array([[1.27, -0.635], [0.0254, 0.0]], np.float32)
    source, result = QuantParams(0.5, 10), QuantParams(0.25, -20)
    layer = integer_layer(weight, np.array([0.1, -1.0]), source, result)
    np.testing.assert_array_equal(layer.weight, [[127, -64], [127, 0]])
    # Scales of the weight: 1.27 / 127 = 0.01 and 0.0254 / 127 = 0.0002.
    np.testing.assert_array_equal(layer.bias, [20, -10000])
    np.testing.assert_allclose(
        layer.multiplier / 2.0**layer.shift, [0.5 * 0.01 / 0.25, 0.5 * 0.0002 / 0.25], rtol=1e-6
    )
    assert layer.notes == ()


def test_a_bias_beyond_32_bits_widens_the_scale_and_says_so() -> None:
    weight = np.full((1, 4), 127e-6, np.float32)
    source, result = QuantParams(1e-5, 0), Grid().covering(0.0, 3.1)
    layer = integer_layer(weight, np.array([3.0]), source, result)
    assert abs(int(layer.bias[0])) <= 2**30
    assert "widened" in layer.notes[0]
    real = int(layer.bias[0]) * int(layer.multiplier[0]) / 2.0 ** int(layer.shift[0])
    assert real * result.scale == pytest.approx(3.0, rel=1e-3)


def test_a_channel_of_zeros_keeps_its_bias() -> None:
    layer = integer_layer(
        np.zeros((1, 4), np.float32), np.array([0.7]), QuantParams(0.1, 0), QuantParams(0.01, 0)
    )
    real = int(layer.bias[0]) * int(layer.multiplier[0]) / 2.0 ** int(layer.shift[0])
    assert real * 0.01 == pytest.approx(0.7, rel=1e-4)


def test_an_accumulator_beyond_32_bits_is_refused() -> None:
    weight = np.ones((1, 70_000), np.float32)
    with pytest.raises(NoIntegerLayerError, match="accumulator could reach"):
        integer_layer(weight, np.zeros(1), QuantParams(1.0, -128), QuantParams(1e5, 0))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"percentile": 50.0}, r"^QuantizationConfig.percentile must be within \(50, 100\], not"),
        ({"bins": 100}, r"^QuantizationConfig.bins must be a multiple of 4 of at least 256, not"),
    ],
)
def test_a_configuration_out_of_range_is_refused(fields: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        QuantizationConfig(**fields)  # type: ignore[arg-type]
