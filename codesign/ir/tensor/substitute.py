"""Put indices in the place of axes, and expressions in the place of others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never, final

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
from codesign.ir.tensor.index import (
    Atom,
    Axis,
    Clamp,
    Element,
    FloorDiv,
    Index,
    Modulo,
    at,
    element,
)
from codesign.ir.tensor.uses import axes_of


def substitute(
    expr: Expr,
    axes: Mapping[Axis, Index],
    replaced: Mapping[Expr, Expr] | None = None,
) -> Expr:
    """Return the expression with indices for `axes`; nodes of `replaced` become their values.

    Nodes that are shared stay shared.
    """
    return Substitution(axes, replaced or {}).expr(expr)


@final
class Substitution:
    """One replacement, for several expressions and indices that share nodes."""

    def __init__(self, axes: Mapping[Axis, Index], replaced: Mapping[Expr, Expr]) -> None:
        self._axes = axes
        self._known: dict[Expr, Expr] = dict(replaced)

    def expr(self, expr: Expr) -> Expr:
        """Return the expression after the replacement."""
        known = self._known.get(expr)
        if known is None:
            known = self._fresh(expr)
            self._known[expr] = known
        return known

    def _fresh(self, expr: Expr) -> Expr:
        match expr:
            case Literal() | Accumulator():
                return expr
            case Load(buffer, index):
                return Load(buffer, tuple(map(self.index, index)))
            case Apply(function, args, dtype):
                return Apply(function, tuple(map(self.expr, args)), dtype)
            case Convert(value, dtype):
                return Convert(self.expr(value), dtype)
            case Position(index, dtype):
                return Position(self.index(index), dtype)
            case Guarded(conditions, body, otherwise):
                moved = tuple((self.index(index), low, high) for index, low, high in conditions)
                return Guarded(moved, self.expr(body), self.expr(otherwise))
            case Reduce(kind, axes, body, initial):
                return Reduce(kind, axes, self.expr(body), initial)
            case _:
                assert_never(expr)

    def index(self, index: Index) -> Index:
        """Return the index after the replacement, simplified."""
        result = Index((), index.constant)
        for atom, factor in index.terms:
            result += self._atom(atom) * factor
        return result

    def _atom(self, atom: Atom) -> Index:
        match atom:
            case Axis():
                return self._axes.get(atom, at(atom))
            case FloorDiv(value, divisor):
                return self.index(value) // divisor
            case Modulo(value, divisor):
                return self.index(value) % divisor
            case Clamp(value, low, high):
                return self.index(value).clamp(low, high)
            case Element(expr, axes):
                assert isinstance(
                    expr, Literal | Load | Apply | Convert | Position | Guarded | Reduce
                ), "an element of an index is a scalar expression"
                return element(self.expr(expr), axes_of(map(self._atom, axes)))
            case _:
                assert_never(atom)
