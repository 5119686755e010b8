"""Random legal calls of every operator: arguments, attributes, and no expected value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Attrs
from codesign.ops.axis import AxisAttrs
from codesign.ops.broadcast_to import BroadcastToAttrs
from codesign.ops.cast import CastAttrs
from codesign.ops.clip import ClipAttrs
from codesign.ops.collapse_sum import CollapseSumAttrs
from codesign.ops.counting import ArangeAttrs, ShapeOfAttrs
from codesign.ops.dynamic import DynFilledAttrs
from codesign.ops.expand_dims import ExpandDimsAttrs, SqueezeAttrs
from codesign.ops.filled import FilledAttrs, FullAttrs
from codesign.ops.image.resize2d import ResizeAttrs
from codesign.ops.layout import Layout
from codesign.ops.layout_transform import LayoutTransformAttrs
from codesign.ops.like import ReshapeLikeAttrs
from codesign.ops.nn.activations import HardSigmoidAttrs, LeakyReluAttrs
from codesign.ops.nn.batch_matmul import BatchMatmulAttrs
from codesign.ops.nn.batch_norm import BatchNormAttrs
from codesign.ops.nn.bias_add import BiasAddAttrs
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.nn.conv2d_transpose import Conv2DTransposeAttrs
from codesign.ops.nn.dropout import DropoutAttrs
from codesign.ops.nn.normalization import (
    GroupNormAttrs,
    InstanceNormAttrs,
    L2NormalizeAttrs,
    LayerNormAttrs,
)
from codesign.ops.nn.pad import PadAttrs
from codesign.ops.nn.pool2d import Pool2DAttrs
from codesign.ops.one_hot import OneHotAttrs
from codesign.ops.qnn.add import QAddAttrs
from codesign.ops.qnn.conv2d import QConv2DAttrs
from codesign.ops.qnn.dense import QDenseAttrs
from codesign.ops.qnn.multiply import QMultiplyAttrs
from codesign.ops.qnn.quantize import QuantizeAttrs
from codesign.ops.qnn.requantize import RequantizeAttrs
from codesign.ops.qnn.sum_pool2d import QSumPool2DAttrs
from codesign.ops.reduce import ArgReduceAttrs, ReduceAttrs
from codesign.ops.repeating import RepeatAttrs, TileAttrs
from codesign.ops.reshape import ReshapeAttrs
from codesign.ops.split import SplitAttrs
from codesign.ops.strided_slice import StridedSliceAttrs
from codesign.ops.transpose import TransposeAttrs

Rng = np.random.Generator


@dataclass(frozen=True)
class Case:
    """One call: its arguments (a tuple stands for a Relay tuple) and its attributes."""

    args: tuple[Array | tuple[Array, ...], ...]
    attrs: Attrs | None = None


def floats(rng: Rng, *shape: int) -> Array:
    return np.asarray(rng.standard_normal(shape), np.float32)


def int8s(rng: Rng, *shape: int) -> Array:
    return rng.integers(-128, 128, shape).astype(np.int8)


def _shape(rng: Rng, rank: int, low: int = 0) -> tuple[int, ...]:
    return tuple(int(dim) for dim in rng.integers(low, 5, rank))


def _image(rng: Rng, channels: int = 3) -> tuple[int, int, int, int]:
    return int(rng.integers(0, 3)), channels, int(rng.integers(6, 10)), int(rng.integers(6, 10))


def _pair(rng: Rng, low: int, high: int) -> tuple[int, int]:
    first, second = rng.integers(low, high, 2)
    return int(first), int(second)


def _padding(rng: Rng, high: int) -> tuple[int, int, int, int]:
    top, left, bottom, right = rng.integers(0, high, 4)
    return int(top), int(left), int(bottom), int(right)


def _unary(rng: Rng) -> Case:
    magnitude = np.abs(floats(rng, *_shape(rng, int(rng.integers(0, 5)))))
    return Case((np.asarray(magnitude + np.float32(0.1)),))


def _logical(rng: Rng) -> Case:
    return Case((rng.integers(0, 2, _shape(rng, 2)).astype(bool),))


def _operands(rng: Rng) -> tuple[Array, Array]:
    whole = _shape(rng, 3)
    part = tuple(1 if rng.integers(0, 2) else dim for dim in whole)[int(rng.integers(0, 3)) :]
    both = (floats(rng, *whole), floats(rng, *part))
    return both if rng.integers(0, 2) else (both[1], both[0])


def _binary(rng: Rng) -> Case:
    return Case(_operands(rng))


def _binary_logical(rng: Rng) -> Case:
    left, right = _operands(rng)
    return Case((left > 0, right > 0))


def _axes(rng: Rng, rank: int) -> tuple[int, ...]:
    chosen = rng.permutation(rank)[: int(rng.integers(0, rank + 1))]
    return tuple(int(axis) - (rank if rng.integers(0, 2) else 0) for axis in chosen)


def _reduce(rng: Rng) -> Case:
    attrs = ReduceAttrs(axis=_axes(rng, 3), keepdims=bool(rng.integers(0, 2)))
    return Case((floats(rng, *_shape(rng, 3, low=1)),), attrs)


def _argmax(rng: Rng) -> Case:
    attrs = ArgReduceAttrs(
        axis=int(rng.integers(-3, 3)),
        keepdims=bool(rng.integers(0, 2)),
        select_last_index=bool(rng.integers(0, 2)),
    )
    return Case((rng.integers(0, 3, _shape(rng, 3, low=1)).astype(np.float32),), attrs)


def _transpose(rng: Rng) -> Case:
    axes = tuple(int(axis) for axis in rng.permutation(4))
    return Case((floats(rng, *_shape(rng, 4)),), TransposeAttrs(axes=axes))


def _concatenate(rng: Rng) -> Case:
    shape, axis = _shape(rng, 3), int(rng.integers(-3, 3))
    lengths = [(*shape[: axis % 3], k, *shape[axis % 3 + 1 :]) for k in (0, 2, 3)]
    return Case((tuple(floats(rng, *each) for each in lengths),), AxisAttrs(axis=axis))


def _split(rng: Rng) -> Case:
    where: int | tuple[int, ...] = 3 if rng.integers(0, 2) else (1, 1, 4)
    return Case((floats(rng, 2, 6),), SplitAttrs(indices_or_sections=where, axis=-1))


def _slice(rng: Rng) -> Case:
    attrs = StridedSliceAttrs(
        begin=_pair(rng, -7, 7), end=_pair(rng, -7, 7), strides=(2, -1), axes=(-1, 0)
    )
    return Case((floats(rng, 5, 2, 6),), attrs)


def _conv2d(rng: Rng) -> Case:
    groups = int(rng.choice([1, 2, 4]))
    data = floats(rng, *_image(rng, 4))
    attrs = Conv2DAttrs(
        strides=_pair(rng, 1, 3),
        padding=_padding(rng, 3),
        dilation=_pair(rng, 1, 3),
        groups=groups,
    )
    return Case((data, floats(rng, 8, 4 // groups, *_pair(rng, 1, 4))), attrs)


def _conv2d_transpose(rng: Rng) -> Case:
    groups = int(rng.choice([1, 2, 4]))
    strides = _pair(rng, 2, 4)
    attrs = Conv2DTransposeAttrs(
        strides=strides,
        padding=_padding(rng, 2),
        output_padding=_pair(rng, 0, 2),
        dilation=_pair(rng, 1, 3),
        groups=groups,
    )
    return Case((floats(rng, *_image(rng, 4)), floats(rng, 4, 3, *_pair(rng, 2, 4))), attrs)


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
        pool_size=_pair(rng, 2, 5),
        strides=_pair(rng, 1, 4),
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


def _pad(rng: Rng) -> Case:
    mode = str(rng.choice(["constant", "reflect", "edge"]))
    attrs = PadAttrs(pad_width=((0, 0), (1, 2)), mode=mode, value=1.5)  # type: ignore[arg-type]
    return Case((floats(rng, 2, 4),), attrs)


def _resize(rng: Rng) -> Case:
    attrs = ResizeAttrs(
        size=_pair(rng, 1, 12),
        method=str(rng.choice(["nearest_neighbor", "linear"])),  # type: ignore[arg-type]
    )
    return Case((floats(rng, *_image(rng)),), attrs)


def _requantize(rng: Rng) -> Case:
    attrs = RequantizeAttrs(zero_point=int(rng.integers(-128, 128)), minimum=-100, maximum=90)
    acc = rng.integers(-(2**31), 2**31, _image(rng, 5)).astype(np.int32)
    bias = rng.integers(-(2**31), 2**31, 5).astype(np.int32)
    multiplier = rng.integers(0, 2**23, 5).astype(np.int32)
    return Case((acc, bias, multiplier, rng.integers(30, 57, 5).astype(np.int32)), attrs)


def _qconv2d(rng: Rng) -> Case:
    groups = int(rng.choice([1, 2, 4]))
    attrs = QConv2DAttrs(
        strides=_pair(rng, 1, 3),
        padding=_padding(rng, 3),
        dilation=_pair(rng, 1, 3),
        groups=groups,
        zero_point=int(rng.integers(-128, 128)),
    )
    weight = int8s(rng, 8, 4 // groups, *_pair(rng, 1, 4))
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
        pool_size=_pair(rng, 2, 5),
        strides=_pair(rng, 1, 4),
        padding=_padding(rng, 2),
        zero_point=int(rng.integers(-128, 128)),
    )
    return Case((int8s(rng, *_image(rng)),), attrs)


def _take(rng: Rng) -> Case:
    return Case((floats(rng, 3, 4), rng.integers(-4, 4, (2, 3))), AxisAttrs(axis=-1))


def _gather_elements(rng: Rng) -> Case:
    return Case((floats(rng, 3, 4), rng.integers(-4, 4, (2, 5))), AxisAttrs(axis=1))


def _gather_nd(rng: Rng) -> Case:
    return Case((floats(rng, 3, 3, 4), rng.integers(-3, 3, (2, 5, 2))))


def _where(rng: Rng) -> Case:
    return Case((floats(rng, 3, 1) > 0, floats(rng, 4), floats(rng, 2, 1, 1)))


def _matmul(rng: Rng) -> Case:
    return Case((floats(rng, 2, 1, 3, 4), floats(rng, 5, 4, 2)))


def _expand_dims(rng: Rng) -> Case:
    attrs = ExpandDimsAttrs(axis=int(rng.integers(-4, 4)), num_newaxis=int(rng.integers(0, 3)))
    return Case((floats(rng, *_shape(rng, 3)),), attrs)


def _squeeze(rng: Rng) -> Case:
    axes = ((), (1,), (-1, 1), (3,))[int(rng.integers(0, 4))]
    return Case((floats(rng, 2, 1, 3, 1),), SqueezeAttrs(axis=axes))


def _collapsed(rng: Rng) -> tuple[Array, tuple[int, ...]]:
    whole = _shape(rng, 3)
    kept = tuple(1 if rng.integers(0, 2) else dim for dim in whole)
    return floats(rng, *whole), kept[int(rng.integers(0, 4)) :]


def _collapse_sum_to(rng: Rng) -> Case:
    data, shape = _collapsed(rng)
    return Case((data,), CollapseSumAttrs(shape=shape))


def _collapse_sum_like(rng: Rng) -> Case:
    data, shape = _collapsed(rng)
    return Case((data, floats(rng, *shape)))


def _one_hot(rng: Rng) -> Case:
    attrs = OneHotAttrs(depth=int(rng.integers(0, 5)), axis=int(rng.integers(-3, 3)))
    return Case((rng.integers(-2, 6, (2, 3)), floats(rng), floats(rng)), attrs)


def _reshape_like(rng: Rng) -> Case:
    attrs = ReshapeLikeAttrs(lhs_begin=1, lhs_end=-1, rhs_begin=-2)
    if rng.integers(0, 2):
        return Case((floats(rng, 2, 6, 5), floats(rng, 7, 3, 2)), attrs)
    return Case((floats(rng, 2, 6), floats(rng, 3, 4)), ReshapeLikeAttrs())


def _layout_transform(rng: Rng) -> Case:
    layouts = {
        "NCHW": (2, 8, 3, 5), "NHWC": (2, 3, 5, 8), "NCHW4c": (2, 2, 3, 5, 4),
        "HWCN": (3, 5, 8, 2), "NHWC2c": (2, 3, 5, 4, 2), "2cCNHW1n": (2, 4, 2, 3, 5, 1),
    }  # fmt: skip
    source, target = rng.choice(sorted(layouts), 2)
    attrs = LayoutTransformAttrs(src_layout=str(source), dst_layout=str(target))
    return Case((floats(rng, *layouts[str(source)]),), attrs)


def _rows_of_shares(rng: Rng) -> Case:
    predictions, targets = (np.abs(floats(rng, 3, 5)) + np.float32(0.1) for _ in range(2))
    return Case((np.asarray(predictions), np.asarray(targets)))


def _batch_matmul(rng: Rng) -> Case:
    (left, right), (a, b) = rng.choice([[1, 3], [3, 1], [3, 3]]), rng.integers(0, 2, 2)
    lhs = floats(rng, left, 4, 2) if a else floats(rng, left, 2, 4)
    rhs = floats(rng, right, 5, 4) if b else floats(rng, right, 4, 5)
    return Case((lhs, rhs), BatchMatmulAttrs(transpose_a=bool(a), transpose_b=bool(b)))


def _normalization(attrs: Attrs) -> Callable[[Rng], Case]:
    return lambda rng: Case((floats(rng, 2, 4, 3), floats(rng, 4), floats(rng, 4)), attrs)


def _stack(rng: Rng) -> Case:
    shape = _shape(rng, 2)
    return Case(
        (tuple(floats(rng, *shape) for _ in range(3)),), AxisAttrs(axis=int(rng.integers(-3, 3)))
    )


def _tile(rng: Rng) -> Case:
    reps = tuple(int(each) for each in rng.integers(0, 3, int(rng.integers(0, 4))))
    return Case((floats(rng, *_shape(rng, 2)),), TileAttrs(reps=reps))


def _repeat(rng: Rng) -> Case:
    attrs = RepeatAttrs(repeats=int(rng.integers(0, 4)), axis=int(rng.integers(-2, 2)))
    return Case((floats(rng, *_shape(rng, 2)),), attrs)


def _arange(rng: Rng) -> Case:
    start, stop = (float(each) for each in rng.integers(-5, 6, 2))
    step = float(rng.choice([-2.0, -0.5, 0.75, 3.0]))
    return Case((), ArangeAttrs(start=start, stop=stop, step=step))


def _lengths(*shape: int) -> Array:
    return np.array(shape, np.int64)


def _fixed(attrs: Attrs | None, *shapes: tuple[int, ...]) -> Callable[[Rng], Case]:
    return lambda rng: Case(tuple(floats(rng, *shape) for shape in shapes), attrs)


_UNARY = (
    *("negative", "abs", "exp", "log", "sqrt", "rsqrt", "erf", "tanh", "sigmoid"),
    *("sin", "cos", "tan", "log2", "log10", "sign", "trunc", "isnan", "isinf", "isfinite"),
    *("ceil", "floor", "round", "nn.relu", "nn.hard_swish", "nn.gelu", "nn.silu"),
)
_BINARY = (
    *("add", "subtract", "multiply", "divide", "power", "maximum", "minimum"),
    *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
)
_QUANTIZE = QuantizeAttrs(scale=0.02, zero_point=3)

CASES: dict[str, Callable[[Rng], Case]] = {
    **dict.fromkeys((*_UNARY, "fast_exp", "fast_tanh"), _unary),
    **dict.fromkeys(_BINARY, _binary),
    **dict.fromkeys(("logical_and", "logical_or"), _binary_logical),
    **dict.fromkeys(("sum", "prod", "mean", "max", "min"), _reduce),
    "logical_not": _logical,
    "argmax": _argmax,
    "cast": _fixed(CastAttrs(dtype=DType.INT32), (2, 3)),
    "clip": _fixed(ClipAttrs(minimum=-0.5, maximum=0.25), (2, 3)),
    "reshape": _fixed(ReshapeAttrs(shape=(3, -1)), (2, 3, 2)),
    "transpose": _transpose,
    "concatenate": _concatenate,
    "split": _split,
    "strided_slice": _slice,
    "broadcast_to": _fixed(BroadcastToAttrs(shape=(2, 3, 4)), (3, 1)),
    "zeros": lambda rng: Case((), FilledAttrs(shape=_shape(rng, 2), dtype=DType.INT16)),
    "ones": lambda rng: Case((), FilledAttrs(shape=_shape(rng, 2), dtype=DType.BOOL)),
    "full": lambda rng: Case((floats(rng),), FullAttrs(shape=_shape(rng, 2))),
    "zeros_like": _unary,
    "ones_like": _unary,
    "full_like": lambda rng: Case((floats(rng, *_shape(rng, 2)), floats(rng))),
    "expand_dims": _expand_dims,
    "squeeze": _squeeze,
    "collapse_sum_to": _collapse_sum_to,
    "collapse_sum_like": _collapse_sum_like,
    "one_hot": _one_hot,
    "reshape_like": _reshape_like,
    "broadcast_to_like": lambda rng: Case((floats(rng, 3, 1), floats(rng, 2, 3, 4))),
    "cast_like": lambda rng: Case((floats(rng, 2, 3), int8s(rng, 1))),
    "layout_transform": _layout_transform,
    "stack": _stack,
    "tile": _tile,
    "repeat": _repeat,
    "reverse": lambda rng: Case((floats(rng, *_shape(rng, 2)),), AxisAttrs(axis=-2)),
    "arange": _arange,
    "shape_of": lambda rng: Case((floats(rng, *_shape(rng, 3)),), ShapeOfAttrs(dtype=DType.INT32)),
    "dyn.reshape": lambda rng: Case((floats(rng, 2, 6), _lengths(4, -1))),
    "dyn.broadcast_to": lambda rng: Case((floats(rng, 3, 1), _lengths(2, 3, 4))),
    "dyn.full": lambda rng: Case((floats(rng), _lengths(2, 3))),
    "dyn.zeros": lambda rng: Case((_lengths(2, 0),), DynFilledAttrs(dtype=DType.FLOAT32)),
    "dyn.ones": lambda rng: Case((_lengths(2, 3),), DynFilledAttrs(dtype=DType.INT8)),
    "take": _take,
    "gather_elements": _gather_elements,
    "gather_nd": _gather_nd,
    "where": _where,
    "image.resize2d": _resize,
    "nn.conv2d": _conv2d,
    "nn.conv2d_transpose": _conv2d_transpose,
    "nn.dense": _fixed(None, (2, 3, 4), (5, 4)),
    "nn.matmul": _matmul,
    "nn.batch_matmul": _batch_matmul,
    "nn.bias_add": _fixed(BiasAddAttrs(axis=-2), (2, 3, 4), (3,)),
    "nn.batch_norm": _batch_norm,
    "nn.layer_norm": _normalization(LayerNormAttrs(axis=1, epsilon=1e-3)),
    "nn.instance_norm": _normalization(InstanceNormAttrs(axis=-2, epsilon=1e-3)),
    "nn.group_norm": _normalization(GroupNormAttrs(num_groups=2, epsilon=1e-3)),
    "nn.l2_normalize": _fixed(L2NormalizeAttrs(epsilon=1e-3, axis=(1,)), (2, 4, 3)),
    "nn.dropout": _fixed(DropoutAttrs(rate=0.25), (2, 3)),
    "nn.max_pool2d": _pool,
    "nn.avg_pool2d": _pool,
    "nn.global_avg_pool2d": _fixed(None, (2, 3, 4, 5)),
    "nn.global_max_pool2d": _fixed(None, (2, 3, 4, 5)),
    "nn.fast_softmax": _fixed(AxisAttrs(axis=1), (2, 3, 4)),
    "nn.softmax": _fixed(AxisAttrs(axis=1), (2, 3, 4)),
    "nn.log_softmax": _fixed(AxisAttrs(axis=-1), (2, 3, 4)),
    "nn.cross_entropy": _rows_of_shares,
    "nn.cross_entropy_with_logits": _rows_of_shares,
    "nn.hard_sigmoid": _fixed(HardSigmoidAttrs(alpha=0.3, beta=0.4), (2, 3)),
    "nn.leaky_relu": _fixed(LeakyReluAttrs(alpha=0.2), (2, 3)),
    "nn.prelu": _fixed(None, (2, 3, 4), (3,)),
    "nn.pad": _pad,
    "qnn.quantize": _fixed(_QUANTIZE, (2, 3)),
    "qnn.dequantize": lambda rng: Case((int8s(rng, 2, 3),), _QUANTIZE),
    "qnn.conv2d": _qconv2d,
    "qnn.dense": lambda rng: Case((int8s(rng, 2, 9), int8s(rng, 4, 9)), QDenseAttrs(zero_point=-7)),
    "qnn.requantize": _requantize,
    "qnn.lookup": lambda rng: Case((int8s(rng, 2, 3), int8s(rng, 256))),
    "qnn.add": _qadd,
    "qnn.multiply": _qmultiply,
    "qnn.sum_pool2d": _sum_pool,
}
"""A maker of random legal calls for every operator of the table."""


def reference(operator: Any, case: Case) -> Any:
    """Return what the operator's reference says."""
    return operator.reference(*case.args, *(() if case.attrs is None else (case.attrs,)))
