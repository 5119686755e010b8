"""Random `match` expressions: patterns of a type, and bodies that see what they bind."""

from __future__ import annotations

from codesign.ir.relay.expr import (
    Clause,
    Expr,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    Wildcard,
)
from codesign.ir.relay.types import (
    TupleType,
    Type,
    TypeCall,
)
from experiments.laws.observe import using
from experiments.laws.writer import Scope, Writer


def match(writer: Writer, type_: Type, scope: Scope, size: int) -> Expr | None:
    """`match (value) { … }` over a data type or a tuple."""
    draw = writer.draw
    matched: Type = writer.data_type(scope)
    if draw.chance(0.3):
        matched = TupleType((writer.data_type(scope, 1), writer.value_type(scope, 1)))
    first, second = draw.parts(size, 2)
    value = writer.grow(matched, scope, first)
    patterns = _patterns(writer, matched)
    sizes = draw.parts(second, len(patterns))
    clauses = []
    for (pattern, bound), part in zip(patterns, sizes, strict=True):
        inner = scope.adding(*bound)
        body = writer.grow(type_, inner, part)
        for each in bound[:2]:
            body = using(writer, body, type_, *each, inner)
        clauses.append(Clause(pattern, body))
    return Match(value, tuple(clauses), complete=draw.chance(0.8))


Bound = tuple[Pattern, list[tuple[Expr, Type]]]


def _patterns(writer: Writer, type_: Type) -> list[Bound]:
    """Return patterns that cover a type: special ones first, then one for each constructor."""
    found = [_pattern(writer, type_, 2)] if writer.draw.chance(0.5) else []
    if not isinstance(type_, TypeCall) or writer.draw.chance(0.2):
        return [*found, _any(writer, type_)]
    for constructor in writer.data_types[type_.name].constructors:
        fields = [_any(writer, each) for each in writer.fields_of(type_, constructor)]
        found.append(_constructed(constructor.name, fields))
    return found


def _constructed(name: str, fields: list[Bound]) -> Bound:
    pattern = PatternConstructor(name, tuple(each for each, _ in fields))
    return pattern, [value for _, bound in fields for value in bound]


def _any(writer: Writer, type_: Type) -> Bound:
    if writer.draw.chance(0.25):
        return Wildcard(), []
    var = writer.variable(type_, "m")
    return PatternVar(var), [(var, type_)]


def _pattern(writer: Writer, type_: Type, depth: int) -> Bound:
    """Return a pattern that some values of the type fit."""
    match type_:
        case TypeCall() if depth:
            constructor = writer.draw.one_of(writer.data_types[type_.name].constructors)
            types = writer.fields_of(type_, constructor)
            return _constructed(
                constructor.name, [_pattern(writer, each, depth - 1) for each in types]
            )
        case TupleType(types) if depth:
            fields = [_pattern(writer, each, depth - 1) for each in types]
            pattern = PatternTuple(tuple(each for each, _ in fields))
            return pattern, [value for _, bound in fields for value in bound]
        case _:
            return _any(writer, type_)
