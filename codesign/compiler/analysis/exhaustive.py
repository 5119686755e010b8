"""Whether the clauses of a match fit every value; a pattern that none fits is found otherwise.

A matrix of patterns, one row a clause, is split by the constructors of its first column until no
column is left.

Source: Maranget, "Warnings for pattern matching" (2007), section 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from codesign.diagnostics import Diagnostic, Problem
from codesign.ir.relay.expr import (
    Expr,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    Wildcard,
)
from codesign.ir.relay.module import Module, TypeDefinition
from codesign.ir.relay.type_algebra import substitute_type
from codesign.ir.relay.types import TupleType, Type, TypeCall, type_text
from codesign.ir.relay.visit import post_order

_Row: TypeAlias = tuple[Pattern, ...]
_ANY: Pattern = Wildcard()


def check_matches(
    roots: tuple[Expr, ...], types: Mapping[Expr, Type], module: Module
) -> Iterator[Diagnostic]:
    """Yield a mistake for each complete match that leaves a value out."""
    for node in post_order(*roots):
        if not isinstance(node, Match) or not node.complete:
            continue
        patterns = tuple(clause.pattern for clause in node.clauses)
        left_out = missing_pattern(patterns, types[node.value], module.data_types)
        if left_out is not None:
            yield Problem(
                what="a match does not cover every value",
                found=f"nothing fits {left_out} of {type_text(types[node.value])}",
                span=node.span,
                help="add a clause, or write match? where others never occur",
            )


def missing_pattern(
    patterns: tuple[Pattern, ...], type_: Type, data_types: Mapping[str, TypeDefinition]
) -> str | None:
    """Return a pattern of values of the type that no pattern fits, or None where all are fitted."""
    found = _missing([(each,) for each in patterns], (type_,), data_types)
    return None if found is None else found[0]


def _missing(
    rows: list[_Row], types: tuple[Type, ...], data_types: Mapping[str, TypeDefinition]
) -> list[str] | None:
    """Return texts of patterns, one a column, that no row fits, or None."""
    if not types:
        return None if rows else []
    first, *others = types
    ways = _ways(first, [row[0] for row in rows], data_types)
    if ways is None:
        rest = _missing([row[1:] for row in rows if _is_open(row[0])], tuple(others), data_types)
        return None if rest is None else ["_", *rest]
    for name, fields in ways:
        narrowed = [new for row in rows if (new := _narrowed(row, name, len(fields))) is not None]
        found = _missing(narrowed, (*fields, *others), data_types)
        if found is not None:
            return [_text(name, found[: len(fields)]), *found[len(fields) :]]
    return None


def _ways(
    type_: Type, column: list[Pattern], data_types: Mapping[str, TypeDefinition]
) -> list[tuple[str, tuple[Type, ...]]] | None:
    """Return the constructors of the type with their fields' types, None where none matters."""
    match type_:
        case TupleType(fields) if any(isinstance(each, PatternTuple) for each in column):
            return [("", fields)]
        case TypeCall(name, args):
            definition = data_types[name]
            decides = any(isinstance(each, PatternConstructor) for each in column)
            if definition.is_extern or (definition.constructors and not decides):
                return None
            values = dict(zip(definition.type_params, args, strict=True))
            return [
                (each.name, tuple(substitute_type(field, values) for field in each.fields))
                for each in definition.constructors
            ]
        case _:
            return None


def _is_open(pattern: Pattern) -> bool:
    return isinstance(pattern, Wildcard | PatternVar)


def _narrowed(row: _Row, name: str, arity: int) -> _Row | None:
    """Return the row for values of one constructor (a tuple has none), None where it fits none."""
    match row[0]:
        case PatternConstructor(other, fields) if other == name:
            return (*fields, *row[1:])
        case PatternTuple(fields):
            return (*fields, *row[1:])
        case Wildcard() | PatternVar():
            return (*(_ANY,) * arity, *row[1:])
        case _:
            return None


def _text(name: str, fields: list[str]) -> str:
    inside = ", ".join(fields)
    if name:
        return f"{name}({inside})" if fields else name
    return f"({inside},)" if len(fields) == 1 else f"({inside})"
