"""Reverse mode on the whole language, from source to source.

A floating-point tensor t becomes a pair of itself and a cell for its adjoint. A call of an operator

    multiply(%a, %b)
becomes
    let %y = multiply(%a.0, %b.0);
    let %pair = (%y, ref(zeros_like(%y)));
    let %before = ref_read(%back);
    ref_write(%back, fn () {
      let %adjoint = ref_read(%pair.1);
      ref_write(%a.1, ref_read(%a.1) + multiply(%adjoint, %b.0));
      ref_write(%b.1, ref_read(%b.1) + multiply(%adjoint, %a.0));
      %before()
    });
    %pair

so that `%back`, a cell that every global function is given, holds what runs backwards through
everything that has been computed so far. Functions, branches, data types and cells stay what they
are: gradients flow through them because pairs do. Functions in which nothing has a gradient are
shared with the original program.

Source: Roesch et al., "Relay: A High-Level Compiler for Deep Learning" (2019); Pearlmutter and
Siskind, "Reverse-Mode AD in a Functional Framework: Lambda the Ultimate Backpropagator" (2008).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from codesign.compiler.analysis.call_order import callees
from codesign.compiler.gradient.boundary import Boundary
from codesign.compiler.gradient.lift import Lift, sequence
from codesign.compiler.gradient.lifted_types import LiftedTypes, fresh_name
from codesign.ir.relay.expr import (
    Call,
    Expr,
    Function,
    GlobalVar,
    OpRef,
    RefNew,
    RefRead,
    Tuple,
    Var,
)
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import FuncType, TupleType, Type
from codesign.ir.relay.visit import post_order

_SUFFIX: Final = "_reverse"


def higher_order(
    name: str, module: Module, types: Mapping[Expr, Type], chosen: tuple[int, ...]
) -> tuple[Module, Function]:
    """Return the module with lifted functions and data types, and the function with the gradient.

    Raises
    ------
    CodesignError
        The function takes or gives functions or cells, or an operator has no gradient.
    """
    lifted = LiftedTypes.of(module)
    names = _twins(name, module, types, lifted)
    functions = dict(module.functions)
    for each, twin in names.items():
        functions[twin] = Lift(types, lifted, names, module).global_function(module.functions[each])
    boundary = Boundary(module, lifted, functions)
    entry = _entry(name, module.functions[name], types, names, boundary, chosen)
    data_types = {**module.data_types, **lifted.definitions(module)}
    return Module({**functions, **boundary.functions}, data_types), entry


def _twins(
    name: str, module: Module, types: Mapping[Expr, Type], lifted: LiftedTypes
) -> dict[str, str]:
    """Return a name for the lifted twin of each function that is reached and changes."""
    reached = _reached(module, name)
    callers: dict[str, list[str]] = {}
    for each, called in reached.items():
        for callee in called:
            callers.setdefault(callee, []).append(each)
    waiting = [name]
    waiting += [each for each in reached if _has_gradient(module.functions[each], types, lifted)]
    changed: set[str] = set()
    while waiting:
        each = waiting.pop()
        if each not in changed:
            changed.add(each)
            waiting += callers.get(each, [])
    taken = set(module.functions)
    names: dict[str, str] = {}
    for each in reached:
        if each in changed:
            names[each] = fresh_name(each + _SUFFIX, taken)
            taken.add(names[each])
    return names


def _reached(module: Module, name: str) -> dict[str, list[str]]:
    """Return the functions that are reached from one, each with those that it mentions."""
    reached: dict[str, list[str]] = {}
    waiting = [name]
    while waiting:
        each = waiting.pop()
        if each not in reached:
            reached[each] = callees(module, each)
            waiting += reached[each]
    return reached


def _has_gradient(function: Function, types: Mapping[Expr, Type], lifted: LiftedTypes) -> bool:
    return any(
        not isinstance(node, OpRef) and lifted.lift(types[node]) != types[node]
        for node in post_order(function)
    )


def _entry(
    name: str,
    function: Function,
    types: Mapping[Expr, Type],
    names: Mapping[str, str],
    boundary: Boundary,
    chosen: tuple[int, ...],
) -> Function:
    """Return the function that lifts its arguments, runs forwards and backwards, and reads."""
    signature = types[function]
    assert isinstance(signature, FuncType), "a function has the type of a function"
    boundary.check(name, function, signature)
    params = tuple(
        Var(param.name, type_, param.span)
        for param, type_ in zip(function.params, signature.params, strict=True)
    )
    back = Var("back")
    pairs = tuple(Var(f"{param.name}_pair") for param in params)
    result, value, run = Var("result"), Var("value"), Var("run")
    gradients = tuple(boundary.read(signature.params[i], pairs[i]) for i in chosen)
    body = sequence(
        [
            (back, RefNew(Function((), Tuple(()), TupleType(())))),
            *(
                (pair, boundary.lift(type_, param))
                for pair, param, type_ in zip(pairs, params, signature.params, strict=True)
            ),
            (result, Call(GlobalVar(names[name]), (back, *pairs), span=function.span)),
            (value, boundary.seed(signature.result, result)),
            (run, RefRead(back)),
            (Var("_"), Call(run, ())),
        ],
        Tuple((value, Tuple(gradients))),
    )
    wanted = TupleType(tuple(signature.params[i] for i in chosen))
    return Function(params, body, TupleType((signature.result, wanted)), span=function.span)
