"""A convolution takes the pool on its result along: same bits as NumPy's two steps, one layer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from codesign.accel.config import AccelConfig
from codesign.compiler.backends.accel.search import Tuning
from codesign.ir.relay.expr import Call, Constant, Expr, OpRef, Tuple, Var
from codesign.sim.cycle import program_cycles
from tests.support.regions import CONFIGS, Maker, assert_same, kernel_of

OVERLAPPING = {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1, 1, 1)}
UNEVEN = {"pool_size": (2, 3), "strides": (1, 3), "padding": (1, 0, 0, 2)}
APART = {"pool_size": (2, 2), "strides": (2, 2)}
POOLS = {"overlapping": OVERLAPPING, "uneven": UNEVEN, "apart": APART}
ROOMY = [name for name in CONFIGS if name != "minute"]
RISING = np.repeat(np.arange(-64, 64), 2).astype(np.int8)

FEW_TILES = replace(
    CONFIGS["small"], inp_depth=64, vec_depth=64, acc_depth=64, out_depth=16, has_multiplier=True
)


def _layers(params: tuple[Var, ...], body: Expr, config: AccelConfig) -> list[str]:
    return [layer.operator for layer in kernel_of(params, body, config).layers]


def _conv(maker: Maker) -> tuple[Var, Call]:
    x = maker.var((3, 10, 7, 6))
    return x, maker.conv(x, (20, 10, 3, 2), padding=(1, 0, 1, 1))


def _table(x: Expr, table: np.ndarray) -> Call:
    return Call(OpRef("qnn.lookup"), (x, Constant(table)))


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("config", ROOMY)
def test_pools_equal_numpy(config: str, pool: str) -> None:
    _assert_pools(config, pool, None)


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("config", ["base", "batch4", "one-bank", "wide-bus"])
def test_pools_that_a_clock_has_tiled_equal_numpy(config: str, pool: str) -> None:
    _assert_pools(config, pool, Tuning(program_cycles))


def _assert_pools(config: str, pool: str, tuning: Tuning | None) -> None:
    rng = np.random.default_rng(sum(map(ord, config + pool)))
    maker = Maker(rng)
    x, layer = _conv(maker)
    for body in (maker.max_pool(layer, **POOLS[pool]), maker.sum_pool(layer, 20, **POOLS[pool])):
        assert_same((x,), body, CONFIGS[config], rng, tuning=tuning)


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("config", ROOMY)
def test_pools_behind_a_residual_equal_numpy(config: str, pool: str) -> None:
    rng = np.random.default_rng(sum(map(ord, config + pool)) + 1)
    maker = Maker(rng)
    x, layer = _conv(maker)
    other = maker.var((3, 20, 7, 6), "other")
    added = maker.add(other, layer)
    for body in (
        maker.max_pool(added, **POOLS[pool]),
        maker.lookup(maker.sum_pool(added, 20, **POOLS[pool])),
    ):
        assert_same((x, other), body, CONFIGS[config], rng)


def test_a_convolution_and_its_pool_are_one_layer() -> None:
    rng = np.random.default_rng(2)
    maker = Maker(rng)
    x = maker.var((1, 16, 8, 8))
    body = maker.max_pool(maker.conv(x, (32, 16, 3, 3), padding=(1, 1, 1, 1)), **APART)
    (layer,) = kernel_of((x,), body, CONFIGS["base"]).layers
    assert (layer.operator, layer.unit) == ("qnn.conv2d", "gemm")
    assert layer.macs == 64 * 32 * 16 * 9
    assert layer.bytes_written == 16 * 32
    assert layer.vector_cycles == 64 * 2  # one visit to each sum of two tiles of channels


def test_the_stem_of_a_residual_network_is_one_layer() -> None:
    rng = np.random.default_rng(3)
    maker = Maker(rng)
    x = maker.var((1, 3, 30, 30))
    layer = maker.conv(x, (24, 3, 7, 7), strides=(2, 2), padding=(3, 3, 3, 3))
    body = maker.max_pool(layer, **OVERLAPPING)
    assert _layers((x,), body, CONFIGS["base"]) == ["qnn.conv2d"]
    assert_same((x,), body, CONFIGS["base"], rng, tuning=Tuning(program_cycles))


def test_the_average_at_the_end_of_a_residual_network_is_no_layer_of_its_own() -> None:
    rng = np.random.default_rng(4)
    maker = Maker(rng)
    x, other = maker.var((1, 32, 7, 7)), maker.var((1, 32, 7, 7), "other")
    added = maker.add(maker.conv(x, (32, 32, 3, 3), padding=(1, 1, 1, 1)), other)
    body = maker.sum_pool(added, 32, pool_size=(7, 7))
    assert _layers((x, other), body, CONFIGS["base"]) == ["qnn.conv2d"]
    assert_same((x, other), body, CONFIGS["base"], rng)


def test_tiles_compute_anew_what_their_windows_share() -> None:
    rng = np.random.default_rng(5)
    maker = Maker(rng)
    x = maker.var((1, 4, 12, 12))
    body = maker.max_pool(maker.conv(x, (4, 4, 1, 1)), pool_size=(3, 3))
    (layer,) = kernel_of((x,), body, FEW_TILES).layers
    assert layer.gemm_cycles > 144  # sums of 12 x 12 places, 16 to an accumulator bank
    assert_same((x,), body, FEW_TILES, rng)


@pytest.mark.parametrize("groups", [2, 20])
def test_groups_take_pools_along_where_the_array_runs_them(groups: int) -> None:
    rng = np.random.default_rng(6)
    maker = Maker(rng)
    x = maker.var((2, 20, 6, 6))
    layer = maker.conv(x, (20, 20 // groups, 3, 3), groups=groups)
    config = replace(CONFIGS["base"], has_multiplier=False)
    body = maker.max_pool(layer, **APART)
    assert _layers((x,), body, config) == ["qnn.conv2d"]
    assert_same((x,), body, config, rng)


def test_tables_that_rise_stand_behind_the_maximum() -> None:
    rng = np.random.default_rng(7)
    maker = Maker(rng)
    x, layer = _conv(maker)
    rising = maker.max_pool(_table(layer, RISING), **OVERLAPPING)
    body = maker.lookup(rising)
    assert _layers((x,), body, CONFIGS["base"]) == ["qnn.conv2d"]
    assert_same((x,), rising, CONFIGS["base"], rng)
    assert_same((x,), body, CONFIGS["base"], rng)


@pytest.mark.parametrize("kind", ["falling table", "table and sum"])
def test_what_changes_the_order_or_the_sum_stays_apart(kind: str) -> None:
    rng = np.random.default_rng(8)
    maker = Maker(rng)
    x, layer = _conv(maker)
    if kind == "falling table":
        body = maker.max_pool(_table(layer, RISING[::-1].copy()), **OVERLAPPING)
    else:
        body = maker.sum_pool(_table(layer, RISING), 20, **OVERLAPPING)
    assert len(_layers((x,), body, CONFIGS["base"])) == 2
    assert_same((x,), body, CONFIGS["base"], rng)


def test_a_result_with_another_reader_is_pooled_apart() -> None:
    rng = np.random.default_rng(9)
    maker = Maker(rng)
    x, layer = _conv(maker)
    both = Tuple((layer, maker.max_pool(layer, **APART)))
    assert _layers((x,), both, CONFIGS["base"]) == ["qnn.conv2d", "nn.max_pool2d"]
    assert_same((x,), both, CONFIGS["base"], rng)


def test_of_two_pools_the_second_is_a_layer_of_its_own() -> None:
    rng = np.random.default_rng(12)
    maker = Maker(rng)
    x, layer = _conv(maker)
    body = maker.max_pool(maker.max_pool(layer, **APART), **OVERLAPPING)
    assert _layers((x,), body, CONFIGS["base"]) == ["qnn.conv2d", "nn.max_pool2d"]
    assert_same((x,), body, CONFIGS["base"], rng)


def test_a_window_beyond_an_accumulator_bank_stays_apart() -> None:
    rng = np.random.default_rng(10)
    maker = Maker(rng)
    x = maker.var((1, 4, 6, 6))
    body = maker.max_pool(maker.conv(x, (4, 4, 1, 1)), pool_size=(5, 5))
    assert len(_layers((x,), body, FEW_TILES)) == 2  # 25 sums, 16 to a bank
    assert_same((x,), body, FEW_TILES, rng)


@pytest.mark.parametrize("seed", range(6))
def test_one_layer_is_never_slower_than_two(seed: int) -> None:
    rng = np.random.default_rng((seed, 11))
    maker = Maker(rng)
    x = maker.var((1, int(rng.integers(4, 40)), 14, 14))
    outputs, kernel = int(rng.integers(8, 64)), int(rng.choice([1, 3]))
    layer = maker.conv(x, (outputs, x.annotation.shape[1], kernel, kernel))
    body = maker.max_pool(layer, **list(POOLS.values())[seed % 3])
    config = CONFIGS["edge" if seed % 2 else "base"].with_dram(latency_cycles=20)
    cycles = [
        program_cycles(kernel_of((x,), each, config, Tuning(program_cycles)).program, config)
        for each in (body, Tuple((layer, body)))
    ]
    assert cycles[0] <= cycles[1]
