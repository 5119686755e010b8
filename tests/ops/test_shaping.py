"""References of operators that make, shape and collapse tensors, against NumPy said otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from codesign.compiler.analysis.infer_types import infer_types
from codesign.diagnostics import CodesignError
from codesign.dtypes import DType
from codesign.ir.relay.expr import Function, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import UNKNOWN, TensorType, Type
from codesign.ops.collapse_sum import CollapseSumAttrs
from codesign.ops.expand_dims import ExpandDimsAttrs, SqueezeAttrs
from codesign.ops.filled import FilledAttrs, FullAttrs
from codesign.ops.layout_transform import LayoutTransformAttrs
from codesign.ops.like import ReshapeLikeAttrs
from codesign.ops.nn.batch_matmul import BatchMatmulAttrs
from codesign.ops.one_hot import OneHotAttrs
from codesign.ops.table import OPERATORS, call


def _value(name: str, *args: Any) -> Any:
    return OPERATORS[name].reference(*args)


def _type(name: str, *types: Type, attrs: Any = None) -> Type:
    params = tuple(Var(f"x{number}", each) for number, each in enumerate(types))
    module = Module({"main": Function(params, call(name, *params, attrs=attrs))})
    return infer_types(module)[module.main.body]


def _tensor(*shape: Any, dtype: DType = DType.FLOAT32) -> TensorType:
    return TensorType(shape, dtype)


def test_collapse_sum_is_the_adjoint_of_a_broadcast() -> None:
    rng = np.random.default_rng(1)
    for shape, target in [((2, 3, 4), (3, 1)), ((2, 3, 4), ()), ((5, 1), (5, 1)), ((4, 2), (1, 1))]:
        data = rng.integers(-9, 9, shape)
        small = rng.integers(-9, 9, target)
        summed = _value("collapse_sum_to", data, CollapseSumAttrs(shape=target))
        assert summed.shape == target
        assert np.sum(summed * small) == np.sum(data * np.broadcast_to(small, shape))


def test_collapse_sum_rounds_once() -> None:
    data = np.array([1e8, 1.0, -1e8, 1.0], np.float32)
    assert _value("collapse_sum_like", data, np.float32(0).reshape(())) == 2.0


def test_one_hot_marks_nothing_for_an_index_outside() -> None:
    found = _value(
        "one_hot", np.array([1, -1, 3]), np.int8(7), np.int8(-7), OneHotAttrs(depth=3, axis=0)
    )
    np.testing.assert_array_equal(found, [[-7, -7, -7], [7, -7, -7], [-7, -7, -7]])
    assert found.dtype == np.int8


def test_expand_dims_at_the_end_and_squeeze_undo_each_other() -> None:
    data = np.arange(6).reshape(2, 3)
    wide = _value("expand_dims", data, ExpandDimsAttrs(axis=-1, num_newaxis=2))
    assert wide.shape == (2, 3, 1, 1)
    np.testing.assert_array_equal(_value("squeeze", wide, SqueezeAttrs()), data)


def test_unknown_lengths_pass_through() -> None:
    x = _tensor(UNKNOWN, 1, 3)
    assert _type("zeros_like", x) == x
    assert _type("expand_dims", x, attrs=ExpandDimsAttrs(axis=1)) == _tensor(UNKNOWN, 1, 1, 3)
    assert _type("squeeze", x, attrs=SqueezeAttrs(axis=(1,))) == _tensor(UNKNOWN, 3)
    assert _type("collapse_sum_like", x, _tensor(UNKNOWN, 1, 1)) == _tensor(UNKNOWN, 1, 1)
    indices = _tensor(UNKNOWN, dtype=DType.INT32)
    attrs = OneHotAttrs(depth=4)
    assert _type("one_hot", indices, _tensor(), _tensor(), attrs=attrs) == _tensor(UNKNOWN, 4)


@pytest.mark.parametrize(
    ("name", "types", "attrs", "message"),
    [
        ("full", (_tensor(2),), FullAttrs(shape=(3,)), "full takes a value of rank 0"),
        ("zeros", (), FilledAttrs(shape=(-1,), dtype=DType.INT8), "lengths that are not negative"),
        ("full_like", (_tensor(2), _tensor(dtype=DType.INT8)), None, "takes one element type"),
        ("expand_dims", (_tensor(2),), ExpandDimsAttrs(axis=3), "a place that does not exist"),
        ("squeeze", (_tensor(2, 1),), SqueezeAttrs(axis=(0,)), "drops axes of length 1 only"),
        ("squeeze", (_tensor(UNKNOWN, 1),), SqueezeAttrs(), "where a length is not known"),
        ("collapse_sum_to", (_tensor(2),), CollapseSumAttrs(shape=(3,)), "that broadcasts to"),
        ("collapse_sum_like", (_tensor(2), _tensor(1, 2)), None, "that broadcasts to"),
        ("one_hot", (_tensor(2),) * 3, OneHotAttrs(depth=2), "has no meaning for float32"),
    ],
)
def test_mistakes_name_what_is_wrong(
    name: str, types: tuple[Type, ...], attrs: Any, message: str
) -> None:
    with pytest.raises(CodesignError, match=message):
        _type(name, *types, attrs=attrs)


def test_a_block_holds_neighbouring_channels() -> None:
    data = np.arange(2 * 8 * 3 * 5).reshape(2, 8, 3, 5)
    attrs = LayoutTransformAttrs(src_layout="NCHW", dst_layout="NCHW4c")
    found = _value("layout_transform", data, attrs)
    assert found.shape == (2, 2, 3, 5, 4)
    for n, c, h, w in np.ndindex(data.shape):
        assert found[n, c // 4, h, w, c % 4] == data[n, c, h, w]


def test_reshape_like_replaces_the_axes_that_are_named() -> None:
    attrs = ReshapeLikeAttrs(lhs_begin=1, lhs_end=2, rhs_begin=0, rhs_end=2)
    assert _type("reshape_like", _tensor(5, 6), _tensor(2, 3, 9), attrs=attrs) == _tensor(5, 2, 3)


@pytest.mark.parametrize("text", ["NCHWC", "NCHWc", "NC8cHW8c", "NCHW0c", "nchw", "NHW8c", "N CHW"])
def test_what_is_no_layout_is_refused(text: str) -> None:
    attrs = LayoutTransformAttrs(src_layout="NCHW", dst_layout=text)
    with pytest.raises(CodesignError, match="has no such layout"):
        _type("layout_transform", _tensor(1, 8, 2, 2), attrs=attrs)


@pytest.mark.parametrize(
    ("shape", "source", "target", "message"),
    [
        ((1, 6, 2, 2), "NCHW", "NCHW4c", "axis C has length 6, its block 4"),
        ((1, 6, 2), "NCHW", "NHWC", "takes a tensor in its layout"),
        ((1, 2, 2, 2, 3), "NCHW4c", "NCHW", "takes blocks of their length"),
    ],
)
def test_layouts_that_do_not_fit_are_refused(
    shape: tuple[int, ...], source: str, target: str, message: str
) -> None:
    attrs = LayoutTransformAttrs(src_layout=source, dst_layout=target)
    with pytest.raises(CodesignError, match=message):
        _type("layout_transform", _tensor(*shape), attrs=attrs)


@pytest.mark.parametrize(("a", "b"), [(False, True), (True, True), (False, False), (True, False)])
def test_batch_matmul_multiplies_each_sample(a: bool, b: bool) -> None:
    rng = np.random.default_rng(2)
    left, right = rng.integers(-9, 9, (1, 2, 4)), rng.integers(-9, 9, (3, 4, 5))
    attrs = BatchMatmulAttrs(transpose_a=a, transpose_b=b)
    lhs = np.moveaxis(left, 1, 2) if a else left
    rhs = np.moveaxis(right, 1, 2) if b else right
    found = _value("nn.batch_matmul", lhs, rhs, attrs)
    np.testing.assert_array_equal(found, [left[0] @ each for each in right])


def test_batch_matmul_takes_an_unknown_batch_and_refuses_lengths_that_differ() -> None:
    attrs = BatchMatmulAttrs()
    wanted = _tensor(UNKNOWN, 2, 5)
    assert _type("nn.batch_matmul", _tensor(UNKNOWN, 2, 4), _tensor(1, 5, 4), attrs=attrs) == wanted
    with pytest.raises(CodesignError, match="reduces over axes of different length"):
        _type("nn.batch_matmul", _tensor(1, 2, 4), _tensor(1, 4, 5), attrs=attrs)
