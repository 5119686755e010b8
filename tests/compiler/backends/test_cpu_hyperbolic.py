"""Compiled inverses of sine, cosine and tangent, and hyperbolic functions, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.cpu import run_operator

RANGES = {
    "asin": ("arcsin", np.linspace(-1, 1, 4001)),
    "acos": ("arccos", np.linspace(-1, 1, 4001)),
    "atan": ("arctan", np.concatenate([np.linspace(-9, 9, 4001), [-1e30, 1e30, 1e-30]])),
    "sinh": ("sinh", np.concatenate([np.linspace(-88, 88, 4001), np.linspace(-0.5, 0.5, 999)])),
    "cosh": ("cosh", np.linspace(-88, 88, 4001)),
    "asinh": ("arcsinh", np.concatenate([np.linspace(-9, 9, 4001), [-1e37, 1e37, 1e-30]])),
    "acosh": ("arccosh", np.concatenate([1 + np.geomspace(1e-6, 1, 999), [1, 1e37]])),
    "atanh": ("arctanh", np.concatenate([np.linspace(-1, 1, 4001), [1e-30]])),
}


@pytest.mark.parametrize("name", RANGES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_of_the_whole_range(name: str, dtype: type[np.floating]) -> None:
    meaning, numbers = RANGES[name]
    x = numbers.astype(dtype)
    with np.errstate(divide="ignore"):
        wanted = getattr(np, meaning)(x.astype(np.float64))
    slack = 2e-7 if dtype is np.float32 else 2e-14
    np.testing.assert_allclose(run_operator(name, x), wanted, rtol=slack)


@pytest.mark.parametrize("name", RANGES)
def test_special_values_are_those_of_numpy(name: str) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 2.0, -2.0, 1.0, -1.0], np.float32)
    with np.errstate(all="ignore"):
        wanted = getattr(np, RANGES[name][0])(x.astype(np.float64)).astype(np.float32)
    found = run_operator(name, x)
    np.testing.assert_allclose(found, wanted, rtol=2e-7)
    np.testing.assert_array_equal(np.signbit(found[3:5]), np.signbit(wanted[3:5]))
