"""Depthwise layers on both units at once: the same bits, and about half the time."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.accel.config import AccelConfig
from codesign.accel.isa import Gemm, Vector, XSource
from codesign.accel.presets import preset
from codesign.ir.executable.accel_kernel import AccelKernel
from codesign.ir.relay.expr import Call, Var
from codesign.sim.cycle import CycleSimulator
from tests.support.regions import Maker, assert_same, kernel_of

SHARED = {
    "tiny": preset("tiny"),
    "base": preset("base"),
    "batch4": preset("batch4"),
    "batch16": preset("batch16"),
    "one-bank": AccelConfig(acc_banks=1, block_in=4, block_out=4, vector_lanes=4, bus_bits=32),
}


def _layer(rng: np.random.Generator, kernel: int, stride: int, channels: int) -> tuple[Var, Call]:
    maker = Maker(rng)
    x = maker.var((2, channels, 19, 17))
    pad = (kernel // 2,) * 4
    weight = (channels, 1, kernel, kernel)
    return x, maker.conv(x, weight, groups=channels, padding=pad, strides=(stride, stride))


def _units(kernel: AccelKernel) -> tuple[int, int]:
    program = kernel.program.instructions
    products = sum(isinstance(each, Gemm) for each in program)
    windows = sum(isinstance(each, Vector) and each.x_source is XSource.VEC for each in program)
    return products, windows


@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (5, 2), (5, 1)])
@pytest.mark.parametrize("config", SHARED)
def test_shared_depthwise_equals_numpy(config: str, kernel: int, stride: int) -> None:
    rng = np.random.default_rng(sum(map(ord, config)) + kernel + stride)
    x, body = _layer(rng, kernel, stride, 36)
    assert _units(kernel_of((x,), body, SHARED[config]))[0] > 0
    assert_same((x,), body, SHARED[config], rng)


def test_both_units_work_and_take_half_of_the_vector_units_time() -> None:
    config = preset("base")
    x, body = _layer(np.random.default_rng(7), 5, 1, 256)
    kernel = kernel_of((x,), body, config)
    products, windows = _units(kernel)
    assert products > 0
    assert windows > 0
    cycles = CycleSimulator(config).run(kernel.program, (0, 1 << 20)).cycles
    on_vector_alone = 2 * 16 * 19 * 17 * 25
    assert cycles < 0.62 * on_vector_alone


def test_a_vector_unit_without_multiplier_leaves_all_to_the_array() -> None:
    config = AccelConfig(has_multiplier=False)
    rng = np.random.default_rng(8)
    x, body = _layer(rng, 3, 1, 33)
    assert _units(kernel_of((x,), body, config))[1] == 0
    assert_same((x,), body, config, rng)
