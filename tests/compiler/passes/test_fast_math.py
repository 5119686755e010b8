"""Fast functions: how far compiled ones are beside, and at the ends."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.ops.axis import AxisAttrs
from tests.support.cpu import run_operator


def test_fast_exp_is_within_its_bound() -> None:
    x = np.linspace(-87, 88, 200_001, dtype=np.float32)
    wanted = np.exp(x.astype(np.float64))
    error = np.abs(run_operator("fast_exp", x) / wanted - 1)
    assert error.max() < 1e-5
    assert error.max() > 1e-7  # else it is the exact one


def test_fast_exp_at_the_ends_of_its_range() -> None:
    x = np.array([-1e4, -np.inf, 1e4, np.inf, np.nan, 0.0, -0.0], np.float32)
    found = run_operator("fast_exp", x)
    ends = np.exp([-87.0, -87.0, np.inf, np.inf])
    np.testing.assert_allclose(found[:4], ends, rtol=1e-5)
    assert np.isnan(found[4])
    np.testing.assert_allclose(found[5:], 1, rtol=1e-5)


def test_fast_tanh_is_within_its_bound_everywhere() -> None:
    x = np.concatenate([np.linspace(-20, 20, 100_001), np.geomspace(1e-30, 1, 1000)])
    x = np.concatenate([x, [0.0, np.inf, -np.inf, 3e38]]).astype(np.float32)
    wanted = np.tanh(x.astype(np.float64))
    np.testing.assert_allclose(run_operator("fast_tanh", x), wanted, rtol=1e-6)
    assert np.isnan(run_operator("fast_tanh", np.array([np.nan], np.float32)))[0]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_fast_softmax_sums_to_one(axis: int) -> None:
    x = (np.random.default_rng(1).standard_normal((7, 5, 33)) * 20).astype(np.float32)
    found = run_operator("nn.fast_softmax", x, attrs=AxisAttrs(axis=axis))
    wide = x.astype(np.float64)
    powers = np.exp(wide - wide.max(axis=axis, keepdims=True))
    wanted = powers / powers.sum(axis=axis, keepdims=True)
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-36)
    np.testing.assert_allclose(found.sum(axis=axis), 1, rtol=1e-5)


@pytest.mark.parametrize("name", ["fast_exp", "fast_tanh"])
def test_halves_are_rounded_from_float32(name: str) -> None:
    x = np.linspace(-8, 8, 1001).astype(np.float16)
    function = {"fast_exp": np.exp, "fast_tanh": np.tanh}[name]
    wanted = function(x.astype(np.float64))
    np.testing.assert_allclose(run_operator(name, x), wanted, rtol=1.01 * 2**-11, atol=6e-8)
