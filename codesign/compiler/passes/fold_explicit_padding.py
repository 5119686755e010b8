"""fold-explicit-padding: let convolutions and pools pad their own input.

    nn.conv2d(nn.pad(%x, pad_width=[[0, 0], [0, 0], [1, 1], [1, 1]]), %w, padding=[0, 0, 0, 0])
becomes
    nn.conv2d(%x, %w, padding=[1, 1, 1, 1])

A convolution pads with 0, one of integers with its zero point, nn.max_pool2d with what never wins.
nn.avg_pool2d counts zeros that are padded explicitly: it counts its own then, of which there were
none, or which it counted before. Pools that round up stay: they would lose windows.

Law: every bit stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias, final

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.pass_manager import Form, PassContext, map_bodies
from codesign.ir.relay.expr import Attrs, Call, Expr, OpRef
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType, Type
from codesign.ir.relay.visit import rewrite_pairs
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.nn.pad import PadAttrs
from codesign.ops.nn.pool2d import Pool2DAttrs, least
from codesign.ops.nn.window import Padding
from codesign.ops.qnn.conv2d import QConv2DAttrs

_Padded: TypeAlias = Conv2DAttrs | QConv2DAttrs | Pool2DAttrs


@final
@dataclass(frozen=True, slots=True)
class FoldExplicitPadding:
    """Add what surrounds height and width to the padding of what reads it."""

    name: ClassVar[str] = "fold-explicit-padding"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module with such pads folded."""
        types = infer_types(module)
        return map_bodies(
            module, lambda body: rewrite_pairs(body, lambda old, new: _rule(old, new, types))
        )


def _rule(original: Expr, rebuilt: Expr, types: Mapping[Expr, Type]) -> Expr:
    match rebuilt:
        case Call(
            OpRef(name),
            (
                Call(
                    OpRef("nn.pad"),
                    (data,),
                    PadAttrs(
                        pad_width=((0, 0), (0, 0), (top, bottom), (left, right)),
                        mode="constant",
                        value=value,
                    ),
                ),
                *others,
            ),
            attrs,
        ) if min(top, bottom, left, right) >= 0:
            type_ = types[original]
            assert isinstance(type_, TensorType), "windows give tensors"
            added = (top, left, bottom, right)
            folded = _folded(name, attrs, added, value, type_)
            return (
                rebuilt if folded is None else replace(rebuilt, args=(data, *others), attrs=folded)
            )
        case _:
            return rebuilt


def _folded(
    name: str, attrs: Attrs | None, added: Padding, value: float, type_: TensorType
) -> _Padded | None:
    """Return attributes with more padding, None where that means something else."""
    match name, attrs:
        case "nn.conv2d", Conv2DAttrs() if value == 0:
            return replace(attrs, padding=_sum(attrs.padding, added))
        case "qnn.conv2d", QConv2DAttrs() if value == attrs.zero_point:
            return replace(attrs, padding=_sum(attrs.padding, added))
        case "nn.max_pool2d", Pool2DAttrs() if value == least(type_.dtype):
            return _pooled(attrs, added)
        case "nn.avg_pool2d", Pool2DAttrs() if value == 0 and (
            attrs.count_include_pad or not any(attrs.padding)
        ):
            return _pooled(replace(attrs, count_include_pad=True), added)
        case _:
            return None


def _pooled(attrs: Pool2DAttrs, added: Padding) -> Pool2DAttrs | None:
    padding = _sum(attrs.padding, added)
    extent = [(k - 1) * d + 1 for k, d in zip(attrs.pool_size, attrs.dilation, strict=True)]
    is_less = all(pad < most for pad, most in zip(padding, (*extent, *extent), strict=True))
    return replace(attrs, padding=padding) if is_less and not attrs.ceil_mode else None


def _sum(one: Padding, other: Padding) -> Padding:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2], one[3] + other[3]
