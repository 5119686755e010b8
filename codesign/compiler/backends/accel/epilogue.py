"""What the vector unit does with a tile's sums: scale, add a residual, pool, and give them away."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product
from typing import final

import numpy as np

from codesign.accel.config import Memory
from codesign.accel.isa import Destination, Reduce, Vector, VectorOp, XSource, YSource
from codesign.compiler.backends.accel.box import Range, load_box, store_box
from codesign.compiler.backends.accel.builder import Builder, strides
from codesign.compiler.backends.accel.fit import gemm_params
from codesign.compiler.backends.accel.layer import (
    Epilogue,
    GemmLayer,
    Pool,
    PooledSum,
    Residual,
    TileTensor,
)
from codesign.compiler.backends.accel.node import Region, tiles_at
from codesign.compiler.backends.accel.pack import scaling_words
from codesign.compiler.backends.accel.pool import shortened
from codesign.dtypes import Array


@final
@dataclass(frozen=True, slots=True)
class Tile:
    """A box of a result: one tile of samples, ranges of channel tiles, rows and columns."""

    n: int
    channels: Range
    rows: Range
    columns: Range

    @property
    def extents(self) -> tuple[int, int, int]:
        """Channel tiles, rows, columns."""
        (a, b), (c, d), (e, f) = self.channels, self.rows, self.columns
        return b - a, d - c, f - e


@final
@dataclass(frozen=True, slots=True)
class Addresses:
    """First beats of a layer's weights and params in DRAM; first entry of its table in lut.

    The param tiles come in groups of `step` channel tiles. Weights are tiles `of` a tensor where
    they are no constants.
    """

    weights: int
    of: TileTensor | None
    params: int
    step: int
    table: int | None


def ranges(extent: int, step: int) -> list[Range]:
    """Return the parts of `extent` in steps."""
    return [(start, min(start + step, extent)) for start in range(0, extent, step)]


def finish(
    builder: Builder, layer: GemmLayer, addresses: Addresses, tile: Tile, sums: Tile, acc: int
) -> None:
    """Append what makes a tile of the result of the sums from `acc` on, and its stores."""
    oc = tile.extents[0]
    q = _parameters(builder, layer, addresses, tile.channels)
    step = _pass(sums, acc)
    step = replace(step, requantize=True, q=q, q_strides=strides(step.extents, (1, 0, 0, 0, 0)))
    reads: tuple[Region, ...] = (_sums_at(sums, acc), tiles_at(Memory.PARAM, q, oc))
    if layer.residual is not None:
        builder.vector(step, reads, math.prod(sums.extents))
        _limit(builder, sums, acc, (layer.residual.low, layer.residual.high))
        step, reads = _add_residual(builder, layer.residual, sums, acc, q + oc)
    out = builder.rings[Memory.OUT].take((layer.name, "out"), math.prod(tile.extents))
    if layer.pool is None:
        last = _to_out(step, out, layer.epilogue)
        builder.vector(last, reads, math.prod(tile.extents), addresses.table)
    else:
        if layer.residual is not None or layer.pool.total is not None:
            builder.vector(step, reads, math.prod(sums.extents))
            step, reads = _pass(sums, acc), reads[:1]
        if layer.pool.total is not None:
            scaling = q + gemm_params(layer, oc) - oc
            step, reads = _terms(builder, layer.pool.total, sums, acc, scaling)
        last = _to_out(step, out, layer.epilogue)
        _pool(builder, layer.pool, tile, sums, last, reads, addresses.table)
    store_tile(builder, layer.result, tile, out)


def store_tile(builder: Builder, result: TileTensor, tile: Tile, out: int) -> None:
    """Append the stores of a tile of a result from `out` on."""
    for node in store_box(
        builder.config,
        out,
        result,
        n=tile.n,
        channels=tile.channels,
        rows=tile.rows,
        columns=tile.columns,
    ):
        builder.add(node)


def _pass(sums: Tile, acc: int) -> Vector:
    """Return one pass over a tile's accumulators that leaves them as they are."""
    oc, height, width = sums.extents
    extents = (oc, height * width, 1, 1, 1)
    steps = strides(extents, (height * width, 1, 0, 0, 0))
    return Vector(
        op=VectorOp.PASS,
        x_source=XSource.ACC,
        extents=extents,
        x=acc,
        x_strides=steps,
        dst=acc,
        dst_strides=steps,
        destination=Destination.ACC,
        low=0,
        high=0,
    )


def _to_out(step: Vector, out: int, epilogue: Epilogue) -> Vector:
    """Return a pass that gives its results away as codes."""
    return replace(
        step,
        destination=Destination.OUT,
        dst=out,
        zero_point=epilogue.zero_point,
        low=epilogue.low,
        high=epilogue.high,
    )


def _sums_at(sums: Tile, acc: int) -> Region:
    return tiles_at(Memory.ACC, acc, math.prod(sums.extents))


def _limit(builder: Builder, sums: Tile, acc: int, limits: Range) -> None:
    """Append the passes that clip accumulators."""
    for op, limit in zip((VectorOp.MAX, VectorOp.MIN), limits, strict=True):
        clipped = replace(_pass(sums, acc), op=op, immediate=limit)
        builder.vector(clipped, (_sums_at(sums, acc),), math.prod(sums.extents))


def _add_residual(
    builder: Builder, residual: Residual, sums: Tile, acc: int, q: int
) -> tuple[Vector, tuple[Region, ...]]:
    """Append the load of a residual; return the pass in place that adds it, and what it reads."""
    count = math.prod(sums.extents)
    vec = builder.rings[Memory.VEC].take((residual.source.name, "residual"), count)
    builder.add(
        load_box(
            builder.config,
            Memory.VEC,
            vec,
            residual.source,
            n=sums.n,
            channels=sums.channels,
            rows=sums.rows,
            columns=sums.columns,
        )
    )
    plain = _pass(sums, acc)
    added = replace(
        plain,
        requantize=True,
        q=q,
        residual=True,
        y_source=YSource.VEC,
        y=vec,
        y_strides=plain.x_strides,
        immediate=residual.multiplier,
        vec_zero_point=residual.zero_point,
    )
    reads = (
        _sums_at(sums, acc),
        tiles_at(Memory.VEC, vec, count),
        tiles_at(Memory.PARAM, q, 1),
    )
    return added, reads


def _terms(
    builder: Builder, total: PooledSum, sums: Tile, acc: int, q: int
) -> tuple[Vector, tuple[Region, ...]]:
    """Append the clip of scaled results; return the pass that adds them up, and what it reads."""
    _limit(builder, sums, acc, (total.low, total.high))
    added = replace(_pass(sums, acc), op=VectorOp.ADD, immediate=total.offset, requantize=True, q=q)
    return added, (_sums_at(sums, acc), tiles_at(Memory.PARAM, q, sums.extents[0]))


def _pool(
    builder: Builder,
    pool: Pool,
    tile: Tile,
    sums: Tile,
    last: Vector,
    reads: tuple[Region, ...],
    table: int | None,
) -> None:
    """Append the passes of `last` that reduce: one for all windows of the same shape."""
    (oc, oh, ow), (_, height, width) = tile.extents, sums.extents
    (sh, sw), (dh, dw) = pool.window.strides, pool.window.dilation
    top, left = pool.window.padding[:2]
    for (rows, down), (columns, across) in product(
        shortened(pool, 0, tile.rows), shortened(pool, 1, tile.columns)
    ):
        y = rows[0] * sh - top + down[0] * dh - sums.rows[0]
        x = columns[0] * sw - left + across[0] * dw - sums.columns[0]
        lines, places = rows[1] - rows[0], columns[1] - columns[0]
        extents = (oc, lines, places, down[1] - down[0], across[1] - across[0])
        reduced = replace(
            last,
            reduce=Reduce.MAX if pool.total is None else Reduce.SUM,
            reduce_loops=2,
            extents=extents,
            x=last.x + y * width + x,
            x_strides=strides(extents, (height * width, sh * width, sw, dh * width, dw)),
            q_strides=strides(extents, (int(last.requantize), 0, 0, 0, 0)),
            dst=last.dst + (rows[0] - tile.rows[0]) * ow + columns[0] - tile.columns[0],
            dst_strides=strides(extents, (oh * ow, ow, 1, 0, 0)),
        )
        span = (oc - 1) * oh * ow + (lines - 1) * ow + places
        builder.vector(reduced, reads, span, table)


def parameter_words(layer: GemmLayer, oc: int) -> Array:
    """Return param tiles in groups of `oc` channel tiles: scaling, residual's, pool's."""
    block = layer.weights.shape[4]
    words = scaling_words(layer.scaling, block)
    added, pooled = words[:0], words[:0]
    if layer.residual is not None:
        added = scaling_words(layer.residual.scaling, block)[:1]
    if layer.pool is not None and layer.pool.total is not None:
        pooled = scaling_words(layer.pool.total.scaling, block)
    groups = ranges(len(words), oc)
    return np.concatenate([part for a, b in groups for part in (words[a:b], added, pooled[a:b])])


def _parameters(builder: Builder, layer: GemmLayer, addresses: Addresses, channels: Range) -> int:
    """Return where the param tiles of a group of channels lie."""
    first = channels[0] // addresses.step * gemm_params(layer, addresses.step)
    address = addresses.params + first * builder.config.beats(Memory.PARAM)
    count = gemm_params(layer, channels[1] - channels[0])
    return builder.constant(Memory.PARAM, address, tiles=count)
