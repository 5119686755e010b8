"""Gradients of random well-typed programs: they keep the value, and have the right types."""

from __future__ import annotations

import pytest

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.gradient import gradient
from codesign.diagnostics import CodesignError
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import FuncType, TupleType
from codesign.ir.relay.wellformed import check_module
from experiments.laws.answers import Refused, answer, is_same
from experiments.laws.program import random_program


def _gradient(module: Module) -> Module | None:
    """Return the module whose main is the gradient of main; None where main gives no numbers."""
    try:
        return gradient("main", module, name="main")
    except CodesignError as error:
        (problem,) = error.diagnostics
        assert "has no floating-point tensor to differentiate" in problem.title_text()
        return None


def _check(seed: int, order: int) -> None:
    program = random_program(seed, 40)
    module: Module | None = program.module
    wanted = answer(program.module, program.args)
    for _ in range(order):
        before = module
        module = None if before is None else _gradient(before)
        if before is None or module is None:
            return
        check_module(module)
        plain, found = infer_types(before)[before.main], infer_types(module)[module.main]
        assert isinstance(plain, FuncType)
        assert found == FuncType(plain.params, TupleType((plain.result, TupleType(plain.params))))
    assert module is not None
    given = answer(module, program.args)
    for _ in range(order):
        given = given if isinstance(given, Refused) else given[0]
    assert is_same(wanted, given)


@pytest.mark.parametrize("seed", range(5))
def test_a_gradient_types_and_keeps_the_value(seed: int) -> None:
    _check(seed, 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5, 200))
def test_gradients_of_many_programs(seed: int) -> None:
    _check(seed, 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_gradients_of_gradients(seed: int) -> None:
    _check(seed, 2)
