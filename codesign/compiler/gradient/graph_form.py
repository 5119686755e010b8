"""A function as a graph: lets and calls are unfolded, also of functions that are values.

A function that calls itself has no graph.
"""

from __future__ import annotations

from dataclasses import replace
from typing import final

from codesign.diagnostics import CodesignError, Problem
from codesign.ir.relay.expr import (
    Call,
    Expr,
    Function,
    GlobalVar,
    Let,
    OpRef,
    Project,
    Tuple,
    Var,
    construct_name,
)
from codesign.ir.relay.module import Module
from codesign.ir.relay.visit import with_children


def graph_form(function: Function, module: Module, params: tuple[Var, ...]) -> Expr:
    """Return the body as calls of operators, tuples and fields over new parameters.

    A node that is shared stays shared.

    Raises
    ------
    CodesignError
        The function branches, has effects, data types or functions as values, or calls itself.
    """
    known: dict[Expr, Expr] = dict(zip(function.params, params, strict=True))
    return _Unfolding(module).evaluate(function.body, known)


@final
class _Unfolding:
    def __init__(self, module: Module) -> None:
        self._module = module
        self._open: list[Function] = []
        self._closures: dict[Function, tuple[Function, dict[Expr, Expr]]] = {}
        """The function, and what is known where it stands, of a function as a value."""

    def evaluate(self, root: Expr, known: dict[Expr, Expr]) -> Expr:
        stack = [root]
        while stack:
            expr = stack[-1]
            waiting = [each for each in _operands(expr) if each not in known]
            if expr in known:
                stack.pop()
            elif waiting:
                stack += reversed(waiting)
            elif isinstance(expr, Let) and expr.var not in known:
                known[expr.var] = known[expr.value]
                stack.append(expr.body)
            else:
                known[expr] = self._value(expr, known)
                stack.pop()
        return known[root]

    def _value(self, expr: Expr, known: dict[Expr, Expr]) -> Expr:
        match expr:
            case Let():
                return known[expr.body]
            case Call(OpRef() as callee):
                return with_children(expr, (callee, *(known[each] for each in expr.args)))
            case Call():
                return self._call(expr, known)
            case Tuple():
                return with_children(expr, tuple(known[each] for each in expr.fields))
            case Project():
                value = known[expr.value]
                if isinstance(value, Tuple):
                    return value.fields[expr.index]
                return with_children(expr, (value,))
            case Function():
                closure = replace(expr)
                self._closures[closure] = (expr, known)
                return closure
            case _:
                return expr

    def _call(self, call: Call, known: dict[Expr, Expr]) -> Expr:
        callee, outside = self._callee(call, known[call.callee])
        if callee in self._open:
            raise refusal(call, "a function that calls itself")
        self._open.append(callee)
        args = (known[each] for each in call.args)
        inside = dict(outside)
        inside.update(zip(callee.params, args, strict=True))
        result = self.evaluate(callee.body, inside)
        self._open.pop()
        return result

    def _callee(self, call: Call, callee: Expr) -> tuple[Function, dict[Expr, Expr]]:
        if isinstance(callee, GlobalVar):
            return self._module.functions[callee.name], {}
        if isinstance(callee, Function):
            return self._closures[callee]
        raise refusal(call)


def _operands(expr: Expr) -> tuple[Expr, ...]:
    match expr:
        case Call(OpRef(), args):
            return args
        case Call(callee, args):
            return (callee, *args)
        case Let():
            return (expr.value,)
        case Tuple():
            return expr.fields
        case Project():
            return (expr.value,)
        case _:
            return ()


def refusal(expr: Expr, found: str | None = None) -> CodesignError:
    """Return the mistake of a construct that a graph cannot have."""
    shown = "a call of a function value" if isinstance(expr, Call) else construct_name(expr)
    return CodesignError(
        Problem(
            what="a first-order gradient is that of a graph of operators",
            found=f"found {found or shown}",
            span=expr.span,
            help='the whole language has gradients in mode "higher_order"',
        )
    )
