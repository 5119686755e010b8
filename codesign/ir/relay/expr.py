"""Relay's expressions: a closed set of frozen nodes that compare by identity.

    expr := %x | @f | constant | operator | expr(expr, …, attr=value) | let %x = expr; expr
          | if (expr) { expr } else { expr } | (expr, …) | expr.i
          | fn[A, …] (%x: type, …) -> type { expr }
          | Constructor | match (expr) { pattern => expr, … } | match? (expr) { … }
          | ref(expr) | ref_read(expr) | ref_write(expr, expr)
    pattern := _ | %x | Constructor(pattern, …) | (pattern, …)

Sharing has meaning: a node that is reached twice is evaluated once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never, final

from codesign.diagnostics import Span
from codesign.dtypes import Array
from codesign.ir.relay.types import Type, TypeVar


@dataclass(frozen=True, kw_only=True)
class Attrs:
    """Static attributes of an operator's call; each operator with attributes has a subclass."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Var:
    """`%x`: a parameter or a let-bound variable; identity is the node, not its name."""

    name: str
    annotation: Type | None = None
    span: Span | None = None


@final
@dataclass(frozen=True, slots=True, eq=False)
class GlobalVar:
    """`@f`: a function of the module."""

    name: str
    span: Span | None = None


@final
@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """A tensor known at compile time; its array is never written."""

    value: Array
    span: Span | None = None


@final
@dataclass(frozen=True, slots=True, eq=False)
class OpRef:
    """`nn.conv2d`: an operator by its name in `ops.table`."""

    name: str
    span: Span | None = None


@final
@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """`op(args, attrs)` or `function(args)`."""

    callee: Expr
    args: tuple[Expr, ...]
    attrs: Attrs | None = None
    span: Span | None = None


@final
@dataclass(frozen=True, slots=True, eq=False)
class Let:
    """`let var = value; body`, where `var` is in scope in `body` only."""

    var: Var
    value: Expr
    body: Expr
    span: Span | None = None


@final
@dataclass(frozen=True, slots=True, eq=False)
class If:
    """`if (condition) { then } else { otherwise }`; the condition is a scalar of bool."""

    condition: Expr
    then: Expr
    otherwise: Expr
    span: Span | None = None


@final
@dataclass(frozen=True, slots=True, eq=False)
class Tuple:
    """`(a, b)`."""

    fields: tuple[Expr, ...]
    span: Span | None = None


@final
@dataclass(frozen=True, slots=True, eq=False)
class Project:
    """`value.index`: a field of a tuple."""

    value: Expr
    index: int
    span: Span | None = None


@final
@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """`fn[A] (params) -> result_type { body }`; `attributes` are flags such as `Primitive`."""

    params: tuple[Var, ...]
    body: Expr
    result_type: Type | None = None
    attributes: Mapping[str, int | str] = field(default_factory=dict)
    type_params: tuple[TypeVar, ...] = ()
    span: Span | None = None


@final
@dataclass(frozen=True, slots=True, eq=False)
class Constructor:
    """`Cons`: a constructor of a data type of the module, a function of its fields.

    One without fields stands only where it is called: `Nil` in text is `Nil()`.
    """

    name: str
    span: Span | None = None


@final
@dataclass(frozen=True, slots=True)
class Wildcard:
    """`_`: fits any value."""


@final
@dataclass(frozen=True, slots=True)
class PatternVar:
    """`%x`: fits any value and binds it in the clause's body."""

    var: Var


@final
@dataclass(frozen=True, slots=True)
class PatternConstructor:
    """`Cons(a, b)`: fits what the constructor made of fields that fit."""

    name: str
    fields: tuple[Pattern, ...] = ()
    span: Span | None = field(default=None, compare=False)


@final
@dataclass(frozen=True, slots=True)
class PatternTuple:
    """`(a, b)`: fits a tuple of fields that fit."""

    fields: tuple[Pattern, ...]


Pattern: TypeAlias = Wildcard | PatternVar | PatternConstructor | PatternTuple


@final
@dataclass(frozen=True, slots=True, eq=False)
class Clause:
    """`pattern => body`; the pattern's variables are in scope in `body` only."""

    pattern: Pattern
    body: Expr


@final
@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """`match (value) { clauses }`: the body of the first clause whose pattern fits.

    `complete` promises that one always fits; `match?` promises nothing.
    """

    value: Expr
    clauses: tuple[Clause, ...]
    complete: bool = True
    span: Span | None = None


@final
@dataclass(frozen=True, slots=True, eq=False)
class RefNew:
    """`ref(value)`: a new cell."""

    value: Expr
    span: Span | None = None


@final
@dataclass(frozen=True, slots=True, eq=False)
class RefRead:
    """`ref_read(reference)`: what the cell holds now."""

    reference: Expr
    span: Span | None = None


@final
@dataclass(frozen=True, slots=True, eq=False)
class RefWrite:
    """`ref_write(reference, value)`: puts the value into the cell; gives `()`."""

    reference: Expr
    value: Expr
    span: Span | None = None


Expr: TypeAlias = (
    Var
    | GlobalVar
    | Constant
    | OpRef
    | Call
    | Let
    | If
    | Tuple
    | Project
    | Function
    | Constructor
    | Match
    | RefNew
    | RefRead
    | RefWrite
)


def pattern_variables(pattern: Pattern) -> tuple[Var, ...]:
    """Return the variables that a pattern binds, from left to right."""
    match pattern:
        case Wildcard():
            return ()
        case PatternVar(var):
            return (var,)
        case PatternConstructor(_, fields) | PatternTuple(fields):
            return tuple(var for each in fields for var in pattern_variables(each))
        case _:
            assert_never(pattern)


def construct_name(expr: Expr) -> str:
    """Return what a message calls an expression of this kind."""
    match expr:
        case Match():
            return "match"
        case RefNew():
            return "ref"
        case RefRead():
            return "ref_read"
        case RefWrite():
            return "ref_write"
        case Constructor(name):
            return f"constructor {name}"
        case _:
            return type(expr).__name__.lower()
