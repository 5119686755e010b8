"""What a constant says when all its elements are one number."""

from __future__ import annotations

import numpy as np

from codesign.compiler.rewriting.dataflow_pattern import Condition
from codesign.ir.relay.expr import Constant, Expr


def number(expr: Expr) -> np.generic | None:
    """Return the number that all elements of a constant are, bit for bit; None where there is none.

    -0.0 is not 0.0.
    """
    if not isinstance(expr, Constant) or expr.value.size == 0:
        return None
    flat = expr.value.reshape(-1)
    first = flat[:1]
    if flat.size > 1 and not np.array_equal(flat[1:], flat[:-1]):
        return None
    if flat.dtype.kind == "f" and np.any(np.signbit(flat) != np.signbit(first)):
        return None
    scalar = first[0]
    return scalar if isinstance(scalar, np.generic) else None


def is_number(wanted: float, *, negative: bool | None = None) -> Condition:
    """Return whether an expression is a constant of this number; `negative` is its sign bit."""

    def condition(expr: Expr) -> bool:
        found = number(expr)
        if found is None or found != wanted:
            return False
        return negative is None or bool(np.signbit(np.asarray(found, np.float64))) is negative

    return condition
