"""Instructions of a gemm layer: one gemm instruction for each tile and group of in channels."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeAlias, final

import numpy as np

from codesign.accel.config import VECTOR_LOOPS, Memory
from codesign.accel.isa import Destination, Gemm, Vector, VectorOp, XSource, YSource
from codesign.compiler.backends.accel.box import load_box, store_box
from codesign.compiler.backends.accel.builder import Builder, strides
from codesign.compiler.backends.accel.layer import (
    Computed,
    Epilogue,
    GemmLayer,
    Residual,
    TileTensor,
)
from codesign.compiler.backends.accel.node import Node, Region, tiles_at
from codesign.compiler.backends.accel.pack import scaling_words
from codesign.compiler.backends.accel.tile import GemmTiling
from codesign.dtypes import Array

Range: TypeAlias = tuple[int, int]


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


def emit_gemm(builder: Builder, layer: GemmLayer, tiling: GemmTiling) -> None:
    """Append the layer's instructions."""
    _divide(builder, layer, tiling)
    addresses = addresses_of(builder, layer, tiling.oc)
    for tile in _tiles(layer, tiling):
        emit_tile(builder, layer, addresses, tile, tiling.ic)


def addresses_of(builder: Builder, layer: GemmLayer, step: int) -> Addresses:
    """Place a layer's constants in DRAM, params in groups of `step` channel tiles."""
    of = None
    if isinstance(layer.weights, Computed):
        of = layer.weights.tensor
        weights = of.base * builder.config.beats(Memory.WGT)
    else:
        weights = builder.constants.add(Memory.WGT, layer.weights)
    params = builder.constants.add(Memory.PARAM, _parameter_words(layer, step))
    return Addresses(weights, of, params, step, builder.table(layer.epilogue))


def emit_tile(
    builder: Builder, layer: GemmLayer, addresses: Addresses, tile: Tile, ic: int
) -> None:
    """Append one tile of the result: products over `ic` input tiles at a time, then its end."""
    acc = builder.banks.take(math.prod(tile.extents))
    for part in ranges(layer.weights.shape[1], ic):
        _multiply(builder, layer, addresses, tile, part, acc)
    _finish(builder, layer, addresses, tile, acc)


def ranges(extent: int, step: int) -> list[Range]:
    """Return the parts of `extent` in steps."""
    return [(start, min(start + step, extent)) for start in range(0, extent, step)]


def _tiles(layer: GemmLayer, tiling: GemmTiling) -> Iterator[Tile]:
    n, oc, oh, ow = layer.result.tiles
    channels, rows, columns = ranges(oc, tiling.oc), ranges(oh, tiling.oh), ranges(ow, tiling.ow)
    if tiling.weights_outer:
        for c, i, y, x in product(channels, range(n), rows, columns):
            yield Tile(i, c, y, x)
        return
    for i, y, x, c in product(range(n), rows, columns, channels):
        yield Tile(i, c, y, x)


def _divide(builder: Builder, layer: GemmLayer, tiling: GemmTiling) -> None:
    rings = builder.rings
    outputs, inputs, kh, kw = layer.weights.shape[:4]
    weights = tiling.oc * tiling.ic * kh * kw
    tiles = -(-outputs // tiling.oc) * -(-inputs // tiling.ic)
    stay = tiles if tiles * weights <= builder.config.wgt_depth else 1
    rings[Memory.WGT].divide(weights, stay)
    height, width = layer.window.extent((tiling.oh, tiling.ow))
    rings[Memory.INP].divide((tiling.oc if layer.is_diagonal else tiling.ic) * height * width)
    rings[Memory.OUT].divide(tiling.oc * tiling.oh * tiling.ow)
    rings[Memory.PARAM].divide(tiling.oc + (layer.residual is not None))
    rings[Memory.VEC].divide(tiling.oc * tiling.oh * tiling.ow)


def _multiply(
    builder: Builder, layer: GemmLayer, addresses: Addresses, tile: Tile, part: Range, acc: int
) -> None:
    config = builder.config
    kh, kw = layer.window.kernel
    taps, inputs = kh * kw, layer.weights.shape[1]
    oc, oh, ow = tile.extents
    ic = part[1] - part[0]
    first = (tile.channels[0] * inputs + part[0]) * taps
    wgt = builder.constant(
        Memory.WGT,
        addresses.weights + first * config.beats(Memory.WGT),
        rows=oc,
        tiles=ic * taps,
        pitch=inputs * taps,
        of=addresses.of,
    )
    start = layer.first_input[tile.channels[0]]
    channels = tile.channels if layer.is_diagonal else (start + part[0], start + part[1])
    inp, height, width = _input(builder, layer, tile, channels)
    own = height * width if layer.is_diagonal else 0
    sh, sw = layer.window.strides
    dh, dw = layer.window.dilation
    extents = (oc, oh, ow, ic, kh, kw)
    gemm = Gemm(
        accumulate=part[0] > 0,
        reduce=0b111000,
        extents=extents,
        acc=acc,
        acc_strides=strides(extents, (oh * ow, ow, 1, 0, 0, 0)),
        inp=inp,
        inp_strides=strides(extents, (own, sh * width, sw, height * width, dh * width, dw)),
        wgt=wgt,
        wgt_strides=strides(extents, (ic * taps, 0, 0, taps, kw, 1)),
    )
    reads = (
        tiles_at(Memory.INP, inp, (channels[1] - channels[0]) * height * width),
        tiles_at(Memory.WGT, wgt, oc * ic * taps),
    )
    builder.add(Node(gemm, reads, (tiles_at(Memory.ACC, acc, oc * oh * ow),)))


def _input(builder: Builder, layer: GemmLayer, tile: Tile, channels: Range) -> tuple[int, int, int]:
    window = layer.window
    height, width = window.extent(tile.extents[1:])
    top = tile.rows[0] * window.strides[0] - window.padding[0]
    left = tile.columns[0] * window.strides[1] - window.padding[1]
    rows, columns = (top, top + height), (left, left + width)
    tag = (layer.source, layer.more, tile.n, channels, rows, columns, layer.pad_value)
    ring = builder.rings[Memory.INP]
    base = ring.find(tag)
    if base is None:
        base = ring.take(tag, (channels[1] - channels[0]) * height * width)
        for tensor, first, own in _parts(layer, channels):
            builder.add(
                load_box(
                    builder.config,
                    Memory.INP,
                    base + (first - channels[0]) * height * width,
                    tensor,
                    n=tile.n,
                    channels=own,
                    rows=rows,
                    columns=columns,
                    pad_value=layer.pad_value,
                )
            )
    return base, height, width


def _parts(layer: GemmLayer, channels: Range) -> Iterator[tuple[TileTensor, int, Range]]:
    """Yield the tensors that a range of input channel tiles lies in: first tile, range in it."""
    start = 0
    for tensor in (layer.source, *layer.more):
        stop = start + tensor.tiles[1]
        first, last = max(start, channels[0]), min(stop, channels[1])
        if first < last:
            yield tensor, first, (first - start, last - start)
        start = stop


def _finish(builder: Builder, layer: GemmLayer, addresses: Addresses, tile: Tile, acc: int) -> None:
    config = builder.config
    oc, oh, ow = tile.extents
    count = oc * oh * ow
    q = _parameters(builder, layer, addresses, tile.channels)
    out = builder.rings[Memory.OUT].take((layer.name, "out"), count)
    reads = (tiles_at(Memory.ACC, acc, count), tiles_at(Memory.PARAM, q, oc))
    pass_over = _pass(tile, acc, out, layer.epilogue)
    scaled = replace(
        pass_over, requantize=True, q=q, q_strides=strides(pass_over.extents, (1, 0, 0, 0, 0))
    )
    if layer.residual is None:
        builder.vector(scaled, reads, count, addresses.table)
    else:
        _requantize_in_place(builder, layer.residual, scaled, reads, count)
        last = replace(pass_over, requantize=True, q=q + oc)
        _add_residual(builder, layer.residual, tile, last, addresses.table)
    for node in store_box(
        config,
        out,
        layer.result,
        n=tile.n,
        channels=tile.channels,
        rows=tile.rows,
        columns=tile.columns,
    ):
        builder.add(node)


def _pass(tile: Tile, acc: int, out: int, epilogue: Epilogue) -> Vector:
    """Return one pass over a tile's accumulators to `out`, without scaling."""
    oc, oh, ow = tile.extents
    extents = (oc, oh * ow, 1, 1, 1)
    steps = strides(extents, (oh * ow, 1, 0, 0, 0))
    return Vector(
        op=VectorOp.PASS,
        x_source=XSource.ACC,
        extents=extents,
        x=acc,
        x_strides=steps,
        dst=out,
        dst_strides=steps,
        destination=Destination.OUT,
        zero_point=epilogue.zero_point,
        low=epilogue.low,
        high=epilogue.high,
    )


def _requantize_in_place(
    builder: Builder, residual: Residual, scaled: Vector, reads: tuple[Region, ...], count: int
) -> None:
    """Append the passes that leave the layer's own result in its accumulators."""
    scaled = replace(scaled, destination=Destination.ACC, dst=scaled.x, zero_point=0, low=0, high=0)
    builder.vector(scaled, reads, count)
    plain = replace(scaled, requantize=False, q=0, q_strides=(0,) * VECTOR_LOOPS)
    for op, limit in ((VectorOp.MAX, residual.low), (VectorOp.MIN, residual.high)):
        builder.vector(replace(plain, op=op, immediate=limit), reads[:1], count)


def _add_residual(
    builder: Builder, residual: Residual, tile: Tile, last: Vector, table: int | None
) -> None:
    config = builder.config
    count = math.prod(tile.extents)
    vec = builder.rings[Memory.VEC].take((residual.source.name, "residual"), count)
    builder.add(
        load_box(
            config,
            Memory.VEC,
            vec,
            residual.source,
            n=tile.n,
            channels=tile.channels,
            rows=tile.rows,
            columns=tile.columns,
        )
    )
    builder.vector(
        replace(
            last,
            residual=True,
            y_source=YSource.VEC,
            y=vec,
            y_strides=last.x_strides,
            immediate=residual.multiplier,
            vec_zero_point=residual.zero_point,
        ),
        (
            tiles_at(Memory.ACC, last.x, count),
            tiles_at(Memory.VEC, vec, count),
            tiles_at(Memory.PARAM, last.q, 1),
        ),
        count,
        table,
    )


def _parameter_words(layer: GemmLayer, oc: int) -> Array:
    """Return param tiles in groups of `oc` channel tiles, each with the residual's behind it."""
    block = layer.weights.shape[4]
    words = scaling_words(layer.scaling, block)
    if layer.residual is None:
        return words
    own = scaling_words(layer.residual.scaling, block)[:1]
    return np.concatenate([part for a, b in ranges(len(words), oc) for part in (words[a:b], own)])


def _parameters(builder: Builder, layer: GemmLayer, addresses: Addresses, channels: Range) -> int:
    """Return where the param tiles of a group of channels lie."""
    extra = layer.residual is not None
    group = channels[0] // addresses.step
    tile = channels[0] + group * extra
    address = addresses.params + tile * builder.config.beats(Memory.PARAM)
    return builder.constant(Memory.PARAM, address, tiles=channels[1] - channels[0] + extra)
