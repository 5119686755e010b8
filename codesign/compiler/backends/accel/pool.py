"""A pool at the end of a gemm layer: which sums its windows read, and when there can be one.

Where a window reaches beyond the sums it is shortened: the array computes no padding.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import groupby
from typing import TypeAlias

import numpy as np

from codesign.compiler.backends.accel.layer import (
    Epilogue,
    GemmLayer,
    Layer,
    Pair,
    Pool,
    PooledSum,
    TileTensor,
    Window,
    WindowLayer,
)
from codesign.diagnostics import InternalError
from codesign.dtypes import Array

Range: TypeAlias = tuple[int, int]

_LEAST = -128


def can_pool(layer: Layer, pool: Layer) -> bool:
    """Whether a pool can stand at the end of the layer whose result it reads."""
    if not isinstance(layer, GemmLayer) or not isinstance(pool, WindowLayer):
        return False
    size = _plane(layer.result)
    for axis in (0, 1):
        first, stop = _taps(pool.window, axis, size[axis], _plane(pool.result)[axis])
        if (first >= stop).any():
            return False
    if pool.combine == "sum":
        return layer.epilogue.table is None
    scaled = layer.residual is None
    rises = not scaled or bool((layer.scaling.multiplier >= 0).all())
    return rises and _keeps_order(layer.epilogue)


def with_pool(layer: Layer, pool: Layer, size: Pair) -> GemmLayer:
    """Return a layer of `size` rows and columns of results with a pool at its end."""
    if not isinstance(layer, GemmLayer) or not isinstance(pool, WindowLayer):
        raise InternalError("a pool stands at the end of what the array computes")
    own = layer.epilogue
    if pool.scaling is None:
        return replace(
            layer,
            result=pool.result,
            epilogue=replace(own, table=_both(own.table, pool.epilogue.table)),
            pool=Pool(window=pool.window, size=size),
        )
    total = PooledSum(
        low=own.low - own.zero_point,
        high=own.high - own.zero_point,
        offset=own.zero_point - pool.zero_point,
        scaling=pool.scaling,
    )
    return replace(
        layer,
        result=pool.result,
        epilogue=pool.epilogue,
        pool=Pool(window=pool.window, size=size, total=total),
    )


def sums_under(layer: GemmLayer, axis: int, outputs: Range) -> Range:
    """Return the rows (axis 0) or columns of sums that a range of the layer's results reads."""
    if layer.pool is None:
        return outputs
    low, high = _reach(layer, layer.pool, axis)
    span = slice(*outputs)
    return int(low[span].min()), int(high[span].max())


def sums_along(layer: GemmLayer, axis: int, step: int) -> Pair:
    """Return the most sums that a tile of `step` results reads along an axis, and those of all."""
    outputs = _plane(layer.result)[axis]
    if layer.pool is None:
        return step, outputs
    low, high = _reach(layer, layer.pool, axis)
    starts = np.arange(0, outputs, step)
    sizes = np.maximum.reduceat(high, starts) - np.minimum.reduceat(low, starts)
    return int(sizes.max()), int(sizes.sum())


def each_sums(layer: GemmLayer, axis: int, steps: Array) -> tuple[Array, Array]:
    """Return what `sums_along` gives for each of many steps."""
    known, places = np.unique(steps, return_inverse=True)
    found = np.array([sums_along(layer, axis, int(step)) for step in known], np.int64)
    found = found.reshape(-1, 2)
    return found[places.ravel(), 0], found[places.ravel(), 1]


def most_sums(layer: GemmLayer, outputs: Pair) -> Pair:
    """Return the most rows and columns of sums that a tile of results reads."""
    return sums_along(layer, 0, outputs[0])[0], sums_along(layer, 1, outputs[1])[0]


def passes_over_sums(layer: GemmLayer) -> int:
    """Return how often the vector unit visits every sum: to scale, to clip, to add a residual."""
    residual = layer.residual is not None
    if layer.pool is None:
        return 4 if residual else 1
    scaled = residual or layer.pool.total is not None
    return scaled + 3 * residual + 2 * (layer.pool.total is not None)


def passes_over_windows(layer: GemmLayer) -> int:
    """Return how many sums the vector unit reads to pool a window."""
    return 0 if layer.pool is None else math.prod(layer.pool.window.kernel)


def shortened(pool: Pool, axis: int, outputs: Range) -> list[tuple[Range, Range]]:
    """Return runs of outputs whose windows have the same taps on sums, with these taps."""
    first, stop = _taps(pool.window, axis, pool.size[axis], outputs[1])
    found: list[tuple[Range, Range]] = []
    for taps, group in groupby(range(*outputs), key=lambda i: (int(first[i]), int(stop[i]))):
        run = list(group)
        found.append(((run[0], run[-1] + 1), taps))
    return found


def _plane(tensor: TileTensor) -> Pair:
    return tensor.tiles[2], tensor.tiles[3]


def _taps(window: Window, axis: int, size: int, outputs: int) -> tuple[Array, Array]:
    """Return the first tap of each window that lies on one of `size` sums, and the one after."""
    start = np.arange(outputs) * window.strides[axis] - window.padding[axis]
    step = window.dilation[axis]
    first = np.maximum(0, -(start // step))
    stop = np.minimum(window.kernel[axis], -((start - size) // step))
    return first, stop


def _reach(layer: GemmLayer, pool: Pool, axis: int) -> tuple[Array, Array]:
    """Return the first sum that each row or column of the result reads, and the one after."""
    window, outputs = pool.window, _plane(layer.result)[axis]
    first, stop = _taps(window, axis, pool.size[axis], outputs)
    start = np.arange(outputs) * window.strides[axis] - window.padding[axis]
    step = window.dilation[axis]
    return start + first * step, start + (stop - 1) * step + 1


def _keeps_order(epilogue: Epilogue) -> bool:
    """Whether the greater of two values has no lesser result."""
    if epilogue.table is None:
        return True
    reached = epilogue.table[epilogue.low - _LEAST : epilogue.high - _LEAST + 1].astype(np.int64)
    return bool((np.diff(reached) >= 0).all())


def _both(first: Array | None, second: Array | None) -> Array | None:
    """Return the table of one table behind another."""
    if first is None or second is None:
        return second if first is None else first
    both: Array = second[first.astype(np.int64) - _LEAST]
    return both
