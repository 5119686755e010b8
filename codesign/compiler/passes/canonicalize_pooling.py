"""canonicalize-pooling: call an average over the whole image by one name.

    mean(%x, axis=[2, 3], keepdims=True)
becomes
    nn.global_avg_pool2d(%x)
for %x of rank 4; without keepdims a reshape follows. A pool whose only window is the whole image is
a global pool too.
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
from codesign.ops.nn.pool2d import Pool2DAttrs
from codesign.ops.reduce import ReduceAttrs
from codesign.ops.reshape import ReshapeAttrs


@final
@dataclass(frozen=True, slots=True)
class CanonicalizePooling:
    """Replace means over height and width, and pools of one window, by global average pools."""

    name: ClassVar[str] = "canonicalize-pooling"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module with such calls replaced."""
        types = infer_types(module)
        return map_bodies(
            module, lambda body: rewrite_pairs(body, lambda old, new: _rule(old, new, types))
        )


def _rule(original: Expr, rebuilt: Expr, types: Mapping[Expr, Type]) -> Expr:
    match original, rebuilt:
        case Call(args=(old,)), Call(OpRef("mean"), (data,), ReduceAttrs(axis=axis) as attrs, span):
            shape = _shape(types[original])
            if len(_shape(types[old])) != 4 or sorted(each % 4 for each in axis) != [2, 3]:
                return rebuilt
            if not attrs.keepdims and shape.count(UNKNOWN) > 1:
                return rebuilt
            pool = Call(OpRef("nn.global_avg_pool2d", span), (data,), None, span)
            if attrs.keepdims:
                return pool
            reshape = ReshapeAttrs(shape=tuple(-1 if d is UNKNOWN else d for d in shape))
            return Call(OpRef("reshape", span), (pool,), reshape, span)
        case (
            Call(args=(old,)),
            Call(
                OpRef("nn.avg_pool2d"),
                (data,),
                Pool2DAttrs(pool_size=size, padding=(0, 0, 0, 0), dilation=(1, 1)),
                span,
            ),
        ) if size == _shape(types[old])[2:]:
            return Call(OpRef("nn.global_avg_pool2d", span), (data,), None, span)
        case _:
            return rebuilt


def _shape(type_: Type) -> tuple[Dim, ...]:
    assert isinstance(type_, TensorType), "pools and means take tensors"
    return type_.shape
