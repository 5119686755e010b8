"""canonicalize-ops: say nn.bias_add by what broadcasts.

    nn.bias_add(%x, %b, axis=1)  of %x of rank 4
becomes
    add(%x, expand_dims(%b, axis=1, num_newaxis=2))

Where it is not known that %x has as many channels as %b, it stays: a sum would broadcast one.

Law: every bit stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, final

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.pass_manager import Form, PassContext, map_bodies
from codesign.ir.relay.expr import Call, Expr, OpRef
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import UNKNOWN, Dim, TensorType, Type
from codesign.ir.relay.visit import rewrite_pairs
from codesign.ops.expand_dims import ExpandDimsAttrs
from codesign.ops.nn.bias_add import BiasAddAttrs


@final
@dataclass(frozen=True, slots=True)
class CanonicalizeOps:
    """Replace nn.bias_add by a sum."""

    name: ClassVar[str] = "canonicalize-ops"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module without nn.bias_add."""
        types = infer_types(module)
        return map_bodies(
            module, lambda body: rewrite_pairs(body, lambda old, new: _rule(old, new, types))
        )


def _rule(original: Expr, rebuilt: Expr, types: Mapping[Expr, Type]) -> Expr:
    match rebuilt:
        case Call(OpRef("nn.bias_add"), (data, bias), BiasAddAttrs(axis=axis), span):
            assert isinstance(original, Call), "a call stays one"
            shape, own = (_shape(types[each]) for each in original.args)
            rank = len(shape)
            if UNKNOWN in (shape[axis % rank], own[0]):
                return rebuilt
            behind = rank - 1 - axis % rank
            if behind > 0:
                attrs = ExpandDimsAttrs(axis=1, num_newaxis=behind)
                bias = Call(OpRef("expand_dims", span), (bias,), attrs, span)
            return Call(OpRef("add", span), (data, bias), None, span)
        case _:
            return rebuilt


def _shape(type_: Type) -> tuple[Dim, ...]:
    assert isinstance(type_, TensorType), "nn.bias_add takes tensors"
    return type_.shape
