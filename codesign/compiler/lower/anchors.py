"""Which steps the hand-blocked kernels take: convolutions and products with known weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from codesign.compiler.lower.graph import Step
from codesign.compiler.lower.placement import Halo
from codesign.dtypes import Array, DType
from codesign.ir.tensor.kernel import Window
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.qnn.conv2d import QConv2DAttrs
from codesign.ops.qnn.dense import QDenseAttrs
from codesign.ops.qnn.limits import CODES

ANCHORS: Final = frozenset({"nn.conv2d", "qnn.conv2d", "nn.dense", "qnn.dense", "nn.matmul"})
"""Operators that take their elementwise consumers before anything else does."""


INTEGER_ANCHORS: Final = frozenset({"qnn.conv2d", "qnn.dense"})
"""Those that sum integers."""

BYTE_WEIGHT: Final = 64
"""Greatest weight with which two products with any bytes fit 16 bits."""


@final
@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution for a hand-blocked kernel; `halo` is how far its window reaches over."""

    weight: Array
    dtype: DType
    sums: DType
    window: Window
    groups: int
    halo: Halo
    fill: int
    is_depthwise: bool

    @property
    def takes_bytes(self) -> bool:
        """Whether sums of 16 bits can be taken of bytes as they are."""
        return self.sums is DType.INT16 and (self.is_depthwise or _is_small(self.weight))

    @property
    def is_pointwise(self) -> bool:
        """Whether each result looks at one pixel, its own."""
        window = self.window
        return window.size == (1, 1) and window.strides == (1, 1) and window.before == (0, 0)


@final
@dataclass(frozen=True, slots=True)
class Product:
    """A product of rows with a weight `(out, in)`."""

    weight: Array
    dtype: DType
    sums: DType
    zero_point: int

    @property
    def takes_bytes(self) -> bool:
        """Whether sums of 16 bits can be taken of bytes as they are."""
        return self.sums is DType.INT16 and _is_small(self.weight)

    @property
    def window(self) -> Window:
        """A product looks at one row at a time."""
        return Window((1, 1))


def convolution_of(step: Step, lanes: int) -> Convolution | None:
    """Return what a hand-blocked kernel needs to know; None where the general path must do."""
    attrs = step.attrs
    if not isinstance(attrs, Conv2DAttrs | QConv2DAttrs):
        return None
    data, weight = step.inputs
    if weight.constant is None or 0 in (*data.shape, *weight.shape, *step.result.shape):
        return None
    if data.dtype not in (CODES if isinstance(attrs, QConv2DAttrs) else (DType.FLOAT32,)):
        return None
    outputs, per_group, *size = weight.shape
    is_depthwise = per_group == 1 and attrs.groups == outputs == data.shape[1] and outputs > 1
    per_group_out = outputs // attrs.groups
    if not is_depthwise and attrs.groups > 1 and (per_group % lanes or per_group_out % lanes):
        return None
    top, left, _, _ = attrs.padding
    reach = []
    for axis, before in ((0, top), (1, left)):
        extent = (size[axis] - 1) * attrs.dilation[axis] + 1
        last = (step.result.shape[axis + 2] - 1) * attrs.strides[axis] + extent - before
        reach.append(max(0, last - data.shape[axis + 2]))
    window = Window((size[0], size[1]), attrs.strides, attrs.dilation, (top, left))
    return Convolution(
        weight=weight.constant,
        dtype=data.dtype,
        sums=step.result.dtype,
        window=window,
        groups=attrs.groups,
        halo=(max(0, top), max(0, left), reach[0], reach[1]),
        fill=attrs.zero_point if isinstance(attrs, QConv2DAttrs) else 0,
        is_depthwise=is_depthwise,
    )


def product_of(step: Step) -> Product | None:
    """Return what a hand-blocked kernel needs to know; None where the general path must do."""
    if step.operator not in ("nn.dense", "qnn.dense", "nn.matmul"):
        return None
    data, weight = step.inputs
    if weight.constant is None or 0 in (*data.shape, *weight.shape) or len(weight.shape) != 2:
        return None
    is_quantized = isinstance(step.attrs, QDenseAttrs)
    if data.dtype not in (CODES if is_quantized else (DType.FLOAT32,)) or len(data.shape) < 1:
        return None
    zero_point = step.attrs.zero_point if isinstance(step.attrs, QDenseAttrs) else 0
    matrix = weight.constant.T if step.operator == "nn.matmul" else weight.constant
    return Product(matrix, data.dtype, step.result.dtype, zero_point)


def _is_small(weight: Array) -> bool:
    return int(np.abs(weight.astype(np.int32)).max(initial=0)) <= BYTE_WEIGHT
