"""Equality up to names, with sharing and bits."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.ir.relay.equal import is_equal, is_equal_module
from codesign.ir.relay.expr import Constant, Expr, Function, Let, Project, Tuple, Var
from codesign.ir.relay.types import TensorType
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.nn.softmax import AxisAttrs
from codesign.ops.table import call
from tests.support.relay_programs import BOOL, INT, call_chain, diamond, even_and_odd, let_chain


def constant(value: object, dtype: str = "float32") -> Constant:
    return Constant(np.asarray(value, dtype))


@pytest.mark.parametrize(
    "make", [even_and_odd, lambda: let_chain(3000), lambda: call_chain(3000), lambda: diamond(30)]
)
def test_the_same_program_built_twice_is_equal(make: object) -> None:
    assert is_equal_module(make(), make())  # type: ignore[operator]


def function(name: str, annotation: TensorType = INT) -> Function:
    x = Var(name, annotation)
    return Function((x,), call("add", x, x))


def test_names_of_bound_variables_do_not_count() -> None:
    assert is_equal(function("x"), function("y"))


def test_annotations_count() -> None:
    assert not is_equal(function("x"), function("x", BOOL))


def test_free_variables_equal_only_themselves() -> None:
    x, y = Var("x"), Var("x")
    assert is_equal(call("abs", x), call("abs", x))
    assert not is_equal(call("abs", x), call("abs", y))


def test_which_variable_counts() -> None:
    def of(first: bool) -> Expr:
        x, y = Var("x"), Var("y")
        return Function((x, y), x if first else y)

    assert not is_equal(of(first=True), of(first=False))


def test_sharing_counts() -> None:
    x = Var("x", INT)
    shared = call("abs", x)
    twice = Function((x,), Tuple((shared, shared)))
    y = Var("x", INT)
    apart = Function((y,), Tuple((call("abs", y), call("abs", y))))
    assert not is_equal(twice, apart)
    assert not is_equal(apart, twice)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (constant(0.0), constant(-0.0)),
        (constant(1), constant(1, "int32")),
        (constant([1.0]), constant(1.0)),
        (call("abs", constant(1)), call("exp", constant(1))),
        (Tuple((constant(1),)), Tuple((constant(1), constant(1)))),
        (Project(Tuple(()), 0), Project(Tuple(()), 1)),
        (
            call("nn.softmax", constant([1]), attrs=AxisAttrs(axis=0)),
            call("nn.softmax", constant([1]), attrs=AxisAttrs(axis=-1)),
        ),
        (Let(v := Var("v"), constant(1), v), constant(1)),
        (Function((), constant(1)), Function((), constant(1), None, {"Primitive": 1})),
    ],
)
def test_differences_are_seen_both_ways(left: Expr, right: Expr) -> None:
    assert not is_equal(left, right)
    assert not is_equal(right, left)


def test_nan_equals_itself() -> None:
    assert is_equal(constant(np.nan), constant(np.nan))


def test_equal_attributes_of_distinct_objects() -> None:
    x = Var("x")
    left = call("nn.conv2d", x, x, attrs=Conv2DAttrs(strides=(2, 2)))
    right = call("nn.conv2d", x, x, attrs=Conv2DAttrs(strides=(2, 2)))
    assert is_equal(left, right)
