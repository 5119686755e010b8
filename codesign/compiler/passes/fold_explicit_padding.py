"""fold-explicit-padding: let a convolution pad its own input.

    nn.conv2d(nn.pad(%x, 0f, pad_width=[[0, 0], [0, 0], [1, 1], [1, 1]]), %w, padding=[0, 0, 0, 0])
becomes
    nn.conv2d(%x, %w, padding=[1, 1, 1, 1])
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, final

from codesign.compiler.pass_manager import Form, PassContext
from codesign.ir.relay.expr import Call, Expr, OpRef
from codesign.ir.relay.module import Module
from codesign.ir.relay.visit import rewrite_module
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.nn.pad import PadAttrs


@final
@dataclass(frozen=True, slots=True)
class FoldExplicitPadding:
    """Add zeros around height and width to the padding of the convolution that reads them."""

    name: ClassVar[str] = "fold-explicit-padding"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module with such pads folded."""
        return rewrite_module(module, _rule)


def _rule(expr: Expr) -> Expr:
    match expr:
        case Call(
            OpRef("nn.conv2d"),
            (
                Call(
                    OpRef("nn.pad"),
                    (data,),
                    PadAttrs(
                        pad_width=((0, 0), (0, 0), (top, bottom), (left, right)),
                        mode="constant",
                        value=0.0,
                    ),
                ),
                weight,
            ),
            Conv2DAttrs(padding=(t, l, b, r)) as attrs,
        ) if min(top, bottom, left, right) >= 0:
            padding = (t + top, l + left, b + bottom, r + right)
            return replace(expr, args=(data, weight), attrs=replace(attrs, padding=padding))
        case _:
            return expr
