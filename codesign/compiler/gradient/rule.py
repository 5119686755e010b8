"""A call's gradient rule, applied; what it refuses has the call's place."""

from __future__ import annotations

from dataclasses import replace

from codesign.diagnostics import CodesignError, InternalError, Problem
from codesign.ir.relay.expr import Call, Expr, OpRef
from codesign.ir.relay.types import TensorType, TupleType, Type
from codesign.ops.operator import Forward, NotDifferentiable, ThroughExpansion
from codesign.ops.table import operator


def has_float(type_: Type) -> bool:
    """Return whether a tensor or tuple type has floating-point tensors in it."""
    match type_:
        case TensorType(_, dtype):
            return dtype.is_float
        case TupleType(fields):
            return any(map(has_float, fields))
        case _:
            return False


def backward(call: Call, forward: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    """Return the adjoint of each argument of an operator's call.

    Raises
    ------
    CodesignError
        The operator has no gradient, or its rule needs a shape that is not known.
    """
    if not isinstance(call.callee, OpRef):
        raise InternalError("only calls of operators have gradient rules")
    rule = operator(call.callee.name, call.callee.span or call.span).gradient
    if isinstance(rule, NotDifferentiable):
        what = f"{call.callee.name} has no gradient"
        advice = "keep what depends on the parameters away from it"
        raise CodesignError(Problem(what=what, found=rule.reason, span=call.span, help=advice))
    if isinstance(rule, ThroughExpansion):
        raise InternalError(f"{call.callee.name} is expanded before it is differentiated")
    try:
        return rule(forward, adjoint)
    except CodesignError as error:
        placed = (replace(each, span=each.span or call.span) for each in error.diagnostics)
        raise CodesignError(*placed) from error
