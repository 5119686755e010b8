"""Meaning of load and store: boxes of tiles between DRAM bytes and scratchpads."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from math import prod
from typing import final

import numpy as np
from numpy.typing import NDArray

from codesign.accel.config import AccelConfig, Memory
from codesign.accel.footprint import padded_tiles, reach
from codesign.accel.isa import Load, Store
from codesign.accel.tiles import element_bits, pack_tiles, unpack_tiles
from codesign.diagnostics import InternalError
from codesign.dtypes import Array
from codesign.sim.state import Scratchpads, unwritten


@final
@dataclass(frozen=True, slots=True, eq=False)
class Box:
    """Tiles in DRAM: from byte `first` of a segment on, `shape` and `strides` of single bytes."""

    segment: int
    first: int
    shape: tuple[int, int, int, int]
    strides: tuple[int, int, int, int]
    is_plain: bool
    """Whether the bytes of a tile are those of its elements, all of them."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class LoadStep:
    """A load whose tiles lie within the memory; `place` are they, `inside` those not in padding."""

    memory: Memory
    place: slice
    padded: tuple[int, int, int]
    inside: tuple[slice, slice, slice]
    pad_value: int
    box: Box


@final
@dataclass(frozen=True, slots=True, eq=False)
class StoreStep:
    """A store whose tiles lie within the memory."""

    place: slice
    box: Box


def prepare_load(instruction: Load, config: AccelConfig) -> LoadStep:
    """Return a load, ready to run."""
    (z, y, x), (top, bottom, left, right) = instruction.size, instruction.pad
    return LoadStep(
        memory=instruction.memory,
        place=slice(instruction.sram, instruction.sram + padded_tiles(instruction)),
        padded=(z, top + y + bottom, left + x + right),
        inside=(slice(None), slice(top, top + y), slice(left, left + x)),
        pad_value=instruction.pad_value,
        box=_box(instruction, instruction.memory, config),
    )


def prepare_store(instruction: Store, config: AccelConfig) -> StoreStep:
    """Return a store, ready to run."""
    count = prod(instruction.size)
    place = slice(instruction.sram, instruction.sram + count)
    return StoreStep(place, _box(instruction, Memory.OUT, config))


def load(
    step: LoadStep, config: AccelConfig, state: Scratchpads, dram: NDArray[np.uint8], base: int
) -> None:
    """Read a box of tiles; `base` is the byte at which the segment starts."""
    tiles = state.whole(step.memory)[step.place]
    if step.padded != step.box.shape[:3]:
        tiles[...] = step.pad_value
    box = _bytes(step.box, dram, base)
    if step.box.is_plain:
        _as_bytes(tiles, step.padded)[step.inside] = box
    else:
        shaped = tiles.reshape(*step.padded, *tiles.shape[1:])
        shaped[step.inside] = unpack_tiles(box, step.memory, config)
    state.written(step.memory)[step.place] = True


def store(
    step: StoreStep, config: AccelConfig, state: Scratchpads, dram: NDArray[np.uint8], base: int
) -> None:
    """Write a box of tiles of `out`; `base` is the byte at which the segment starts."""
    written = state.written(Memory.OUT)[step.place]
    if not written.all():
        raise unwritten(Memory.OUT, step.place.start + int(np.argmin(written)))
    tiles = state.whole(Memory.OUT)[step.place]
    box = _bytes(step.box, dram, base)
    if step.box.is_plain:
        box[...] = _as_bytes(tiles, step.box.shape[:3])
    else:
        box[...] = pack_tiles(tiles, Memory.OUT, config).reshape(box.shape)


def _box(instruction: Load | Store, memory: Memory, config: AccelConfig) -> Box:
    z_stride, y_stride = (stride * config.bus_bytes for stride in instruction.stride)
    tile_bytes = config.dram_tile_bytes(memory)
    bits = element_bits(memory, config)
    return Box(
        segment=instruction.segment,
        first=instruction.address * config.bus_bytes,
        shape=(*instruction.size, tile_bytes),
        strides=(z_stride, y_stride, tile_bytes, 1),
        is_plain=bits >= 8
        and 8 * tile_bytes == config.tile_bits(memory)
        and sys.byteorder == "little",
    )


def _bytes(box: Box, dram: NDArray[np.uint8], base: int) -> NDArray[np.uint8]:
    """Return the bytes [z, y, x, byte of the tile] in DRAM themselves."""
    first = base + box.first
    if not 0 <= first <= reach(first, box.shape, box.strides) < dram.size:
        raise InternalError("a program that was not checked leaves the memory")
    return np.ndarray(box.shape, np.uint8, dram.data, first, box.strides)


def _as_bytes(tiles: Array, box: tuple[int, ...]) -> NDArray[np.uint8]:
    """Return the bytes [z, y, x, byte of the tile] of tiles themselves."""
    return tiles.reshape(*box, -1).view(np.uint8)
