"""Every operator has a gradient or a reason; rules against differences, of both orders."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.gradient import gradient
from codesign.compiler.gradient.rule import has_float
from codesign.compiler.interpreter import Interpreter
from codesign.compiler.values import value_type
from codesign.dtypes import Array
from codesign.ir.relay.expr import Call
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TupleType
from codesign.ops.gradients.table import GRADIENTS
from codesign.ops.operator import NotDifferentiable
from codesign.ops.table import OPERATORS
from tests.support.finite_differences import check_gradient
from tests.support.gradient_cases import (
    SMOOTH,
    gradient_case,
    module_of_case,
    seed_of,
    with_loss,
)

DRAWS = 3
"""Random calls of each operator."""


def test_every_operator_has_a_gradient_or_a_reason() -> None:
    missing = "no rule is written for it"
    unsaid = [n for n, each in OPERATORS.items() if each.gradient == NotDifferentiable(missing)]
    assert unsaid == []
    assert GRADIENTS.keys() <= OPERATORS.keys()


@pytest.mark.parametrize(
    "name", sorted(n for n in set(OPERATORS) - set(SMOOTH) if not n.startswith("dyn."))
)
def test_without_a_gradient_no_number_flows_smoothly_through_it(name: str) -> None:
    module, _ = module_of_case(name, gradient_case(name, np.random.default_rng(1)), np.float32)
    types = infer_types(module)
    body = module.main.body
    assert isinstance(body, Call)
    assert not has_float(types[body]) or not any(has_float(types[each]) for each in body.args)


def _compare(
    module: Module, arrays: Sequence[Array], rng: np.random.Generator, rtol: float
) -> None:
    grown = gradient("loss", module, mode="first_order")
    interpreter = Interpreter(grown)

    def loss(args: Sequence[Array]) -> float:
        value = interpreter.evaluate(grown.functions["loss"], list(args))
        assert isinstance(value, np.ndarray)
        return float(value)

    result = interpreter.evaluate(grown.functions["loss_gradient"], list(arrays))
    assert isinstance(result, tuple)
    assert isinstance(result[1], tuple)
    gradients = [np.asarray(each) for each in result[1]]
    assert float(np.asarray(result[0])) == pytest.approx(loss(arrays), rel=1e-12, abs=1e-12)
    check_gradient(loss, arrays, gradients, rng, rtol=rtol)


@pytest.mark.parametrize("name", SMOOTH)
def test_gradient_is_what_differences_say(name: str) -> None:
    rng = seed_of(name)
    for _ in range(DRAWS):
        module, arrays = module_of_case(name, gradient_case(name, rng))
        summed = with_loss(module, "main", rng)
        if summed is not None:
            _compare(summed, arrays, rng, 1e-6)


@pytest.mark.parametrize("name", SMOOTH)
def test_gradient_of_the_gradient_is_what_differences_say(name: str) -> None:
    rng = seed_of(name)
    for _ in range(DRAWS // 2):
        module, arrays = module_of_case(name, gradient_case(name, rng))
        if not has_float(infer_types(module)[module.main.body]):
            continue
        with_gradient = gradient("main", module, mode="first_order")
        summed = with_loss(with_gradient, "main_gradient", rng)
        assert summed is not None
        _compare(summed, arrays, rng, 1e-5)


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_gradient_has_the_element_type_of_the_argument(name: str, dtype: type[np.floating]) -> None:
    module, arrays = module_of_case(name, gradient_case(name, seed_of(name)), dtype)
    if not has_float(infer_types(module)[module.main.body]):
        return
    grown = gradient("main", module, mode="first_order")
    found = infer_types(grown)[grown.functions["main_gradient"].body]
    assert isinstance(found, TupleType)
    assert found.fields[1] == TupleType(tuple(value_type(each) for each in arrays))


@pytest.mark.parametrize("name", SMOOTH)
def test_both_modes_give_one_gradient(name: str) -> None:
    rng = seed_of(name)
    module, arrays = module_of_case(name, gradient_case(name, rng))
    summed = with_loss(module, "main", rng)
    if summed is None:
        return
    plain = gradient("loss", summed, mode="first_order", name="plain")
    whole = gradient("loss", plain, mode="higher_order", name="whole")
    interpreter = Interpreter(whole)
    left = interpreter.evaluate(whole.functions["plain"], arrays)
    right = interpreter.evaluate(whole.functions["whole"], arrays)
    for a, b in zip(left[1], right[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
