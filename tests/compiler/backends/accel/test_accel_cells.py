"""Steps of recurrent networks on the accelerator: gates over joined operands, then by elements."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.accel.config import AccelConfig, Memory
from codesign.accel.isa import Load
from codesign.compiler.analysis.infer_types import infer_expression
from codesign.compiler.backends.accel.interleave import interleaved
from codesign.compiler.backends.accel.node import Node, Region
from codesign.compiler.backends.accel.search import Tuning
from codesign.compiler.partition.assign import assign
from codesign.ir.relay.expr import Call, Expr, OpRef, Tuple, Var
from codesign.ops.axis import AxisAttrs
from codesign.sim.cycle import program_cycles, time_program
from tests.support.regions import (
    CONFIGS,
    Maker,
    assert_same,
    kernel_of,
    meaning,
    run_parts,
    with_dram,
)


def _join(*parts: Expr) -> Call:
    return Call(OpRef("concatenate"), (Tuple(parts),), AxisAttrs(axis=1))


def _step(maker: Maker, samples: int, inputs: int, hidden: int) -> tuple[tuple[Var, ...], Tuple]:
    """Return the parameters and results of an LSTM's step with random numbers."""
    x, h, c = (
        maker.var((samples, width), name)
        for name, width in (("x", inputs), ("h", hidden), ("c", hidden))
    )
    both = _join(x, h)
    width = inputs + hidden
    i, f, g, o = (maker.lookup(maker.dense(both, (hidden, width))) for _ in range(4))
    cell = maker.add(maker.multiply(f, c), maker.multiply(i, g))
    return (x, h, c), Tuple((maker.multiply(o, maker.lookup(cell)), cell))


@pytest.mark.parametrize(
    ("config", "samples"),
    [("tiny", 1), ("base", 1), ("base", 3), ("batch4", 6), ("batch16", 5), ("one-bank", 2),
     ("unequal", 2), ("unequal-up", 3), ("small", 2), ("minute", 1)],
)  # fmt: skip
def test_a_step_equals_numpy(config: str, samples: int) -> None:
    rng = np.random.default_rng(samples)
    params, results = _step(Maker(rng), samples, inputs=11, hidden=21)
    assert_same(params, results, CONFIGS[config], rng)


@pytest.mark.parametrize("config", ["tiny", "batch4", "one-bank"])
def test_a_step_that_a_clock_has_put_in_order_equals_numpy(config: str) -> None:
    rng = np.random.default_rng(7)
    params, results = _step(Maker(rng), 2, inputs=19, hidden=37)
    assert_same(params, results, CONFIGS[config], rng, tuning=Tuning(program_cycles))


def test_everything_of_a_step_is_on_the_accelerator() -> None:
    params, results = _step(Maker(np.random.default_rng(0)), 1, inputs=11, hidden=21)
    types = infer_expression(results)
    assert assign(results.fields, types, CONFIGS["base"]).reasons == {}
    assert len(params) == 3


def test_weights_are_loaded_once_and_stream() -> None:
    """Four gates of 160 over 256 numbers: the memory's bus is busy for nearly all of the time."""
    config = with_dram(CONFIGS["edge"], 60)
    params, results = _step(Maker(np.random.default_rng(1)), 1, inputs=96, hidden=160)
    kernel = kernel_of(params, results, config, Tuning(program_cycles))
    loads = [each for each in kernel.program.instructions if isinstance(each, Load)]
    weights = [each for each in loads if each.memory is Memory.WGT]
    tiles = sum(each.size[0] * each.size[1] * each.size[2] for each in weights)
    assert tiles == 4 * (160 // 8) * (256 // 8)
    found = time_program(kernel.program, config)
    moved = found.counters.bytes_read + found.counters.bytes_written
    assert moved / config.bus_bytes / found.cycles > 0.96
    written = kernel_of(params, results, config)
    assert found.cycles < time_program(written.program, config).cycles


def test_a_join_that_the_host_reads_too_is_made_by_the_host() -> None:
    rng = np.random.default_rng(2)
    maker = Maker(rng)
    x, y = maker.var((2, 5), "x"), maker.var((2, 9), "y")
    both = _join(x, y)
    on_chip = maker.dense(both, (20, 14))
    sums = Call(OpRef("qnn.dense"), (both, *maker.dense(both, (6, 14)).args[0].args[1:]),
                maker.dense(both, (6, 14)).args[0].attrs)  # fmt: skip
    results = (on_chip, sums)
    types = infer_expression(Tuple(results))
    found = assign(results, types, CONFIGS["base"])
    assert found.reasons[both] == "a product that reads it is on the host"
    values = {each: maker.data(each.annotation.shape) for each in (x, y)}
    for want, got in zip(
        meaning(results, values), run_parts(results, values, CONFIGS["base"]), strict=True
    ):
        np.testing.assert_array_equal(got, want)


def _load(first: int, count: int, *, memory: Memory = Memory.WGT, reads: str = "") -> Node:
    load = Load(memory=memory, sram=first, segment=0, address=0, size=(1, 1, count))
    written = (Region(memory, ((first, first + count),)),)
    return Node(load, (Region(reads, ((0, 1),)),) if reads else (), written)


def test_what_touches_one_tile_keeps_its_order() -> None:
    """A short load stands before long ones, unless it overwrites what they bring."""
    config = AccelConfig()
    long, other = _load(0, 64), _load(64, 64)
    short = _load(0, 8, memory=Memory.VEC)
    assert interleaved([long, other, short], config) == (2, 0, 1)
    again = _load(32, 64)
    assert interleaved([long, other, again], config) == (0, 1, 2)
    assert interleaved([long, again, other, short], config)[1:] == (0, 1, 2)
