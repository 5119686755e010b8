"""Composed operators: the expansion, interpreted and compiled, gives what the reference says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from codesign.compiler.driver import compile  # noqa: A004
from codesign.compiler.interpreter import Interpreter
from codesign.compiler.rewriting.expansion import expanded
from codesign.diagnostics import CodesignError
from codesign.dtypes import Array
from codesign.ir.relay.expr import Call, OpRef
from codesign.ir.relay.visit import post_order
from codesign.ops.operator import Value
from codesign.ops.table import OPERATORS
from host_runtime.session import Session
from tests.support.composed_cases import COMPOSED_CASES
from tests.support.gradient_cases import module_of_case
from tests.support.operator_draws import Case
from tests.support.relay_values import module_of

DRAWS = 6


def test_every_composed_operator_has_a_case() -> None:
    composed = {name for name, each in OPERATORS.items() if each.expansion is not None}
    assert composed == COMPOSED_CASES.keys()


def _wanted(name: str, case: Case) -> list[Array]:
    found = OPERATORS[name].reference(*case.args, *(() if case.attrs is None else (case.attrs,)))
    return [np.asarray(each) for each in (found if isinstance(found, tuple) else (found,))]


def _agree(found: Sequence[object], wanted: Sequence[Array]) -> None:
    for one, other in zip(map(np.asarray, found), wanted, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        if other.dtype.kind == "f":
            np.testing.assert_allclose(one, other, rtol=2e-6, atol=2e-6)
        else:
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", sorted(COMPOSED_CASES))
def test_expansion_says_what_the_operator_means(name: str) -> None:
    rng = np.random.default_rng(sum(map(ord, name)))
    for _ in range(DRAWS):
        case = COMPOSED_CASES[name](rng)
        module, arrays = module_of_case(name, case, np.float32)
        simple = expanded(module)
        names = {each.name for each in post_order(simple.main) if isinstance(each, OpRef)}
        assert all(OPERATORS[each].expansion is None for each in names)
        found = Interpreter(simple).evaluate(simple.main, tuple(arrays))
        _agree(found if isinstance(found, tuple) else (found,), _wanted(name, case))


def _great_half(value: Value) -> Value:
    if isinstance(value, tuple):
        return tuple(map(_great_half, value))
    array = np.asarray(value)
    return np.asarray(300 * array, np.float16) if array.dtype.kind == "f" else array


@pytest.mark.parametrize("name", sorted(COMPOSED_CASES))
def test_what_lies_between_may_be_greater_than_float16(name: str) -> None:
    drawn = COMPOSED_CASES[name](np.random.default_rng(sum(map(ord, name)) + 2))
    case = replace(drawn, args=tuple(map(_great_half, drawn.args)))
    module, arrays = module_of_case(name, case, np.float16)
    simple = expanded(module)
    found = Interpreter(simple).evaluate(simple.main, tuple(arrays))
    wanted = _wanted(name, case)
    for one, other in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
        assert np.asarray(one).dtype == other.dtype
        np.testing.assert_allclose(np.asarray(one), other, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("name", sorted(COMPOSED_CASES))
def test_compiled_operator_equals_its_reference(name: str) -> None:
    rng = np.random.default_rng(sum(map(ord, name)) + 1)
    case = COMPOSED_CASES[name](rng)
    module, arrays = module_of_case(name, case, np.float32)
    session = Session(compile(module))
    inputs = {param.name: array for param, array in zip(module.main.params, arrays, strict=True)}
    _agree(list(session.run(inputs).values()), _wanted(name, case))


def test_calls_of_an_expansion_stand_where_the_operator_stood() -> None:
    text = "def @main(%x: Tensor[(2, 3), float32]) {\n  cumsum(%x, axis=1)\n}"
    simple = expanded(module_of(text))
    calls = [each for each in post_order(simple.main) if isinstance(each, Call)]
    assert len(calls) > 2
    assert all(each.span is not None and ":3:" in str(each.span) for each in calls)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("floor_divide", (np.array([1, 2]), np.array([1, 0]))),
        ("scatter_nd", (np.zeros(3), np.array([[3]]), np.ones(1))),
        ("invert_permutation", (np.array([0, 2, 2]),)),
        ("unravel_index", (np.array([1, 2]), np.array([2, 0]))),
    ],
)
def test_values_that_an_operator_refuses_are_refused_by_compiled_code_too(
    name: str, args: tuple[Array, ...]
) -> None:
    kind = OPERATORS[name].attrs
    case = Case(args, None if kind is None else kind())
    with pytest.raises(CodesignError):
        _wanted(name, case)
    module, arrays = module_of_case(name, case)
    session = Session(compile(module))
    with pytest.raises(CodesignError):
        session.run({p.name: a for p, a in zip(module.main.params, arrays, strict=True)})
