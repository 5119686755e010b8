"""The smallest program that still fails: a failing one with parts replaced by smaller ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from codesign.compiler.analysis.infer_types import infer_types
from codesign.diagnostics import CodesignError
from codesign.ir.relay.expr import (
    Call,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    OpRef,
    Tuple,
    Var,
)
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType, TupleType, Type
from codesign.ir.relay.visit import children, free_variables, post_order, rewrite
from codesign.ir.relay.wellformed import check_module

_ATOMS = (Var, Constant, GlobalVar, OpRef, Constructor)


def shrink(module: Module, fails: Callable[[Module], bool], tries: int = 2000) -> Module:
    """Return a module that fails too and in which no tried replacement leaves the failure."""
    left = tries
    progress = True
    while progress and left > 0:
        progress = False
        for candidate in _smaller(module):
            left -= 1
            if left <= 0:
                break
            if _is_legal(candidate) and fails(candidate):
                module, progress = candidate, True
                break
    return module


def size_of(module: Module) -> int:
    """Return the number of nodes of all functions."""
    return sum(sum(1 for _ in post_order(each)) for each in module.functions.values())


def _is_legal(module: Module) -> bool:
    try:
        check_module(module)
        infer_types(module)
    except CodesignError:
        return False
    return True


def _smaller(module: Module) -> Iterator[Module]:
    used = _reachable(module)
    if used.keys() != module.functions.keys():
        yield module.with_functions(used)
    types = infer_types(module)
    for name, function in module.functions.items():
        for node in reversed([*post_order(function.body)]):
            for new in _replacements(node, types):
                yield _with(module, name, node, new)


def _reachable(module: Module) -> Mapping[str, Function]:
    found: dict[str, Function] = {}
    pending = ["main"]
    while pending:
        name = pending.pop()
        if name in found:
            continue
        found[name] = module.functions[name]
        pending += [n.name for n in post_order(found[name]) if isinstance(n, GlobalVar)]
    return {name: each for name, each in module.functions.items() if name in found}


def _with(module: Module, name: str, old: Expr, new: Expr) -> Module:
    made = rewrite(module.functions[name], lambda node: new if node is old else node)
    assert isinstance(made, Function), "only what lies in a function is replaced"
    return module.with_functions({**module.functions, name: made})


def _replacements(node: Expr, types: Mapping[Expr, Type]) -> Iterator[Expr]:
    """Yield what may stand for a node: the least value of its type, then parts of that type."""
    if isinstance(node, _ATOMS) or node not in types:
        return
    type_ = types[node]
    least = _least(type_)
    if least is not None and not (isinstance(node, Tuple) and not node.fields):
        yield least
    free = set(free_variables(node))
    below = [each for each in post_order(node) if each is not node and types.get(each) == type_]
    for each in reversed(below):
        if not isinstance(each, OpRef) and set(free_variables(each)) <= free:
            yield each
    yield from (each for each in children(node) if types.get(each) == type_ and each not in below)
    if isinstance(node, Call) and isinstance(node.callee, Function):
        yield node.callee.body


def _least(type_: Type) -> Expr | None:
    match type_:
        case TensorType(shape, dtype) if all(isinstance(dim, int) for dim in shape):
            return Constant(np.ones(type_.static_shape, dtype.numpy))
        case TupleType(fields):
            found = [_least(each) for each in fields]
            made = tuple(each for each in found if each is not None)
            return Tuple(made) if len(made) == len(fields) else None
        case _:
            return None
