"""What the accelerator's memories hold, and which of their tiles have been written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from codesign.accel.config import AccelConfig, Memory
from codesign.accel.tiles import element_dtype, tile_shape
from codesign.diagnostics import CodesignError
from codesign.dtypes import Array

Indices: TypeAlias = NDArray[np.int64]

ACC_DTYPE: Final = np.dtype(np.int32)
"""Accumulators of 16 bits too are held in 32."""


class UnwrittenError(CodesignError):
    """A tile is read that nothing has written; on hardware it would hold anything."""


def tile_indices(base: int, extents: Sequence[int], strides: Sequence[int]) -> Indices:
    """Return the tile of every iteration of a loop nest, in their order: int64[(iterations)]."""
    indices: Indices = np.array([base], np.int64)
    for extent, stride in zip(extents, strides, strict=True):
        if extent > 1:
            indices = (indices[:, None] + stride * np.arange(extent)).ravel()
    return indices


class Scratchpads:
    """All on-chip memories: one array of tiles each, `tile_shape` a tile.

    Parameters
    ----------
    config
        Gives depths, shapes and element types; accumulators are int32.
    """

    def __init__(self, config: AccelConfig) -> None:
        self._tiles: dict[Memory, Array] = {}
        self._written: dict[Memory, NDArray[np.bool_]] = {}
        for memory in Memory:
            depth = config.depth(memory)
            dtype = ACC_DTYPE if memory is Memory.ACC else element_dtype(memory, config)
            self._tiles[memory] = np.zeros((depth, *tile_shape(memory, config)), dtype)
            self._written[memory] = np.zeros(depth, np.bool_)

    def whole(self, memory: Memory) -> Array:
        """Return the array of all tiles itself, written or not."""
        return self._tiles[memory]

    def written(self, memory: Memory) -> NDArray[np.bool_]:
        """Return the array itself that says of every tile whether something has written it."""
        return self._written[memory]


def unwritten(memory: Memory, tile: int) -> UnwrittenError:
    """Return the error that a tile is read before it was written."""
    return UnwrittenError.of(
        f"tile {tile} of {memory.name.lower()} is read, but nothing has written it"
    )
