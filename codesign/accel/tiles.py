"""How tiles lie in DRAM: elements row-major, little-endian, each tile a whole number of beats."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from codesign.accel.config import AccelConfig, Memory
from codesign.dtypes import Array


def element_bits(memory: Memory, config: AccelConfig) -> int:
    """Bits of one element of a memory's tiles; a param tile consists of 64-bit words."""
    match memory:
        case Memory.INP | Memory.VEC | Memory.OUT | Memory.LUT:
            return config.inp_bits
        case Memory.WGT:
            return config.wgt_bits
        case Memory.ACC:
            return config.acc_bits
        case Memory.PARAM:
            return 64


def tile_shape(memory: Memory, config: AccelConfig) -> tuple[int, ...]:
    """Shape of one tile's elements.

    Examples
    --------
    >>> tile_shape(Memory.WGT, AccelConfig(block_in=4))
    (16, 4)
    """
    match memory:
        case Memory.INP:
            return (config.batch, config.block_in)
        case Memory.WGT:
            return (config.block_out, config.block_in)
        case Memory.VEC | Memory.OUT | Memory.ACC:
            return (config.batch, config.block_out)
        case Memory.PARAM:
            return (config.block_out,)
        case Memory.LUT:
            return (1,)


def element_dtype(memory: Memory, config: AccelConfig) -> np.dtype[np.generic]:
    """NumPy type that holds one element: int8, int16, int32, or uint64 for param words."""
    bits = element_bits(memory, config)
    return np.dtype(np.uint64) if bits == 64 else np.dtype(f"int{max(bits, 8)}")


def pack_tiles(values: Array, memory: Memory, config: AccelConfig) -> NDArray[np.uint8]:
    """Return the DRAM bytes of tiles.

    `values` is Tensor[(..., *tile_shape)] of integers that fit; the result is
    uint8[(..., dram_tile_bytes)]. Elements of 4 and 2 bits share bytes, low bits first; bits behind
    the last element are 0.

    Examples
    --------
    >>> config = AccelConfig(block_in=4, block_out=4, vector_lanes=4, inp_bits=4)
    >>> pack_tiles(np.array([[1, 2, -1, 0]]), Memory.INP, config).tolist()
    [33, 15, 0, 0, 0, 0, 0, 0]
    """
    shape = tile_shape(memory, config)
    outer = values.shape[: values.ndim - len(shape)]
    flat = values.reshape(*outer, -1)
    bits = element_bits(memory, config)
    if bits < 8:
        data = _pack_small(flat, bits)
    else:
        little = np.ascontiguousarray(
            flat, dtype=np.dtype(f"<u{bits // 8}" if bits == 64 else f"<i{bits // 8}")
        )
        data = little.view(np.uint8)
    room = config.dram_tile_bytes(memory) - data.shape[-1]
    return np.pad(data, [(0, 0)] * len(outer) + [(0, room)]) if room else data


def _pack_small(flat: Array, bits: int) -> NDArray[np.uint8]:
    per_byte = 8 // bits
    short = -flat.shape[-1] % per_byte
    padded = np.pad(flat, [(0, 0)] * (flat.ndim - 1) + [(0, short)])
    groups = padded.reshape(*flat.shape[:-1], -1, per_byte).astype(np.int64) & ((1 << bits) - 1)
    shifted = groups << (bits * np.arange(per_byte))
    packed: NDArray[np.uint8] = np.bitwise_or.reduce(shifted, axis=-1).astype(np.uint8)
    return packed


def unpack_tiles(data: NDArray[np.uint8], memory: Memory, config: AccelConfig) -> Array:
    """Return the tiles of DRAM bytes, uint8[(..., dram_tile_bytes)]: the inverse of `pack_tiles`.

    The result has the type of `element_dtype`.
    """
    shape = tile_shape(memory, config)
    outer = data.shape[:-1]
    count, bits = int(np.prod(shape)), element_bits(memory, config)
    used = np.ascontiguousarray(data[..., : -(-count * bits // 8)])
    if bits < 8:
        elements = _unpack_small(used, bits)[..., :count]
    else:
        elements = used.view(element_dtype(memory, config).newbyteorder("<"))
    return elements.reshape(*outer, *shape)


def _unpack_small(data: NDArray[np.uint8], bits: int) -> NDArray[np.int8]:
    pieces = data[..., None] >> (bits * np.arange(8 // bits, dtype=np.uint8))
    unused = 8 - bits
    left = (pieces << unused).astype(np.uint8).view(np.int8)
    return (left >> unused).reshape(*data.shape[:-1], -1)
