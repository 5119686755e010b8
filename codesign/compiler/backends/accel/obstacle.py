"""Why the accelerator cannot run a composite: one sentence, or none.

What is said here depends on the operators, their constants and the configuration's optional parts;
whether the least tile fits the memories is `tile.shortage`'s to say.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from codesign.accel.config import AccelConfig
from codesign.compiler.backends.accel.match import Composite, operator_name
from codesign.compiler.backends.accel.product import product_obstacles
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Constant, Expr
from codesign.ir.relay.types import TensorType, Type
from codesign.ops.axis import AxisAttrs
from codesign.ops.nn.pad import PadAttrs
from codesign.ops.nn.pool2d import Pool2DAttrs
from codesign.ops.qnn.conv2d import QConv2DAttrs
from codesign.ops.qnn.dense import QDenseAttrs
from codesign.ops.qnn.matmul import QMatmulAttrs
from codesign.ops.qnn.requantize import RequantizeAttrs
from codesign.ops.qnn.sum_pool2d import QSumPool2DAttrs

_PAD_LIMIT: Final = 63
_STRIDE_LIMIT: Final = 1 << 24
_SUM_LIMIT: Final = 1 << 31


def obstacle(composite: Composite, types: Mapping[Expr, Type], config: AccelConfig) -> str | None:
    """Return why a composite cannot run under a configuration; None where it can."""
    return next(_obstacles(composite, types, config), None)


def _obstacles(
    composite: Composite, types: Mapping[Expr, Type], config: AccelConfig
) -> Iterator[str]:
    if config.inp_bits != 8:
        yield f"the accelerator's elements have {config.inp_bits} bits, the network's 8"
    if config.acc_bits != 32:
        yield f"accumulators of {config.acc_bits} bits saturate where the network's sums do not"
    for expr in (*composite.data, composite.root):
        yield from _tensor_obstacles(types[expr], config, is_matrix=composite.is_alone)
    if composite.lookup is not None or operator_name(composite.main) == "qnn.lookup":
        table = (composite.lookup or composite.main).args[1]
        if not config.has_lut:
            yield "the vector unit has no tables (has_lut = false)"
        if not isinstance(table, Constant):
            yield "the table is not a constant"
    yield from _main_obstacles(composite, types, config)
    if composite.requantize is not None:
        yield from _requantize_obstacles(composite, types[composite.root])


def _tensor_obstacles(type_: Type, config: AccelConfig, *, is_matrix: bool) -> Iterator[str]:
    if not isinstance(type_, TensorType) or type_.dtype is not DType.INT8:
        yield f"the accelerator takes and gives int8 tensors, not {type_}"
        return
    shape = type_.static_shape
    if len(shape) not in (2, 4) and not is_matrix:
        yield f"tiles hold tensors of rank 2 or 4, not shape {shape}"
    elif math.prod(shape) == 0:
        yield f"shape {shape} has no elements"
    elif (
        not is_matrix
        and math.prod(shape[2:]) * config.vec_tile_bits // config.bus_bits >= _STRIDE_LIMIT
    ):
        yield f"a plane of {shape[2:]} is longer than a load's stride"


def _main_obstacles(
    composite: Composite, types: Mapping[Expr, Type], config: AccelConfig
) -> Iterator[str]:
    main = composite.main
    match operator_name(main):
        case "qnn.conv2d" | "qnn.dense":
            yield from _product_obstacles(composite, config)
            if composite.add is not None and not config.has_multiplier:
                yield "the vector unit does not multiply (has_multiplier = false)"
        case "qnn.matmul":
            if any(isinstance(arg, Constant) for arg in main.args):
                yield "an operand is a constant"
            if isinstance(main.attrs, QMatmulAttrs):
                pair = types[main.args[0]], types[main.args[1]]
                yield from product_obstacles(main.attrs, pair, config)
        case "qnn.sum_pool2d":
            if isinstance(main.attrs, QSumPool2DAttrs):
                yield from _window_obstacles(main.attrs.pool_size, (1, 1), main.attrs.padding)
        case "nn.max_pool2d":
            if isinstance(main.attrs, Pool2DAttrs):
                attrs = main.attrs
                yield from _window_obstacles(attrs.pool_size, attrs.dilation, attrs.padding)
        case "nn.pad":
            if isinstance(main.attrs, PadAttrs):
                yield from _pad_obstacles(main.attrs)
        case "qnn.add" | "qnn.multiply":
            if not config.has_multiplier:
                yield "the vector unit does not multiply (has_multiplier = false)"
            if any(isinstance(arg, Constant) for arg in main.args):
                yield "an operand is a constant"
        case "reshape":
            yield from _reshape_obstacles(types[main.args[0]], types[main])
        case "concatenate":
            yield from _join_obstacles(composite, types, config)
        case _:
            pass


def _product_obstacles(composite: Composite, config: AccelConfig) -> Iterator[str]:
    main = composite.main
    if isinstance(main.attrs, QConv2DAttrs | QDenseAttrs) and main.attrs.dtype is DType.INT16:
        yield "its sums of 16 bits wrap, the accelerator's accumulators do not"
    weight = _constant(main.args[1])
    if weight is None:
        yield "the weight is not a constant"
        return
    if isinstance(main.args[0], Constant):
        yield "the data is a constant"
    low = -(1 << (config.wgt_bits - 1))
    if weight.min(initial=0) < low or weight.max(initial=0) >= -low:
        yield f"weights of {weight.min()} to {weight.max()} do not fit {config.wgt_bits} bits"
    sums = np.abs(weight.astype(np.int64)).reshape(len(weight), -1).sum(axis=1)
    if sums.max(initial=0) * 256 >= _SUM_LIMIT:
        yield f"a sum of {weight[0].size} products may exceed 32 bits"
    if isinstance(main.attrs, QConv2DAttrs):
        attrs = main.attrs
        kernel = (weight.shape[2], weight.shape[3])
        yield from _window_obstacles(kernel, attrs.dilation, attrs.padding)
    if composite.requantize is not None:
        bias = _constant(composite.requantize.args[1])
        if bias is not None and len(bias) == len(sums):
            worst = np.abs(bias.astype(np.int64)) + 128 * sums
            if worst.max(initial=0) >= _SUM_LIMIT:
                yield "a bias and the zero point's share of it exceed 32 bits"


def _window_obstacles(
    kernel: tuple[int, int], dilation: tuple[int, int], padding: tuple[int, int, int, int]
) -> Iterator[str]:
    for axis in (0, 1):
        extent = (kernel[axis] - 1) * dilation[axis] + 1
        for pad in (padding[axis], padding[axis + 2]):
            if pad < 0:
                yield f"padding of {pad} removes elements"
            if pad >= max(extent, 1) and pad > 0:
                yield f"a window of {extent} lies wholly in the padding of {pad}"
    if max(kernel[0] * dilation[0], kernel[1] * dilation[1]) > _PAD_LIMIT and any(padding):
        yield f"padding beyond {_PAD_LIMIT} does not fit a load"


def _pad_obstacles(attrs: PadAttrs) -> Iterator[str]:
    if attrs.mode != "constant":
        yield f"padding holds one value, not the data's own (mode {attrs.mode})"
    if len(attrs.pad_width) != 4 or any(map(any, attrs.pad_width[:2])):
        yield "samples and channels have no padding, rows and columns of a plane do"
    widths = [each for pair in attrs.pad_width for each in pair]
    if min(widths) < 0:
        yield f"padding of {min(widths)} removes elements"
    if max(widths) > _PAD_LIMIT:
        yield f"padding of {max(widths)} beyond {_PAD_LIMIT} does not fit a load"
    if attrs.mode == "constant" and attrs.value not in range(-128, 128):
        yield f"padding of {attrs.value} is no int8 value"


def _requantize_obstacles(composite: Composite, result: Type) -> Iterator[str]:
    requantize = composite.requantize
    assert requantize is not None, "who asks has one"
    if any(_constant(arg) is None for arg in requantize.args[1:]):
        yield "bias, multiplier or shift are not constants"
    if isinstance(requantize.attrs, RequantizeAttrs):
        rank = len(result.shape) if isinstance(result, TensorType) else 0
        channels = rank - 1 if composite.is_alone else 1
        if requantize.attrs.axis % rank != channels:
            yield f"channels are axis {channels}, not {requantize.attrs.axis}"
        if requantize.attrs.dtype is not DType.INT8:
            yield f"results are int8, not {requantize.attrs.dtype}"


def _reshape_obstacles(before: Type, after: Type) -> Iterator[str]:
    if not isinstance(before, TensorType) or not isinstance(after, TensorType):
        return
    old, new = before.static_shape, after.static_shape
    plain = old[:2] == new[:2] and math.prod(old[2:]) == math.prod(new[2:]) == 1
    if not plain:
        yield f"{old} to {new} moves elements between channels and positions"


def _join_obstacles(
    composite: Composite, types: Mapping[Expr, Type], config: AccelConfig
) -> Iterator[str]:
    parts = composite.data
    if any(isinstance(part, Constant) for part in parts):
        yield "a part is a constant"
    if composite.gathers:
        return
    shapes = [type_.static_shape for part in parts if isinstance(type_ := types[part], TensorType)]
    if not isinstance(composite.main.attrs, AxisAttrs) or len(shapes) != len(parts):
        return
    axis = composite.main.attrs.axis
    if axis not in (1, 1 - len(shapes[0])):
        yield f"tiles are joined along channels, not along axis {axis}"
    if composite.spread:
        if len(set(shapes)) > 1:
            yield f"planes of {len(set(shapes))} shapes are interleaved"
    elif shapes[0][0] > config.batch:
        yield f"channels of {shapes[0][0]} samples in tiles of {config.batch} lie apart"
    if not composite.spread and any(shape[1] % config.block_out for shape in shapes[:-1]):
        yield f"a part ends within a tile of {config.block_out} channels"
    if config.block_in != config.block_out:
        yield "layers read tiles of other channels than they write (block_in is not block_out)"
    if len(set(parts)) < len(parts):
        yield "a part stands twice in it"


def _constant(expr: Expr) -> Array | None:
    return expr.value if isinstance(expr, Constant) else None
