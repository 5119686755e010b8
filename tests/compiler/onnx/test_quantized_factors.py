"""Multipliers that stand for factors of floating point: every sum is tried."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from codesign.compiler.frontend.onnx.quantized.factors import Reach, fixed_factors

LOW, HIGH = -128, 127


def _by_float32(sums: np.ndarray, factor: np.float32) -> np.ndarray:
    return np.clip(np.rint(sums.astype(np.float32) * factor), LOW, HIGH)


@pytest.mark.parametrize("seed", range(8))
def test_a_multiplier_gives_every_code_of_its_factor(seed: int) -> None:
    rng = np.random.default_rng(seed)
    most = 60_000
    sums = np.arange(-most, most + 1)
    reach = Reach(np.full(1, -most), np.full(1, most))
    found = 0
    for factor in rng.uniform(2e-4, 2e-2, 12).astype(np.float32):
        fixed = fixed_factors(factor.reshape(1), reach, LOW, HIGH)
        if fixed is None:
            continue
        found += 1
        multiplier, shift = int(fixed.multiplier[0]), int(fixed.shift[0])
        product = sums * multiplier
        floor = product >> shift
        rest = product - (floor << shift)
        half = 1 << (shift - 1)
        up = (rest > half) | ((rest == half) & (floor % 2 == 1))
        np.testing.assert_array_equal(np.clip(floor + up, LOW, HIGH), _by_float32(sums, factor))
    assert found >= 6


def test_no_multiplier_is_said_where_none_gives_every_code() -> None:
    # Sums on both sides of halves that float32 rounds together: no number of 23 bits serves both.
    rng = np.random.default_rng(3)
    reach = Reach(np.full(1, -(1 << 30)), np.full(1, 1 << 30))
    refused = [
        factor
        for factor in rng.uniform(1e-6, 1e-5, 200).astype(np.float32)
        if fixed_factors(factor.reshape(1), reach, LOW, HIGH) is None
    ]
    assert refused
    factor = refused[0]
    # The nearest multiplier is wrong indeed: some first sum of a code is another's.
    shift = 23 - int(np.frexp(float(factor))[1])
    multiplier = round(float(factor) * 2**shift)
    exact = Fraction(multiplier, 2**shift)
    near = [round((code + 0.5) / float(factor)) + step for code in range(LOW, HIGH)
            for step in (-2, -1, 0, 1, 2)]  # fmt: skip
    wanted = _by_float32(np.array(near), factor)
    got = [min(max(round(exact * each), LOW), HIGH) for each in near]
    assert any(a != b for a, b in zip(wanted, got, strict=True))


def test_powers_of_two_are_multipliers_while_sums_fit_a_float32() -> None:
    factors = np.ldexp(np.ones(17, np.float32), -np.arange(17))
    limit = np.full(17, (1 << 31) - 1)
    fixed = fixed_factors(factors, Reach(-limit, limit), LOW, HIGH)
    assert fixed is not None
    np.testing.assert_array_equal(
        np.ldexp(fixed.multiplier.astype(np.float64), -fixed.shift), factors
    )
