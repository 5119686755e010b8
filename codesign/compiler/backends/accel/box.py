"""Boxes of tiles between DRAM and scratchpads, as loads and stores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from codesign.accel.config import AccelConfig, Memory
from codesign.accel.isa import Load, Store
from codesign.compiler.backends.accel.layer import TileTensor
from codesign.compiler.backends.accel.node import Node, Region, tiles_at
from codesign.ir.executable.accel_kernel import ACTIVATIONS, CONSTANTS

Range: TypeAlias = tuple[int, int]


def load_constants(
    config: AccelConfig,
    memory: Memory,
    sram: int,
    address: int,
    *,
    rows: int,
    tiles: int,
    pitch: int,
    segment: int = CONSTANTS,
    reads: tuple[Region, ...] = (),
) -> Iterator[Node]:
    """Yield loads of `rows` runs of `tiles` tiles, `pitch` tiles apart, from beat `address`.

    `reads` is the tensor that they are of, in a `segment` other than that of constants.
    """
    beats = config.beats(memory)
    longest = max_extent(config)
    if rows > 1 and pitch == tiles and rows * tiles <= longest:
        rows, tiles = 1, rows * tiles
    if tiles <= longest:
        load = Load(
            memory=memory,
            sram=sram,
            segment=segment,
            address=address,
            size=(rows, 1, tiles),
            stride=(pitch * beats if rows > 1 else 0, 0),
        )
        yield Node(load, reads, (tiles_at(memory, sram, rows * tiles),))
        return
    for done in range(0, tiles, longest):
        count = min(longest, tiles - done)
        yield from load_constants(
            config,
            memory,
            sram + done,
            address + done * beats,
            rows=1,
            tiles=count,
            pitch=count,
            segment=segment,
            reads=reads,
        )


def load_box(
    config: AccelConfig,
    memory: Memory,
    sram: int,
    tensor: TileTensor,
    *,
    n: int,
    channels: Range,
    rows: Range,
    columns: Range,
    pad_value: int = 0,
) -> Node:
    """Return the load of a box; rows and columns outside the tensor become padding tiles."""
    beats = config.beats(memory)
    top, bottom = _outside(rows, tensor.tiles[2])
    left, right = _outside(columns, tensor.tiles[3])
    h = (rows[0] + top, rows[1] - bottom)
    w = (columns[0] + left, columns[1] - right)
    size, stride = _merged(
        (channels[1] - channels[0], h[1] - h[0], w[1] - w[0]),
        (tensor.strides[1] * beats, tensor.strides[2] * beats),
        beats,
        padded=bool(top or bottom or left or right),
    )
    load = Load(
        memory=memory,
        sram=sram,
        segment=ACTIVATIONS,
        address=_address(tensor, n, channels[0], h[0], w[0], beats),
        size=size,
        stride=stride,
        pad=(top, bottom, left, right),
        pad_value=pad_value,
    )
    tiles = (channels[1] - channels[0]) * (rows[1] - rows[0]) * (columns[1] - columns[0])
    read = box_region(tensor, n, channels, h, w)
    return Node(load, (read,), (tiles_at(memory, sram, tiles),))


def store_box(
    config: AccelConfig,
    sram: int,
    tensor: TileTensor,
    *,
    n: int,
    channels: Range,
    rows: Range,
    columns: Range,
) -> Iterator[Node]:
    """Yield the stores of consecutive `out` tiles to a box of a tensor: one, where it has rows."""
    beats = config.beats(Memory.OUT)
    counts = (channels[1] - channels[0], rows[1] - rows[0], columns[1] - columns[0])
    if tensor.column_step > 1:
        plane = counts[1] * counts[2]
        for c in range(*channels):
            own = sram + (c - channels[0]) * plane
            yield _store_apart(config, own, tensor, n, c, rows, columns)
        return
    size, stride = _merged(
        counts, (tensor.strides[1] * beats, tensor.strides[2] * beats), beats, padded=False
    )
    store = Store(
        sram=sram,
        segment=ACTIVATIONS,
        address=_address(tensor, n, channels[0], rows[0], columns[0], beats),
        size=size,
        stride=stride,
    )
    read = tiles_at(Memory.OUT, sram, counts[0] * counts[1] * counts[2])
    yield Node(store, (read,), (box_region(tensor, n, channels, rows, columns),))


def _store_apart(
    config: AccelConfig,
    sram: int,
    tensor: TileTensor,
    n: int,
    channel: int,
    rows: Range,
    columns: Range,
) -> Node:
    """Return the store of a tile of channels whose columns lie apart: each tile is a row to it."""
    beats = config.beats(Memory.OUT)
    height, width = rows[1] - rows[0], columns[1] - columns[0]
    store = Store(
        sram=sram,
        segment=ACTIVATIONS,
        address=_address(tensor, n, channel, rows[0], columns[0], beats),
        size=(height, width, 1),
        stride=(
            tensor.strides[2] * beats if height > 1 else 0,
            tensor.column_step * beats if width > 1 else 0,
        ),
    )
    read = tiles_at(Memory.OUT, sram, height * width)
    channels = (channel, channel + 1)
    return Node(store, (read,), (box_region(tensor, n, channels, rows, columns),))


def box_region(tensor: TileTensor, n: int, channels: Range, rows: Range, columns: Range) -> Region:
    """Return what a box touches of a tensor: all of it where the view is not the tensor's own."""
    if not tensor.exact:
        return whole_region(tensor)
    step = tensor.row_step
    real = (rows[0] * step, (rows[1] - 1) * step + 1)
    first = tensor.first_channel
    inside = (first + channels[0], first + channels[1])
    return Region(tensor.space, ((n, n + 1), inside, real, columns))


def whole_region(tensor: TileTensor) -> Region:
    """Return all of a tensor."""
    return Region(tensor.space, ((0, 1 << 40),) * 4)


def flat_region(tensor: TileTensor, tiles: Range) -> Region:
    """Return the least box around a run of tiles of a tensor without gaps."""
    first, last = tiles[0], tiles[1] - 1
    ranges: list[Range] = []
    within = tensor.tiles[0] * tensor.tiles[1] * tensor.tiles[2] * tensor.tiles[3]
    same = True
    for extent in tensor.tiles:
        within //= extent
        a, b = (first // within) % extent, (last // within) % extent
        ranges.append((a, b + 1) if same else (0, extent))
        same = same and a == b
    low, high = ranges[1]
    ranges[1] = (tensor.first_channel + low, tensor.first_channel + high)
    return Region(tensor.space, tuple(ranges))


def load_flat(
    config: AccelConfig, memory: Memory, sram: int, tensor: TileTensor, tiles: Range
) -> Node:
    """Return the load of a run of tiles of a tensor without gaps."""
    load = Load(
        memory=memory,
        sram=sram,
        segment=ACTIVATIONS,
        address=(tensor.base + tiles[0]) * config.beats(memory),
        size=(1, 1, tiles[1] - tiles[0]),
    )
    written = tiles_at(memory, sram, tiles[1] - tiles[0])
    return Node(load, (flat_region(tensor, tiles),), (written,))


def store_flat(config: AccelConfig, sram: int, tensor: TileTensor, tiles: Range) -> Node:
    """Return the store of consecutive `out` tiles to a run of tiles of a tensor without gaps."""
    store = Store(
        sram=sram,
        segment=ACTIVATIONS,
        address=(tensor.base + tiles[0]) * config.beats(Memory.OUT),
        size=(1, 1, tiles[1] - tiles[0]),
    )
    read = tiles_at(Memory.OUT, sram, tiles[1] - tiles[0])
    return Node(store, (read,), (flat_region(tensor, tiles),))


def max_extent(config: AccelConfig) -> int:
    """Return the greatest extent that an instruction can hold."""
    return 1 << max(config.index_bits(memory) for memory in Memory if memory is not Memory.LUT)


def _outside(span: Range, size: int) -> tuple[int, int]:
    return max(0, -span[0]), max(0, span[1] - size)


def _address(tensor: TileTensor, n: int, c: int, h: int, w: int, beats: int) -> int:
    n_step, c_step, h_step = tensor.strides
    tile = tensor.base + n * n_step + c * c_step + h * h_step + w * tensor.column_step
    return tile * beats


def _merged(
    size: tuple[int, int, int], stride: tuple[int, int], beats: int, *, padded: bool
) -> tuple[tuple[int, int, int], tuple[int, int]]:
    z, y, x = size
    stride_z, stride_y = stride
    if not padded:
        if y > 1 and stride_y == x * beats:
            y, x = 1, x * y
        if y == 1 and z > 1 and stride_z == x * beats:
            z, x = 1, x * z
    return (z, y, x), (stride_z if z > 1 else 0, stride_y if y > 1 else 0)
