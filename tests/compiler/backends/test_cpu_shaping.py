"""Operators that make, shape and collapse tensors: compiled code equals the references."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Attrs, Constant, Expr, Tuple
from codesign.ops.axis import AxisAttrs
from codesign.ops.filled import FilledAttrs
from codesign.ops.table import call
from tests.support.cpu import reference, run, run_operator
from tests.support.operator_cases import CASES

NAMES = [
    "full", "zeros_like", "ones_like", "full_like", "expand_dims", "squeeze", "collapse_sum_to",
    "collapse_sum_like", "one_hot", "reshape_like", "broadcast_to_like", "cast_like",
    "layout_transform", "nn.batch_matmul", "tile", "repeat", "reverse", "shape_of",
]  # fmt: skip


def _agree(found: Array, expected: Array) -> None:
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", NAMES)
def test_compiled_operator_equals_its_reference(name: str) -> None:
    rng = np.random.default_rng(17)
    for _ in range(6):
        case = CASES[name](rng)
        arrays = [each for each in case.args if not isinstance(each, tuple)]
        _agree(
            run_operator(name, *arrays, attrs=case.attrs),
            reference(name, *arrays, attrs=case.attrs),
        )


@pytest.mark.parametrize(("name", "value"), [("zeros", 0), ("ones", 1)])
@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.INT8, DType.BOOL, DType.FLOAT64])
def test_filled_tensors_need_no_argument(name: str, value: int, dtype: DType) -> None:
    attrs: Attrs = FilledAttrs(shape=(3, 5), dtype=dtype)
    _agree(run_operator(name, attrs=attrs), np.full((3, 5), value, dtype.numpy))


def test_constants_stand_beside_what_is_computed() -> None:
    """A constant that is reshaped on the way is read from its own place."""
    fixed = np.array([7, 9, 11], np.int64)
    x: Array = np.array([1, 2, 3], np.int64)

    def stacked(value: Expr) -> Expr:
        return call("stack", Tuple((value, Constant(fixed))), attrs=AxisAttrs(axis=1))

    np.testing.assert_array_equal(run(stacked, x), np.stack([x, fixed], axis=1))
