"""nn.conv2d: two-dimensional convolution, NCHW with OIHW weights unless other layouts are named.

    result[n, o, y, x] = sum over c, i, j of
        data[n, group(o) + c, y * sh + i * dh - top, x * sw + j * dw - left] * weight[o, c, i, j]

Elements outside the data are zero. Floating-point sums may be taken in any order. `data_layout` is
that of data and result, `kernel_layout` that of the weight: `NHWC`, `HWIO`, blocks as in `NCHW8c`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final, final

from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Attrs, Call
from codesign.ir.relay.types import TensorType, Type
from codesign.ops.layout import Layout, layout_of, plain_of, require_divisible
from codesign.ops.nn.convolution import convolve
from codesign.ops.nn.window import Padding, Pair, Window
from codesign.ops.numeric import ieee
from codesign.ops.operator import Fusion, NotOnAccelerator, Operator
from codesign.ops.relations import (
    FLOATS,
    HOST_FLOAT,
    attributes,
    elements,
    mistake,
    require_dtype,
    require_positive,
    require_same_dtype,
    static_tensors,
)


@final
@dataclass(frozen=True, kw_only=True)
class Conv2DAttrs(Attrs):
    """Steps of the window, padding (top, left, bottom, right), steps in it, channel groups."""

    strides: Pair = (1, 1)
    padding: Padding = (0, 0, 0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1
    data_layout: str = "NCHW"
    kernel_layout: str = "OIHW"

    @property
    def is_plain(self) -> bool:
        """Whether data lies as NCHW and the weight as OIHW."""
        return self.data_layout == "NCHW" and self.kernel_layout == "OIHW"


DATA_AXES: Final = ("N", "C", "H", "W")
KERNEL_AXES: Final = ("O", "I", "H", "W")


def convolution_shape(
    call: Call,
    data: tuple[int, ...],
    weight: tuple[int, ...],
    *,
    window: Window,
    groups: int,
) -> tuple[int, int, int, int]:
    """Return the result's shape; refuse channels, groups and windows that do not fit."""
    n, channels, height, width = data
    outputs, reduced, _, _ = weight
    require_positive(call, (groups,), "groups")
    if channels % groups or outputs % groups:
        raise mistake(
            call,
            "has groups that do not divide its channels",
            f"groups {groups}, {channels} input channels, {outputs} output channels",
        )
    if reduced != channels // groups:
        raise mistake(
            call,
            "has a weight for another number of channels",
            f"data has {channels} channels in {groups} groups, weight has {reduced} a group",
        )
    return (n, outputs, *window.check(call, (height, width)))


def _window(attrs: Conv2DAttrs, weight: tuple[int, ...]) -> Window:
    return Window(
        kernel=(weight[2], weight[3]),
        strides=attrs.strides,
        padding=attrs.padding,
        dilation=attrs.dilation,
    )


def _relation(call: Call, types: tuple[Type, ...]) -> Type:
    data, weight = static_tensors(call, types, 2)
    attrs = attributes(call, Conv2DAttrs)
    layout = layout_of(call, attrs.data_layout, "NCHW")
    kernel = layout_of(call, attrs.kernel_layout, "OIHW")
    image = plain_of(call, layout, DATA_AXES, data, "data")
    size = plain_of(call, kernel, KERNEL_AXES, weight, "a weight")
    require_dtype(call, data, FLOATS, "data")
    require_same_dtype(call, (data, weight))
    shape = convolution_shape(call, image, size, window=_window(attrs, size), groups=attrs.groups)
    require_divisible(call, layout, "NCHW", shape)
    return TensorType(layout.stored_shape(DATA_AXES, shape), data.dtype)


@ieee
def _reference(data: Array, weight: Array, attrs: Conv2DAttrs) -> Array:
    layout, kernel = Layout.of(attrs.data_layout), Layout.of(attrs.kernel_layout)
    plain = _plain_reference(
        layout.to_plain(DATA_AXES, data), kernel.to_plain(KERNEL_AXES, weight), attrs
    )
    return layout.from_plain(DATA_AXES, plain)


def _plain_reference(data: Array, weight: Array, attrs: Conv2DAttrs) -> Array:
    if data.dtype == DType.FLOAT16.numpy:
        wide = convolve(
            data.astype("float32"),
            weight.astype("float32"),
            _window(attrs, weight.shape),
            attrs.groups,
        )
        return wide.astype(data.dtype)
    return convolve(data, weight, _window(attrs, weight.shape), attrs.groups)


def convolution_work(call: Call, types: tuple[Type, ...], result: Type) -> int:
    """Return two operations, a product and a sum, for each weight that a result meets."""
    weight = types[1]
    assert isinstance(weight, TensorType), "the relation has seen to it"
    kernel = call.attrs.kernel_layout if isinstance(call.attrs, Conv2DAttrs) else "OIHW"
    layout = Layout.of(kernel)
    _, *reduced = layout.plain_shape(KERNEL_AXES, weight.static_shape)
    return 2 * elements(result) * prod(dim for dim in reduced if isinstance(dim, int))


OPERATOR: Final = Operator(
    name="nn.conv2d",
    attrs=Conv2DAttrs,
    relation=_relation,
    reference=_reference,
    fusion=Fusion.ANCHOR,
    accel=NotOnAccelerator(HOST_FLOAT),
    work=convolution_work,
)
