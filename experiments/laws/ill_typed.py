"""Modules that are wrong in types in one place, from right ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from codesign.dtypes import DType
from codesign.ir.relay.expr import (
    Call,
    Constant,
    Constructor,
    Expr,
    GlobalVar,
    If,
    Match,
    OpRef,
    PatternConstructor,
    Project,
    RefRead,
    RefWrite,
    Tuple,
    Var,
)
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType
from codesign.ir.relay.visit import post_order, rewrite
from experiments.laws.draw import Draw

Mutation = Callable[[Draw, Expr], "Expr | None"]
"""`mutate(draw, node)` gives what stands in the node's place, or None where it has no such."""


def _other_dtype(draw: Draw, node: Expr) -> Expr | None:
    if not isinstance(node, Constant):
        return None
    with np.errstate(all="ignore"):
        return Constant(node.value.astype(draw.one_of(tuple(DType)).numpy))


def _other_shape(draw: Draw, node: Expr) -> Expr | None:
    if not isinstance(node, Constant):
        return None
    return Constant(np.stack([node.value] * draw.between(1, 3)))


def _fewer_arguments(draw: Draw, node: Expr) -> Expr | None:
    return replace(node, args=node.args[1:]) if isinstance(node, Call) and node.args else None


def _more_arguments(draw: Draw, node: Expr) -> Expr | None:
    if not isinstance(node, Call):
        return None
    extra = node.args[0] if node.args else Tuple(())
    return replace(node, args=(*node.args, extra))


def _other_operator(draw: Draw, node: Expr) -> Expr | None:
    if not isinstance(node, Call) or not isinstance(node.callee, OpRef):
        return None
    name = draw.one_of(("nn.dense", "add", "logical_not", "concatenate", "where", "split"))
    return replace(node, callee=OpRef(name))


def _other_callee(draw: Draw, node: Expr) -> Expr | None:
    if not isinstance(node, Call):
        return None
    others: tuple[Expr, ...] = (Tuple(()), GlobalVar("main"), Constructor("Cons"), Tuple((node,)))
    return replace(node, callee=draw.one_of(others))


def _other_field(draw: Draw, node: Expr) -> Expr | None:
    return replace(node, index=node.index + 3) if isinstance(node, Project) else None


def _field(draw: Draw, node: Expr) -> Expr | None:
    return Project(node, draw.below(2)) if isinstance(node, Call | Tuple | Match) else None


def _other_pattern(draw: Draw, node: Expr) -> Expr | None:
    if not isinstance(node, Match):
        return None
    pattern = PatternConstructor(draw.one_of(("Cons", "Nil", "zero", "Unheard")))
    clauses = tuple(replace(each, pattern=pattern) for each in node.clauses)
    return replace(node, clauses=clauses)


def _fewer_clauses(draw: Draw, node: Expr) -> Expr | None:
    return replace(node, clauses=node.clauses[1:]) if isinstance(node, Match) else None


def _other_condition(draw: Draw, node: Expr) -> Expr | None:
    return replace(node, condition=Tuple(())) if isinstance(node, If) else None


def _other_cell(draw: Draw, node: Expr) -> Expr | None:
    match node:
        case RefRead():
            return RefRead(RefRead(node))
        case RefWrite():
            return replace(node, value=Tuple((node.value,)))
        case _:
            return None


def _other_annotation(draw: Draw, node: Expr) -> Expr | None:
    if not isinstance(node, Var):
        return None
    return replace(node, annotation=TensorType((draw.dim(),), draw.one_of(tuple(DType))))


MUTATIONS: Final[Sequence[Mutation]] = (
    _other_dtype,
    _other_shape,
    _fewer_arguments,
    _more_arguments,
    _other_operator,
    _other_callee,
    _other_field,
    _field,
    _other_pattern,
    _fewer_clauses,
    _other_condition,
    _other_cell,
    _other_annotation,
)
"""Every way in which a node is made wrong."""


def mutated(module: Module, mutate: Mutation, draw: Draw) -> Module:
    """Return the module with one node made wrong; itself where no node can be."""
    places = [
        (name, node, new)
        for name, function in module.functions.items()
        for node in post_order(function.body)
        if (new := mutate(draw, node)) is not None
    ]
    if not places:
        return module
    name, old, new = draw.one_of(places)
    function = rewrite(module.functions[name], lambda node: new if node is old else node)
    return module.with_functions({**module.functions, name: function})  # type: ignore[dict-item]
