"""div-to-mul: multiply by a reciprocal where that is the same, or where it may differ.

    divide(%x, 8f)
becomes
    multiply(%x, 0.125f)

Law: every bit stays, since the reciprocal of a power of two is one. With `approximate` any divisor
but 0, infinities and NaN is taken, and a result may be one unit in the last place beside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from codesign.compiler.pass_manager import Form, PassContext
from codesign.dtypes import Array
from codesign.ir.relay.expr import Call, Constant, Expr, OpRef
from codesign.ir.relay.module import Module
from codesign.ir.relay.visit import rewrite_module


@final
@dataclass(frozen=True, slots=True)
class DivToMul:
    """Replace divisions by constants of floating point by products."""

    name: ClassVar[str] = "div-to-mul"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})

    approximate: bool = False
    """Whether divisors that are no powers of two are taken too."""

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module with such divisions replaced."""
        return rewrite_module(module, self._rule)

    def _rule(self, expr: Expr) -> Expr:
        match expr:
            case Call(OpRef("divide"), (data, Constant(divisor)), _, span) if self._fits(divisor):
                with np.errstate(over="ignore"):
                    factor = np.asarray(divisor.dtype.type(1) / divisor)
                if not np.all(np.isfinite(factor)):
                    return expr
                return Call(OpRef("multiply", span), (data, Constant(factor, span)), None, span)
            case _:
                return expr

    def _fits(self, divisor: Array) -> bool:
        if divisor.dtype.kind != "f" or not np.all(np.isfinite(divisor) & (divisor != 0)):
            return False
        return self.approximate or bool(np.all(np.abs(np.frexp(divisor)[0]) == 0.5))
