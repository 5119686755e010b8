"""Random legal calls of layers: convolutions, pools, normalizations, and their integer forms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from codesign.dtypes import Array
from codesign.ir.relay.expr import Attrs
from codesign.ops.axis import AxisAttrs
from codesign.ops.image.resize2d import ResizeAttrs
from codesign.ops.layout import Layout
from codesign.ops.nn.activations import HardSigmoidAttrs, LeakyReluAttrs
from codesign.ops.nn.batch_norm import BatchNormAttrs
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.nn.conv2d_transpose import Conv2DTransposeAttrs
from codesign.ops.nn.dropout import DropoutAttrs
from codesign.ops.nn.normalization import (
    GroupNormAttrs,
    InstanceNormAttrs,
    L2NormalizeAttrs,
    LayerNormAttrs,
)
from codesign.ops.nn.pool2d import Pool2DAttrs
from codesign.ops.qnn.add import QAddAttrs
from codesign.ops.qnn.conv2d import QConv2DAttrs
from codesign.ops.qnn.dense import QDenseAttrs
from codesign.ops.qnn.matmul import QMatmulAttrs
from codesign.ops.qnn.multiply import QMultiplyAttrs
from codesign.ops.qnn.quantize import QuantizeAttrs
from codesign.ops.qnn.requantize import RequantizeAttrs
from codesign.ops.qnn.sum_pool2d import QSumPool2DAttrs
from tests.support.operator_draws import Case, Rng, fixed, floats, int8s, random_pair


def _image(rng: Rng, channels: int = 3) -> tuple[int, int, int, int]:
    return int(rng.integers(0, 3)), channels, int(rng.integers(6, 10)), int(rng.integers(6, 10))


def _padding(rng: Rng, high: int) -> tuple[int, int, int, int]:
    top, left, bottom, right = rng.integers(0, high, 4)
    return int(top), int(left), int(bottom), int(right)


def _conv2d(rng: Rng) -> Case:
    groups = int(rng.choice([1, 2, 4]))
    data = floats(rng, *_image(rng, 4))
    attrs = Conv2DAttrs(
        strides=random_pair(rng, 1, 3),
        padding=_padding(rng, 3),
        dilation=random_pair(rng, 1, 3),
        groups=groups,
    )
    return Case((data, floats(rng, 8, 4 // groups, *random_pair(rng, 1, 4))), attrs)


def _conv2d_transpose(rng: Rng) -> Case:
    groups = int(rng.choice([1, 2, 4]))
    strides = random_pair(rng, 2, 4)
    attrs = Conv2DTransposeAttrs(
        strides=strides,
        padding=_padding(rng, 2),
        output_padding=random_pair(rng, 0, 2),
        dilation=random_pair(rng, 1, 3),
        groups=groups,
    )
    return Case((floats(rng, *_image(rng, 4)), floats(rng, 4, 3, *random_pair(rng, 2, 4))), attrs)


def in_layout(data: Array, axes: str, layout: str) -> Array:
    """Return a tensor with these axes in another layout."""
    return Layout.of(layout).from_plain(tuple(axes), data)


def _conv2d_in_layouts(rng: Rng) -> Case:
    case = _conv2d(rng)
    (data, weight), attrs = case.args, case.attrs
    assert isinstance(attrs, Conv2DAttrs)
    assert isinstance(data, np.ndarray)
    assert isinstance(weight, np.ndarray)
    layout = str(rng.choice(["NCHW", "NHWC", "NCHW2c", "HWCN"]))
    kernel = str(rng.choice(["OIHW", "HWIO", "OIHW4o"]))
    args = (in_layout(data, "NCHW", layout), in_layout(weight, "OIHW", kernel))
    return Case(args, replace(attrs, data_layout=layout, kernel_layout=kernel))


def pool(rng: Rng) -> Pool2DAttrs:
    return Pool2DAttrs(
        pool_size=random_pair(rng, 2, 5),
        strides=random_pair(rng, 1, 4),
        padding=_padding(rng, 2),
        ceil_mode=bool(rng.integers(0, 2)),
        count_include_pad=bool(rng.integers(0, 2)),
    )


def _pool(rng: Rng) -> Case:
    return Case((floats(rng, *_image(rng)),), pool(rng))


def _pool_in_layouts(rng: Rng) -> Case:
    layout = str(rng.choice(["NCHW", "NHWC", "NCHW3c"]))
    data = in_layout(floats(rng, *_image(rng)), "NCHW", layout)
    return Case((data,), replace(pool(rng), layout=layout))


LAYOUT_CASES: dict[str, Callable[[Rng], Case]] = {
    "nn.conv2d": _conv2d_in_layouts,
    "nn.max_pool2d": _pool_in_layouts,
    "nn.avg_pool2d": _pool_in_layouts,
}
"""Random legal calls in layouts of many kinds."""


def _batch_norm(rng: Rng) -> Case:
    data = floats(rng, *_image(rng))
    gamma, beta, mean = (floats(rng, 3) for _ in range(3))
    variance = np.abs(floats(rng, 3)) + np.float32(0.1)
    return Case((data, gamma, beta, mean, variance), BatchNormAttrs(epsilon=1e-3))


def _resize(rng: Rng) -> Case:
    attrs = ResizeAttrs(
        size=random_pair(rng, 1, 12),
        method=str(rng.choice(["nearest_neighbor", "linear"])),  # type: ignore[arg-type]
    )
    return Case((floats(rng, *_image(rng)),), attrs)


def _qmatmul(rng: Rng) -> Case:
    stack = tuple(int(each) for each in rng.integers(1, 4, int(rng.integers(0, 3))))
    rows, inner, columns = (int(each) for each in rng.integers(1, 12, 3))
    attrs = QMatmulAttrs(
        lhs_zero_point=int(rng.choice([0, -7])), rhs_zero_point=int(rng.choice([0, 5]))
    )
    lhs, rhs = int8s(rng, *stack, rows, inner), int8s(rng, *stack[1:], inner, columns)
    return Case((lhs, rhs), attrs)


def _requantize(rng: Rng) -> Case:
    attrs = RequantizeAttrs(zero_point=int(rng.integers(-128, 128)), minimum=-100, maximum=90)
    acc = rng.integers(-(2**31), 2**31, _image(rng, 5)).astype(np.int32)
    bias = rng.integers(-(2**31), 2**31, 5).astype(np.int32)
    multiplier = rng.integers(0, 2**23, 5).astype(np.int32)
    return Case((acc, bias, multiplier, rng.integers(30, 57, 5).astype(np.int32)), attrs)


def _qconv2d(rng: Rng) -> Case:
    groups = int(rng.choice([1, 2, 4]))
    attrs = QConv2DAttrs(
        strides=random_pair(rng, 1, 3),
        padding=_padding(rng, 3),
        dilation=random_pair(rng, 1, 3),
        groups=groups,
        zero_point=int(rng.integers(-128, 128)),
    )
    weight = int8s(rng, 8, 4 // groups, *random_pair(rng, 1, 4))
    return Case((int8s(rng, *_image(rng, 4)), weight), attrs)


def _qadd(rng: Rng) -> Case:
    lz, rz, zero_point = (int(each) for each in rng.integers(-128, 128, 3))
    lm, rm = (int(each) for each in rng.integers(-(2**15), 2**15, 2))
    attrs = QAddAttrs(
        lhs_zero_point=lz,
        rhs_zero_point=rz,
        lhs_multiplier=lm,
        rhs_multiplier=rm,
        shift=int(rng.integers(0, 24)),
        zero_point=zero_point,
    )
    return Case((int8s(rng, 2, 3, 4), int8s(rng, 2, 3, 4)), attrs)


def _qmultiply(rng: Rng) -> Case:
    lz, rz, zero_point = (int(each) for each in rng.integers(-128, 128, 3))
    attrs = QMultiplyAttrs(
        lhs_zero_point=lz,
        rhs_zero_point=rz,
        multiplier=int(rng.integers(0, 2**23)),
        shift=int(rng.integers(20, 40)),
        zero_point=zero_point,
    )
    gate = (1, 1) if rng.integers(0, 2) else (4, 5)
    return Case((int8s(rng, 2, 3, 4, 5), int8s(rng, 2, 3, *gate)), attrs)


def _sum_pool(rng: Rng) -> Case:
    attrs = QSumPool2DAttrs(
        pool_size=random_pair(rng, 2, 5),
        strides=random_pair(rng, 1, 4),
        padding=_padding(rng, 2),
        zero_point=int(rng.integers(-128, 128)),
    )
    return Case((int8s(rng, *_image(rng)),), attrs)


def _rows_of_shares(rng: Rng) -> Case:
    predictions, targets = (np.abs(floats(rng, 3, 5)) + np.float32(0.1) for _ in range(2))
    return Case((np.asarray(predictions), np.asarray(targets)))


def _normalization(attrs: Attrs) -> Callable[[Rng], Case]:
    return lambda rng: Case((floats(rng, 2, 4, 3), floats(rng, 4), floats(rng, 4)), attrs)


_QUANTIZE = QuantizeAttrs(scale=0.02, zero_point=3)


LAYER_CASES: dict[str, Callable[[Rng], Case]] = {
    "image.resize2d": _resize,
    "nn.conv2d": _conv2d,
    "nn.conv2d_transpose": _conv2d_transpose,
    "nn.dense": fixed(None, (2, 3, 4), (5, 4)),
    "nn.batch_norm": _batch_norm,
    "nn.layer_norm": _normalization(LayerNormAttrs(axis=1, epsilon=1e-3)),
    "nn.instance_norm": _normalization(InstanceNormAttrs(axis=-2, epsilon=1e-3)),
    "nn.group_norm": _normalization(GroupNormAttrs(num_groups=2, epsilon=1e-3)),
    "nn.l2_normalize": fixed(L2NormalizeAttrs(epsilon=1e-3, axis=(1,)), (2, 4, 3)),
    "nn.dropout": fixed(DropoutAttrs(rate=0.25), (2, 3)),
    "nn.max_pool2d": _pool,
    "nn.avg_pool2d": _pool,
    "nn.global_avg_pool2d": fixed(None, (2, 3, 4, 5)),
    "nn.global_max_pool2d": fixed(None, (2, 3, 4, 5)),
    "nn.fast_softmax": fixed(AxisAttrs(axis=1), (2, 3, 4)),
    "nn.softmax": fixed(AxisAttrs(axis=1), (2, 3, 4)),
    "nn.log_softmax": fixed(AxisAttrs(axis=-1), (2, 3, 4)),
    "nn.cross_entropy": _rows_of_shares,
    "nn.cross_entropy_with_logits": _rows_of_shares,
    "nn.hard_sigmoid": fixed(HardSigmoidAttrs(alpha=0.3, beta=0.4), (2, 3)),
    "nn.leaky_relu": fixed(LeakyReluAttrs(alpha=0.2), (2, 3)),
    "nn.prelu": fixed(None, (2, 3, 4), (3,)),
    "qnn.quantize": fixed(_QUANTIZE, (2, 3)),
    "qnn.dequantize": lambda rng: Case((int8s(rng, 2, 3),), _QUANTIZE),
    "qnn.conv2d": _qconv2d,
    "qnn.dense": lambda rng: Case((int8s(rng, 2, 9), int8s(rng, 4, 9)), QDenseAttrs(zero_point=-7)),
    "qnn.matmul": _qmatmul,
    "qnn.requantize": _requantize,
    "qnn.lookup": lambda rng: Case((int8s(rng, 2, 3), int8s(rng, 256))),
    "qnn.add": _qadd,
    "qnn.multiply": _qmultiply,
    "qnn.sum_pool2d": _sum_pool,
}
"""A maker of random legal calls for every layer."""
