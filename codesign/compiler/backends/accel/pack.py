"""The constant segment: weights, parameters and tables as the units read them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import final

import numpy as np

from codesign.accel.arithmetic import pack_parameters
from codesign.accel.config import AccelConfig, Memory
from codesign.accel.tiles import pack_tiles, tile_shape
from codesign.compiler.backends.accel.layer import Scaling, WindowLayer
from codesign.dtypes import Array


@final
@dataclass(slots=True)
class ConstantSegment:
    """Grows by one block of tiles at a time; equal blocks are stored once.

    Without values, blocks have places only.
    """

    config: AccelConfig
    has_values: bool = True
    image: bytearray = field(default_factory=bytearray)
    places: dict[bytes, int] = field(default_factory=dict)
    used_bytes: int = 0

    def add(self, memory: Memory, values: Array) -> int:
        """Return the first beat of tiles of a memory, Tensor[(…, *shape of a tile)]."""
        if not self.has_values:
            elements = math.prod(tile_shape(memory, self.config))
            return self._take(values.size // elements * self.config.dram_tile_bytes(memory))
        raw = pack_tiles(values, memory, self.config).tobytes()
        if raw not in self.places:
            self.places[raw] = self._take(len(raw))
            self.image += raw
        return self.places[raw]

    def _take(self, size_bytes: int) -> int:
        beat = self.used_bytes // self.config.bus_bytes
        self.used_bytes += size_bytes
        return beat


def scaling_words(scaling: Scaling, block: int) -> Array:
    """Return uint64[tiles of channels, block]: bias, multiplier and shift of every channel."""
    words = pack_parameters(scaling.bias, scaling.multiplier, scaling.shift)
    channels = len(words)
    padded = np.zeros(-(-channels // block) * block, np.uint64)
    padded[:channels] = words
    return padded.reshape(-1, block)


def field_words(fields: Array, block: int) -> Array:
    """Return uint64[tiles of channels, words, block]: fields[channels, k], four to a word."""
    channels, count = fields.shape
    padded = np.zeros((-(-channels // block) * block, -(-count // 4) * 4), np.int16)
    padded[:channels, :count] = fields
    words = padded.astype("<i2").reshape(-1, block, padded.shape[1]).view("<u8")
    return words.transpose(0, 2, 1)


def window_words(layer: WindowLayer, block: int) -> Array:
    """Return uint64[tiles of channels, words, block]: a tile's weights, then its scaling."""
    parts: list[Array] = []
    if layer.weights is not None:
        parts.append(field_words(layer.weights.reshape(layer.weights.shape[0], -1), block))
    if layer.scaling is not None:
        parts.append(scaling_words(layer.scaling, block)[:, None, :])
    return np.concatenate(parts, axis=1)


def table_entries(table: Array) -> Array:
    """Return int8[256, 1]: the table in the order of the index as an unsigned byte."""
    return np.roll(table.astype(np.int8), 128).reshape(256, 1)
