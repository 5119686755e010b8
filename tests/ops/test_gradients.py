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
from codesign.ir.relay.expr import Call, Constant, Expr, Function, GlobalVar, Project, Tuple, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType, TupleType, Type
from codesign.ops.gradients.table import GRADIENTS
from codesign.ops.operator import Fusion, NotDifferentiable
from codesign.ops.table import OPERATORS, call
from tests.support.finite_differences import check_gradient
from tests.support.operator_cases import CASES, Case

SMOOTH = sorted(
    n for n, each in OPERATORS.items() if not isinstance(each.gradient, NotDifferentiable)
)
POSITIVE = frozenset({"log", "sqrt", "rsqrt"})
DRAWS = 6


def test_every_operator_has_a_gradient_or_a_reason() -> None:
    missing = "no rule is written for it"
    unsaid = [n for n, each in OPERATORS.items() if each.gradient == NotDifferentiable(missing)]
    assert unsaid == []
    assert GRADIENTS.keys() <= OPERATORS.keys()


@pytest.mark.parametrize("name", sorted(set(OPERATORS) - set(SMOOTH)))
def test_without_a_gradient_no_number_flows_smoothly_through_it(name: str) -> None:
    module, _ = _module(name, _case(name, np.random.default_rng(1)), np.float32)
    types = infer_types(module)
    body = module.main.body
    assert isinstance(body, Call)
    assert not has_float(types[body]) or not any(has_float(types[each]) for each in body.args)


def _case(name: str, rng: np.random.Generator) -> Case:
    """Return a random call; functions of one number also see negative ones, where they may."""
    case = CASES[name](rng)
    if name == "power":
        base, exponent = case.args
        return Case((np.abs(base) + 0.1, exponent))
    is_unary = len(case.args) == 1 and OPERATORS[name].fusion is Fusion.ELEMENTWISE
    first = case.args[0] if is_unary else None
    if isinstance(first, np.ndarray) and first.dtype.kind == "f" and name not in POSITIVE:
        signs = rng.choice([-1, 1], first.shape).astype(first.dtype)
        return Case((np.asarray(first * signs),), case.attrs)
    return case


def _as(value: Array | tuple[Array, ...], dtype: type[np.floating]) -> Array | tuple[Array, ...]:
    if isinstance(value, tuple):
        return tuple(np.asarray(_as(each, dtype)) for each in value)
    return value.astype(dtype) if value.dtype.kind == "f" else value


def _module(
    name: str, case: Case, dtype: type[np.floating] = np.float64
) -> tuple[Module, list[Array]]:
    """Return a module whose main calls the operator on parameters, and their values."""
    arrays: list[Array] = []
    params: list[Var] = []

    def parameter(value: Array) -> Var:
        arrays.append(value)
        params.append(Var(f"p{len(params)}", value_type(value)))
        return params[-1]

    args: list[Expr] = []
    for arg in case.args:
        wide = _as(arg, dtype)
        args.append(
            Tuple(tuple(map(parameter, wide))) if isinstance(wide, tuple) else parameter(wide)
        )
    return Module({"main": Function(tuple(params), call(name, *args, attrs=case.attrs))}), arrays


def _weighted(value: Expr, type_: Type, rng: np.random.Generator) -> list[Expr]:
    """Return sums of the floating-point tensors of a value, each times random numbers."""
    if isinstance(type_, TupleType):
        fields = enumerate(type_.fields)
        return [part for i, each in fields for part in _weighted(Project(value, i), each, rng)]
    assert isinstance(type_, TensorType)
    if not type_.dtype.is_float:
        return []
    weights = rng.standard_normal(type_.static_shape).astype(type_.dtype.numpy)
    return [call("sum", call("multiply", value, Constant(np.asarray(weights))))]


def _loss(module: Module, inner: str, rng: np.random.Generator) -> Module | None:
    """Return the module with `@loss`: a random sum of what `@inner` gives; None of no numbers."""
    function = module.functions[inner]
    params = tuple(Var(each.name, each.annotation) for each in function.params)
    result = Var("result")
    types = infer_types(module)
    parts = _weighted(result, types[function.body], rng)
    if not parts:
        return None
    total = parts[0]
    for each in parts[1:]:
        total = call("add", total, each)
    whole = Call(Function((result,), total), (Call(GlobalVar(inner), params),))
    return module.with_functions({**module.functions, "loss": Function(params, whole)})


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
    assert float(np.asarray(result[0])) == loss(arrays)
    check_gradient(loss, arrays, gradients, rng, rtol=rtol)


def _seed(name: str) -> np.random.Generator:
    return np.random.default_rng(sum(map(ord, name)))


@pytest.mark.parametrize("name", SMOOTH)
def test_gradient_is_what_differences_say(name: str) -> None:
    rng = _seed(name)
    for _ in range(DRAWS):
        module, arrays = _module(name, _case(name, rng))
        with_loss = _loss(module, "main", rng)
        if with_loss is not None:
            _compare(with_loss, arrays, rng, 1e-6)


@pytest.mark.parametrize("name", SMOOTH)
def test_gradient_of_the_gradient_is_what_differences_say(name: str) -> None:
    rng = _seed(name)
    for _ in range(DRAWS // 2):
        module, arrays = _module(name, _case(name, rng))
        if not has_float(infer_types(module)[module.main.body]):
            continue
        with_gradient = gradient("main", module, mode="first_order")
        with_loss = _loss(with_gradient, "main_gradient", rng)
        assert with_loss is not None
        _compare(with_loss, arrays, rng, 1e-5)


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_gradient_has_the_element_type_of_the_argument(name: str, dtype: type[np.floating]) -> None:
    module, arrays = _module(name, _case(name, _seed(name)), dtype)
    if not has_float(infer_types(module)[module.main.body]):
        return
    grown = gradient("main", module, mode="first_order")
    found = infer_types(grown)[grown.functions["main_gradient"].body]
    assert isinstance(found, TupleType)
    assert found.fields[1] == TupleType(tuple(value_type(each) for each in arrays))


@pytest.mark.parametrize("name", SMOOTH)
def test_both_modes_give_one_gradient(name: str) -> None:
    rng = _seed(name)
    module, arrays = _module(name, _case(name, rng))
    with_loss = _loss(module, "main", rng)
    if with_loss is None:
        return
    plain = gradient("loss", with_loss, mode="first_order", name="plain")
    whole = gradient("loss", plain, mode="higher_order", name="whole")
    interpreter = Interpreter(whole)
    left = interpreter.evaluate(whole.functions["plain"], arrays)
    right = interpreter.evaluate(whole.functions["whole"], arrays)
    for a, b in zip(left[1], right[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
