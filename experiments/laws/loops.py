"""Recursive functions that always end: they count down or follow a value of a data type."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from codesign.dtypes import DType
from codesign.ir.relay.expr import (
    Call,
    Clause,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    PatternConstructor,
    PatternVar,
    Var,
)
from codesign.ir.relay.module import ConstructorDefinition
from codesign.ir.relay.type_algebra import free_type_variables
from codesign.ir.relay.types import FuncType, RefType, TensorType, Type, TypeCall
from codesign.ops.table import call
from experiments.laws.observe import using
from experiments.laws.writer import Scope, Writer

_COUNT: Final = TensorType((), DType.INT32)
_MOST: Final = 3


def loop(writer: Writer, type_: Type, scope: Scope, size: int) -> Expr | None:
    """Make a recursive function, local or of the module, and a call of it."""
    if scope.loops == 0 or isinstance(type_, RefType):
        return None
    inner = replace(scope, loops=scope.loops - 1)
    make = writer.draw.one_of((_count_down, _count_down, _follow, _follow, _count_in_turn))
    return make(writer, type_, inner, size)


def _integer(value: int) -> Constant:
    return Constant(np.asarray(value, np.int32))


def _count(writer: Writer, scope: Scope, size: int) -> Expr:
    """Return a small number of rounds: a constant, or a value that is brought into range."""
    if writer.draw.chance(0.5):
        return _integer(writer.draw.between(0, _MOST))
    value = writer.grow(_COUNT, scope, size)
    return call("minimum", call("maximum", value, _integer(-1)), _integer(_MOST))


def _count_down(writer: Writer, type_: Type, scope: Scope, size: int) -> Expr | None:
    """`f(n, state) = if n <= 0 then … else f(n - 1, …)`, or more work after the call."""
    is_local = bool(free_type_variables(type_)) or writer.draw.chance(0.6)
    outer = scope if is_local else Scope(loops=scope.loops)
    name = writer.name("loop")
    var = Var(name, FuncType((_COUNT, type_), type_))
    itself: Expr = var if is_local else GlobalVar(name)
    first, second, third = writer.draw.parts(size, 3)
    body, params = _rounds(writer, type_, outer, first, itself)
    function = Function(params, body, type_)
    start = (_count(writer, scope, second), writer.grow(type_, scope, third))
    return _used(writer, var, function, Call(itself, start), is_local)


def _rounds(
    writer: Writer, type_: Type, scope: Scope, size: int, other: Expr
) -> tuple[Expr, tuple[Var, Var]]:
    """Return the body of a function that counts down by calls of another, and its parameters."""
    count, state = writer.variable(_COUNT, "n"), writer.variable(type_, "state")
    inner = scope.adding((count, _COUNT), (state, type_), (state, type_))
    less = call("subtract", count, _integer(1))
    first, second = writer.draw.parts(size, 2)
    done = writer.grow(type_, inner, first // 2)
    if writer.draw.chance(0.5):
        again: Expr = Call(other, (less, writer.grow(type_, inner, second)))
    else:
        result = writer.variable(type_, "later")
        outer = inner.adding((result, type_), (result, type_))
        after = writer.grow(type_, outer, second)
        after = using(writer, after, type_, result, type_, outer)
        again = Let(result, Call(other, (less, state)), after)
    return If(call("less_equal", count, _integer(0)), done, again), (count, state)


def _count_in_turn(writer: Writer, type_: Type, scope: Scope, size: int) -> Expr | None:
    """Two functions of the module that call each other."""
    if free_type_variables(type_):
        return None
    names = (writer.name("even"), writer.name("odd"))
    empty = Scope(loops=scope.loops)
    sizes = writer.draw.parts(size, 4)
    for index, name in enumerate(names):
        other = GlobalVar(names[1 - index])
        body, params = _rounds(writer, type_, empty, sizes[index], other)
        writer.functions[name] = Function(params, body, type_)
    return Call(
        GlobalVar(names[0]),
        (_count(writer, scope, sizes[2]), writer.grow(type_, scope, sizes[3])),
    )


def _used(writer: Writer, var: Var, function: Function, use: Expr, is_local: bool) -> Expr:
    """Return the use of a recursive function, bound by `let` or added to the module."""
    if is_local:
        return Let(var, function, use)
    writer.functions[var.name] = function
    return use


def _follow(writer: Writer, type_: Type, scope: Scope, size: int) -> Expr | None:
    """`walk(data, state) = match data …`, which calls itself for the parts of the data's type."""
    data = writer.data_type(scope, 1)
    is_local = bool(free_type_variables(type_) | free_type_variables(data))
    is_local = is_local or writer.draw.chance(0.5)
    outer = scope if is_local else Scope(loops=scope.loops)
    name = writer.name("walk")
    var = Var(name, FuncType((data, type_), type_))
    itself: Expr = var if is_local else GlobalVar(name)
    value, state = writer.variable(data, "d"), writer.variable(type_, "state")
    first, second = writer.draw.parts(size, 2)
    inner = outer.adding((state, type_), (state, type_))
    constructors = writer.data_types[data.name].constructors
    sizes = writer.draw.parts(first, len(constructors))
    clauses = tuple(
        _clause(writer, data, type_, inner, part, constructor, itself)
        for constructor, part in zip(constructors, sizes, strict=True)
    )
    function = Function((value, state), Match(value, clauses), type_)
    use = Call(itself, writer.grow_all((data, type_), scope, second))
    return _used(writer, var, function, use, is_local)


def _clause(
    writer: Writer,
    data: TypeCall,
    type_: Type,
    scope: Scope,
    size: int,
    constructor: ConstructorDefinition,
    itself: Expr,
) -> Clause:
    fields = writer.fields_of(data, constructor)
    variables = tuple(writer.variable(each, "m") for each in fields)
    pattern = PatternConstructor(constructor.name, tuple(map(PatternVar, variables)))
    inner = scope.adding(*zip(variables, fields, strict=True))
    below = [var for var, field in zip(variables, fields, strict=True) if field == data]
    body = _walked(writer, type_, inner, size, below, itself)
    return Clause(pattern, body)


def _walked(
    writer: Writer, type_: Type, scope: Scope, size: int, below: list[Var], itself: Expr
) -> Expr:
    """Return calls for all parts, one after the other, then an expression that may use them."""
    if not below:
        body = writer.grow(type_, scope, size)
        for each in scope.values[-2:]:
            body = using(writer, body, type_, *each, scope)
        return body
    if len(below) == 1 and writer.draw.chance(0.5):
        return Call(itself, (below[0], writer.grow(type_, scope, size)))
    result = writer.variable(type_, "walked")
    start = writer.leaf(type_, scope)
    inner = scope.adding((result, type_), (result, type_))
    after = _walked(writer, type_, inner, size, below[1:], itself)
    return Let(result, Call(itself, (below[0], start)), after)
