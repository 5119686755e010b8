"""nn.max_pool2d, nn.avg_pool2d and their global forms; NCHW, but where a pool names its layout.

Padding never wins a maximum. An average divides by the number of elements of the data under the
window, or with `count_include_pad` of the data and its declared padding; it is computed in float64
and rounded once, for integers half to even.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Final, final

import numpy as np

from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Attrs, Call
from codesign.ir.relay.types import TensorType, Type
from codesign.ops.layout import Layout, layout_of, plain_of
from codesign.ops.nn.conv2d import DATA_AXES
from codesign.ops.nn.window import Padding, Pair, Window, pad_constant
from codesign.ops.numeric import ieee
from codesign.ops.operator import Fusion, NotOnAccelerator, OnUnit, Operator
from codesign.ops.relations import (
    HOST_FLOAT,
    NUMBERS,
    attributes,
    elements,
    mistake,
    per_input_element,
    require_dtype,
    require_rank,
    static_tensors,
)


@final
@dataclass(frozen=True, kw_only=True)
class Pool2DAttrs(Attrs):
    """The window and its steps; padding is (top, left, bottom, right).

    `count_include_pad` is about averages only.
    """

    pool_size: Pair
    strides: Pair = (1, 1)
    padding: Padding = (0, 0, 0, 0)
    dilation: Pair = (1, 1)
    ceil_mode: bool = False
    count_include_pad: bool = False
    layout: str = "NCHW"

    @property
    def is_plain(self) -> bool:
        """Whether data lies as NCHW."""
        return self.layout == "NCHW"


def _window(attrs: Pool2DAttrs) -> Window:
    return Window(
        kernel=attrs.pool_size,
        strides=attrs.strides,
        padding=attrs.padding,
        dilation=attrs.dilation,
        ceil_mode=attrs.ceil_mode,
    )


def pool_shape(call: Call, data: TensorType, window: Window) -> tuple[int, ...]:
    """Return the shape of pooled data; refuse windows that lie in the padding alone."""
    require_rank(call, data, 4, "data")
    n, channels, height, width = data.static_shape
    output = window.check(call, (height, width))
    extent = (*window.extent, *window.extent)
    if any(pad < 0 or pad >= covered for pad, covered in zip(window.padding, extent, strict=True)):
        raise mistake(
            call,
            "needs padding of 0 up to less than its window",
            f"padding {list(window.padding)}, the window covers {list(window.extent)}",
        )
    return (n, channels, *output)


def _relation(call: Call, types: tuple[Type, ...]) -> Type:
    (data,) = static_tensors(call, types, 1)
    require_dtype(call, data, NUMBERS, "data")
    attrs = attributes(call, Pool2DAttrs)
    layout = layout_of(call, attrs.layout, "NCHW")
    plain = TensorType(plain_of(call, layout, DATA_AXES, data, "data"), data.dtype)
    shape = pool_shape(call, plain, _window(attrs))
    return TensorType(layout.stored_shape(DATA_AXES, shape), data.dtype)


def _in_layout(plain: Callable[[Array, Pool2DAttrs], Array]) -> Callable[..., Array]:
    """Return the reference of data in a layout from that of data as NCHW."""

    def reference(data: Array, attrs: Pool2DAttrs) -> Array:
        layout = Layout.of(attrs.layout)
        return layout.from_plain(DATA_AXES, plain(layout.to_plain(DATA_AXES, data), attrs))

    return reference


def least(dtype: DType) -> float:
    """Return the value that never wins a maximum."""
    return -np.inf if dtype.is_float else dtype.minimum


def _max_pool2d(data: Array, attrs: Pool2DAttrs) -> Array:
    window = _window(attrs)
    output = window.output((data.shape[2], data.shape[3]))
    padded = window.padded(data, least(DType.of(data.dtype)))
    return np.asarray(reduce(np.maximum, window.taps(padded, output)))


def _counts(data: Array, attrs: Pool2DAttrs, window: Window, output: Pair) -> Array:
    top, left, bottom, right = attrs.padding
    inside = np.ones((1, 1, data.shape[2], data.shape[3]))
    if attrs.count_include_pad:
        inside = pad_constant(inside, ((0, 0), (0, 0), (top, bottom), (left, right)), 1)
        beyond = Window(
            kernel=window.kernel,
            strides=window.strides,
            padding=(0, 0, 0, 0),
            dilation=window.dilation,
            ceil_mode=window.ceil_mode,
        )
        return np.asarray(sum(beyond.taps(_room(inside, beyond, output), output)))
    return np.asarray(sum(window.taps(window.padded(inside, 0), output)))


def _room(data: Array, window: Window, output: Pair) -> Array:
    need_h = (output[0] - 1) * window.strides[0] + window.extent[0]
    need_w = (output[1] - 1) * window.strides[1] + window.extent[1]
    more = (max(0, need_h - data.shape[2]), max(0, need_w - data.shape[3]))
    return pad_constant(data, ((0, 0), (0, 0), (0, more[0]), (0, more[1])), 0)


def _rounded(data: Array, dtype: np.dtype[np.generic]) -> Array:
    return (np.rint(data) if dtype.kind != "f" else data).astype(dtype)


@ieee
def _avg_pool2d(data: Array, attrs: Pool2DAttrs) -> Array:
    window = _window(attrs)
    output = window.output((data.shape[2], data.shape[3]))
    sums = sum(window.taps(window.padded(data.astype(np.float64), 0), output))
    counts = np.maximum(_counts(data, attrs, window, output), 1)
    return _rounded(np.asarray(sums / counts), data.dtype)


def _global_relation(call: Call, types: tuple[Type, ...]) -> Type:
    (data,) = static_tensors(call, types, 1)
    require_dtype(call, data, NUMBERS, "data")
    require_rank(call, data, 4, "data")
    n, channels, height, width = data.static_shape
    if height * width == 0:
        raise mistake(call, "has no value over an empty axis", f"shape {list(data.shape)}")
    return TensorType((n, channels, 1, 1), data.dtype)


@ieee
def _global_avg_pool2d(data: Array) -> Array:
    mean = np.mean(data, axis=(2, 3), keepdims=True, dtype=np.float64)
    return _rounded(np.asarray(mean), data.dtype)


def _global_max_pool2d(data: Array) -> Array:
    return np.asarray(np.max(data, axis=(2, 3), keepdims=True))


def _work(call: Call, types: tuple[Type, ...], result: Type) -> int:
    height, width = attributes(call, Pool2DAttrs).pool_size
    return elements(result) * height * width


OPERATORS: Final = (
    Operator(
        name="nn.max_pool2d",
        attrs=Pool2DAttrs,
        relation=_relation,
        reference=_in_layout(_max_pool2d),
        fusion=Fusion.ANCHOR,
        accel=OnUnit("vector"),
        work=_work,
    ),
    Operator(
        name="nn.avg_pool2d",
        attrs=Pool2DAttrs,
        relation=_relation,
        reference=_in_layout(_avg_pool2d),
        fusion=Fusion.ANCHOR,
        accel=NotOnAccelerator(HOST_FLOAT),
        work=_work,
    ),
    Operator(
        name="nn.global_avg_pool2d",
        relation=_global_relation,
        reference=_global_avg_pool2d,
        fusion=Fusion.ANCHOR,
        accel=NotOnAccelerator(HOST_FLOAT),
        work=per_input_element(1),
    ),
    Operator(
        name="nn.global_max_pool2d",
        relation=_global_relation,
        reference=_global_max_pool2d,
        fusion=Fusion.ANCHOR,
        accel=NotOnAccelerator(HOST_FLOAT),
        work=per_input_element(1),
    ),
)
"""Every operator of this file."""
