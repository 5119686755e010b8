"""Makes what a program binds count: an answer depends on it."""

from __future__ import annotations

import numpy as np

from codesign.dtypes import DType
from codesign.ir.relay.expr import (
    Call,
    Clause,
    Constant,
    Expr,
    Match,
    PatternConstructor,
    PatternVar,
    Project,
    RefRead,
    Tuple,
    Wildcard,
)
from codesign.ir.relay.types import FuncType, RefType, TensorType, TupleType, Type, TypeCall
from codesign.ops.table import call
from experiments.laws.operators import convert
from experiments.laws.writer import Scope, Writer

_SCALAR = TensorType((), DType.INT32)


def using(writer: Writer, body: Expr, type_: Type, value: Expr, found: Type, scope: Scope) -> Expr:
    """Return an expression of the body's type that depends on a value too, after the body."""
    if isinstance(type_, TupleType) and isinstance(body, Tuple) and type_.fields:
        index = writer.draw.below(len(type_.fields))
        fields = list(body.fields)
        fields[index] = using(writer, fields[index], type_.fields[index], value, found, scope)
        return Tuple(tuple(fields))
    if not isinstance(type_, TensorType) or not writer.draw.chance(0.75):
        return body
    seen = observed(writer, value, found, scope, 2)
    if seen is None:
        return body
    other = convert(*seen, type_)
    if type_.dtype is DType.BOOL:
        return call("not_equal", body, other)
    return call(writer.draw.one_of(("add", "subtract", "subtract", "maximum")), body, other)


def observed(
    writer: Writer, value: Expr, type_: Type, scope: Scope, depth: int
) -> tuple[Expr, TensorType] | None:
    """Return a tensor that depends on a value, and its type; None where nothing can be seen."""
    match type_:
        case TensorType():
            return value, type_
        case TupleType(fields) if fields:
            index = writer.draw.below(len(fields))
            return observed(writer, Project(value, index), fields[index], scope, depth)
        case RefType(content):
            return observed(writer, RefRead(value), content, scope, depth)
        case FuncType(params, result, ()) if depth:
            args = tuple(writer.leaf(each, scope) for each in params)
            return observed(writer, Call(value, args), result, scope, depth - 1)
        case TypeCall() if depth:
            return _taken_apart(writer, value, type_, scope, depth), _SCALAR
        case _:
            return None


def _taken_apart(writer: Writer, value: Expr, type_: TypeCall, scope: Scope, depth: int) -> Expr:
    """Return a number that tells constructors apart and depends on a field where there is one."""
    clauses = []
    for number, constructor in enumerate(writer.data_types[type_.name].constructors):
        fields = writer.fields_of(type_, constructor)
        answer: Expr = Constant(np.asarray(10 * number + 1, np.int32))
        if not fields:
            clauses.append(Clause(PatternConstructor(constructor.name), answer))
            continue
        index = writer.draw.below(len(fields))
        var = writer.variable(fields[index], "seen")
        seen = observed(writer, var, fields[index], scope, depth - 1)
        if seen is not None:
            answer = call("subtract", answer, convert(*seen, _SCALAR))
        pattern = tuple(
            PatternVar(var) if each == index else Wildcard() for each in range(len(fields))
        )
        clauses.append(Clause(PatternConstructor(constructor.name, pattern), answer))
    return Match(value, tuple(clauses))
