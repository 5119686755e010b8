"""Equality of expressions up to the names of variables.

Sharing counts: a call that is reached twice equals only a call that is reached twice. Constants are
compared bit for bit, so that -0.0 differs from 0.0 and a NaN equals itself; spans are ignored.
"""

from __future__ import annotations

from dataclasses import fields
from struct import pack

from codesign.ir.relay.expr import (
    Attrs,
    Call,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    OpRef,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    Project,
    RefNew,
    RefRead,
    RefWrite,
    Tuple,
    Var,
    Wildcard,
    pattern_variables,
)
from codesign.ir.relay.module import Module, TypeDefinition
from codesign.ir.relay.type_algebra import Renaming, is_same_type
from codesign.ir.relay.visit import children


def is_equal_module(left: Module, right: Module) -> bool:
    """Return whether both modules have the same functions and data types under the same names."""
    same_names = (
        left.functions.keys() == right.functions.keys()
        and left.data_types.keys() == right.data_types.keys()
    )
    return (
        same_names
        and all(
            _is_same_data(each, right.data_types[name]) for name, each in left.data_types.items()
        )
        and all(is_equal(each, right.functions[name]) for name, each in left.functions.items())
    )


def _is_same_data(left: TypeDefinition, right: TypeDefinition) -> bool:
    if left.is_extern != right.is_extern or len(left.type_params) != len(right.type_params):
        return False
    names = [[each.name for each in side.constructors] for side in (left, right)]
    if names[0] != names[1]:
        return False
    return all(
        is_same_type(left.constructor_type(mine), right.constructor_type(other), {})
        for mine, other in zip(left.constructors, right.constructors, strict=True)
    )


def is_equal(left: Expr, right: Expr) -> bool:
    """Return whether the expressions are equal up to the names of variables and type parameters.

    A free variable equals only itself.
    """
    there: dict[Expr, Expr] = {}
    back: dict[Expr, Expr] = {}
    bound: set[Expr] = set()
    stack: list[tuple[Expr, Expr, Renaming]] = [(left, right, {})]
    while stack:
        a, b, renaming = stack.pop()
        if a in there or b in back:
            if there.get(a) is not b or back.get(b) is not a:
                return False
            continue
        if isinstance(a, Var) and a not in bound and a is not b:
            return False
        if isinstance(a, Function) and isinstance(b, Function):
            if len(a.type_params) != len(b.type_params):
                return False
            renaming = {**renaming, **dict(zip(a.type_params, b.type_params, strict=True))}
        below = children(a), children(b)
        if not _is_same_node(a, b, renaming) or len(below[0]) != len(below[1]):
            return False
        if not isinstance(a, Constant | GlobalVar | OpRef | Constructor):
            there[a], back[b] = b, a
        bound.update(_binders(a))
        stack.extend((x, y, renaming) for x, y in reversed([*zip(*below, strict=True)]))
    return True


def _binders(expr: Expr) -> tuple[Var, ...]:
    match expr:
        case Let(var=var):
            return (var,)
        case Function(params=params):
            return params
        case Match(clauses=clauses):
            return tuple(var for each in clauses for var in pattern_variables(each.pattern))
        case _:
            return ()


def _is_same_node(left: Expr, right: Expr, renaming: Renaming) -> bool:
    """Return whether the nodes are equal but for their children."""
    match left, right:
        case (Var(annotation=a), Var(annotation=b)):
            return is_same_type(a, b, renaming)
        case (GlobalVar(a), GlobalVar(b)) | (OpRef(a), OpRef(b)) | (Constructor(a), Constructor(b)):
            return a == b
        case (Constant(a), Constant(b)):
            same_type = a.dtype == b.dtype and a.shape == b.shape
            return same_type and a.tobytes() == b.tobytes()
        case (Call(), Call()):
            return attrs_equal(left.attrs, right.attrs)
        case (Project(), Project()):
            return left.index == right.index
        case (Function(), Function()):
            same_attributes = dict(left.attributes) == dict(right.attributes)
            return same_attributes and is_same_type(left.result_type, right.result_type, renaming)
        case (Match(), Match()):
            return left.complete == right.complete and _is_same_shape(
                tuple(each.pattern for each in left.clauses),
                tuple(each.pattern for each in right.clauses),
            )
        case (
            (Let(), Let())
            | (If(), If())
            | (Tuple(), Tuple())
            | (RefNew(), RefNew())
            | (RefRead(), RefRead())
            | (RefWrite(), RefWrite())
        ):
            return True
        case _:
            return False


def _is_same_shape(left: tuple[Pattern, ...], right: tuple[Pattern, ...]) -> bool:
    """Return whether patterns are equal but for which variables they bind."""
    return len(left) == len(right) and all(map(_is_same_pattern, left, right))


def _is_same_pattern(left: Pattern, right: Pattern) -> bool:
    match left, right:
        case (Wildcard(), Wildcard()) | (PatternVar(), PatternVar()):
            return True
        case (PatternConstructor(a, mine), PatternConstructor(b, others)):
            return a == b and _is_same_shape(mine, others)
        case (PatternTuple(mine), PatternTuple(others)):
            return _is_same_shape(mine, others)
        case _:
            return False


def attrs_equal(left: Attrs | None, right: Attrs | None) -> bool:
    """Return whether attributes are of one kind and equal, floating-point ones bit for bit."""
    if type(left) is not type(right):
        return False
    if left is None or right is None:
        return True
    return all(
        _value_equal(getattr(left, field.name), getattr(right, field.name))
        for field in fields(left)
    )


def _value_equal(left: object, right: object) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return pack("<d", left) == pack("<d", right)
    return type(left) is type(right) and left == right
