"""Instructions of the layers that run on the vector unit."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from codesign.accel.config import Memory
from codesign.accel.isa import Destination, Reduce, Vector, VectorOp, XSource, YSource
from codesign.compiler.backends.accel.box import (
    Range,
    load_box,
    load_flat,
    store_flat,
)
from codesign.compiler.backends.accel.builder import Builder, strides
from codesign.compiler.backends.accel.epilogue import Tile, ranges, store_tile
from codesign.compiler.backends.accel.fit import param_tiles
from codesign.compiler.backends.accel.gemm import addresses_of, emit_tile
from codesign.compiler.backends.accel.layer import (
    AddLayer,
    LookupLayer,
    MultiplyLayer,
    WindowLayer,
)
from codesign.compiler.backends.accel.node import tiles_at
from codesign.compiler.backends.accel.pack import field_words, scaling_words, window_words
from codesign.compiler.backends.accel.tile import WindowTiling


def emit_window(builder: Builder, layer: WindowLayer, tiling: WindowTiling) -> None:
    """Append a window layer's instructions: one vector or gemm instruction for each tile.

    The tiles that the array takes are spread evenly among all, so that both units work at once.
    """
    n, c, oh, ow = layer.result.tiles
    params = address = 0
    if param_tiles(layer):
        words = window_words(layer, builder.config.block_out)
        address = builder.constants.add(Memory.PARAM, words)
    _divide_window(builder, layer, tiling)
    table = builder.table(layer.epilogue)
    boxes = list(
        product(ranges(c, tiling.c), range(n), ranges(oh, tiling.oh), ranges(ow, tiling.ow))
    )
    shared = None
    if layer.array is not None and tiling.on_array:
        shared = layer.array, addresses_of(builder, layer.array, tiling.c)
    for index, (channels, i, rows, columns) in enumerate(boxes):
        tile = Tile(i, channels, rows, columns)
        turn = (index + 1) * tiling.on_array // len(boxes) > index * tiling.on_array // len(boxes)
        if shared is not None and turn:
            emit_tile(builder, *shared, tile, 1)
            continue
        if param_tiles(layer):
            params = _window_params(builder, layer, address, channels)
        _window_tile(builder, layer, tile, params, table)


def _divide_window(builder: Builder, layer: WindowLayer, tiling: WindowTiling) -> None:
    height, width = layer.window.extent((tiling.oh, tiling.ow))
    for memory in (Memory.VEC, Memory.INP):
        builder.rings[memory].divide(tiling.c * height * width)
    builder.rings[Memory.OUT].divide(tiling.c * tiling.oh * tiling.ow)
    builder.rings[Memory.PARAM].divide(max(1, tiling.c * param_tiles(layer)))
    builder.rings[Memory.WGT].divide(tiling.c * math.prod(layer.window.kernel))


def _window_params(builder: Builder, layer: WindowLayer, address: int, channels: Range) -> int:
    each = param_tiles(layer)
    first = address + channels[0] * each * builder.config.beats(Memory.PARAM)
    return builder.constant(Memory.PARAM, first, tiles=(channels[1] - channels[0]) * each)


def _window_tile(
    builder: Builder, layer: WindowLayer, tile: Tile, params: int, table: int | None
) -> None:
    n, channels, rows, columns = tile.n, tile.channels, tile.rows, tile.columns
    c, oh, ow = tile.extents
    window = layer.window
    height, width = window.extent((oh, ow))
    top = rows[0] * window.strides[0] - window.padding[0]
    left = columns[0] * window.strides[1] - window.padding[1]
    if _is_padding((top, top + height), layer.source.tiles[2]) or _is_padding(
        (left, left + width), layer.source.tiles[3]
    ):
        _padding_tile(builder, layer, tile, table)
        return
    vec = builder.rings[Memory.VEC].take((layer.name, "vec"), c * height * width)
    builder.add(
        load_box(
            builder.config,
            Memory.VEC,
            vec,
            layer.source,
            n=n,
            channels=channels,
            rows=(top, top + height),
            columns=(left, left + width),
            pad_value=layer.pad_value,
        )
    )
    out = builder.rings[Memory.OUT].take((layer.name, "out"), c * oh * ow)
    each = param_tiles(layer)
    (kh, kw), (sh, sw), (dh, dw) = window.kernel, window.strides, window.dilation
    extents = (c, oh, ow, kh, kw)
    reads = [tiles_at(Memory.VEC, vec, c * height * width)]
    if each:
        reads.append(tiles_at(Memory.PARAM, params, c * each))
    weighted = layer.weights is not None
    builder.vector(
        Vector(
            op=VectorOp.MUL if weighted else VectorOp.PASS,
            reduce=Reduce.MAX if layer.combine == "max" else Reduce.SUM,
            reduce_loops=2,
            x_source=XSource.VEC,
            y_source=YSource.PARAM if weighted else YSource.IMMEDIATE,
            extents=extents,
            x=vec,
            x_strides=strides(extents, (height * width, sh * width, sw, dh * width, dw)),
            y=4 * params if weighted else 0,
            y_strides=strides(extents, (4 * each, 0, 0, kw, 1)) if weighted else (0,) * 5,
            q=params + each - 1 if layer.scaling is not None else 0,
            q_strides=strides(extents, (each, 0, 0, 0, 0)),
            requantize=layer.scaling is not None,
            vec_zero_point=layer.zero_point,
            dst=out,
            dst_strides=strides(extents, (oh * ow, ow, 1, 0, 0)),
            destination=Destination.OUT,
            zero_point=layer.epilogue.zero_point,
            low=layer.epilogue.low,
            high=layer.epilogue.high,
        ),
        tuple(reads),
        c * oh * ow,
        table,
    )
    store_tile(builder, layer.result, tile, out)


def _is_padding(span: Range, size: int) -> bool:
    """Whether rows or columns lie wholly outside of the `size` that there are."""
    return span[1] <= 0 or span[0] >= size


def _padding_tile(builder: Builder, layer: WindowLayer, tile: Tile, table: int | None) -> None:
    """Append a tile whose windows read padding alone: any tile of data, clipped to the padding."""
    count = math.prod(tile.extents)
    vec = builder.rings[Memory.VEC].take((layer.name, "vec"), 1)
    first = tile.channels[0]
    builder.add(
        load_box(
            builder.config,
            Memory.VEC,
            vec,
            layer.source,
            n=tile.n,
            channels=(first, first + 1),
            rows=(0, 1),
            columns=(0, 1),
        )
    )
    out = builder.rings[Memory.OUT].take((layer.name, "out"), count)
    extents = (count, 1, 1, 1, 1)
    builder.vector(
        Vector(
            op=VectorOp.PASS,
            x_source=XSource.VEC,
            extents=extents,
            x=vec,
            x_strides=(0, 0, 0, 0, 0),
            dst=out,
            dst_strides=strides(extents, (1, 0, 0, 0, 0)),
            destination=Destination.OUT,
            low=layer.pad_value,
            high=layer.pad_value,
        ),
        (tiles_at(Memory.VEC, vec, 1),),
        count,
        table,
    )
    store_tile(builder, layer.result, tile, out)


def _divide(builder: Builder, vec: int, out: int, params: int) -> None:
    builder.rings[Memory.VEC].divide(vec)
    builder.rings[Memory.OUT].divide(out)
    builder.rings[Memory.PARAM].divide(params)


def emit_add(builder: Builder, layer: AddLayer, step: int) -> None:
    """Append a sum's instructions: each reduces over the two operands."""
    config = builder.config
    pair = np.tile(np.array(layer.multipliers), (config.block_out, 1))
    weights = field_words(pair, config.block_out)
    words = np.concatenate([weights[0], scaling_words(layer.scaling, config.block_out)[:1]])
    address = builder.constants.add(Memory.PARAM, words)
    table = builder.table(layer.epilogue)
    _divide(builder, 2 * step, step, 2)
    for span in ranges(layer.result.count, step):
        count = span[1] - span[0]
        params = builder.constant(Memory.PARAM, address, tiles=2)
        vec = builder.rings[Memory.VEC].take((layer.name, "vec"), 2 * count)
        builder.add(load_flat(config, Memory.VEC, vec, layer.sources[0], span))
        builder.add(load_flat(config, Memory.VEC, vec + count, layer.sources[1], span))
        out = builder.rings[Memory.OUT].take((layer.name, "out"), count)
        extents = (count, 1, 1, 1, 2)
        builder.vector(
            Vector(
                op=VectorOp.MUL,
                reduce=Reduce.SUM,
                reduce_loops=1,
                x_source=XSource.VEC,
                y_source=YSource.PARAM,
                extents=extents,
                x=vec,
                x_strides=strides(extents, (1, 0, 0, 0, count)),
                y=4 * params,
                y_strides=(0, 0, 0, 0, 1),
                q=params + 1,
                requantize=True,
                dst=out,
                dst_strides=strides(extents, (1, 0, 0, 0, 0)),
                destination=Destination.OUT,
                zero_point=layer.epilogue.zero_point,
                low=layer.epilogue.low,
                high=layer.epilogue.high,
            ),
            (tiles_at(Memory.VEC, vec, 2 * count), tiles_at(Memory.PARAM, params, 2)),
            count,
            table,
        )
        builder.add(store_flat(config, out, layer.result, span))


def emit_multiply(builder: Builder, layer: MultiplyLayer, step: int) -> None:
    """Append a product's instructions: the second operand goes to the accumulators first."""
    words = scaling_words(layer.scaling, builder.config.block_out)[:1]
    address = builder.constants.add(Memory.PARAM, words)
    table = builder.table(layer.epilogue)
    _divide(builder, 2 * step, step, 1)
    gate = layer.sources[1].tiles[2:] == (1, 1)
    if not gate or layer.result.tiles[2:] == (1, 1):
        for span in ranges(layer.result.count, step):
            _multiply_span(builder, layer, address, table, [(span, span)], 1)
        return
    plane = math.prod(layer.result.tiles[2:])
    channels = max(1, step // plane)
    positions = min(plane, step // channels)
    n, c = layer.result.tiles[:2]
    for i, group, part in product(range(n), ranges(c, channels), ranges(plane, positions)):
        spans = []
        if part == (0, plane):
            pair = (i * c + group[0], i * c + group[1])
            spans.append(((pair[0] * plane, pair[1] * plane), pair))
        else:
            for channel in range(i * c + group[0], i * c + group[1]):
                start = channel * plane
                spans.append(((start + part[0], start + part[1]), (channel, channel + 1)))
        _multiply_span(builder, layer, address, table, spans, part[1] - part[0])


def _multiply_span(
    builder: Builder,
    layer: MultiplyLayer,
    address: int,
    table: int | None,
    spans: list[tuple[Range, Range]],
    repeat: int,
) -> None:
    config = builder.config
    for data, other in spans:
        count, others = data[1] - data[0], other[1] - other[0]
        params = builder.constant(Memory.PARAM, address, tiles=1)
        vec = builder.rings[Memory.VEC].take((layer.name, "vec"), count + others)
        builder.add(load_flat(config, Memory.VEC, vec + count, layer.sources[1], other))
        builder.add(load_flat(config, Memory.VEC, vec, layer.sources[0], data))
        acc = builder.banks.take(others)
        once = (others, 1, 1, 1, 1)
        builder.vector(
            Vector(
                x_source=XSource.VEC,
                extents=once,
                x=vec + count,
                x_strides=strides(once, (1, 0, 0, 0, 0)),
                vec_zero_point=layer.zero_points[1],
                destination=Destination.ACC,
                dst=acc,
                dst_strides=strides(once, (1, 0, 0, 0, 0)),
                op=VectorOp.PASS,
                low=0,
                high=0,
            ),
            (tiles_at(Memory.VEC, vec + count, others),),
            others,
        )
        out = builder.rings[Memory.OUT].take((layer.name, "out"), count)
        extents = (others, repeat, 1, 1, 1)
        builder.vector(
            Vector(
                op=VectorOp.MUL,
                x_source=XSource.VEC,
                y_source=YSource.ACC,
                extents=extents,
                x=vec,
                x_strides=strides(extents, (repeat, 1, 0, 0, 0)),
                y=acc,
                y_strides=strides(extents, (1, 0, 0, 0, 0)),
                q=params,
                requantize=True,
                vec_zero_point=layer.zero_points[0],
                dst=out,
                dst_strides=strides(extents, (repeat, 1, 0, 0, 0)),
                destination=Destination.OUT,
                zero_point=layer.epilogue.zero_point,
                low=layer.epilogue.low,
                high=layer.epilogue.high,
            ),
            (
                tiles_at(Memory.VEC, vec, count),
                tiles_at(Memory.ACC, acc, others),
                tiles_at(Memory.PARAM, params, 1),
            ),
            count,
            table,
        )
        builder.add(store_flat(config, out, layer.result, data))


def emit_lookup(builder: Builder, layer: LookupLayer, step: int) -> None:
    """Append a lookup's instructions."""
    config = builder.config
    table = builder.table(layer.epilogue)
    _divide(builder, step, step, 1)
    for span in ranges(layer.result.count, step):
        count = span[1] - span[0]
        vec = builder.rings[Memory.VEC].take((layer.name, "vec"), count)
        builder.add(load_flat(config, Memory.VEC, vec, layer.source, span))
        out = builder.rings[Memory.OUT].take((layer.name, "out"), count)
        extents = (count, 1, 1, 1, 1)
        steps = strides(extents, (1, 0, 0, 0, 0))
        builder.vector(
            Vector(
                x_source=XSource.VEC,
                extents=extents,
                x=vec,
                x_strides=steps,
                dst=out,
                dst_strides=steps,
                op=VectorOp.PASS,
                destination=Destination.OUT,
                zero_point=layer.epilogue.zero_point,
                low=layer.epilogue.low,
                high=layer.epilogue.high,
            ),
            (tiles_at(Memory.VEC, vec, count),),
            count,
            table,
        )
        builder.add(store_flat(config, out, layer.result, span))
