"""Products of two tensors on the array: the host lays the right one out as weights.

A stack of matrices is a layer of as many groups: tiles of columns of each product read the tiles
of their own left matrix.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from codesign.accel.config import AccelConfig
from codesign.compiler.backends.accel.layer import (
    Computed,
    Epilogue,
    GemmLayer,
    Scaling,
    TileTensor,
    Window,
)
from codesign.dtypes import Array
from codesign.ir.executable.matrices import Below, Beside
from codesign.ir.relay.types import TensorType, Type
from codesign.ops.qnn.matmul import QMatmulAttrs

_SUM_LIMIT = 1 << 31
_GREATEST_PRODUCT = 1 << 14


def left_layout(config: AccelConfig) -> Beside:
    """Return how the left operand of a product lies, in tiles of inputs."""
    return Beside(samples=config.batch, block=config.block_in)


def right_layout(config: AccelConfig) -> Below:
    """Return how the right operand of a product lies, in tiles of weights."""
    return Below(rows=config.block_out)


def result_layout(config: AccelConfig) -> Beside:
    """Return how a product lies, in tiles of results."""
    return Beside(samples=config.batch, block=config.block_out)


def product_layer(
    name: str,
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
    tensors: tuple[TileTensor, TileTensor, TileTensor],
    scaling: Scaling,
    epilogue: Epilogue,
    config: AccelConfig,
) -> GemmLayer:
    """Return the layer of a product of tensors of two `shapes` that have been placed."""
    (*stack, rows, inner), columns = shapes[0], shapes[1][-1]
    left, right, result = tensors
    outputs, inputs = -(-columns // config.block_out), -(-inner // config.block_in)
    count = math.prod(stack)
    return GemmLayer(
        name=name,
        operator="qnn.matmul",
        source=left,
        result=result,
        window=Window(),
        pad_value=0,
        weights=Computed(
            tensor=right,
            shape=(count * outputs, inputs, 1, 1, config.block_out, config.block_in),
        ),
        first_input=tuple(each * inputs for each in range(count) for _ in range(outputs)),
        scaling=_beside(scaling, count, outputs * config.block_out),
        epilogue=epilogue,
        macs=count * rows * inner * columns,
    )


def _beside(scaling: Scaling, count: int, channels: int) -> Scaling:
    """Return the scaling of `count` matrices side by side, each filled up to whole tiles."""

    def spread(values: Array) -> Array:
        return np.tile(np.pad(values, (0, channels - len(values))), count)

    return Scaling(
        bias=spread(scaling.bias),
        multiplier=spread(scaling.multiplier),
        shift=spread(scaling.shift),
    )


def product_obstacles(
    attrs: QMatmulAttrs, types: tuple[Type, Type], config: AccelConfig
) -> Iterator[str]:
    """Yield why the array cannot take a product of two tensors."""
    lhs, rhs = (each.static_shape for each in types if isinstance(each, TensorType))
    if config.wgt_bits != 8:
        yield f"weights have {config.wgt_bits} bits, what is multiplied 8"
    if (attrs.lhs_zero_point, attrs.rhs_zero_point) != (0, 0):
        yield (
            f"the array multiplies what has zero point 0, not "
            f"{attrs.lhs_zero_point} and {attrs.rhs_zero_point}"
        )
    if lhs[:-2] != rhs[:-2]:
        yield f"stacks of matrices {lhs[:-2]} and {rhs[:-2]} broadcast"
    if lhs[-1] * _GREATEST_PRODUCT >= _SUM_LIMIT:
        yield f"a sum of {lhs[-1]} products may exceed 32 bits"
