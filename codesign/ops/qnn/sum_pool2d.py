"""qnn.sum_pool2d: sums of int8 or int16 data less its zero point under a window, to int32.

    result = sum over the window of (data - zero_point)

Padding contributes nothing. An average is this sum and a qnn.requantize.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from codesign.accel.arithmetic import wrap
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Attrs, Call
from codesign.ir.relay.types import TensorType, Type
from codesign.ops.nn.pool2d import pool_shape
from codesign.ops.nn.window import Padding, Pair, Window
from codesign.ops.operator import Fusion, OnUnit, Operator
from codesign.ops.qnn.limits import require_codes, require_zero_point
from codesign.ops.relations import attributes, elements, static_tensors


@final
@dataclass(frozen=True, kw_only=True)
class QSumPool2DAttrs(Attrs):
    """The window, its steps, padding (top, left, bottom, right), the zero point of the data."""

    pool_size: Pair
    strides: Pair = (1, 1)
    padding: Padding = (0, 0, 0, 0)
    zero_point: int = 0


def _window(attrs: QSumPool2DAttrs) -> Window:
    return Window(kernel=attrs.pool_size, strides=attrs.strides, padding=attrs.padding)


def _relation(call: Call, types: tuple[Type, ...]) -> Type:
    (data,) = static_tensors(call, types, 1)
    attrs = attributes(call, QSumPool2DAttrs)
    require_codes(call, data, "data")
    require_zero_point(call, attrs.zero_point, data.dtype)
    return TensorType(pool_shape(call, data, _window(attrs)), DType.INT32)


def _reference(data: Array, attrs: QSumPool2DAttrs) -> Array:
    window = _window(attrs)
    output = window.output((data.shape[2], data.shape[3]))
    padded = window.padded(data.astype(np.int64) - attrs.zero_point, 0)
    total = np.zeros((*data.shape[:2], *output), np.int64)
    for tap in window.taps(padded, output):
        total += tap
    return wrap(total, 32).astype(np.int32)


def _work(call: Call, types: tuple[Type, ...], result: Type) -> int:
    height, width = attributes(call, QSumPool2DAttrs).pool_size
    return elements(result) * height * width


OPERATOR: Final = Operator(
    name="qnn.sum_pool2d",
    attrs=QSumPool2DAttrs,
    relation=_relation,
    reference=_reference,
    fusion=Fusion.ANCHOR,
    accel=OnUnit("vector"),
    work=_work,
)
