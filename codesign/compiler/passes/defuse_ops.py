"""defuse-ops: put operators of Primitive functions back to where the functions are called.

    (fn (%p0, Primitive=1) { nn.relu(exp(%p0)) })(%x)
becomes
    nn.relu(exp(%x))

It undoes fuse-ops, for passes that look at single operators.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from codesign.compiler.analysis.facts import Facts
from codesign.compiler.pass_manager import Form, PassContext
from codesign.ir.relay.expr import Call, Expr, Function, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.visit import post_order, rewrite_module, substitute, use_counts


@final
@dataclass(frozen=True, slots=True)
class DefuseOps:
    """Replace calls of Primitive functions, which stand where they are called, by their bodies."""

    name: ClassVar[str] = "defuse-ops"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module without such calls; a function that is called twice stays."""
        uses = use_counts(*module.functions.values())
        facts = Facts({})

        def rule(expr: Expr) -> Expr:
            match expr:
                case Call(Function(params, body, _, {"Primitive": _}) as function, args) if (
                    uses.get(function) == 1 and _keeps_order(params, body, args, facts)
                ):
                    return substitute(body, dict(zip(params, args, strict=True)))
                case _:
                    return expr

        return rewrite_module(module, rule)


def _keeps_order(params: tuple[Var, ...], body: Expr, args: tuple[Expr, ...], facts: Facts) -> bool:
    """Return whether arguments that have to do with cells stay as many and in their order."""
    acting = [param for param, arg in zip(params, args, strict=True) if not facts.is_inert(arg)]
    return not acting or [node for node in post_order(body) if node in acting] == acting
