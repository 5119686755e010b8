"""What follows from what is known: results of operators, the clause of a match that fits."""

from __future__ import annotations

from typing import Final, assert_never

import numpy as np

from codesign.compiler.rewriting.partial.values import (
    KnownData,
    KnownTuple,
    Partial,
    of_atom,
    of_fields,
)
from codesign.diagnostics import CodesignError
from codesign.ir.relay.expr import (
    Call,
    Clause,
    Constant,
    Match,
    OpRef,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    Var,
    Wildcard,
)
from codesign.ops.operator import Value
from codesign.ops.table import OPERATORS

_MAX_ELEMENTS: Final = 1 << 20
"""A constant that a program does not contain may have so many elements."""


def tuple_of(fields: tuple[Partial, ...]) -> Partial:
    """Return a tuple of values."""
    return of_fields(KnownTuple(fields))


def computed(call: Call, args: tuple[Partial, ...]) -> Partial | None:
    """Return the result of an operator on constants; None where it is not known or refused."""
    assert isinstance(call.callee, OpRef), "operators are computed"
    values = [_constant(each) for each in args]
    if any(each is None for each in values):
        return None
    reference = OPERATORS[call.callee.name].reference
    try:
        result = reference(*values, *(() if call.attrs is None else (call.attrs,)))
    except CodesignError:
        return None
    return _known(result, call) if _size(result) <= _MAX_ELEMENTS else None


def _constant(value: Partial) -> Value | None:
    if isinstance(value.atom, Constant):
        return value.atom.value
    if isinstance(value.static, KnownTuple):
        fields = tuple(_constant(each) for each in value.static.fields)
        known = tuple(each for each in fields if each is not None)
        return known if len(known) == len(fields) else None
    return None


def _size(value: Value) -> int:
    return sum(map(_size, value)) if isinstance(value, tuple) else np.asarray(value).size


def _known(value: Value, call: Call) -> Partial:
    if isinstance(value, tuple):
        return tuple_of(tuple(_known(each, call) for each in value))
    return of_atom(Constant(np.asarray(value), call.span))


def matched(node: Match, value: Partial) -> tuple[Clause, list[tuple[Var, Partial]]] | None:
    """Return the clause that is taken and what it binds; None where that is not known."""
    for clause in node.clauses:
        bound: list[tuple[Var, Partial]] = []
        fits = _fits(clause.pattern, value, bound)
        if fits is None:
            return None
        if fits:
            return clause, bound
    return None


def _fits(pattern: Pattern, value: Partial, bound: list[tuple[Var, Partial]]) -> bool | None:
    match pattern:
        case Wildcard():
            return True
        case PatternVar(var):
            bound.append((var, value))
            return True
        case PatternConstructor(name, patterns):
            if not isinstance(value.static, KnownData):
                return None
            if value.static.constructor.name != name:
                return False
            fields = value.static.fields
        case PatternTuple(patterns):
            if not isinstance(value.static, KnownTuple):
                return None
            fields = value.static.fields
        case _:
            assert_never(pattern)
    results = [_fits(p, f, bound) for p, f in zip(patterns, fields, strict=True)]
    if False in results:
        return False
    return None if None in results else True
