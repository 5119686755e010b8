"""simplify-expr: replace expressions by simpler ones of the same value and type.

    multiply(add(%x, zeros_like(%x)), 1f)  of integers, and without the sum of floating point
becomes
    %x

The rules stand in `codesign.compiler.rewriting.simplify`, with their laws: arithmetic, movement,
casts and bounds. They keep every value that `docs/numbers.md` promises; those that round floating
point otherwise run only where `reassociate` allows it. What may write a cell is never dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.pass_manager import Form, PassContext, map_bodies
from codesign.compiler.rewriting.simplify import arithmetic, movement, ranges
from codesign.compiler.rewriting.simplify.rule import by_operator, simplified
from codesign.ir.relay.module import Module


@final
@dataclass(frozen=True, slots=True)
class SimplifyExpr:
    """Apply the rules of algebra, of movement and of ranges until none fits."""

    name: ClassVar[str] = "simplify-expr"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})

    reassociate: bool = False

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module with such expressions replaced."""
        types = infer_types(module)
        every = (*movement.RULES, *ranges.RULES, *arithmetic.RULES)
        rules = by_operator(each for each in every if each.exact or self.reassociate)
        return map_bodies(module, lambda body: simplified(body, types, rules))
