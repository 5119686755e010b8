"""How a tensor lies in the accelerator's DRAM, and the conversion both ways.

A tensor of shape [n, c, h, w] is an array of tiles [n / batch][c / block][h][w]; a tile holds
[batch][block] elements of one byte and takes `tile_bytes`, a whole number of beats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from codesign.dtypes import Array
from codesign.ir.executable.matrices import Below, Beside


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Patches:
    """A window that the host unrolls into channels before it packs a tensor.

    The packed tensor is [n, kernel_h * kernel_w * c, out_h, out_w], channels ordered
    (row of the window, column of the window, channel). `padding` is top, left, bottom, right.
    """

    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int, int, int]

    def shape(self, shape: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
        """Return the shape after unrolling a tensor of `shape`."""
        n, c, h, w = shape
        top, left, bottom, right = self.padding
        out_h = (h + top + bottom - (self.kernel[0] - 1) * self.dilation[0] - 1) // self.strides[0]
        out_w = (w + left + right - (self.kernel[1] - 1) * self.dilation[1] - 1) // self.strides[1]
        return n, self.kernel[0] * self.kernel[1] * c, out_h + 1, out_w + 1

    def unroll(self, data: Array, fill: int) -> Array:
        """Return the unrolled tensor; positions outside `data` hold `fill`."""
        n, c, _, _ = data.shape
        top, left, bottom, right = self.padding
        padded = np.pad(data, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=fill)
        _, _, out_h, out_w = self.shape(data.shape)
        result = np.empty((n, self.kernel[0], self.kernel[1], c, out_h, out_w), data.dtype)
        for i in range(self.kernel[0]):
            for j in range(self.kernel[1]):
                y, x = i * self.dilation[0], j * self.dilation[1]
                rows = slice(y, y + (out_h - 1) * self.strides[0] + 1, self.strides[0])
                columns = slice(x, x + (out_w - 1) * self.strides[1] + 1, self.strides[1])
                result[:, i, j] = padded[:, :, rows, columns]
        return result.reshape(n, -1, out_h, out_w)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where one int8 tensor lies in DRAM.

    `shape` is the tensor's own, of rank 2 or 4; `address` counts beats in the segment; `fill` is
    the element that pads channels and samples to whole tiles (and the window of `patches`).
    Operands and results of products of tensors lie as `matrices` say, of any rank from 2 on.
    """

    name: str
    shape: tuple[int, ...]
    segment: int
    address: int
    batch: int
    block: int
    tile_bytes: int
    fill: int = 0
    patches: Patches | None = None
    matrices: Beside | Below | None = None

    @property
    def tiles(self) -> tuple[int, int, int, int]:
        """Tiles along n, c, h, w."""
        n, c, h, w = self._four
        if self.patches is not None:
            n, c, h, w = self.patches.shape((n, c, h, w))
        return -(-n // self.batch), -(-c // self.block), h, w

    @property
    def bytes(self) -> int:
        """Bytes that the tensor takes in DRAM."""
        n, c, h, w = self.tiles
        return n * c * h * w * self.tile_bytes

    def pack(self, data: Array) -> Array:
        """Return the bytes in DRAM, uint8[bytes], of an int8 array of `shape`."""
        four = data.reshape(self.shape)
        four = four.reshape(self._four) if self.matrices is None else self.matrices.pack(four)
        if self.patches is not None:
            four = self.patches.unroll(four, self.fill)
        n, c, h, w = four.shape
        tiles_n, tiles_c, _, _ = self.tiles
        padded = np.full((tiles_n * self.batch, tiles_c * self.block, h, w), self.fill, np.int8)
        padded[:n, :c] = four
        split = padded.reshape(tiles_n, self.batch, tiles_c, self.block, h, w)
        tiles = split.transpose(0, 2, 4, 5, 1, 3).reshape(-1, self.batch * self.block)
        return widen(tiles.view(np.uint8), self.tile_bytes)

    def unpack(self, raw: Array) -> Array:
        """Return the int8 array of `shape` whose bytes in DRAM are `raw`; there are no patches."""
        if self.patches is not None or isinstance(self.matrices, Below):
            raise ValueError("an unrolled tensor is never read back")
        tiles_n, tiles_c, h, w = self.tiles
        lanes = self.batch * self.block
        tiles = raw.reshape(-1, self.tile_bytes)[:, :lanes].copy().view(np.int8)
        split = tiles.reshape(tiles_n, tiles_c, h, w, self.batch, self.block)
        full = split.transpose(0, 4, 1, 5, 2, 3)
        full = full.reshape(tiles_n * self.batch, tiles_c * self.block, h, w)
        n, c, _, _ = self._four
        own = np.ascontiguousarray(full[:n, :c])
        if self.matrices is not None:
            return self.matrices.unpack(own, self.shape)
        return own.reshape(self.shape)

    @property
    def _four(self) -> tuple[int, int, int, int]:
        return _four(self.shape) if self.matrices is None else self.matrices.shape(self.shape)


def widen(tiles: Array, tile_bytes: int) -> Array:
    """Return uint8 rows zero-extended to `tile_bytes` each, flattened."""
    result = np.zeros((tiles.shape[0], tile_bytes), np.uint8)
    result[:, : tiles.shape[1]] = tiles
    return result.reshape(-1)


def _four(shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    match shape:
        case (n, c):
            return n, c, 1, 1
        case (n, c, h, w):
            return n, c, h, w
        case _:
            raise ValueError(f"a tensor in tiles has rank 2 or 4, not shape {shape}")
