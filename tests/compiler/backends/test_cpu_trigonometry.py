"""Compiled functions of angles, logarithms to other bases, and questions about numbers."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.dtypes import Array
from tests.support.cpu import reference, run_operator


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_angles_of_every_quadrant(name: str, dtype: type[np.floating]) -> None:
    x = np.concatenate([np.linspace(-60000, 60000, 5001), np.linspace(-7, 7, 5001)]).astype(dtype)
    found, wanted = run_operator(name, x), reference(name, x)
    eps = float(np.finfo(dtype).eps)
    slack = 4 * eps if dtype is not np.float64 else 1e-10
    np.testing.assert_allclose(found, wanted, rtol=slack, atol=slack * eps)


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_large_angles(name: str) -> None:
    x = np.random.default_rng(0).uniform(-(2.0**30), 2.0**30, 4001).astype(np.float32)
    wanted = getattr(np, name)(x.astype(np.float64))
    np.testing.assert_allclose(run_operator(name, x), wanted, rtol=1e-6, atol=1e-9)


def test_no_angle_has_no_sine() -> None:
    x = np.array([np.inf, -np.inf, np.nan], np.float32)
    assert np.all(np.isnan(run_operator("sin", x)))


@pytest.mark.parametrize("name", ["log2", "log10"])
def test_logarithms_to_other_bases(name: str) -> None:
    x = np.geomspace(1e-45, 3e38, 4001).astype(np.float32)
    np.testing.assert_allclose(run_operator(name, x), reference(name, x), rtol=5e-7, atol=1e-7)


@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite", "sign", "trunc"])
def test_special_numbers(name: str) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -1.5, 1e-45, -3e38], np.float32)
    np.testing.assert_array_equal(run_operator(name, x), reference(name, x))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64"])
def test_signs_of_integers(dtype: str) -> None:
    limits = np.iinfo(dtype)
    x: Array = np.array([limits.min, 0, 1, limits.max], dtype)
    np.testing.assert_array_equal(run_operator("sign", x), np.sign(x))
