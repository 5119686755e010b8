"""eliminate-common-subexpr: compute equal calls once.

    add(nn.relu(%x), nn.relu(%x))
becomes
    %0 = nn.relu(%x); add(%0, %0)
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar, final

from codesign.compiler.pass_manager import Form, PassContext, map_bodies
from codesign.ir.relay.expr import Call, Constant, Expr, OpRef, Project, Tuple
from codesign.ir.relay.module import Module
from codesign.ir.relay.visit import rewrite


@final
@dataclass(frozen=True, slots=True)
class EliminateCommonSubexpr:
    """Share calls of one operator with equal attributes and the same arguments.

    Constants are equal where their bytes are; those above `max_constant_bytes` by identity only.
    """

    name: ClassVar[str] = "eliminate-common-subexpr"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})

    max_constant_bytes: int = 1 << 16

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module with equal calls shared within each function."""
        return map_bodies(module, self._share)

    def _share(self, body: Expr) -> Expr:
        first: dict[Hashable, Expr] = {}

        def rule(expr: Expr) -> Expr:
            key = self._key(expr)
            return expr if key is None else first.setdefault(key, expr)

        return rewrite(body, rule)

    def _key(self, expr: Expr) -> Hashable | None:
        match expr:
            case Constant(value) if value.nbytes <= self.max_constant_bytes:
                return value.dtype.str, value.shape, value.tobytes()
            case Call(OpRef(name), args, attrs):
                return name, attrs, args
            case Tuple(fields):
                return fields
            case Project(value, index):
                return value, index
            case _:
                return None
