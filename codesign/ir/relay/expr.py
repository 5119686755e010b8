"""Relay's expressions: a closed set of frozen nodes that compare by identity.

    expr := %x | @f | constant | operator | expr(expr, …, attr=value) | let %x = expr; expr
          | if (expr) { expr } else { expr } | (expr, …) | expr.i
          | fn (%x: type, …) -> type { expr }

Sharing has meaning: a node that is reached twice is evaluated once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, final

from codesign.diagnostics import Span
from codesign.dtypes import Array
from codesign.ir.relay.types import Type


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
    """`fn (params) -> result_type { body }`; `attributes` are flags such as `Primitive`."""

    params: tuple[Var, ...]
    body: Expr
    result_type: Type | None = None
    attributes: Mapping[str, int | str] = field(default_factory=dict)
    span: Span | None = None


Expr: TypeAlias = Var | GlobalVar | Constant | OpRef | Call | Let | If | Tuple | Project | Function
