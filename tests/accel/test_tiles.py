"""Tiles as DRAM bytes: hand-made bytes, and packing against unpacking."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.accel.config import AccelConfig, Memory
from codesign.accel.tiles import element_bits, pack_tiles, tile_shape, unpack_tiles
from tests.support.programs import random_config

NARROW = AccelConfig(block_in=2, block_out=2, vector_lanes=2, inp_bits=4, wgt_bits=2, bus_bits=32)


def test_small_elements_share_bytes_low_bits_first() -> None:
    inp = np.array([[[-1, 2]]], np.int8)
    assert pack_tiles(inp, Memory.INP, NARROW).tolist() == [[0x2F, 0, 0, 0]]
    wgt = np.array([[[1, -2], [-1, 0]]], np.int8)
    assert pack_tiles(wgt, Memory.WGT, NARROW).tolist() == [[0b00111001, 0, 0, 0]]


def test_wide_elements_are_little_endian_and_row_major() -> None:
    config = AccelConfig(batch=2, block_in=2, inp_bits=16, bus_bits=32)
    inp = np.array([[[1, 2], [3, -2]]], np.int16)
    assert pack_tiles(inp, Memory.INP, config).tolist() == [[1, 0, 2, 0, 3, 0, 0xFE, 0xFF]]


@pytest.mark.parametrize("seed", range(20))
def test_unpacking_returns_what_was_packed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    config = random_config(rng)
    for memory in (Memory.INP, Memory.WGT, Memory.VEC, Memory.OUT, Memory.LUT):
        half = 1 << (element_bits(memory, config) - 1)
        values = rng.integers(-half, half, (2, 3, *tile_shape(memory, config)))
        data = pack_tiles(values, memory, config)
        assert data.shape == (2, 3, config.dram_tile_bytes(memory))
        assert (unpack_tiles(data, memory, config) == values).all()
    words = rng.integers(0, 1 << 64, (4, config.block_out), dtype=np.uint64)
    data = pack_tiles(words, Memory.PARAM, config)
    assert (unpack_tiles(data, Memory.PARAM, config) == words).all()
