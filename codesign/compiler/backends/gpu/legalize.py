"""Kernels in terms of what a GPU has instructions for; their meaning stays."""

from __future__ import annotations

from dataclasses import replace

from codesign.dtypes import DType
from codesign.ir.simt.kernel import Serial, SimtKernel, Statement, Store, When
from codesign.ir.tensor.compute import Apply, Convert, Expr, Fn
from codesign.ir.tensor.substitute import Substitution
from codesign.ir.tensor.walk import nodes


def legalize(kernel: SimtKernel) -> SimtKernel:
    """Return the kernel without `NEAREST`, which only CPUs have as one instruction."""
    return replace(kernel, body=_body(kernel.body))


def _body(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    return tuple(map(_statement, body))


def _statement(statement: Statement) -> Statement:
    match statement:
        case Store(buffer, index, value):
            return Store(buffer, index, _expr(value))
        case Serial() | When():
            return replace(statement, body=_body(statement.body))
        case _:
            return statement


def _expr(expr: Expr) -> Expr:
    """Replace the innermost first, so that what stands in a replaced node is replaced too."""
    while nearest := [
        node for node in nodes(expr) if isinstance(node, Apply) and node.function is Fn.NEAREST
    ]:
        replaced: dict[Expr, Expr] = {
            node: Convert(Apply(Fn.ROUND_EVEN, node.args, node.args[0].dtype), DType.INT32)
            for node in nearest[-1:]
        }
        expr = Substitution({}, replaced).expr(expr)
    return expr
