"""A-normal form: which nodes of a function are bound by a `let`, and whether all are.

Passes that work on A-normal form and the pass that makes it share this.
"""

from __future__ import annotations

from collections.abc import Collection

from codesign.compiler.analysis.evaluation import Evaluation, Finish, is_atom
from codesign.compiler.rewriting.let_insertion import insert_lets
from codesign.ir.relay.expr import Expr, Function, If, Let, Match
from codesign.ir.relay.module import Module
from codesign.ir.relay.visit import children


def to_a_normal(module: Module) -> Module:
    """Return the module in A-normal form; itself where it is."""
    return insert_lets(module, _is_done, _choose)


def _is_done(evaluation: Evaluation) -> bool:
    return all(_is_normal(node, evaluation) for node in _nodes(evaluation))


def _nodes(evaluation: Evaluation) -> list[Expr]:
    return [event.node for event in evaluation.events if isinstance(event, Finish)]


def _is_normal(node: Expr, evaluation: Evaluation) -> bool:
    if len(evaluation.uses.get(node, ())) > 1:
        return False
    match node:
        case Function():
            return True
        case Let(value=value):
            return not isinstance(value, Let)
        case If(condition):
            return is_atom(condition)
        case Match(value):
            return is_atom(value)
        case _:
            return all(map(is_atom, children(node)))


def _choose(evaluation: Evaluation) -> Collection[Expr]:
    last: set[Expr] = set()
    bound: set[Expr] = set()
    for node in reversed(_nodes(evaluation)):
        if node is evaluation.function:
            continue
        if _is_last(node, evaluation, last):
            last.add(node)
        elif not isinstance(node, Let):
            bound.add(node)
    return bound


def _is_last(node: Expr, evaluation: Evaluation, last: set[Expr]) -> bool:
    """Return whether a node's value is that of its block, and needed by nothing else."""
    if len(evaluation.uses[node]) > 1:
        return False
    (use,) = evaluation.uses[node]
    if isinstance(use.user, Let):
        return use.user in last and node is use.user.body
    return isinstance(use.user, Function) or (use.way >= 0)
