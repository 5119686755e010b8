"""Types of patterns: what flows into what where a value of a type meets a pattern."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias, assert_never

from codesign.compiler.analysis.type_mistakes import problem
from codesign.diagnostics import Span
from codesign.ir.relay.expr import (
    Expr,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    Wildcard,
)
from codesign.ir.relay.types import FuncType, Hole, TupleType, Type

PatternFlow: TypeAlias = tuple[Type, Type, Span | None, str]
"""What is found, what is expected, where, and the words for it where they do not fit."""


def pattern_flows(
    pattern: Pattern,
    type_: Type,
    span: Span | None,
    variables: Mapping[Expr, Type],
    built: Callable[[str, Span | None], FuncType],
) -> Iterator[PatternFlow]:
    """Yield the flows of a pattern, outer ones first; each is to be done before the next is asked.

    `built` gives the type of a constructor for one use.

    Raises
    ------
    CodesignError
        A constructor that there is not, or one with another number of fields.
    """
    match pattern:
        case Wildcard():
            return
        case PatternVar(var):
            yield type_, variables[var], var.span, f"%{var.name} has another type"
        case PatternTuple(fields):
            holes = tuple(Hole() for _ in fields)
            yield type_, TupleType(holes), span, "a tuple pattern meets another value"
            for field, hole in zip(fields, holes, strict=True):
                yield from pattern_flows(field, hole, span, variables, built)
        case PatternConstructor(name, fields):
            place = pattern.span or span
            function = built(name, place)
            if len(fields) != len(function.params):
                found = f"found {len(fields)}, expected {len(function.params)}"
                raise problem(f"{name} has another number of fields", place, found)
            yield type_, function.result, place, f"{name} makes no such value"
            for field, wanted in zip(fields, function.params, strict=True):
                yield from pattern_flows(field, wanted, place, variables, built)
        case _:
            assert_never(pattern)
