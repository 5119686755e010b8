"""The search over tilings: what a clock prefers is chosen, and what was timed is remembered."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from codesign.accel.config import AccelConfig
from codesign.accel.isa import Gemm
from codesign.accel.presets import preset
from codesign.accel.program import Program
from codesign.compiler.analysis.infer_types import infer_expression
from codesign.compiler.backends.accel.region import compile_accel
from codesign.compiler.backends.accel.search import ALONE, BEHIND, Clock, Tuning
from codesign.ir.executable.accel_kernel import AccelKernel
from codesign.ir.relay.expr import Expr, Function, Var
from codesign.sim.cycle import program_cycles
from tests.support.regions import Maker, meaning, run_kernel

BASE = preset("base").with_dram(latency_cycles=60)


def _network(maker: Maker, layers: int) -> tuple[Var, Expr]:
    x = maker.var((1, 32, 14, 14))
    body: Expr = x
    for _ in range(layers):
        body = maker.conv(body, (32, 32, 3, 3), padding=(1, 1, 1, 1))
    return x, body


def _compiled(x: Var, body: Expr, clock: Clock | None, config: AccelConfig = BASE) -> AccelKernel:
    function = Function((x,), body)
    tuning = None if clock is None else Tuning(clock)
    return compile_accel(function, infer_expression(function), config, tuning)


def test_layers_of_one_shape_are_timed_once() -> None:
    timed: Counter[int] = Counter()

    def clock(program: Program, config: AccelConfig) -> int:
        timed[len(program.instructions)] += 1
        return program_cycles(program, config)

    x, body = _network(Maker(np.random.default_rng(0)), 6)
    _compiled(x, body, clock)
    # Alone: the first layer reads the input, the others a result of the same shape.
    assert sum(timed.values()) <= ALONE + 3 * BEHIND


def test_a_clock_that_counts_instructions_gets_the_fewest() -> None:
    x, body = _network(Maker(np.random.default_rng(1)), 1)

    def fewest(program: Program, config: AccelConfig) -> int:
        return len(program.instructions)

    def most(program: Program, config: AccelConfig) -> int:
        return -len(program.instructions)

    few, many = (len(_compiled(x, body, each).program.instructions) for each in (fewest, most))
    assert few < many


@pytest.mark.parametrize("name", ["tiny", "edge", "base", "batch4", "batch16", "wide"])
def test_searched_programs_are_as_fast_as_estimated_ones_and_equal_numpy(name: str) -> None:
    config = preset(name).with_dram(latency_cycles=60)
    rng = np.random.default_rng(sum(map(ord, name)))
    maker = Maker(rng)
    x = maker.var((2, 40, 9, 9))
    body = maker.conv(x, (48, 40, 3, 3), padding=(1, 1, 1, 1))
    body = maker.conv(body, (48, 1, 3, 3), groups=48, padding=(1, 1, 1, 1))
    body = maker.add(maker.conv(body, (48, 48, 1, 1)), body)
    searched, estimated = (_compiled(x, body, each, config) for each in (program_cycles, None))
    fast, slow = (program_cycles(each.program, config) for each in (searched, estimated))
    assert fast <= slow
    data = rng.integers(-128, 128, (2, 40, 9, 9)).astype(np.int8)
    (found,) = run_kernel(searched, (data,))
    np.testing.assert_array_equal(found, meaning((body,), {x: data})[0])
    assert any(isinstance(each, Gemm) for each in searched.program.instructions)


def test_what_was_best_for_less_is_tried_for_more() -> None:
    x, body = _network(Maker(np.random.default_rng(3)), 1)
    function = Function((x,), body)
    types = infer_expression(function)
    small = replace(BASE, inp_depth=256, wgt_depth=128, acc_depth=256)
    tuning, asked = Tuning(program_cycles), []

    def clock(program: Program, config: AccelConfig) -> int:
        asked.append(program.instructions)
        return program_cycles(program, config)

    less = compile_accel(function, types, small, tuning)
    tuning.clock = clock
    compile_accel(function, types, BASE, tuning)
    products = [each.extents for each in less.program.instructions if isinstance(each, Gemm)]
    tried = [[each.extents for each in program if isinstance(each, Gemm)] for program in asked]
    assert products in tried
