"""The executor of threads finds what a GPU would not tell."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.compiler.backends.gpu.execute import execute
from tests.support.gpu_planted import (
    elementwise,
    is_product,
    matrix,
    planted,
    product,
    reduction,
)


@pytest.mark.parametrize("name", list(planted()))
def test_a_planted_fault_is_found_and_named(name: str) -> None:
    faulty = planted()[name]
    kind, detail = faulty.found()
    assert kind == faulty.kind, detail


def test_kernels_without_a_fault_run_and_are_right() -> None:
    x = np.arange(1000, dtype=np.float32)
    target = np.zeros(1000, np.float32)
    execute(elementwise(), [x, target])
    np.testing.assert_array_equal(target, 2 * x)

    terms, sums = np.arange(3000, dtype=np.float32), np.zeros(3, np.float32)
    execute(reduction(), [terms, sums])
    np.testing.assert_allclose(sums, terms.reshape(3, 1000).sum(axis=1), rtol=1e-6)

    rng = np.random.default_rng(0)
    a, b = (rng.integers(-8, 8, shape).astype(np.float32) for shape in ((40, 48), (56, 48)))
    result = np.zeros(40 * 56, np.float32)
    execute(product(), [a.reshape(-1), b.reshape(-1), result])
    np.testing.assert_array_equal(result.reshape(40, 56), a @ b.T)

    halves = [rng.integers(-8, 8, shape).astype(np.float16) for shape in ((40, 160), (56, 160))]
    result = np.zeros(40 * 56, np.float32)
    execute(matrix(), [*(each.reshape(-1) for each in halves), result])
    assert is_product([*halves, result])
