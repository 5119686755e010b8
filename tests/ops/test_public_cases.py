"""Cases that went wrong in other compilers, with the answers that are right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.interpreter import Interpreter
from codesign.compiler.values import value_type
from codesign.diagnostics import CodesignError
from codesign.ir.relay.expr import Attrs, Expr, Function, Tuple, Var
from codesign.ir.relay.module import Module
from codesign.ops.axis import AxisAttrs
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.nn.pad import PadAttrs
from codesign.ops.nn.pool2d import Pool2DAttrs
from codesign.ops.reduce import ReduceAttrs
from codesign.ops.reshape import ReshapeAttrs
from codesign.ops.table import call

GRID = np.array([[10, 11, 12], [20, 21, 22]], np.float32)


def typed_and_run(name: str, *arrays: Any, attrs: Attrs | None = None, tupled: bool = False) -> Any:
    """Type, then evaluate; the inferred type must be that of the value."""
    params = tuple(Var(f"x{i}", value_type(np.asarray(each))) for i, each in enumerate(arrays))
    args: tuple[Expr, ...] = (Tuple(params),) if tupled else params
    module = Module({"main": Function(params, call(name, *args, attrs=attrs))})
    types = infer_types(module)
    value = Interpreter(module).evaluate(module.main, [np.asarray(each) for each in arrays])
    assert value_type(value) == types[module.main.body]
    return value


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


# --- indices --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "indices", "attrs", "expected"),
    [
        ("take", [-1, 0, -3], AxisAttrs(axis=1), [[12, 10, 10], [22, 20, 20]]),
        (
            "gather_elements",
            [[-1, -2, 0], [-3, 2, -1]],
            AxisAttrs(axis=1),
            [[12, 11, 10], [20, 22, 22]],
        ),
        ("gather_nd", [[-1, -1], [0, -2]], None, [22, 11]),
    ],
)
def test_negative_index_counts_from_the_end(
    name: str, indices: list[Any], attrs: Attrs | None, expected: list[Any]
) -> None:
    assert typed_and_run(name, GRID, np.array(indices), attrs=attrs).tolist() == expected


@pytest.mark.parametrize("index", [3, -4, 2**40])
def test_index_outside_is_refused_by_name(index: int) -> None:
    with pytest.raises(
        CodesignError, match=f"take reads outside(.|\n)*index {index} of an axis of length 3"
    ):
        typed_and_run("take", GRID, np.array([index]), attrs=AxisAttrs(axis=1))
    with pytest.raises(CodesignError, match="gather_elements reads outside"):
        typed_and_run("gather_elements", GRID, np.array([[index]]), attrs=AxisAttrs(axis=1))
    with pytest.raises(CodesignError, match="gather_nd reads outside"):
        typed_and_run("gather_nd", GRID, np.array([[0, index]]))


# --- padding --------------------------------------------------------------------------------------


def padded(data: list[float], before: int, after: int, mode: Any) -> list[float]:
    array = np.array([data], np.float32)
    attrs = PadAttrs(pad_width=((0, 0), (before, after)), mode=mode)
    return list(typed_and_run("nn.pad", array, attrs=attrs)[0])


def test_reflect_never_repeats_the_edge() -> None:
    assert padded([3, 4, 5], 1, 1, "reflect") == [4, 3, 4, 5, 4]
    assert padded([1, 2, 3, 4, 5], 2, 3, "reflect") == [3, 2, 1, 2, 3, 4, 5, 4, 3, 2]


def test_negative_constant_padding_removes() -> None:
    assert padded([1, 2, 3, 4, 5], -1, 2, "constant") == [2, 3, 4, 5, 0, 0]


@pytest.mark.parametrize(("data", "width"), [([7], 1), ([1, 2], 2)])
def test_reflect_beyond_the_axis_is_refused(data: list[float], width: int) -> None:
    place = rf"axis 1 of length {len(data)}, widths {width} and 0"
    with pytest.raises(CodesignError, match=rf"nn.pad in mode reflect(.|\n)*{place}"):
        padded(data, width, 0, "reflect")


# --- empty tensors --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "shape", "expected"),
    [((0, 4), (0, 2, 2), (0, 2, 2)), ((2, 0, 5), (-1, 10), (0, 10)), ((0,), (0, 7), (0, 7))],
)
def test_empty_reshape(
    data: tuple[int, ...], shape: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    assert typed_and_run("reshape", zeros(*data), attrs=ReshapeAttrs(shape=shape)).shape == expected


def test_empty_operands() -> None:
    joined = typed_and_run(
        "concatenate", zeros(0, 3), zeros(2, 3), attrs=AxisAttrs(axis=0), tupled=True
    )
    assert joined.shape == (2, 3)
    assert typed_and_run("sum", zeros(2, 0), attrs=ReduceAttrs(axis=(1,))).tolist() == [0, 0]
    product = typed_and_run("nn.matmul", zeros(2, 0), zeros(0, 3))
    assert product.tolist() == [[0, 0, 0], [0, 0, 0]]
    assert typed_and_run("add", zeros(0, 1), zeros(1, 3)).shape == (0, 3)
    assert typed_and_run("nn.conv2d", zeros(0, 3, 8, 8), zeros(4, 3, 3, 3)).shape == (0, 4, 6, 6)
    assert typed_and_run("nn.softmax", zeros(0, 5)).shape == (0, 5)
    assert typed_and_run("nn.softmax", zeros(5, 0)).shape == (5, 0)


@pytest.mark.parametrize("name", ["max", "min", "mean"])
def test_no_greatest_element_of_an_empty_axis(name: str) -> None:
    with pytest.raises(CodesignError, match=f"{name} has no value over an empty axis"):
        typed_and_run(name, zeros(2, 0), attrs=ReduceAttrs(axis=(1,)))


def test_reshape_to_another_count_is_refused() -> None:
    with pytest.raises(CodesignError, match="changes the number of elements"):
        typed_and_run("reshape", zeros(2, 3), attrs=ReshapeAttrs(shape=(4, -1)))


# --- windows that do not fit ----------------------------------------------------------------------


def conv(size: int, kernel: int, **attrs: Any) -> Any:
    return typed_and_run(
        "nn.conv2d",
        zeros(1, 4, size, size),
        zeros(4, 4, kernel, kernel),
        attrs=Conv2DAttrs(**attrs),
    )


def test_window_longer_than_the_input_is_refused_with_the_computed_size() -> None:
    formula = r"\(5 \+ 0 \+ 0 - \(\(3 - 1\) \* 4 \+ 1\)\) / 1 \+ 1 = -3"
    with pytest.raises(
        CodesignError, match=rf"nn.conv2d has no output along its height(.|\n)*{formula}"
    ):
        conv(5, 3, dilation=(4, 4))


def test_pool_larger_than_its_input_is_refused() -> None:
    with pytest.raises(CodesignError, match=r"nn.max_pool2d has no output(.|\n)*= -1"):
        typed_and_run("nn.max_pool2d", zeros(1, 1, 3, 3), attrs=Pool2DAttrs(pool_size=(5, 5)))


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"strides": (0, 1)}, "strides of at least 1"),
        ({"dilation": (1, 0)}, "dilation of at least 1"),
        ({"groups": 3}, r"groups that do not divide(.|\n)*groups 3, 4 input channels"),
        ({"groups": 0}, "groups of at least 1"),
        ({"groups": 2}, "weight for another number of channels"),
        ({"padding": (-9, 0, 0, 0)}, "negative padding beyond the height"),
    ],
)
def test_meaningless_attributes_are_refused(attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(CodesignError, match=message):
        conv(8, 3, **attrs)


def test_negative_padding_crops() -> None:
    rng = np.random.default_rng(0)
    data = rng.standard_normal((1, 2, 8, 9)).astype(np.float32)
    weight = rng.standard_normal((3, 2, 3, 3)).astype(np.float32)
    cropped = typed_and_run("nn.conv2d", data, weight, attrs=Conv2DAttrs(padding=(-1, -2, -3, 0)))
    plain = typed_and_run("nn.conv2d", data[:, :, 1:5, 2:].copy(), weight)
    np.testing.assert_allclose(cropped, plain, rtol=1e-5)


def test_pool_window_in_the_padding_alone_is_refused() -> None:
    attrs = Pool2DAttrs(pool_size=(2, 2), padding=(2, 0, 0, 0))
    with pytest.raises(CodesignError, match="padding of 0 up to less than its window"):
        typed_and_run("nn.max_pool2d", zeros(1, 1, 4, 4), attrs=attrs)


@pytest.mark.parametrize(
    ("name", "shapes", "message"),
    [
        ("add", [(2, 3), (4,)], "do not broadcast"),
        ("nn.dense", [(2, 784), (10, 512)], "data has 784 columns, weight has 512"),
        ("nn.matmul", [(2, 3), (4, 5)], "left operand has 3 columns, right operand has 4 rows"),
        ("nn.relu", [(2,), (2,)], "found 2, expected 1"),
        ("nn.global_avg_pool2d", [(2, 3)], "data of rank 4"),
    ],
)
def test_operands_that_do_not_fit_are_refused(
    name: str, shapes: list[tuple[int, ...]], message: str
) -> None:
    with pytest.raises(CodesignError, match=message):
        typed_and_run(name, *(zeros(*shape) for shape in shapes))


def test_element_types_are_not_mixed() -> None:
    with pytest.raises(CodesignError, match=r"add takes one element type(.|\n)*float32 and int32"):
        typed_and_run("add", zeros(2), np.zeros(2, np.int32))
