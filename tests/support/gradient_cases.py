"""Random calls of operators as modules, and random sums of what they give: for their gradients."""

from __future__ import annotations

import numpy as np

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.values import value_type
from codesign.dtypes import Array
from codesign.ir.relay.expr import Call, Constant, Expr, Function, GlobalVar, Project, Tuple, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType, TupleType, Type
from codesign.ops.operator import Fusion, NotDifferentiable
from codesign.ops.table import OPERATORS, call
from tests.support.operator_cases import CASES
from tests.support.operator_draws import Case

SMOOTH = sorted(
    n
    for n, each in OPERATORS.items()
    if not isinstance(each.gradient, NotDifferentiable) and not n.startswith("dyn.")
)
"""Operators with a rule; those whose shapes are values have tests of their own."""
_POSITIVE = frozenset({"log", "log2", "log10", "sqrt", "rsqrt", "acosh"})


def seed_of(name: str) -> np.random.Generator:
    """Return the random stream of an operator's tests."""
    return np.random.default_rng(sum(map(ord, name)))


def gradient_case(name: str, rng: np.random.Generator) -> Case:
    """Return a random call; functions of one number also see negative ones, where they may."""
    case = CASES[name](rng)
    if name == "power":
        base, exponent = case.args
        return Case((np.abs(base) + 0.1, exponent))
    is_unary = len(case.args) == 1 and OPERATORS[name].fusion is Fusion.ELEMENTWISE
    first = case.args[0] if is_unary else None
    if isinstance(first, np.ndarray) and first.dtype.kind == "f" and name not in _POSITIVE:
        signs = rng.choice([-1, 1], first.shape).astype(first.dtype)
        return Case((np.asarray(first * signs),), case.attrs)
    return case


def _as(value: Array | tuple[Array, ...], dtype: type[np.floating]) -> Array | tuple[Array, ...]:
    if isinstance(value, tuple):
        return tuple(np.asarray(_as(each, dtype)) for each in value)
    return value.astype(dtype) if value.dtype.kind == "f" else value


def module_of_case(
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


def with_loss(module: Module, inner: str, rng: np.random.Generator) -> Module | None:
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
