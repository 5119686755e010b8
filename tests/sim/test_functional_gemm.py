"""gemm by matrix products: sums longer than floating point is exact for, extremes, every loop."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.accel.config import AccelConfig, Memory
from codesign.accel.isa import Gemm
from codesign.diagnostics import CodesignError
from codesign.sim import functional_gemm
from codesign.sim.functional_gemm import MatrixStep
from codesign.sim.state import Scratchpads

CONFIGS = {
    "int8": AccelConfig(),
    "int8 in rows": AccelConfig(batch=4, block_in=8, block_out=8, wgt_depth=4096),
    "int16": AccelConfig(inp_bits=16),
    "int16 by int2": AccelConfig(inp_bits=16, wgt_bits=2),
}


def _filled(config: AccelConfig, rng: np.random.Generator) -> Scratchpads:
    """Return scratchpads where most elements are the most negative: sums grow past 2**24."""
    state = Scratchpads(config)
    for memory, bits in ((Memory.INP, config.inp_bits), (Memory.WGT, config.wgt_bits)):
        tiles = state.whole(memory)
        limit = 1 << (bits - 1)
        values = rng.integers(-limit, limit, tiles.shape)
        tiles[...] = np.where(rng.integers(8, size=tiles.shape), -limit, values)
    acc = state.whole(Memory.ACC)
    acc[...] = rng.integers(-(1 << 31), 1 << 31, acc.shape)
    for memory in Memory:
        state.written(memory)[...] = True
    return state


def _gemm(*, accumulate: bool) -> Gemm:
    """Return 2 groups of 3 positions by 4 channels, and sums over 6 x 50 tiles that overlap."""
    return Gemm(
        accumulate=accumulate,
        reduce=0b110000,
        extents=(2, 3, 1, 4, 6, 50),
        acc=5,
        acc_strides=(100, 4, 7, 1, 0, 0),
        inp=2,
        inp_strides=(301, 3, 9, 0, 50, 1),
        wgt=1,
        wgt_strides=(2, 0, 9, 30, 101, 2),
    )


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("name", CONFIGS)
def test_long_sums_are_exact_modulo_two_to_the_32(name: str, accumulate: bool) -> None:
    config = CONFIGS[name]
    state = _filled(config, np.random.default_rng(len(name)))
    gemm = _gemm(accumulate=accumulate)
    expected = state.whole(Memory.ACC).copy()
    inp, wgt = (state.whole(m).astype(np.int64) for m in (Memory.INP, Memory.WGT))
    largest = 0
    for group, position, channel in np.ndindex(2, 3, 4):
        acc = 5 + 100 * group + 4 * position + channel
        total = expected[acc].astype(np.int64) if accumulate else np.int64(0)
        for outer, inner in np.ndindex(6, 50):
            row = inp[2 + 301 * group + 3 * position + 50 * outer + inner]
            column = wgt[1 + 2 * group + 30 * channel + 101 * outer + 2 * inner]
            total = total + row @ column.T
        largest = max(largest, int(np.abs(total).max()))
        expected[acc] = (total & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
    step = functional_gemm.prepare(gemm, config)
    assert isinstance(step, MatrixStep)
    assert functional_gemm.gemm(step, config, state) == 0
    assert largest > 1 << 24
    np.testing.assert_array_equal(state.whole(Memory.ACC), expected)


@pytest.mark.parametrize("memory", [Memory.INP, Memory.WGT, Memory.ACC])
@pytest.mark.parametrize("acc_bits", [16, 32])
def test_a_tile_that_nothing_wrote_is_named(memory: Memory, acc_bits: int) -> None:
    config = AccelConfig(acc_bits=acc_bits)
    state = _filled(config, np.random.default_rng(0))
    tile = {Memory.INP: 2 + 301 + 40, Memory.WGT: 1 + 90 + 505, Memory.ACC: 5 + 100 + 8}[memory]
    state.written(memory)[tile] = False
    step = functional_gemm.prepare(_gemm(accumulate=True), config)
    message = rf"tile {tile} of {memory.name.lower()} is read, but nothing has written it"
    with pytest.raises(CodesignError, match=message):
        functional_gemm.gemm(step, config, state)


def test_accumulators_that_are_overwritten_may_hold_nothing() -> None:
    config = AccelConfig()
    state = _filled(config, np.random.default_rng(0))
    state.written(Memory.ACC)[...] = False
    functional_gemm.gemm(functional_gemm.prepare(_gemm(accumulate=False), config), config, state)
    assert int(state.written(Memory.ACC).sum()) == 2 * 3 * 4
