"""Shapes that are values: the operators, their gradients, and the pass that makes them known."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.compiler.gradient import gradient
from codesign.compiler.interpreter import Interpreter
from codesign.compiler.pass_manager import PassContext, PassManager
from codesign.compiler.passes.dynamic_to_static import DynamicToStatic
from codesign.diagnostics import CodesignError
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import UNKNOWN, TensorType
from codesign.ops.table import OPERATORS


def _module(body: str, params: str = "%x: Tensor[(2, 3), float32]") -> Module:
    return parse_module(f'#[version = "0.0.5"]\ndef @main({params}) {{ {body} }}')


X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("dyn.reshape", (X, np.array([4])), "changes the number of elements"),
        ("dyn.reshape", (X, np.array([-1, -1])), "changes the number of elements"),
        ("dyn.broadcast_to", (X, np.array([2, 4])), "cannot reach the shape"),
        ("dyn.full", (np.float32(1).reshape(()), np.array([-1])), "that are not negative"),
    ],
)
def test_a_shape_that_does_not_fit_is_refused_when_it_runs(
    name: str, args: tuple[np.ndarray, ...], message: str
) -> None:
    with pytest.raises(CodesignError, match=message):
        OPERATORS[name].reference(*args)


def test_a_wrong_constant_shape_is_still_refused_when_it_runs() -> None:
    module = _module("dyn.full(2f, stack((-1, 2), axis=0))", "")
    made = PassManager(verify=True).run(module, (DynamicToStatic(),))
    with pytest.raises(CodesignError, match="that are not negative"):
        Interpreter(made).run()


def test_what_follows_knows_its_lengths_too() -> None:
    module = _module("nn.relu(transpose(dyn.reshape(%x, shape_of(%x)), axes=[1, 0]))")
    assert infer_types(module)[module.main.body] == TensorType(
        (UNKNOWN, UNKNOWN),
        infer_types(module)[module.main.params[0]].dtype,  # type: ignore[union-attr]
    )
    made = PassManager(verify=True).run(module, (DynamicToStatic(),))
    type_ = infer_types(made)[made.main.body]
    assert isinstance(type_, TensorType)
    assert type_.shape == (3, 2)
    np.testing.assert_array_equal(Interpreter(made).run(x=X), Interpreter(module).run(x=X))


def test_a_long_chain_of_shapes_ends() -> None:
    body = "%x"
    for index in range(40):
        body = f"dyn.reshape({body}, stack(({'3, 2' if index % 2 else '2, 3'}), axis=0))"
    made = DynamicToStatic().run(_module(body), PassContext())
    assert DynamicToStatic().run(made, PassContext()) is made
    np.testing.assert_array_equal(Interpreter(made).run(x=X), X.reshape(3, 2))


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("sum(dyn.reshape(%x * %x, %s), axis=[0])", 2 * X),
        ("sum(dyn.broadcast_to(%x * %x, %s), axis=[0])", 2 * X),
    ],
)
def test_gradients_come_back_in_the_shape_of_the_data(body: str, wanted: np.ndarray) -> None:
    module = _module(body, "%x: Tensor[(2, 3), float32], %s: Tensor[(2), int64]")
    made = gradient("main", module, mode="higher_order", parameters=["x"])
    value = Interpreter(made).evaluate(
        made.functions["main_gradient"], [X, np.array([2, 3], np.int64)]
    )
    assert isinstance(value, tuple)
    assert isinstance(value[1], tuple)
    np.testing.assert_allclose(np.asarray(value[1][0]), wanted)
