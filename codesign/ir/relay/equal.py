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
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    OpRef,
    Project,
    Tuple,
    Var,
)
from codesign.ir.relay.module import Module
from codesign.ir.relay.visit import children


def is_equal_module(left: Module, right: Module) -> bool:
    """Return whether both modules have the same functions under the same names."""
    return left.functions.keys() == right.functions.keys() and all(
        is_equal(function, right.functions[name]) for name, function in left.functions.items()
    )


def is_equal(left: Expr, right: Expr) -> bool:
    """Return whether the expressions are equal up to the names of their bound variables.

    A free variable equals only itself.
    """
    there: dict[Expr, Expr] = {}
    back: dict[Expr, Expr] = {}
    bound: set[Expr] = set()
    stack = [(left, right)]
    while stack:
        a, b = stack.pop()
        if a in there or b in back:
            if there.get(a) is not b or back.get(b) is not a:
                return False
            continue
        if isinstance(a, Var) and a not in bound and a is not b:
            return False
        below = children(a), children(b)
        if not _is_same_node(a, b) or len(below[0]) != len(below[1]):
            return False
        if not isinstance(a, Constant | GlobalVar | OpRef):
            there[a], back[b] = b, a
        bound.update(_binders(a))
        stack.extend(reversed([*zip(*below, strict=True)]))
    return True


def _binders(expr: Expr) -> tuple[Var, ...]:
    match expr:
        case Let(var=var):
            return (var,)
        case Function(params=params):
            return params
        case _:
            return ()


def _is_same_node(left: Expr, right: Expr) -> bool:
    """Return whether the nodes are equal but for their children."""
    match left, right:
        case (Var(annotation=a), Var(annotation=b)):
            return a == b
        case (GlobalVar(a), GlobalVar(b)) | (OpRef(a), OpRef(b)):
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
            return same_attributes and left.result_type == right.result_type
        case (Let(), Let()) | (If(), If()) | (Tuple(), Tuple()):
            return True
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
