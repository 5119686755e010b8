"""Copies of expressions whose variables are their own: what inlines or duplicates code needs them.

A copy shares no node with the original but constants, operators, constructors, global variables and
free variables, so that both are evaluated apart. Sharing inside stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import Final, TypeVar, final

from codesign.ir.relay.expr import (
    Call,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    OpRef,
    Project,
    RefNew,
    RefRead,
    RefWrite,
    Tuple,
    Var,
    pattern_variables,
)
from codesign.ir.relay.module import Module
from codesign.ir.relay.type_algebra import substitute_type
from codesign.ir.relay.types import Type
from codesign.ir.relay.types import TypeVar as TypeParameter
from codesign.ir.relay.visit import children, post_order, with_children

ExprT = TypeVar("ExprT", bound=Expr)

ATOMS: Final = (Var, GlobalVar, Constant, OpRef, Constructor)
"""Nodes without children: evaluating them does nothing, so a copy may share them."""


@final
class Names:
    """Gives names that are not taken; each name that it gave is taken.

    Examples
    --------
    >>> names = Names(["f"])
    >>> names.fresh("f"), names.fresh("f"), names.fresh("g")
    ('f_1', 'f_2', 'g')
    """

    def __init__(self, taken: Collection[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, Iterator[int]] = {}

    def fresh(self, stem: str) -> str:
        """Return the stem where it is free, else the stem with the first number that is."""
        name = stem
        numbers = self._next.setdefault(stem, count(1))
        while name in self._taken:
            name = f"{stem}_{next(numbers)}"
        self._taken.add(name)
        return name


def type_parameter_names(module: Module) -> Names:
    """Return names that no type parameter and no data type of the module has."""
    taken = set(module.data_types)
    for node in post_order(*module.functions.values()):
        if isinstance(node, Function):
            taken.update(each.name for each in node.type_params)
    return Names(taken)


def binders(expr: Expr) -> tuple[Var, ...]:
    """Return the variables that a node itself binds."""
    match expr:
        case Let(var=var):
            return (var,)
        case Function(params=params):
            return params
        case Match(clauses=clauses):
            return tuple(var for each in clauses for var in pattern_variables(each.pattern))
        case _:
            return ()


def fresh_copy(
    expr: ExprT,
    names: Names,
    *,
    variables: Mapping[Var, Expr] | None = None,
    types: Mapping[TypeParameter, Type] | None = None,
) -> ExprT:
    """Return a copy of an expression with new variables and new type parameters.

    `variables` and `types` say what takes the place of those that are free in it; `names` gives
    names of type parameters.
    """
    nodes = list(post_order(expr))
    values: dict[TypeParameter, Type] = dict(types or {})
    for node in nodes:
        if isinstance(node, Function):
            for each in node.type_params:
                values[each] = TypeParameter(names.fresh(each.name))
    copies: dict[Expr, Expr] = {}
    copies.update((variables or {}).items())
    for node in nodes:
        for var in binders(node):
            copies[var] = replace(var, annotation=_typed(var.annotation, values))
    for node in nodes:
        if node not in copies:
            copies[node] = _copy(node, copies, values)
    result = copies[expr]
    assert isinstance(result, type(expr)), "a copy is of the same kind"
    return result


def _typed(type_: Type | None, values: Mapping[TypeParameter, Type]) -> Type | None:
    return None if type_ is None else substitute_type(type_, values)


def _copy(node: Expr, copies: Mapping[Expr, Expr], values: Mapping[TypeParameter, Type]) -> Expr:
    if isinstance(node, ATOMS):
        return node
    made = with_children(node, tuple(copies[each] for each in children(node)))
    match made:
        case Function(result_type=result_type, type_params=type_params):
            return replace(
                made,
                result_type=_typed(result_type, values),
                type_params=tuple(_parameter(values[each]) for each in type_params),
            )
        case (
            Call()
            | Let()
            | If()
            | Tuple()
            | Project()
            | Match()
            | RefNew()
            | RefRead()
            | RefWrite()
        ):
            return replace(made) if made is node else made
        case _:
            raise AssertionError("atoms are not copied")


def _parameter(type_: Type) -> TypeParameter:
    assert isinstance(type_, TypeParameter), "type parameters are renamed to type parameters"
    return type_
