"""The mac array and the accumulation against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.accel.arithmetic import accumulate
from codesign.accel.config import AccelConfig, Memory
from codesign.accel.timing import gemm_tree_stages
from hardware.rtl.accumulate import Accumulate
from hardware.rtl.arm import Arm
from hardware.rtl.mac_array import MacArray
from tests.support.rtl import simulate


def packed(values: np.ndarray, bits: int) -> int:
    word = 0
    for index, value in enumerate(values.ravel()):
        word |= (int(value) & ((1 << bits) - 1)) << (index * bits)
    return word


def unpacked(word: int, bits: int, count: int) -> np.ndarray:
    raw = [(word >> (index * bits)) & ((1 << bits) - 1) for index in range(count)]
    return np.array([each - (1 << bits) if each >> (bits - 1) else each for each in raw])


@pytest.mark.parametrize(
    "shape",
    [(1, 1, 1, 8, 8), (1, 4, 4, 8, 8), (2, 8, 2, 4, 2), (2, 2, 4, 16, 8), (1, 32, 1, 8, 4)],
    ids=str,
)
def test_tile_products_equal_numpy(shape):
    batch, block_in, block_out, inp_bits, wgt_bits = shape
    config = AccelConfig(
        batch=batch,
        block_in=block_in,
        block_out=block_out,
        inp_bits=inp_bits,
        wgt_bits=wgt_bits,
        vector_lanes=1,
    )
    array = MacArray(config, Arm.FPGA)
    latency = 2 + gemm_tree_stages(config)
    rng = np.random.default_rng(5)
    count = 20
    inp = rng.integers(-(1 << (inp_bits - 1)), 1 << (inp_bits - 1), (count, batch, block_in))
    wgt = rng.integers(-(1 << (wgt_bits - 1)), 1 << (wgt_bits - 1), (count, block_out, block_in))
    inp[0], wgt[0] = -(1 << (inp_bits - 1)), -(1 << (wgt_bits - 1))
    wanted = np.einsum("tni,toi->tno", inp, wgt).reshape(count, -1)

    async def bench(ctx):
        ctx.set(array.enable, 1)
        for step in range(count + latency):
            if step < count:
                ctx.set(array.inp, packed(inp[step], inp_bits))
                ctx.set(array.wgt, packed(wgt[step], wgt_bits))
            if step >= latency:
                found = [ctx.get(array.sums[lane]) for lane in range(config.tile_lanes)]
                assert found == wanted[step - latency].tolist()
            await ctx.tick()

    simulate(array, bench)


def run_accumulation(acc_bits, tiles, overwrites, addends):
    """Return the memory's rows, and all saturations, after products given back to back."""
    config = AccelConfig(
        block_in=2, block_out=2, vector_lanes=1, acc_bits=acc_bits, acc_depth=8, acc_banks=1
    )
    circuit = Accumulate(config)
    lanes = config.tile_lanes
    memory = [0] * config.depth(Memory.ACC)
    saturations = 0

    async def bench(ctx):
        nonlocal saturations
        read = 0
        for step in range(len(tiles) + 5):
            given = step < len(tiles)
            ctx.set(circuit.valid, given and tiles[step] is not None)
            if given and tiles[step] is not None:
                ctx.set(circuit.tile, tiles[step])
                ctx.set(circuit.overwrite, overwrites[step])
            ctx.set(circuit.acc_read, read)
            if 2 <= step < len(tiles) + 2:
                ctx.set(circuit.addend, [int(each) for each in addends[step - 2]])
            # The block memory beside the circuit: reads give what was there before the write.
            read = memory[tiles[step]] if given and tiles[step] is not None else 0
            if ctx.get(circuit.write_en):
                memory[ctx.get(circuit.write_tile)] = ctx.get(circuit.write)
                saturations += ctx.get(circuit.saturated)
            await ctx.tick()

    simulate(circuit, bench)
    return np.stack([unpacked(row, acc_bits, lanes) for row in memory]), saturations


def test_eight_products_into_one_accumulator_in_consecutive_cycles():
    addends = np.stack([np.arange(8), -np.arange(8)], axis=1)
    rows, _ = run_accumulation(32, [3] * 8, [True] + [False] * 7, addends)
    assert rows[3].tolist() == [28, -28]


@pytest.mark.parametrize("acc_bits", [16, 32])
@pytest.mark.parametrize("choices", [1, 2, 3, 5], ids="{} tiles".format)
def test_any_order_of_tiles_accumulates(acc_bits, choices):
    rng = np.random.default_rng((acc_bits, choices))
    count = 60
    tiles = [
        int(each) if keep else None
        for each, keep in zip(
            rng.integers(choices, size=count), rng.random(count) < 0.8, strict=True
        )
    ]
    seen: set[int] = set()
    overwrites = []
    for tile in tiles:
        overwrites.append(tile is not None and (tile not in seen or rng.random() < 0.1))
        seen.add(-1 if tile is None else tile)
    addends = rng.integers(-20000, 20000, (count, 2))
    rows, saturations = run_accumulation(acc_bits, tiles, overwrites, addends)
    wanted = np.zeros_like(rows)
    wanted_saturations = 0
    for tile, overwrite, addend in zip(tiles, overwrites, addends, strict=True):
        if tile is not None:
            old = np.zeros(2, dtype=np.int64) if overwrite else wanted[tile]
            wanted[tile], limited = accumulate(old, addend, acc_bits)
            wanted_saturations += limited
    assert rows.tolist() == wanted.tolist()
    assert saturations == wanted_saturations
    assert (saturations > 0) == (acc_bits == 16)
