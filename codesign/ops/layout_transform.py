"""layout_transform: the same tensor in another layout.

    layout_transform(%x, src_layout="NCHW", dst_layout="NCHW8c")

takes (1, 16, 5, 5) to (1, 2, 5, 5, 8).

Both layouts have the same axes; the blocks of the new one divide the lengths.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

from codesign.dtypes import Array
from codesign.ir.relay.expr import Attrs, Call
from codesign.ir.relay.types import TensorType, Type
from codesign.ops.layout import Layout, layout_of, require_divisible
from codesign.ops.operator import Fusion, NotOnAccelerator, Operator
from codesign.ops.relations import HOST_MOVES, attributes, mistake, no_work, spelled, tensors


@final
@dataclass(frozen=True, kw_only=True)
class LayoutTransformAttrs(Attrs):
    """How the argument lies, and how the result does."""

    src_layout: str
    dst_layout: str


def _relation(call: Call, types: tuple[Type, ...]) -> Type:
    (data,) = tensors(call, types, 1)
    attrs = attributes(call, LayoutTransformAttrs)
    try:
        axes = Layout.of(attrs.src_layout).axes
    except ValueError:
        axes = ""
    source = layout_of(call, attrs.src_layout, axes or "NCHW")
    target = layout_of(call, attrs.dst_layout, axes)
    if len(source.parts) != len(data.shape):
        raise mistake(
            call, "takes a tensor in its layout", f"found {spelled(data)}, {attrs.src_layout}"
        )
    blocks = [(source.parts[i][1], dim) for i, dim in enumerate(data.shape)]
    if any(size and dim != size for size, dim in blocks):
        raise mistake(
            call, "takes blocks of their length", f"found {spelled(data)}, {attrs.src_layout}"
        )
    plain = source.plain_shape(tuple(axes), data.shape)
    require_divisible(call, target, axes, plain)
    return TensorType(target.stored_shape(tuple(axes), plain), data.dtype)


def _reference(data: Array, attrs: LayoutTransformAttrs) -> Array:
    source, target = Layout.of(attrs.src_layout), Layout.of(attrs.dst_layout)
    axes = tuple(source.axes)
    return target.from_plain(axes, source.to_plain(axes, data))


OPERATOR: Final = Operator(
    name="layout_transform",
    attrs=LayoutTransformAttrs,
    relation=_relation,
    reference=_reference,
    fusion=Fusion.INJECTIVE,
    accel=NotOnAccelerator(HOST_MOVES),
    work=no_work,
)
