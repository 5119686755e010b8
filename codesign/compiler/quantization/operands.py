"""Which tensors a form reads."""

from __future__ import annotations

from codesign.compiler.quantization.forms import (
    Affine,
    Average,
    Floating,
    Form,
    Join,
    Lookup,
    Matmul,
    Product,
    Same,
    Sum,
)
from codesign.ir.relay.expr import Expr


def operands(form: Form) -> tuple[Expr, ...]:
    """Return the tensors whose codes a form reads."""
    match form:
        case Affine(data=data) | Lookup(data=data) | Average(data=data) | Same(data=data):
            return (data,)
        case Sum(lhs=lhs, rhs=rhs) | Product(lhs=lhs, rhs=rhs) | Matmul(lhs=lhs, rhs=rhs):
            return (lhs, rhs)
        case Join(parts=parts):
            return parts
        case Floating():
            return ()
