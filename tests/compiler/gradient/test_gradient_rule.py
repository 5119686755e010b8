"""Rules as they are applied: what an operator refuses has the call's place."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.compiler.gradient.rule import backward, has_float
from codesign.diagnostics import CodesignError, TextRange
from codesign.dtypes import DType
from codesign.ir.relay.expr import Call, Constant, Expr, Var
from codesign.ir.relay.types import UNKNOWN, TensorType, TupleType, Type
from codesign.ops.operator import Forward
from codesign.ops.reduce import ArgReduceAttrs, ReduceAttrs
from codesign.ops.table import call

PLACE = TextRange("<test>", 1, 3, 9)
FLOATS = TensorType((3,), DType.FLOAT32)


def _backward(node: Call, types: tuple[Type, ...], result_type: Type) -> tuple[Expr | None, ...]:
    forward = Forward(
        attrs=node.attrs, args=node.args, types=types, result=node, result_type=result_type
    )
    return backward(node, forward, Var("adjoint", result_type))


def test_an_operator_without_gradient_says_why_and_where() -> None:
    node = call("argmax", Var("x", FLOATS), attrs=ArgReduceAttrs(axis=0), span=PLACE)
    with pytest.raises(CodesignError, match="argmax has no gradient") as caught:
        _backward(node, (FLOATS,), TensorType((), DType.INT64))
    (problem,) = caught.value.diagnostics
    assert problem.label_text() == "its result is a place, an integer"
    assert problem.span is PLACE


def test_a_rule_that_needs_a_length_has_the_place_of_the_call() -> None:
    unknown = TensorType((UNKNOWN,), DType.FLOAT32)
    node = call("prod", Var("x", unknown), attrs=ReduceAttrs(), span=PLACE)
    with pytest.raises(
        CodesignError, match="gradient of prod needs shapes that are known"
    ) as caught:
        _backward(node, (unknown,), TensorType((), DType.FLOAT32))
    assert caught.value.diagnostics[0].span is PLACE


def test_nothing_flows_into_what_has_no_influence() -> None:
    node = call("zeros_like", Var("x", FLOATS))
    assert _backward(node, (FLOATS,), FLOATS) == (None,)
    condition = Constant(np.ones(3, bool))
    chosen = call("where", condition, Var("x", FLOATS), Var("y", FLOATS))
    assert _backward(chosen, (TensorType((3,), DType.BOOL), FLOATS, FLOATS), FLOATS)[0] is None


def test_an_adjoint_that_is_not_broadcast_is_passed_on_as_it_is() -> None:
    node = call("add", Var("x", FLOATS), Var("y", FLOATS))
    left, right = _backward(node, (FLOATS, FLOATS), FLOATS)
    assert isinstance(left, Var)
    assert left is right
    scalar = TensorType((), DType.FLOAT32)
    mixed = call("add", Var("x", FLOATS), Var("y", scalar))
    _, right = _backward(mixed, (FLOATS, scalar), FLOATS)
    assert isinstance(right, Call)
    assert right.callee.name == "collapse_sum_like"  # type: ignore[union-attr]


def test_numbers_are_looked_for_in_tuples() -> None:
    integers = TensorType((), DType.INT32)
    assert has_float(TupleType((integers, TupleType((FLOATS,)))))
    assert not has_float(TupleType((integers, TensorType((), DType.BOOL))))
