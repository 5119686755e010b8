"""Small Relay programs that several tests use."""

from __future__ import annotations

import numpy as np

from codesign.dtypes import DType
from codesign.ir.relay.expr import Call, Constant, Expr, Function, GlobalVar, If, Let, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType
from codesign.ops.table import call

INT = TensorType((), DType.INT32)
BOOL = TensorType((), DType.BOOL)


def integer(value: int) -> Constant:
    return Constant(np.asarray(value, np.int32))


def main_of(*params: Var, body: Expr) -> Module:
    return Module({"main": Function(params, body)})


def let_chain(length: int) -> Module:
    """`let %v0 = %x + 1; let %v1 = %v0 + 1; …`: adds the length."""
    x, one = Var("x", INT), integer(1)
    variables = [Var(f"v{index}") for index in range(length)]
    body: Expr = variables[-1]
    for before, var in zip([x, *variables][length - 1 :: -1], reversed(variables), strict=True):
        body = Let(var, call("add", before, one), body)
    return main_of(x, body=body)


def call_chain(length: int) -> Module:
    """`((x + 1) + 1) + …`: adds the length."""
    x, one = Var("x", INT), integer(1)
    body: Expr = x
    for _ in range(length):
        body = call("add", body, one)
    return main_of(x, body=body)


def diamond(depth: int) -> Module:
    """`%n+1 = add(%n, %n)`: multiplies by 2**depth with `depth` nodes."""
    x = Var("x", INT)
    body: Expr = x
    for _ in range(depth):
        body = call("add", body, body)
    return main_of(x, body=body)


def _step_down(other: str, at_zero: bool) -> Function:
    n = Var("n", INT)
    smaller = call("subtract", n, integer(1))
    body = If(
        call("equal", n, integer(0)),
        Constant(np.asarray(at_zero)),
        Call(GlobalVar(other), (smaller,)),
    )
    return Function((n,), body, BOOL)


def even_and_odd() -> Module:
    """Two functions that call each other; main asks whether its argument is even."""
    y = Var("y", INT)
    return Module(
        {
            "main": Function((y,), Call(GlobalVar("even"), (y,))),
            "even": _step_down("odd", at_zero=True),
            "odd": _step_down("even", at_zero=False),
        }
    )
