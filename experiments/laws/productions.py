"""The ways in which an expression of a wanted type is made; `PRODUCTIONS` weighs them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import (
    Call,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    OpRef,
    Project,
    RefNew,
    RefRead,
    RefWrite,
    Tuple,
    Var,
)
from codesign.ir.relay.type_algebra import free_type_variables, parts, substitute_type
from codesign.ir.relay.types import (
    FuncType,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
)
from codesign.ir.relay.visit import children, post_order
from codesign.ops.table import OPERATORS, call
from experiments.laws.loops import loop
from experiments.laws.observe import using
from experiments.laws.operators import convert, propose
from experiments.laws.patterns import match
from experiments.laws.writer import Production, Scope, Writer
from tests.support.operator_cases import CASES

_CONDITION: Final = TensorType((), DType.BOOL)


def operate(writer: Writer, type_: Type, scope: Scope, size: int) -> Expr | None:
    """`op(…)`: an operator that gives the type."""
    if not isinstance(type_, TensorType):
        return None
    found = propose(writer.draw, type_)
    if found is None:
        return None
    args = writer.grow_all(found.args, scope, size)
    result = Call(OpRef(found.name), args, found.attrs)
    return result if found.index is None else Project(result, found.index)


def divide(writer: Writer, type_: Type, scope: Scope, size: int) -> Expr | None:
    """`divide(a, b)`, where integers have a divisor that is not 0."""
    if not isinstance(type_, TensorType) or type_.dtype is DType.BOOL:
        return None
    if type_.dtype.is_float:
        return call("divide", *writer.grow_all((type_, type_), scope, size))
    left = writer.grow(type_, scope, size)
    divisor = writer.draw.array(type_)
    divisor[divisor == 0] = 1
    return call("divide", left, Constant(divisor))


def any_operator(writer: Writer, type_: Type, scope: Scope, size: int) -> Expr | None:
    """Any operator of the vocabulary in a legal call, brought to the wanted type."""
    if not isinstance(type_, TensorType):
        return None
    rng = writer.draw.numpy()
    name = writer.draw.one_of(tuple(sorted(CASES)))
    case = CASES[name](rng)
    given = tuple(_argument(writer, each, scope, size // 2) for each in case.args)
    types = tuple(map(_type_of, case.args))
    made = Call(OpRef(name), given, case.attrs)
    return convert(made, OPERATORS[name].relation(made, types), type_)


def _type_of(value: Array | tuple[Array, ...]) -> Type:
    if isinstance(value, tuple):
        return TupleType(tuple(map(_type_of, value)))
    return TensorType(value.shape, DType.of(value.dtype))


def _argument(writer: Writer, value: Array | tuple[Array, ...], scope: Scope, size: int) -> Expr:
    """Return the value of a case, or any expression where every value is legal."""
    if isinstance(value, tuple):
        return Tuple(tuple(_argument(writer, each, scope, size // 2) for each in value))
    if value.dtype.kind == "f" and writer.draw.chance(0.4):
        return writer.grow(_type_of(value), scope, size)
    return Constant(value)


def bind(writer: Writer, type_: Type, scope: Scope, size: int) -> Expr | None:
    """`let %x = value; body`."""
    bound = writer.value_type(scope)
    first, second = writer.draw.parts(size, 2)
    value = writer.grow(bound, scope, first)
    var = writer.variable(bound)
    inner = scope.adding((var, bound))
    body = using(writer, writer.grow(type_, inner, second), type_, var, bound, inner)
    return Let(var, value, body)


def share(writer: Writer, type_: Type, scope: Scope, size: int) -> Expr | None:
    """One node that several places may reach, wherever they are."""
    bound = writer.value_type(scope)
    first, second = writer.draw.parts(size, 2)
    value = writer.grow(bound, scope, first)
    if not is_movable(value):
        return None
    inner = scope.adding((value, bound), (value, bound))
    body = writer.grow(type_, inner, second)
    for _ in range(2):
        body = using(writer, body, type_, value, bound, inner)
    return body


def is_movable(expr: Expr) -> bool:
    """Return whether it does not matter when and how often an expression is evaluated."""
    for node in post_order(expr, below=_evaluated):
        match node:
            case RefNew() | RefRead() | RefWrite():
                return False
            case Call(callee) if not isinstance(callee, OpRef | Constructor):
                return False
            case _:
                pass
    return True


def _evaluated(node: Expr) -> tuple[Expr, ...]:
    return () if isinstance(node, Function) else children(node)


def branch(writer: Writer, type_: Type, scope: Scope, size: int) -> Expr | None:
    """`if (condition) { a } else { b }`."""
    condition, then, otherwise = writer.grow_all((_CONDITION, type_, type_), scope, size)
    return If(condition, then, otherwise)


def project(writer: Writer, type_: Type, scope: Scope, size: int) -> Expr | None:
    """`tuple.i`."""
    count = writer.draw.between(1, 3)
    index = writer.draw.below(count)
    fields = tuple(type_ if each == index else writer.value_type(scope, 1) for each in range(count))
    return Project(writer.grow(TupleType(fields), scope, size), index)


def apply(writer: Writer, type_: Type, scope: Scope, size: int) -> Expr | None:
    """`%f(…)`: a function of the scope, or one that is made on the spot."""
    first, second = writer.draw.parts(size, 2)
    known = scope.functions_to(type_)
    if known and writer.draw.chance(0.8):
        callee, signature = writer.draw.one_of(known)
        return Call(callee, writer.grow_all(signature.params, scope, size))
    signature = writer.function_type(scope, 2, type_)
    callee = writer.grow(signature, scope, first)
    return Call(callee, writer.grow_all(signature.params, scope, second))


def call_global(writer: Writer, type_: Type, scope: Scope, size: int) -> Expr | None:
    """`@f(…)`: a function of the module, polymorphic ones at types that fit."""
    names = [*writer.signatures, *writer.library]
    if not names:
        return None
    name = writer.draw.one_of(names)
    signature = writer.signatures.get(name)
    if signature is None:
        signature = signature_of(writer.library[name])
    chosen = fit(signature.result, type_, {}) if signature.type_params else None
    if not signature.type_params and signature.result == type_:
        chosen = {}
    if chosen is None:
        return None
    for each in signature.type_params:
        if each not in chosen:
            chosen[each] = writer.value_type(scope, 1)
    params = tuple(substitute_type(each, chosen) for each in signature.params)
    return Call(GlobalVar(name), writer.grow_all(params, scope, size))


def signature_of(function: Function) -> FuncType:
    """Return the type that a function's annotations say."""
    params = tuple(_annotation(param) for param in function.params)
    assert function.result_type is not None, "the result is annotated"
    return FuncType(params, function.result_type, function.type_params)


def _annotation(param: Var) -> Type:
    assert param.annotation is not None, "the parameter is annotated"
    return param.annotation


def fit(pattern: Type, type_: Type, chosen: Mapping[TypeVar, Type]) -> dict[TypeVar, Type] | None:
    """Return what type parameters of a pattern stand for where it is this type."""
    if isinstance(pattern, TypeVar):
        if chosen.get(pattern, type_) != type_:
            return None
        return {**chosen, pattern: type_}
    if type(pattern) is not type(type_):
        return None
    if isinstance(pattern, TensorType):
        return dict(chosen) if pattern == type_ else None
    if isinstance(pattern, TypeCall) and isinstance(type_, TypeCall) and pattern.name != type_.name:
        return None
    below = parts(pattern), parts(type_)
    if len(below[0]) != len(below[1]):
        return None
    found: dict[TypeVar, Type] | None = dict(chosen)
    for mine, other in zip(*below, strict=True):
        found = None if found is None else fit(mine, other, found)
    return found


def new_global(writer: Writer, type_: Type, scope: Scope, size: int) -> Expr | None:
    """`def @g(…)` that gives the type, and a call of it."""
    if free_type_variables(type_) or isinstance(type_, RefType):
        return None
    empty = Scope(loops=scope.loops)
    params = tuple(writer.value_type(empty, 1) for _ in range(writer.draw.below(3)))
    signature = FuncType(params, type_)
    first, second = writer.draw.parts(size, 2)
    name = writer.add_function(writer.function(signature, empty, first), signature, "g")
    return Call(GlobalVar(name), writer.grow_all(params, scope, second))


def new_polymorphic(writer: Writer, type_: Type, scope: Scope, size: int) -> Expr | None:
    """`fn[A] (…)`, bound by `let` and used at two types, one of them the wanted one."""
    own = TypeVar(writer.name("T"))
    extra = writer.value_type(scope, 1)
    signature = FuncType((own, extra), TupleType((own, extra)), (own,))
    first, second, third = writer.draw.parts(size, 3)
    function = writer.function(signature, scope, first)
    other = writer.value_type(scope, 1)
    var = Var(writer.name("poly"))
    used = Call(var, (writer.grow(type_, scope, second), writer.leaf(extra, scope)))
    again = Call(var, (writer.grow(other, scope, third), writer.leaf(extra, scope)))
    pair = Tuple((again, used))
    return Let(var, function, Project(Project(pair, 1), 0))


def new_cell(writer: Writer, type_: Type, scope: Scope, size: int) -> Expr | None:
    """`let %r = ref(value); body`, at times with a function that writes the cell."""
    content = type_ if writer.draw.chance(0.5) else writer.value_type(scope, 1)
    if holds_function(content):
        return None
    first, second, third = writer.draw.parts(size, 3)
    var = writer.variable(RefType(content), "r")
    made = RefNew(writer.grow(content, scope, first))
    inner = scope.adding((var, RefType(content)), (var, RefType(content)))
    if writer.draw.chance(0.5):
        body = writer.grow(type_, inner, second + third)
        return Let(var, made, using(writer, body, type_, *inner.values[-1], inner))
    swap = writer.variable(FuncType((content,), content), "swap")
    swapping = _swapping(writer, var, content, inner, second)
    last = inner.adding(*[(swap, FuncType((content,), content))] * 2)
    body = writer.grow(type_, last, third)
    for each in (last.values[-1], inner.values[-1]):
        body = using(writer, body, type_, *each, last)
    return Let(var, made, Let(swap, swapping, body))


def _swapping(writer: Writer, cell: Var, content: Type, scope: Scope, size: int) -> Function:
    """Return a function that writes what it makes of its argument and gives what was there."""
    param = writer.variable(content, "p")
    before, written = writer.variable(content, "before"), Var("_")
    inner = scope.adding((param, content), (before, content))
    new = writer.grow(content, inner, size)
    body = Let(before, RefRead(cell), Let(written, RefWrite(cell, new), before))
    return Function((param,), body, content)


def holds_function(type_: Type) -> bool:
    """Return whether a function is part of values of a type, or may be."""
    return isinstance(type_, FuncType | TypeVar | RefType) or any(map(holds_function, parts(type_)))


def read_cell(writer: Writer, type_: Type, scope: Scope, size: int) -> Expr | None:
    """`ref_read(%r)`, brought to the wanted type where that is a tensor's."""
    cells = scope.cells()
    found = [cell for cell, kind in cells if kind.value == type_]
    if found:
        return RefRead(writer.draw.one_of(found))
    tensors = [cell for cell in cells if isinstance(cell[1].value, TensorType)]
    if not tensors or not isinstance(type_, TensorType):
        return None
    cell, kind = writer.draw.one_of(tensors)
    return convert(RefRead(cell), kind.value, type_)


def write_cell(writer: Writer, type_: Type, scope: Scope, size: int) -> Expr | None:
    """`ref_write(%r, value); body`."""
    found = scope.cells()
    if not found:
        return None
    cell, kind = writer.draw.one_of(found)
    first, second = writer.draw.parts(size, 2)
    written = RefWrite(cell, writer.grow(kind.value, scope, first))
    unit = Var("_", TupleType(()) if writer.draw.chance(0.5) else None)
    return Let(unit, written, writer.grow(type_, scope, second))


def introduce(writer: Writer, type_: Type, scope: Scope, size: int) -> Expr | None:
    """Make the type's own form: a constant, a tuple, a function, a constructor, a new cell."""
    if isinstance(type_, TensorType) and writer.draw.chance(0.8):
        return None
    return writer.introduce(type_, scope, size)


PRODUCTIONS: Final[dict[Production, int]] = {
    operate: 40,
    divide: 2,
    any_operator: 4,
    introduce: 14,
    bind: 8,
    share: 6,
    branch: 5,
    project: 4,
    match: 7,
    apply: 7,
    call_global: 8,
    new_global: 3,
    new_polymorphic: 1,
    loop: 4,
    new_cell: 5,
    read_cell: 10,
    write_cell: 10,
}
