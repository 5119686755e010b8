"""qnn.conv2d: convolution of integers less their zero point with an integer weight.

    result = conv2d(data - zero_point, weight)

Data and weight are int8 or int16. Elements outside the data contribute nothing. Sums are exact
modulo 2**32, or modulo 2**16 where `dtype` is int16.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from codesign.accel.arithmetic import wrap
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Attrs, Call
from codesign.ir.relay.types import TensorType, Type
from codesign.ops.nn.conv2d import convolution_shape, convolution_work
from codesign.ops.nn.convolution import convolve
from codesign.ops.nn.window import Padding, Pair, Window
from codesign.ops.operator import Fusion, OnUnit, Operator
from codesign.ops.qnn.limits import require_sums, require_zero_point
from codesign.ops.relations import attributes, require_rank, static_tensors


@final
@dataclass(frozen=True, kw_only=True)
class QConv2DAttrs(Attrs):
    """As of nn.conv2d; the zero point of the data, that of the weight is 0; the type of sums."""

    strides: Pair = (1, 1)
    padding: Padding = (0, 0, 0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1
    zero_point: int = 0
    dtype: DType = DType.INT32


def _window(attrs: QConv2DAttrs, weight: tuple[int, ...]) -> Window:
    return Window(
        kernel=(weight[2], weight[3]),
        strides=attrs.strides,
        padding=attrs.padding,
        dilation=attrs.dilation,
    )


def _relation(call: Call, types: tuple[Type, ...]) -> Type:
    data, weight = static_tensors(call, types, 2)
    attrs = attributes(call, QConv2DAttrs)
    require_rank(call, data, 4, "data")
    require_rank(call, weight, 4, "a weight")
    require_sums(call, data, weight, attrs.dtype)
    require_zero_point(call, attrs.zero_point, data.dtype)
    window = _window(attrs, weight.static_shape)
    shape = convolution_shape(
        call, data.static_shape, weight.static_shape, window=window, groups=attrs.groups
    )
    return TensorType(shape, attrs.dtype)


def _reference(data: Array, weight: Array, attrs: QConv2DAttrs) -> Array:
    centred = data.astype(np.float64) - attrs.zero_point
    window = _window(attrs, weight.shape)
    exact = convolve(centred, weight.astype(np.float64), window, attrs.groups)
    return wrap(exact, attrs.dtype.bits).astype(attrs.dtype.numpy)


OPERATOR: Final = Operator(
    name="qnn.conv2d",
    attrs=QConv2DAttrs,
    relation=_relation,
    reference=_reference,
    fusion=Fusion.ANCHOR,
    accel=OnUnit("gemm"),
    work=convolution_work,
)
