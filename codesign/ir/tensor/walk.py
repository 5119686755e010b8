"""The nodes of an expression, and the axes that it depends on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from codesign.ir.tensor.compute import (
    Accumulator,
    Apply,
    Convert,
    Expr,
    Guarded,
    Literal,
    Load,
    Position,
    Reduce,
)
from codesign.ir.tensor.index import Axis, Clamp, Element, FloorDiv, Index, Modulo
from codesign.ir.tensor.uses import axes_of


def nodes(expr: Expr) -> Iterator[Expr]:
    """Yield an expression and what stands in it, each once; what computes an index too."""
    pending, seen = [expr], {expr}
    while pending:
        each = pending.pop()
        yield each
        computed = (inner for index in indices(each) for inner in _elements(index))
        for child in (*operands(each), *computed):
            if child not in seen:
                seen.add(child)
                pending.append(child)


def _elements(index: Index) -> Iterator[Expr]:
    pending = [index]
    while pending:
        for atom, _ in pending.pop().terms:
            match atom:
                case Axis():
                    pass
                case FloorDiv() | Modulo() | Clamp():
                    pending.append(atom.value)
                case Element(expr):
                    assert isinstance(
                        expr, Literal | Load | Apply | Convert | Position | Guarded | Reduce
                    ), "an element of an index is a scalar expression"
                    yield expr
                case _:
                    assert_never(atom)


def operands(expr: Expr) -> tuple[Expr, ...]:
    """Return the expressions that stand directly in an expression."""
    match expr:
        case Literal() | Load() | Position() | Accumulator():
            return ()
        case Apply(_, args, _):
            return args
        case Convert(value, _):
            return (value,)
        case Guarded(_, body, otherwise):
            return body, otherwise
        case Reduce(_, _, body, _):
            return (body,)
        case _:
            assert_never(expr)


def indices(expr: Expr) -> tuple[Index, ...]:
    """Return the indices that stand directly in an expression."""
    match expr:
        case Load(_, index):
            return index
        case Position(index, _):
            return (index,)
        case Guarded(conditions, _, _):
            return tuple(index for index, _, _ in conditions)
        case _:
            return ()


def axes_in(expr: Expr) -> frozenset[Axis]:
    """Return the axes that an expression's value depends on, those that it reduces too."""
    return frozenset(axes_of(index for node in nodes(expr) for index in indices(node)))
