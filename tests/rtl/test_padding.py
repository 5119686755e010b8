"""Padding and bursts of a box against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.accel.config import PAGE_BYTES, AccelConfig
from hardware.rtl.box_walker import BoxWalker
from hardware.rtl.padding import PaddingWalker
from tests.support.rtl import simulate

CONFIG = AccelConfig(block_in=4, block_out=4, vector_lanes=4, bus_bits=32, burst_beats=8)
TILE_BITS = 11

PADS = [
    (1, 0, 0, 0),
    (0, 1, 0, 0),
    (0, 0, 1, 0),
    (0, 0, 0, 1),
    (2, 1, 0, 0),
    (0, 0, 2, 1),
    (1, 1, 1, 1),
    (0, 3, 0, 2),
    (3, 0, 1, 0),
    (0, 1, 2, 0),
    (1, 0, 0, 2),
]


@pytest.mark.parametrize("pad", PADS, ids=str)
@pytest.mark.parametrize("size", [(1, 1, 1), (2, 3, 4), (3, 1, 2), (1, 4, 1)], ids=str)
def test_padding_tiles_in_the_order_of_the_box(size, pad):
    sram = 37
    top, bottom, left, right = pad
    depth, height, width = size
    is_padding = np.ones((depth, top + height + bottom, left + width + right), dtype=bool)
    is_padding[:, top : top + height, left : left + width] = False
    wanted = (sram + np.flatnonzero(is_padding)).tolist()
    walker = PaddingWalker(CONFIG, TILE_BITS)

    async def bench(ctx):
        ctx.set(walker.sram, sram)
        ctx.set(walker.size, [extent - 1 for extent in size])
        ctx.set(walker.pad, list(pad))
        ctx.set(walker.take, 1)
        await ctx.tick()
        ctx.set(walker.take, 0)
        for index, tile in enumerate(wanted):
            assert ctx.get(walker.tile) == tile
            assert ctx.get(walker.last) == (index == len(wanted) - 1)
            await ctx.tick()  # a cycle in which nothing is written
            assert ctx.get(walker.tile) == tile
            ctx.set(walker.step, 1)
            await ctx.tick()
            ctx.set(walker.step, 0)

    simulate(walker, bench)


def expected_bursts(address, size, stride):
    """Cut every row at burst length and 4 KiB, in beats."""
    page = PAGE_BYTES // CONFIG.bus_bytes
    for z in range(size[0]):
        for y in range(size[1]):
            at = address + z * stride[0] + y * stride[1]
            left = size[2]
            while left:
                beats = min(left, CONFIG.burst_beats, page - at % page)
                left -= beats
                row_end = left == 0
                plane_end = row_end and y == size[1] - 1
                yield at, beats, row_end, plane_end, plane_end and z == size[0] - 1
                at += beats


@pytest.mark.parametrize("seed", range(8))
def test_bursts_of_a_box_under_stalls(seed):
    rng = np.random.default_rng(seed)
    size = (int(rng.integers(1, 4)), int(rng.integers(1, 4)), int(rng.integers(1, 30)))
    stride = (int(rng.integers(3000)), int(rng.integers(300)))
    address = int(rng.integers(1, 4)) * 1024 - int(rng.integers(40))
    walker = BoxWalker(CONFIG)
    found = []

    async def bench(ctx):
        ctx.set(walker.address, address)
        ctx.set(walker.planes, size[0] - 1)
        ctx.set(walker.rows, size[1] - 1)
        ctx.set(walker.row_beats, size[2])
        ctx.set(walker.stride, list(stride))
        ctx.set(walker.take, 1)
        ctx.set(walker.begin, 1)
        await ctx.tick()
        ctx.set(walker.take, 0)
        ctx.set(walker.begin, 0)
        while ctx.get(walker.active):
            ctx.set(walker.hold, bool(rng.random() < 0.3))
            grant = bool(ctx.get(walker.request_valid)) and rng.random() < 0.6
            ctx.set(walker.grant, grant)
            if grant:
                ends = (walker.row_end, walker.plane_end, walker.last)
                found.append(
                    (
                        ctx.get(walker.request.address),
                        ctx.get(walker.request.last) + 1,
                        *(bool(ctx.get(end)) for end in ends),
                    )
                )
            await ctx.tick()

    simulate(walker, bench)
    assert found == list(expected_bursts(address, size, stride))
