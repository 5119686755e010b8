"""The residual program: its blocks, the atoms of its values, and the cells that it has not."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeAlias, assert_never, final

from codesign.compiler.analysis.boundaries import is_boundary
from codesign.compiler.rewriting.partial.values import (
    Block,
    KnownCell,
    KnownClosure,
    KnownData,
    KnownTuple,
    Partial,
    of_atom,
    virtual_cells,
)
from codesign.diagnostics import InternalError
from codesign.ir.relay.expr import Call, Constructor, Expr, RefNew, Tuple, Var
from codesign.ir.relay.types import Type

Steps: TypeAlias = Generator[Any, Any, Any]
"""A computation that returns a partially known value; what a `yield` gives has no type."""

Atom: TypeAlias = Generator[Any, Any, Any]
"""A computation that returns an atom of the residual program."""


@final
class Residual:
    """What is written down; `store` says what cells hold, of virtual ones always.

    `write_function(value, closure, block)` writes a function down and says so in its value.
    """

    def __init__(self, write_function: Callable[[Partial, KnownClosure, Block], Steps]) -> None:
        self.store: dict[KnownCell, Partial] = {}
        self._write_function = write_function

    def emit(self, block: Block, value: Expr, type_: Type | None = None) -> Var:
        """Bind a value at the end of a block; return the variable."""
        assert block.is_open, "a block that is written is not changed"
        var = Var("v", type_, value.span)
        block.lines.append((var, value))
        return var

    def unknown(self, block: Block, value: Expr) -> Partial:
        """Bind a value of which nothing is known."""
        return of_atom(self.emit(block, value))

    def atoms(
        self, values: tuple[Partial, ...], block: Block
    ) -> Generator[Any, Any, tuple[Expr, ...]]:
        """Return atoms for values, from left to right."""
        found = []
        for each in values:
            found.append((yield self.atom(each, block)))  # noqa: PERF401
        return tuple(found)

    def atom(self, value: Partial, block: Block) -> Atom:
        """Return an atom for a value, which is written down if it is not yet."""
        known = value.known_atom()
        if known is not None:
            return known
        match value.static:
            case KnownTuple(fields):
                atoms = yield from self.atoms(fields, block)
                value.atom = self.emit(block, Tuple(atoms))
            case KnownData(constructor, fields, type_, span):
                atoms = yield from self.atoms(fields, block)
                value.atom = self.emit(block, Call(constructor, atoms, None, span), type_)
            case KnownCell() as cell:
                value.atom = yield self.real(cell, block)
            case KnownClosure() as closure:
                for each in virtual_cells([value], self.store):
                    yield self.real(each, block)
                yield self._write_function(value, closure, block)
            case None | Constructor():
                raise InternalError("a value of which nothing is known has an atom")
            case _:
                assert_never(value.static)
        value.block = block
        assert value.atom is not None, "the value has been written down"
        return value.atom

    def as_type(
        self, wanted: Type | None, name: str, value: Partial, found: Type | None, block: Block
    ) -> Steps:
        """Return a value of the type `found` as one of the wanted type: a boundary is a `let`."""
        if not is_boundary(wanted, found):
            return value
        atom: Expr = yield self.atom(value, block)
        var = Var(name, wanted, atom.span)
        block.lines.append((var, atom))
        return of_atom(var)

    def real(self, cell: KnownCell, block: Block) -> Atom:
        """Give the residual program a cell, with what it holds now; return its variable."""
        if cell.var is None:
            held = yield self.atom(self.store[cell], block)
            cell.var = self.emit(block, RefNew(held, cell.span), cell.type)
        return cell.var

    def forget(self) -> None:
        """Know no more what real cells hold."""
        self.store = {cell: held for cell, held in self.store.items() if cell.var is None}
