"""Instructions of a gemm layer: one gemm instruction for each tile and group of in channels."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from codesign.accel.config import Memory
from codesign.accel.isa import Gemm
from codesign.compiler.backends.accel.box import Range, load_box
from codesign.compiler.backends.accel.builder import Builder, strides
from codesign.compiler.backends.accel.epilogue import (
    Addresses,
    Tile,
    finish,
    parameter_words,
    ranges,
)
from codesign.compiler.backends.accel.fit import gemm_params
from codesign.compiler.backends.accel.layer import Computed, GemmLayer, TileTensor
from codesign.compiler.backends.accel.node import Node, tiles_at
from codesign.compiler.backends.accel.pool import most_sums, sums_under
from codesign.compiler.backends.accel.tile import GemmTiling


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
    params = builder.constants.add(Memory.PARAM, parameter_words(layer, step))
    return Addresses(weights, of, params, step, builder.table(layer.epilogue))


def emit_tile(
    builder: Builder, layer: GemmLayer, addresses: Addresses, tile: Tile, ic: int
) -> None:
    """Append one tile of the result: products over `ic` input tiles at a time, then its end."""
    sums = replace(
        tile,
        rows=sums_under(layer, 0, tile.rows),
        columns=sums_under(layer, 1, tile.columns),
    )
    acc = builder.banks.take(math.prod(sums.extents))
    for part in ranges(layer.weights.shape[1], ic):
        _multiply(builder, layer, addresses, sums, part, acc)
    finish(builder, layer, addresses, tile, sums, acc)


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
    sums = most_sums(layer, (tiling.oh, tiling.ow))
    height, width = layer.window.extent(sums)
    rings[Memory.INP].divide((tiling.oc if layer.is_diagonal else tiling.ic) * height * width)
    rings[Memory.OUT].divide(tiling.oc * tiling.oh * tiling.ow)
    rings[Memory.PARAM].divide(gemm_params(layer, tiling.oc))
    rings[Memory.VEC].divide(tiling.oc * math.prod(sums))


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
