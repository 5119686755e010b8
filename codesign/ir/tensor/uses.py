"""Which axes an index runs over, and what an expression reads."""

from __future__ import annotations

from collections.abc import Iterable
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


def axes_of(indices: Iterable[Index]) -> tuple[Axis, ...]:
    """Return the axes that stand in any of the indices, each once."""
    found: dict[Axis, None] = {}
    pending = list(indices)
    while pending:
        for atom, _ in pending.pop().terms:
            match atom:
                case Axis():
                    found[atom] = None
                case FloorDiv() | Modulo() | Clamp():
                    pending.append(atom.value)
                case Element():
                    found.update(dict.fromkeys(atom.axes))
                case _:
                    assert_never(atom)
    return tuple(found)


def loads_of(expr: Expr) -> tuple[Load, ...]:
    """Return every load below an expression, those that compute an index too."""
    found: dict[Load, None] = {}
    seen: set[Expr] = set()
    pending = [expr]
    while pending:
        each = pending.pop()
        if each in seen:
            continue
        seen.add(each)
        match each:
            case Load(_, index):
                found[each] = None
                pending += _computed(index)
            case Apply(_, args, _):
                pending += args
            case Convert(value, _):
                pending.append(value)
            case Position(index):
                pending += _computed((index,))
            case Guarded(conditions, body, otherwise):
                pending += [*_computed(index for index, _, _ in conditions), body, otherwise]
            case Reduce(_, _, body, _):
                pending.append(body)
            case Literal() | Accumulator():
                pass
            case _:
                assert_never(each)
    return tuple(found)


def _computed(indices: Iterable[Index]) -> list[Expr]:
    """Return the scalar expressions that stand in indices."""
    found: list[Expr] = []
    pending = list(indices)
    while pending:
        for atom, _ in pending.pop().terms:
            match atom:
                case FloorDiv() | Modulo() | Clamp():
                    pending.append(atom.value)
                case Element(expr):
                    assert isinstance(expr, Expr), "an element of an index is a scalar expression"
                    found.append(expr)
                case Axis():
                    pass
                case _:
                    assert_never(atom)
    return found
