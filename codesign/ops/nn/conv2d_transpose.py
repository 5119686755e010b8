"""nn.conv2d_transpose: transposed convolution, NCHW with IOHW weights.

    length = (size - 1) * stride - before - after + (kernel - 1) * dilation + 1 + output_padding

Every input element adds its multiple of the kernel to the output; padding cuts the edges off.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final, final

import numpy as np

from codesign.dtypes import Array
from codesign.ir.relay.expr import Attrs, Call
from codesign.ir.relay.types import TensorType, Type
from codesign.ops.nn.convolution import convolve_transposed
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
    require_rank,
    require_same_dtype,
    static_tensors,
)


@final
@dataclass(frozen=True, kw_only=True)
class Conv2DTransposeAttrs(Attrs):
    """As of nn.conv2d; `output_padding` lengthens the result at the bottom and right."""

    strides: Pair = (1, 1)
    padding: Padding = (0, 0, 0, 0)
    output_padding: Pair = (0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1


def _window(attrs: Conv2DTransposeAttrs, weight: tuple[int, ...]) -> Window:
    return Window(
        kernel=(weight[2], weight[3]),
        strides=attrs.strides,
        padding=attrs.padding,
        dilation=attrs.dilation,
    )


def _output(attrs: Conv2DTransposeAttrs, window: Window, size: Pair) -> Pair:
    height, width = (
        (size[axis] - 1) * window.strides[axis]
        + window.extent[axis]
        + attrs.output_padding[axis]
        - window.padding[axis]
        - window.padding[axis + 2]
        for axis in range(2)
    )
    return height, width


def _relation(call: Call, types: tuple[Type, ...]) -> Type:
    data, weight = static_tensors(call, types, 2)
    attrs = attributes(call, Conv2DTransposeAttrs)
    require_rank(call, data, 4, "data")
    require_rank(call, weight, 4, "a weight")
    require_dtype(call, data, FLOATS, "data")
    require_same_dtype(call, (data, weight))
    n, channels, height, width = data.static_shape
    inputs, per_group, _, _ = weight.static_shape
    _check(call, attrs, channels, inputs)
    window = _window(attrs, weight.static_shape)
    require_positive(call, window.kernel, "kernel size")
    output = _output(attrs, window, (height, width))
    if min(output) < 1:
        raise mistake(call, "has no output", f"computed height {output[0]}, width {output[1]}")
    return TensorType((n, per_group * attrs.groups, *output), data.dtype)


def _check(call: Call, attrs: Conv2DTransposeAttrs, channels: int, inputs: int) -> None:
    require_positive(call, attrs.strides, "strides")
    require_positive(call, attrs.dilation, "dilation")
    require_positive(call, (attrs.groups,), "groups")
    if channels != inputs or channels % attrs.groups:
        raise mistake(
            call,
            "has a weight for another number of channels",
            f"data has {channels} channels in {attrs.groups} groups, weight has {inputs}",
        )
    if min(attrs.padding) < 0 or min(attrs.output_padding) < 0:
        raise mistake(
            call,
            "needs padding that is not negative",
            f"padding {list(attrs.padding)}, output padding {list(attrs.output_padding)}",
        )


@ieee
def _reference(data: Array, weight: Array, attrs: Conv2DTransposeAttrs) -> Array:
    window = _window(attrs, weight.shape)
    output = _output(attrs, window, (data.shape[2], data.shape[3]))
    if data.dtype == np.float16:
        wide, wide_weight = data.astype(np.float32), weight.astype(np.float32)
        sums = convolve_transposed(wide, wide_weight, window, output, attrs.groups)
        return sums.astype(np.float16)
    return convolve_transposed(data, weight, window, output, attrs.groups)


def _work(call: Call, types: tuple[Type, ...], result: Type) -> int:
    weight = types[1]
    assert isinstance(weight, TensorType), "the relation has seen to it"
    return 2 * elements(types[0]) * prod(weight.static_shape[1:])


OPERATOR: Final = Operator(
    name="nn.conv2d_transpose",
    attrs=Conv2DTransposeAttrs,
    relation=_relation,
    reference=_reference,
    fusion=Fusion.ANCHOR,
    accel=NotOnAccelerator(HOST_FLOAT),
    work=_work,
)
