"""First-order gradients: graphs in, graphs out; against differences and hand-written ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.gradient import gradient
from codesign.compiler.interpreter import Interpreter
from codesign.compiler.partition.graph import is_graph
from codesign.dtypes import Array
from codesign.ir.relay.module import Module
from codesign.ir.relay.visit import post_order
from codesign.ir.relay.wellformed import check_module
from codesign.ops.operator import Value
from tests.support.finite_differences import check_gradient
from tests.support.gradient_programs import module_of


def _run(module: Module, name: str, args: Sequence[Array]) -> Value:
    return Interpreter(module).evaluate(module.functions[name], list(args))


def _check(module: Module, args: Sequence[Array], name: str = "main") -> tuple[Array, ...]:
    grown = gradient(name, module, mode="first_order")
    check_module(grown)
    infer_types(grown)
    assert is_graph(grown.functions[f"{name}_gradient"])
    result = _run(grown, f"{name}_gradient", args)
    assert isinstance(result, tuple)

    def loss(moved: Sequence[Array]) -> float:
        return _total(_run(grown, name, moved))

    slopes = result[1]
    assert isinstance(slopes, tuple)
    gradients = tuple(np.asarray(each) for each in slopes)
    check_gradient(loss, args, gradients, np.random.default_rng(3))
    return gradients


def _total(value: Value) -> float:
    if isinstance(value, tuple):
        return sum(map(_total, value))
    return float(np.sum(value)) if value.dtype.kind == "f" else 0.0


GRAPHS = {
    "shared nodes": "%0 = tanh(%x); %1 = multiply(%0, %y); sum(add(%1, multiply(%1, %0)))",
    "lets": "let %a = exp(%x); let %b = multiply(%a, %y); sum(divide(%b, add(%a, %a)))",
    "tuples": "let %p = (exp(%x), (%y, %x)); (sum(%p.0), multiply(%p.1.0, %p.1.1))",
    "tuples of an operator": """
        let %p = split(%x, indices_or_sections=[1], axis=0);
        sum(multiply(concatenate((%p.1, %p.0), axis=0), %y))
    """,
    "half of a tuple": "let %p = split(%x, indices_or_sections=3, axis=0); sum(%p.1)",
    "a call of a function": "@both(@both(%x, %y), %x)",
    "functions as values": "let %f = fn (%v) { multiply(%v, %y) }; @compose(%f, @squared)(%x)",
    "nothing flows into one": "sum(multiply(%x, floor(%y)))",
    "the parameter itself": "%x",
    "integers on the way": 'multiply(%x, cast(argmax(%y, axis=0), dtype="float64"))',
}

TEXT = """
def @both(%a: Tensor[(3,), float64], %b: Tensor[(3,), float64]) { add(multiply(%a, %b), %b) }
def @squared(%a: Tensor[(3,), float64]) { multiply(%a, %a) }
def @main(%x: Tensor[(3,), float64], %y: Tensor[(3,), float64]) {"""


@pytest.mark.parametrize("name", GRAPHS)
def test_gradient_is_what_differences_say(name: str) -> None:
    rng = np.random.default_rng(5)
    module = module_of(TEXT + GRAPHS[name] + "}")
    _check(module, (rng.standard_normal(3), rng.standard_normal(3)))


@pytest.mark.parametrize("name", GRAPHS)
def test_reapplied_to_its_result_it_gives_second_derivatives(name: str) -> None:
    rng = np.random.default_rng(5)
    once = gradient("main", module_of(TEXT + GRAPHS[name] + "}"), mode="first_order")
    _check(once, (rng.standard_normal(3), rng.standard_normal(3)), "main_gradient")


def test_a_perceptron_by_hand() -> None:
    module = module_of(
        """
        def @main(%w: Tensor[(2, 3), float64], %b: Tensor[(2,), float64],
                  %x: Tensor[(4, 3), float64], %t: Tensor[(4, 2), float64]) {
          let %logits = nn.bias_add(nn.dense(%x, %w), %b);
          nn.cross_entropy_with_logits(nn.log_softmax(%logits), %t)
        }
        """
    )
    rng = np.random.default_rng(5)
    w, b, x = rng.standard_normal((2, 3)), rng.standard_normal(2), rng.standard_normal((4, 3))
    t = np.eye(2)[[0, 1, 1, 0]]
    found = _check(module, (w, b, x, t))
    shares = np.exp(x @ w.T + b)
    shares /= shares.sum(axis=1, keepdims=True)
    adjoint = (shares - t) / 4
    np.testing.assert_allclose(found[0], adjoint.T @ x, atol=1e-12)
    np.testing.assert_allclose(found[1], adjoint.sum(axis=0), atol=1e-12)
    np.testing.assert_allclose(found[2], adjoint @ w, atol=1e-12)


def test_unknown_lengths_are_known_at_run_time() -> None:
    module = module_of(
        """
        def @main(%w: Tensor[(2, 3), float64], %x: Tensor[(?, 3), float64],
                  %t: Tensor[(?, 2), float64]) {
          nn.cross_entropy_with_logits(nn.log_softmax(nn.dense(%x, %w)), %t)
        }
        """
    )
    rng = np.random.default_rng(5)
    w, x, t = rng.standard_normal((2, 3)), rng.standard_normal((5, 3)), rng.random((5, 2))
    grown = gradient("main", module, mode="first_order")
    result = _run(grown, "main_gradient", (w, x, t))
    slopes = [np.asarray(each) for each in result[1]]
    check_gradient(
        lambda moved: _total(_run(grown, "main", moved)),
        (w, x, t),
        slopes,
        np.random.default_rng(3),
    )


def test_what_nothing_flows_into_costs_nothing() -> None:
    """The gradient of one parameter has no products with the adjoint of the other."""
    module = module_of(
        "def @main(%x: Tensor[(3,), float64], %y: Tensor[(3,), float64]) { sum(multiply(%x, %y)) }"
    )
    one = gradient("main", module, mode="first_order", parameters=["x"])
    both = gradient("main", module, mode="first_order")
    sizes = [len(list(post_order(each.functions["main_gradient"]))) for each in (one, both)]
    assert sizes[0] < sizes[1]


def test_the_gradient_of_a_long_chain_needs_no_stack() -> None:
    depth = 1_200
    steps = "".join(f"let %v{i} = add(%v{i - 1}, %x);" for i in range(1, depth))
    module = module_of(f"def @main(%x: float64) {{ let %v0 = %x; {steps} %v{depth - 1} }}")
    grown = gradient("main", module, mode="first_order")
    _, (slope,) = _run(grown, "main_gradient", (np.asarray(1.0),))
    assert slope == depth
