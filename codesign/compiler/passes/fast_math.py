"""fast-math: compute functions roughly where a network's author says that it may be.

    nn.softmax(tanh(exp(%x)))
becomes
    nn.fast_softmax(fast_tanh(fast_exp(%x)))
in float32 and float16.

Law: a value is beside by 1e-5 of the true one; exp is exp(-87) below -87,
and infinity above 88. It stands in no level.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final, final

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.pass_manager import Form, PassContext, map_bodies
from codesign.dtypes import DType
from codesign.ir.relay.expr import Call, Expr, OpRef
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType, Type
from codesign.ir.relay.visit import rewrite_pairs

_FAST: Final[Mapping[str, str]] = {
    "exp": "fast_exp",
    "tanh": "fast_tanh",
    "nn.softmax": "nn.fast_softmax",
}


@final
@dataclass(frozen=True, slots=True)
class FastMath:
    """Replace functions by their fast forms."""

    name: ClassVar[str] = "fast-math"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module with such functions replaced."""
        types = infer_types(module)
        return map_bodies(
            module, lambda body: rewrite_pairs(body, lambda old, new: _rule(old, new, types))
        )


def _rule(original: Expr, rebuilt: Expr, types: Mapping[Expr, Type]) -> Expr:
    match rebuilt, types.get(original):
        case Call(OpRef(name, span)), TensorType(_, DType.FLOAT32 | DType.FLOAT16) if name in _FAST:
            return replace(rebuilt, callee=OpRef(_FAST[name], span))
        case _:
            return rebuilt
