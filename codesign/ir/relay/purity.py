"""Whether an expression may be dropped: only what may write a cell may not."""

from __future__ import annotations

from codesign.ir.relay.expr import Call, Constructor, Expr, Function, OpRef, RefWrite
from codesign.ir.relay.visit import children, post_order


def is_pure(expr: Expr) -> bool:
    """Return whether evaluating an expression writes no cell, which a called function may do.

    Operators and constructors are pure; so is a function that nobody calls here.
    """
    return not any(
        isinstance(node, RefWrite)
        or (isinstance(node, Call) and not isinstance(node.callee, OpRef | Constructor))
        for node in post_order(expr, below=_evaluated)
    )


def _evaluated(node: Expr) -> tuple[Expr, ...]:
    return () if isinstance(node, Function) else children(node)
