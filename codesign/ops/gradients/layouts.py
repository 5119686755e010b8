"""Gradients of layers in other layouts: those of the layer in the plain one, moved and back."""

from __future__ import annotations

from dataclasses import replace

from codesign.ir.relay.expr import Expr
from codesign.ir.relay.types import TensorType, Type
from codesign.ops.gradients.expressions import op, tensor
from codesign.ops.layout import Layout
from codesign.ops.layout_transform import LayoutTransformAttrs
from codesign.ops.nn.conv2d import DATA_AXES, KERNEL_AXES, Conv2DAttrs
from codesign.ops.nn.pool2d import Pool2DAttrs
from codesign.ops.operator import Forward, Gradient


def in_any_layout(plain: Gradient) -> Gradient:
    """Return the rule for any layout from that for NCHW and OIHW."""

    def rule(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
        attrs = call.attrs
        assert isinstance(attrs, Conv2DAttrs | Pool2DAttrs), "the attributes of a layer"
        if attrs.is_plain:
            return plain(call, adjoint)
        layouts = _layouts(attrs)
        pairs = tuple(zip(layouts, call.types, strict=True))
        back = plain(
            Forward(
                attrs=_plain(attrs),
                args=tuple(
                    _moved(arg, layout, _axes(layout))
                    for arg, layout in zip(call.args, layouts, strict=True)
                ),
                types=tuple(_plain_type(type_, layout) for layout, type_ in pairs),
                result=_moved(call.result, layouts[0], "NCHW"),
                result_type=_plain_type(call.result_type, layouts[0]),
            ),
            _moved(adjoint, layouts[0], "NCHW"),
        )
        return tuple(
            None if each is None else _moved(each, _axes(layout), layout)
            for each, layout in zip(back, layouts, strict=True)
        )

    return rule


def _layouts(attrs: Conv2DAttrs | Pool2DAttrs) -> tuple[str, ...]:
    match attrs:
        case Conv2DAttrs(data_layout=data, kernel_layout=kernel):
            return data, kernel
        case Pool2DAttrs(layout=data):
            return (data,)


def _plain(attrs: Conv2DAttrs | Pool2DAttrs) -> Conv2DAttrs | Pool2DAttrs:
    match attrs:
        case Conv2DAttrs():
            return replace(attrs, data_layout="NCHW", kernel_layout="OIHW")
        case Pool2DAttrs():
            return replace(attrs, layout="NCHW")


def _axes(layout: str) -> str:
    return "OIHW" if "O" in layout else "NCHW"


def _plain_type(type_: Type, layout: str) -> Type:
    axes = DATA_AXES if _axes(layout) == "NCHW" else KERNEL_AXES
    found = tensor(type_)
    return TensorType(Layout.of(layout).plain_shape(axes, found.shape), found.dtype)


def _moved(value: Expr, source: str, target: str) -> Expr:
    if source == target:
        return value
    attrs = LayoutTransformAttrs(src_layout=source, dst_layout=target)
    return op("layout_transform", value, attrs=attrs)
