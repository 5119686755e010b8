"""The graph form of a function, as placement sees it: calls, tuples and fields, operands first."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from codesign.ir.relay.expr import (
    Call,
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
)
from codesign.ir.relay.types import UNKNOWN, TensorType, TupleType, Type
from codesign.ir.relay.visit import free_variables, post_order, with_children

_OF_CONTROL: Final = (If, GlobalVar, Match, Constructor, RefNew, RefRead, RefWrite)
_NOT_OF_GRAPHS: Final = (Let, *_OF_CONTROL)


def operands(node: Expr) -> tuple[Expr, ...]:
    """Return what a node of the graph is computed from; a callee is no operand."""
    match node:
        case Call():
            return node.args
        case Tuple():
            return node.fields
        case Project():
            return (node.value,)
        case _:
            return ()


def sources(node: Expr) -> tuple[Expr, ...]:
    """Return the operands, looking through tuples: a tuple is made where it is used."""
    found: list[Expr] = []
    for operand in operands(node):
        if isinstance(operand, Tuple):
            found += sources(operand)
        else:
            found.append(operand)
    return tuple(found)


def graph_order(*roots: Expr, known: Collection[Expr] = ()) -> Iterator[Expr]:
    """Yield every node of the graph once, its operands before it; go no deeper than `known`."""
    visited: set[Expr] = set(known)
    for root in roots:
        if root in visited:
            continue
        visited.add(root)
        stack = [(root, iter(operands(root)))]
        while stack:
            node, pending = stack[-1]
            child = next((each for each in pending if each not in visited), None)
            if child is None:
                stack.pop()
                yield node
            else:
                visited.add(child)
                stack.append((child, iter(operands(child))))


def is_graph(function: Function) -> bool:
    """Whether a body consists of calls of operators and closed functions, tuples and constants."""
    return not any(isinstance(node, _NOT_OF_GRAPHS) for node in post_order(function.body))


def is_first_order(function: Function, types: Mapping[Expr, Type]) -> bool:
    """Whether operators, closed functions called in place, lets and tuples of tensors are all.

    Every shape must be known.
    """
    nodes = tuple(post_order(function.body))
    called = {node.callee for node in nodes if isinstance(node, Call)}
    return not any(isinstance(node, _OF_CONTROL) for node in nodes) and all(
        (not isinstance(node, Function) or (node in called and not free_variables(node)))
        and (not isinstance(node, Call) or isinstance(node.callee, Function | OpRef))
        and (node not in types or isinstance(node, Function) or _is_static(types[node]))
        for node in (*nodes, *function.params)
    )


def _is_static(type_: Type) -> bool:
    if isinstance(type_, TupleType):
        return all(map(_is_static, type_.fields))
    return isinstance(type_, TensorType) and UNKNOWN not in type_.shape


def replaced(root: Expr, values: dict[Expr, Expr]) -> Expr:
    """Return the graph under `root` with nodes replaced; `values` grows by what was rebuilt."""
    for node in tuple(graph_order(root, known=values)):
        values[node] = _rebuilt(node, tuple(values[each] for each in operands(node)))
    return values[root]


def _rebuilt(node: Expr, new: tuple[Expr, ...]) -> Expr:
    match node:
        case Call(callee=callee):
            return with_children(node, (callee, *new))
        case Tuple() | Project():
            return with_children(node, new)
        case _:
            return node
