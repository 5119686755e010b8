"""eliminate-dead-code: drop bindings and functions that nothing uses.

    let %unused = exp(%x); nn.relu(%x)
becomes
    nn.relu(%x)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from codesign.compiler.pass_manager import Form, PassContext, map_bodies
from codesign.ir.relay.expr import Expr, GlobalVar, Let
from codesign.ir.relay.module import Module
from codesign.ir.relay.purity import is_pure
from codesign.ir.relay.visit import free_variables, post_order, rewrite


@final
@dataclass(frozen=True, slots=True)
class EliminateDeadCode:
    """Drop lets whose variable is not used, then functions that main does not reach.

    Every operator is pure, so an unused call of one may go; what may write a cell stays.
    """

    name: ClassVar[str] = "eliminate-dead-code"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module without what is unused."""
        live = map_bodies(module, _drop_lets)
        reached = _reached(live)
        if len(reached) == len(live.functions):
            return live
        return live.with_functions(
            {name: each for name, each in live.functions.items() if name in reached}
        )


def _drop_lets(body: Expr) -> Expr:
    if not any(isinstance(node, Let) for node in post_order(body)):
        return body

    def rule(expr: Expr) -> Expr:
        if isinstance(expr, Let) and expr.var not in free_variables(expr.body):
            return expr.body if is_pure(expr.value) else expr
        return expr

    return rewrite(body, rule)


def _reached(module: Module) -> frozenset[str]:
    if "main" not in module.functions:
        return frozenset(module.functions)
    reached: set[str] = set()
    pending = ["main"]
    while pending:
        name = pending.pop()
        if name in reached or name not in module.functions:
            continue
        reached.add(name)
        nodes = post_order(module.functions[name])
        pending += [node.name for node in nodes if isinstance(node, GlobalVar)]
    return frozenset(reached)
