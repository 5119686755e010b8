"""gradient: from a function to the function that gives its value and its gradient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from codesign.compiler.analysis.annotate import without_unreached
from codesign.compiler.analysis.call_order import callees
from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.gradient.first_order import first_order
from codesign.compiler.gradient.higher_order import higher_order
from codesign.compiler.gradient.lifted_types import LiftedTypes
from codesign.compiler.rewriting.expansion import expanded
from codesign.diagnostics import CodesignError, Problem
from codesign.ir.relay.expr import Expr, Function
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import FuncType, Type, type_text
from codesign.ir.relay.wellformed import check_module

Mode: TypeAlias = Literal["first_order", "higher_order"]


def gradient(
    function: str,
    module: Module,
    *,
    mode: Mode = "higher_order",
    parameters: Sequence[str] | None = None,
    name: str | None = None,
) -> Module:
    """Return the module with one more function, which gives value and gradient of `@function`.

    It is `@name`, else `@<function>_gradient`; under the name of `@function`, which nothing else
    may call then, it takes its place, and what only `@function` used goes. It takes what
    `@function` takes and gives `(value, (gradient of each of the named parameters))`, of all where
    none are named. A gradient has the type of its parameter, and so have the gradients of tuples
    and values of data types; that of integers is zero. A value that is not one number is
    differentiated as the sum of its floating-point elements.

    `higher_order` differentiates the whole language, its own results too; `first_order` takes
    graphs of operators and gives graphs.

    Raises
    ------
    CodesignError
        There is no such function or parameter, it has type parameters, takes or gives functions or
        cells, uses an operator without a gradient, or is no graph in mode `first_order`.
    """
    found = module.functions.get(function)
    if found is None:
        raise CodesignError.of(f"no function is named @{function}")
    check_module(module)
    if found.type_params:
        what = f"@{function} has type parameters: its gradient has no meaning"
        advice = "differentiate a function that calls it"
        raise CodesignError(Problem(what=what, span=found.span, help=advice))
    chosen = _chosen(function, found, parameters)
    target = name or f"{function}_gradient"
    if target == function:
        _check_unused(function, module)
    elif target in module.functions:
        raise CodesignError.of(f"the module has a function @{target} already", help="give a name")
    simple = expanded(module)
    types = infer_types(simple)
    _check_result(function, simple.functions[function], types, simple)
    if mode == "first_order":
        grown, result = simple, first_order(simple.functions[function], simple, types, chosen)
    elif mode == "higher_order":
        grown, result = higher_order(function, simple, types, chosen)
    else:
        raise ValueError(f"mode must be first_order or higher_order, not {mode!r}")
    grown = grown.with_functions({**grown.functions, **module.functions, target: result})
    return _without_old(function, module, grown) if target == function else grown


def _without_old(name: str, before: Module, after: Module) -> Module:
    """Return the module without what only the replaced function used."""
    reached = without_unreached(before, (name,)).functions
    others = (each for each in before.functions if each not in reached)
    return without_unreached(after, (name, *others))


def _check_unused(name: str, module: Module) -> None:
    users = [each for each in module.functions if each != name and name in callees(module, each)]
    if users:
        what = f"@{name} cannot give its name to its gradient"
        raise CodesignError.of(what, found=f"@{users[0]} calls it", help="give another name")


def _check_result(
    name: str, function: Function, types: Mapping[Expr, Type], module: Module
) -> None:
    signature = types[function]
    assert isinstance(signature, FuncType), "a function has the type of a function"
    if LiftedTypes.of(module).lift(signature.result) == signature.result:
        what = f"the result of @{name} has no floating-point tensor to differentiate"
        found = f"found {type_text(signature.result)}"
        raise CodesignError(Problem(what=what, found=found, span=function.span))


def _chosen(name: str, function: Function, parameters: Sequence[str] | None) -> tuple[int, ...]:
    names = [param.name for param in function.params]
    if parameters is None:
        return tuple(range(len(names)))
    unknown = [each for each in parameters if each not in names]
    if unknown:
        what = f"@{name} has no parameter named {' or '.join(unknown)}"
        raise CodesignError(Problem(what=what, found=f"found {names}", span=function.span))
    return tuple(names.index(each) for each in parameters)
