"""Partially static values: what is known of a value when the program is compiled.

Source: Weirich and Roesch, "Partial evaluation" in Roesch et al., "Relay: A High-Level Compiler for
Deep Learning" (2019), section 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, final

from codesign.diagnostics import Span
from codesign.ir.relay.expr import Constant, Constructor, Expr, Function, GlobalVar, Var
from codesign.ir.relay.types import Type, TypeVar


@final
@dataclass(slots=True, eq=False)
class Block:
    """Bindings of the residual program that are evaluated together, in order."""

    lines: list[tuple[Var, Expr]] = field(default_factory=list)
    is_open: bool = True


@final
@dataclass(frozen=True, slots=True, eq=False)
class KnownTuple:
    """A tuple whose fields are known one by one."""

    fields: tuple[Partial, ...]


@final
@dataclass(frozen=True, slots=True, eq=False)
class KnownData:
    """What a known constructor made."""

    constructor: Constructor
    fields: tuple[Partial, ...]
    type: Type | None = None
    span: Span | None = None


@final
@dataclass(frozen=True, slots=True, eq=False)
class KnownClosure:
    """A function and what is known of its free variables.

    `itself` is the variable by which it calls itself. `types` say what type parameters of functions
    around it mean here.
    """

    function: Function
    captured: Mapping[Var, Partial]
    types: Mapping[TypeVar, Type]
    itself: Var | None = None


@final
@dataclass(slots=True, eq=False)
class KnownCell:
    """A cell that this program made; it is virtual until the residual program needs it."""

    var: Var | None = None
    type: Type | None = None
    span: Span | None = None


Static: TypeAlias = KnownTuple | KnownData | KnownClosure | KnownCell | Constructor


@final
@dataclass(slots=True, eq=False)
class Partial:
    """A value: what is known of it, and the atom of the residual program that stands for it.

    An atom that `block` binds is good while that block is open. `size` is how much is known: what
    shrinks from call to call makes recursion end.
    """

    static: Static | None = None
    atom: Expr | None = None
    block: Block | None = None
    size: int = 0

    def known_atom(self) -> Expr | None:
        """Return the atom where it may be used now."""
        return self.atom if self.block is None or self.block.is_open else None


def of_atom(atom: Expr) -> Partial:
    """Return what is known of an atom: of a constant how far it is from zero."""
    match atom:
        case Constant(value) if value.ndim == 0 and value.dtype.kind in "iu":
            return Partial(None, atom, size=min(abs(int(value)), 1 << 20))
        case Constructor():
            return Partial(atom, atom)
        case _:
            return Partial(None, atom)


def of_fields(static: KnownTuple | KnownData) -> Partial:
    """Return what is known of a tuple or of a value of a data type."""
    weight = 1 if isinstance(static, KnownData) else 0
    return Partial(static, size=weight + sum(each.size for each in static.fields))


def is_informative(value: Partial) -> bool:
    """Return whether more is known of a value than a name: worth a copy of what takes it."""
    return value.static is not None or isinstance(value.atom, Constant | GlobalVar)


def parts(static: Static | None, store: Mapping[KnownCell, Partial]) -> Iterator[Partial]:
    """Yield the values that a value is made of; of a virtual cell what it holds now."""
    match static:
        case KnownTuple(fields) | KnownData(fields=fields):
            yield from fields
        case KnownClosure(captured=captured):
            yield from captured.values()
        case KnownCell(var=None) if static in store:
            yield store[static]
        case _:
            pass


def virtual_cells(roots: list[Partial], store: Mapping[KnownCell, Partial]) -> list[KnownCell]:
    """Return the cells within values that the residual program does not have yet."""
    seen: set[int] = set()
    found: dict[KnownCell, None] = {}
    pending = list(roots)
    while pending:
        value = pending.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value.static, KnownCell) and value.static.var is None:
            found.setdefault(value.static)
        if value.known_atom() is None:
            pending.extend(parts(value.static, store))
    return list(found)
