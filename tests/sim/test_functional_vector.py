"""The compiled vector unit against the NumPy rules, on values where widths and ties matter."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from codesign.accel import legality
from codesign.accel.arithmetic import pack_parameters
from codesign.accel.config import AccelConfig, Memory
from codesign.accel.isa import (
    Destination,
    Reduce,
    Vector,
    VectorOp,
    XSource,
    YSource,
)
from codesign.dtypes import Array
from codesign.sim import functional_vector
from codesign.sim.functional_lanes import BLOCK_LANES
from codesign.sim.state import Scratchpads
from tests.support import vector_by_numpy

CONFIGS = {
    "int8": AccelConfig(),
    "int8 in rows": AccelConfig(batch=16, block_in=4, block_out=4, vector_lanes=4),
    "int16": AccelConfig(inp_bits=16, block_out=8, vector_lanes=8),
    "int4 in 16 bits": AccelConfig(inp_bits=4, acc_bits=16),
}


def _filled(config: AccelConfig, rng: np.random.Generator) -> Scratchpads:
    """Return scratchpads full of values of every magnitude, extremes among them."""
    state = Scratchpads(config)
    bits = {Memory.ACC: config.acc_bits, Memory.WGT: config.wgt_bits}
    for memory in Memory:
        tiles = state.whole(memory)
        if memory is Memory.PARAM:
            tiles[...] = _words(tiles.shape, rng)
        else:
            limit = 1 << (bits.get(memory, config.inp_bits) - 1)
            values = rng.integers(-limit, limit, tiles.shape)
            values >>= rng.integers(0, limit.bit_length(), tiles.shape)
            extreme = rng.choice([-limit, limit - 1], tiles.shape)
            tiles[...] = np.where(rng.integers(4, size=tiles.shape), values, extreme)
        state.written(memory)[...] = True
    return state


def _words(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    bias = rng.integers(-(1 << 31), 1 << 31, shape) >> rng.integers(0, 32, shape)
    multiplier = rng.integers(-(1 << 23), 1 << 23, shape) >> rng.integers(0, 24, shape)
    return pack_parameters(bias, multiplier, rng.integers(0, 57, shape))


def _random(
    config: AccelConfig, rng: np.random.Generator, op: VectorOp, destination: Destination
) -> Vector:
    """Return a legal instruction of more iterations than one block holds."""
    while True:
        vector = _candidate(config, rng, op, destination)
        if not list(legality.broken_rules(vector, config, ())):
            return vector


def _candidate(
    config: AccelConfig, rng: np.random.Generator, op: VectorOp, destination: Destination
) -> Vector:
    residual = op is VectorOp.PASS and bool(rng.integers(2))
    reduce_loops = 0 if residual else int(rng.integers(3))
    y_source = YSource.IMMEDIATE if op is VectorOp.PASS else YSource(int(rng.integers(4)))
    half = 1 << (config.inp_bits - 1)
    low, high = sorted(int(v) for v in rng.integers(-half, half, 2))
    tiles = BLOCK_LANES // config.tile_lanes + int(rng.integers(1, 9))
    inner = tuple(int(v) for v in rng.integers(2, 4, reduce_loops))

    def strides(*, moves_inner: bool) -> tuple[int, ...]:
        outer = (0, 0, 0, int(rng.choice([0, 1, tiles])), 1)[reduce_loops:]
        return (*outer, *(int(v) * moves_inner for v in rng.integers(0, 3, reduce_loops)))

    x, dst = (int(v) for v in rng.integers(0, 8, 2))
    x_strides, dst_strides = strides(moves_inner=True), strides(moves_inner=False)
    if rng.integers(2):
        dst, dst_strides = x, x_strides
    return Vector(
        op=op,
        reduce=Reduce(int(rng.integers(1, 4))) if reduce_loops else Reduce.NONE,
        reduce_loops=reduce_loops,
        x_source=XSource.ACC if residual else XSource(int(rng.integers(2))),
        y_source=YSource.VEC if residual else y_source,
        destination=destination,
        requantize=residual or bool(rng.integers(2)),
        residual=residual,
        lookup=destination is Destination.OUT and bool(rng.integers(2)),
        extents=(*(1, 1, 1, 2, tiles)[reduce_loops:], *inner),
        dst=dst,
        dst_strides=dst_strides,
        x=x,
        x_strides=x_strides,
        y=int(rng.integers(8)),
        y_strides=strides(moves_inner=True),
        q=int(rng.integers(8)),
        q_strides=strides(moves_inner=False),
        immediate=int(rng.integers(-(1 << 15), 1 << 15)),
        residual_shift=int(rng.integers(25)),
        vec_zero_point=int(rng.choice([-half, half - 1, 0, 3])),
        zero_point=int(rng.choice([-half, half - 1, 0, 3])),
        low=low,
        high=high,
        lut_base=256 * int(rng.integers(config.lut_depth // 256)),
    )


@pytest.mark.parametrize("op", list(VectorOp))
@pytest.mark.parametrize("name", CONFIGS)
def test_compiled_loops_keep_the_numpy_rules(name: str, op: VectorOp) -> None:
    config = CONFIGS[name]
    rng = np.random.default_rng(int(op))
    state = _filled(config, rng)
    for destination in [Destination.ACC, Destination.OUT] * 6:
        vector = _random(config, rng, op, destination)
        before = {memory: state.whole(memory).copy() for memory in Memory}
        expected = {memory: tiles.copy() for memory, tiles in before.items()}
        vector_by_numpy.execute(vector, config, expected)
        step = functional_vector.prepare(vector, config)
        functional_vector.vector(step, functional_vector.pads_of(state))
        for memory in Memory:
            np.testing.assert_array_equal(state.whole(memory), expected[memory])
        written = Memory.ACC if destination is Destination.ACC else Memory.OUT
        assert (before[written] != expected[written]).any() or vector.low == vector.high
        state.whole(Memory.ACC)[...] = before[Memory.ACC]


def test_random_instructions_reach_every_kind_of_work() -> None:
    config = CONFIGS["int8"]
    seen: set[tuple[object, ...]] = set()
    for op in VectorOp:
        rng = np.random.default_rng(int(op))
        for destination in [Destination.ACC, Destination.OUT] * 30:
            each = _random(config, rng, op, destination)
            seen |= {("x", op, each.x_source, destination), ("y", op, each.y_source)}
            seen |= {("reduce", op, each.reduce), ("requantize", op, each.requantize)}
            seen |= {("in place", each.x_source, each.x == each.dst)}
            seen |= {("lookup", op, each.lookup), ("residual", each.residual)}
    kinds = Counter(str(each[0]) for each in seen)
    assert kinds["x"] == kinds["reduce"] == 4 * len(VectorOp)
    assert kinds["y"] == 4 * (len(VectorOp) - 1) + 2
    assert kinds["requantize"] == kinds["lookup"] == 2 * len(VectorOp)
    assert {("in place", XSource.ACC, True), ("residual", True)} <= seen
