"""Random legal calls of every operator: arguments, attributes, and no expected value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from codesign.dtypes import Array, DType
from codesign.ops.axis import AxisAttrs
from codesign.ops.broadcast_to import BroadcastToAttrs
from codesign.ops.cast import CastAttrs
from codesign.ops.clip import ClipAttrs
from codesign.ops.collapse_sum import CollapseSumAttrs
from codesign.ops.counting import ArangeAttrs, ShapeOfAttrs
from codesign.ops.dynamic import DynFilledAttrs
from codesign.ops.expand_dims import ExpandDimsAttrs, SqueezeAttrs
from codesign.ops.filled import FilledAttrs, FullAttrs
from codesign.ops.layout_transform import LayoutTransformAttrs
from codesign.ops.like import ReshapeLikeAttrs
from codesign.ops.nn.batch_matmul import BatchMatmulAttrs
from codesign.ops.nn.bias_add import BiasAddAttrs
from codesign.ops.nn.pad import PadAttrs
from codesign.ops.one_hot import OneHotAttrs
from codesign.ops.reduce import ArgReduceAttrs, ReduceAttrs
from codesign.ops.repeating import RepeatAttrs, TileAttrs
from codesign.ops.reshape import ReshapeAttrs
from codesign.ops.split import SplitAttrs
from codesign.ops.strided_slice import StridedSliceAttrs
from codesign.ops.transpose import TransposeAttrs
from tests.support.composed_cases import COMPOSED_CASES
from tests.support.layer_cases import LAYER_CASES
from tests.support.operator_draws import Case, Rng, fixed, floats, int8s, random_pair, random_shape


def _unary(rng: Rng) -> Case:
    magnitude = np.abs(floats(rng, *random_shape(rng, int(rng.integers(0, 5)))))
    return Case((np.asarray(magnitude + np.float32(0.1)),))


def _logical(rng: Rng) -> Case:
    return Case((rng.integers(0, 2, random_shape(rng, 2)).astype(bool),))


def _operands(rng: Rng) -> tuple[Array, Array]:
    whole = random_shape(rng, 3)
    part = tuple(1 if rng.integers(0, 2) else dim for dim in whole)[int(rng.integers(0, 3)) :]
    both = (floats(rng, *whole), floats(rng, *part))
    return both if rng.integers(0, 2) else (both[1], both[0])


def _binary(rng: Rng) -> Case:
    return Case(_operands(rng))


def _inside(rng: Rng) -> Case:
    return Case((np.asarray(rng.uniform(0.05, 0.95, random_shape(rng, 3)), np.float32),))


def _beyond_one(rng: Rng) -> Case:
    magnitude = np.abs(floats(rng, *random_shape(rng, 3)))
    return Case((np.asarray(magnitude + np.float32(1.1)),))


def _bits(rng: Rng) -> Case:
    return Case((rng.integers(-128, 128, random_shape(rng, 3)).astype(np.int16),))


def _binary_bits(rng: Rng) -> Case:
    left, right = _operands(rng)
    return Case(tuple((each * 100).astype(np.int32) for each in (left, right)))


def _binary_logical(rng: Rng) -> Case:
    left, right = _operands(rng)
    return Case((left > 0, right > 0))


def _axes(rng: Rng, rank: int) -> tuple[int, ...]:
    chosen = rng.permutation(rank)[: int(rng.integers(0, rank + 1))]
    return tuple(int(axis) - (rank if rng.integers(0, 2) else 0) for axis in chosen)


def _reduce(rng: Rng) -> Case:
    attrs = ReduceAttrs(axis=_axes(rng, 3), keepdims=bool(rng.integers(0, 2)))
    return Case((floats(rng, *random_shape(rng, 3, low=1)),), attrs)


def _argmax(rng: Rng) -> Case:
    attrs = ArgReduceAttrs(
        axis=int(rng.integers(-3, 3)),
        keepdims=bool(rng.integers(0, 2)),
        select_last_index=bool(rng.integers(0, 2)),
    )
    return Case((rng.integers(0, 3, random_shape(rng, 3, low=1)).astype(np.float32),), attrs)


def _transpose(rng: Rng) -> Case:
    axes = tuple(int(axis) for axis in rng.permutation(4))
    return Case((floats(rng, *random_shape(rng, 4)),), TransposeAttrs(axes=axes))


def _concatenate(rng: Rng) -> Case:
    shape, axis = random_shape(rng, 3), int(rng.integers(-3, 3))
    lengths = [(*shape[: axis % 3], k, *shape[axis % 3 + 1 :]) for k in (0, 2, 3)]
    return Case((tuple(floats(rng, *each) for each in lengths),), AxisAttrs(axis=axis))


def _split(rng: Rng) -> Case:
    where: int | tuple[int, ...] = 3 if rng.integers(0, 2) else (1, 1, 4)
    return Case((floats(rng, 2, 6),), SplitAttrs(indices_or_sections=where, axis=-1))


def _slice(rng: Rng) -> Case:
    attrs = StridedSliceAttrs(
        begin=random_pair(rng, -7, 7), end=random_pair(rng, -7, 7), strides=(2, -1), axes=(-1, 0)
    )
    return Case((floats(rng, 5, 2, 6),), attrs)


def _pad(rng: Rng) -> Case:
    mode = str(rng.choice(["constant", "reflect", "edge"]))
    attrs = PadAttrs(pad_width=((0, 0), (1, 2)), mode=mode, value=1.5)  # type: ignore[arg-type]
    return Case((floats(rng, 2, 4),), attrs)


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
    return Case((floats(rng, *random_shape(rng, 3)),), attrs)


def _squeeze(rng: Rng) -> Case:
    axes = ((), (1,), (-1, 1), (3,))[int(rng.integers(0, 4))]
    return Case((floats(rng, 2, 1, 3, 1),), SqueezeAttrs(axis=axes))


def _collapsed(rng: Rng) -> tuple[Array, tuple[int, ...]]:
    whole = random_shape(rng, 3)
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


def _batch_matmul(rng: Rng) -> Case:
    (left, right), (a, b) = rng.choice([[1, 3], [3, 1], [3, 3]]), rng.integers(0, 2, 2)
    lhs = floats(rng, left, 4, 2) if a else floats(rng, left, 2, 4)
    rhs = floats(rng, right, 5, 4) if b else floats(rng, right, 4, 5)
    return Case((lhs, rhs), BatchMatmulAttrs(transpose_a=bool(a), transpose_b=bool(b)))


def _stack(rng: Rng) -> Case:
    shape = random_shape(rng, 2)
    return Case(
        (tuple(floats(rng, *shape) for _ in range(3)),), AxisAttrs(axis=int(rng.integers(-3, 3)))
    )


def _tile(rng: Rng) -> Case:
    reps = tuple(int(each) for each in rng.integers(0, 3, int(rng.integers(0, 4))))
    return Case((floats(rng, *random_shape(rng, 2)),), TileAttrs(reps=reps))


def _repeat(rng: Rng) -> Case:
    attrs = RepeatAttrs(repeats=int(rng.integers(0, 4)), axis=int(rng.integers(-2, 2)))
    return Case((floats(rng, *random_shape(rng, 2)),), attrs)


def _arange(rng: Rng) -> Case:
    start, stop = (float(each) for each in rng.integers(-5, 6, 2))
    step = float(rng.choice([-2.0, -0.5, 0.75, 3.0]))
    return Case((), ArangeAttrs(start=start, stop=stop, step=step))


def _lengths(*shape: int) -> Array:
    return np.array(shape, np.int64)


_UNARY = (
    *("negative", "abs", "exp", "log", "sqrt", "rsqrt", "erf", "tanh", "sigmoid"),
    *("atan", "sinh", "cosh", "asinh", "copy"),
    *("sin", "cos", "tan", "log2", "log10", "sign", "trunc", "isnan", "isinf", "isfinite"),
    *("ceil", "floor", "round", "nn.relu", "nn.hard_swish", "nn.gelu", "nn.silu"),
)


_BINARY = (
    *("add", "subtract", "multiply", "divide", "power", "maximum", "minimum"),
    *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
)


CASES: dict[str, Callable[[Rng], Case]] = {
    **LAYER_CASES,
    **COMPOSED_CASES,
    **dict.fromkeys((*_UNARY, "fast_exp", "fast_tanh"), _unary),
    **dict.fromkeys(_BINARY, _binary),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor"), _binary_logical),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor"), _binary_bits),
    **dict.fromkeys(("left_shift", "right_shift"), _binary_bits),
    **dict.fromkeys(("asin", "acos", "atanh"), _inside),
    "acosh": _beyond_one,
    "bitwise_not": _bits,
    **dict.fromkeys(("sum", "prod", "mean", "max", "min"), _reduce),
    "logical_not": _logical,
    "argmax": _argmax,
    "cast": fixed(CastAttrs(dtype=DType.INT32), (2, 3)),
    "clip": fixed(ClipAttrs(minimum=-0.5, maximum=0.25), (2, 3)),
    "reshape": fixed(ReshapeAttrs(shape=(3, -1)), (2, 3, 2)),
    "transpose": _transpose,
    "concatenate": _concatenate,
    "split": _split,
    "strided_slice": _slice,
    "broadcast_to": fixed(BroadcastToAttrs(shape=(2, 3, 4)), (3, 1)),
    "zeros": lambda rng: Case((), FilledAttrs(shape=random_shape(rng, 2), dtype=DType.INT16)),
    "ones": lambda rng: Case((), FilledAttrs(shape=random_shape(rng, 2), dtype=DType.BOOL)),
    "full": lambda rng: Case((floats(rng),), FullAttrs(shape=random_shape(rng, 2))),
    "zeros_like": _unary,
    "ones_like": _unary,
    "full_like": lambda rng: Case((floats(rng, *random_shape(rng, 2)), floats(rng))),
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
    "reverse": lambda rng: Case((floats(rng, *random_shape(rng, 2)),), AxisAttrs(axis=-2)),
    "arange": _arange,
    "shape_of": lambda rng: Case(
        (floats(rng, *random_shape(rng, 3)),), ShapeOfAttrs(dtype=DType.INT32)
    ),
    "dyn.reshape": lambda rng: Case((floats(rng, 2, 6), _lengths(4, -1))),
    "dyn.broadcast_to": lambda rng: Case((floats(rng, 3, 1), _lengths(2, 3, 4))),
    "dyn.full": lambda rng: Case((floats(rng), _lengths(2, 3))),
    "dyn.zeros": lambda rng: Case((_lengths(2, 0),), DynFilledAttrs(dtype=DType.FLOAT32)),
    "dyn.ones": lambda rng: Case((_lengths(2, 3),), DynFilledAttrs(dtype=DType.INT8)),
    "dyn.arange": lambda rng: Case((np.asarray(rng.integers(0, 5)),)),
    "take": _take,
    "gather_elements": _gather_elements,
    "gather_nd": _gather_nd,
    "where": _where,
    "nn.matmul": _matmul,
    "nn.batch_matmul": _batch_matmul,
    "nn.bias_add": fixed(BiasAddAttrs(axis=-2), (2, 3, 4), (3,)),
    "nn.pad": _pad,
}
"""A maker of random legal calls for every operator of the table."""


def reference(operator: Any, case: Case) -> Any:
    """Return what the operator's reference says."""
    return operator.reference(*case.args, *(() if case.attrs is None else (case.attrs,)))
