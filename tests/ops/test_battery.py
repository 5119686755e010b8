"""Every operator: type relation against its reference, and its call printed and read back."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.compiler.interpreter import Interpreter
from codesign.compiler.values import value_type
from codesign.ir.relay.equal import is_equal_module
from codesign.ir.relay.expr import Expr, Function, Tuple, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.printer import print_module
from codesign.ir.relay.types import UNKNOWN, TensorType, TupleType, Type
from codesign.ops.table import OPERATORS, call
from tests.support.operator_cases import CASES
from tests.support.operator_draws import Case


def test_every_operator_has_a_case() -> None:
    assert CASES.keys() == OPERATORS.keys()


def test_the_table_is_immutable() -> None:
    with pytest.raises(TypeError):
        OPERATORS["nn.new"] = OPERATORS["add"]  # type: ignore[index]


def _module(name: str, case: Case) -> tuple[Module, list[np.ndarray]]:
    arrays: list[np.ndarray] = []
    params: list[Var] = []

    def parameter(value: np.ndarray) -> Var:
        arrays.append(value)
        params.append(Var(f"p{len(params)}", value_type(value)))
        return params[-1]

    args: list[Expr] = [
        Tuple(tuple(parameter(each) for each in arg)) if isinstance(arg, tuple) else parameter(arg)
        for arg in case.args
    ]
    body = call(name, *args, attrs=case.attrs)
    return Module({"main": Function(tuple(params), body)}), arrays


def _fits(found: Type, inferred: Type) -> bool:
    """Whether a value's type is the inferred one; lengths that only `dyn.` leaves open fit any."""
    match found, inferred:
        case TensorType(shape, dtype), TensorType(known, wanted):
            pairs = zip(shape, known, strict=True)
            return dtype is wanted and all(b in (a, UNKNOWN) for a, b in pairs)
        case TupleType(fields), TupleType(wanted):
            return all(_fits(one, other) for one, other in zip(fields, wanted, strict=True))
        case _:
            return found == inferred


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_relation_says_shape_and_dtype_of_the_reference(name: str) -> None:
    rng = np.random.default_rng(7)
    for _ in range(12):
        module, arrays = _module(name, CASES[name](rng))
        inferred = infer_types(module)[module.main.body]
        found = value_type(Interpreter(module).evaluate(module.main, arrays))
        assert name.startswith("dyn.") or found == inferred
        assert _fits(found, inferred), (found, inferred)


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_call_survives_printing_and_parsing(name: str) -> None:
    module, _ = _module(name, CASES[name](np.random.default_rng(3)))
    read = parse_module(print_module(module))
    assert is_equal_module(module, read)
    assert is_equal_module(read, module)


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_arguments_are_never_written(name: str) -> None:
    case = CASES[name](np.random.default_rng(5))
    module, arrays = _module(name, case)
    before = [each.copy() for each in arrays]
    Interpreter(module).evaluate(module.main, arrays)
    for old, new in zip(before, arrays, strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_work_counts_operations(name: str) -> None:
    module, _ = _module(name, CASES[name](np.random.default_rng(11)))
    types = infer_types(module)
    body = module.main.body
    work = OPERATORS[name].work(body, tuple(types[each] for each in body.args), types[body])  # type: ignore[union-attr,arg-type]
    assert isinstance(work, int)
    assert work >= 0
