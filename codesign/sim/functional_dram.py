"""Meaning of load and store: boxes of tiles between DRAM bytes and scratchpads."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from codesign.accel.config import AccelConfig, Memory
from codesign.accel.footprint import reach
from codesign.accel.isa import Load, Store
from codesign.accel.tiles import pack_tiles, unpack_tiles
from codesign.diagnostics import InternalError
from codesign.sim.state import Scratchpads


def load(
    instruction: Load,
    config: AccelConfig,
    state: Scratchpads,
    dram: NDArray[np.uint8],
    base: int,
) -> None:
    """Read a box of tiles; `base` is the byte at which the segment starts."""
    memory = instruction.memory
    box = _box(dram, base, instruction, memory, config)
    tiles = unpack_tiles(box, memory, config)
    top, bottom, left, right = instruction.pad
    if any(instruction.pad):
        z, y, x = instruction.size
        shape = (z, top + y + bottom, left + x + right, *tiles.shape[3:])
        padded = np.full(shape, instruction.pad_value, tiles.dtype)
        padded[:, top : top + y, left : left + x] = tiles
        tiles = padded
    flat = tiles.reshape(-1, *tiles.shape[3:])
    state.write(memory, slice(instruction.sram, instruction.sram + len(flat)), flat)


def store(
    instruction: Store,
    config: AccelConfig,
    state: Scratchpads,
    dram: NDArray[np.uint8],
    base: int,
) -> None:
    """Write a box of tiles of `out`; `base` is the byte at which the segment starts."""
    count = int(np.prod(instruction.size))
    tiles = state.read(Memory.OUT, slice(instruction.sram, instruction.sram + count))
    data = pack_tiles(tiles, Memory.OUT, config)
    box = _box(dram, base, instruction, Memory.OUT, config)
    box[...] = data.reshape(box.shape)


def _box(
    dram: NDArray[np.uint8],
    base: int,
    instruction: Load | Store,
    memory: Memory,
    config: AccelConfig,
) -> NDArray[np.uint8]:
    first = base + instruction.address * config.bus_bytes
    z_stride, y_stride = (stride * config.bus_bytes for stride in instruction.stride)
    tile_bytes = config.dram_tile_bytes(memory)
    last = reach(first, instruction.size, (z_stride, y_stride, tile_bytes))
    if not 0 <= first <= last + tile_bytes <= dram.size:
        raise InternalError("a program that was not checked leaves the memory")
    return as_strided(
        dram[first:],
        shape=(*instruction.size, tile_bytes),
        strides=(z_stride, y_stride, tile_bytes, 1),
    )
