"""The study's rows: bounds counted by hand, and few cases of the long ones."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.accel.presets import preset
from codesign.ir.relay.expr import Function, Tuple
from codesign.ir.relay.module import Module
from experiments.networks import mobilenet
from experiments.rows.study_bounds import bound_cycles, needs
from experiments.rows.study_random import study_monotone, study_random
from tests.support.regions import Maker


def test_a_bound_counts_macs_and_what_moves_once() -> None:
    maker = Maker(np.random.default_rng(0))
    x = maker.var((1, 32, 8, 8))
    wide = maker.conv(x, (48, 32, 3, 3), padding=(1, 1, 1, 1))
    short = maker.conv(x, (48, 32, 1, 1), strides=(2, 2))
    first, second = (Module({"main": Function((x,), each)}) for each in (wide, short))
    (need,) = needs(first)
    assert need.macs == 48 * 64 * 32 * 9
    assert need.bytes == 32 * 64 + 48 * 32 * 9 + 48 * 64
    assert bound_cycles(first, preset("base")) == need.macs / 256
    (strided,) = needs(second)
    assert strided.bytes == 32 * 16 + 48 * 32 + 48 * 16  # a quarter of the data is read
    assert bound_cycles(second, preset("base")) == strided.bytes / 8


def test_a_sum_costs_one_more_tensor() -> None:
    maker = Maker(np.random.default_rng(1))
    x = maker.var((1, 16, 4, 4))
    module = Module({"main": Function((x,), maker.add(maker.conv(x, (16, 16, 1, 1)), x))})
    (need,) = needs(module)
    assert (need.bytes, need.residual_bytes) == (256 + 256 + 256, 256)


def test_a_pool_behind_a_convolution_moves_its_result_alone() -> None:
    maker = Maker(np.random.default_rng(1))
    x = maker.var((1, 16, 4, 4))
    pool = {"pool_size": (2, 2), "strides": (2, 2)}
    layer = maker.add(maker.conv(x, (16, 16, 1, 1)), x)
    (need,) = needs(Module({"main": Function((x,), maker.max_pool(layer, **pool))}))
    assert (need.macs, need.bytes, need.residual_bytes) == (16 * 256, 256 + 256 + 64, 256)
    both = Tuple((layer, maker.max_pool(layer, **pool)))
    first, second = needs(Module({"main": Function((x,), both)}))
    assert (first.bytes, second.bytes) == (256 + 256 + 256, 256 + 64)


def test_a_product_of_two_tensors_reads_both() -> None:
    maker = Maker(np.random.default_rng(0))
    x, y = maker.var((2, 5, 20)), maker.var((2, 20, 30), "y")
    module = Module({"main": Function((x, y), maker.matmul(x, y, 20, 30, 3))})
    (own,), (tiles,) = needs(module), needs(module, preset("batch4"))
    assert (own.macs, own.bytes) == (2 * 5 * 20 * 30, 2 * (5 * 20 + 20 * 30 + 5 * 30))
    assert (preset("batch4").batch, preset("batch4").block_in) == (4, 8)
    assert (tiles.macs, tiles.bytes) == (2 * 8 * 24 * 32, 2 * (8 * 24 + 24 * 32 + 8 * 32))


def test_a_bound_in_tiles_counts_idle_rows_and_lanes() -> None:
    maker = Maker(np.random.default_rng(0))
    x = maker.var((1, 20, 8, 8))
    module = Module({"main": Function((x,), maker.conv(x, (30, 20, 1, 1)))})
    (own,), (base,) = needs(module), needs(module, preset("base"))
    assert (own.macs, own.bytes) == (64 * 20 * 30, 64 * 20 + 20 * 30 + 64 * 30)
    assert (base.macs, base.bytes) == (64 * 32 * 32, 64 * 32 + 32 * 32 + 64 * 32)
    (batch,) = needs(module, preset("batch16"))
    assert batch.macs == 16 * 64 * 20 * 32  # 16 rows of which 15 are idle


def test_mobilenet_has_the_published_number_of_parameters() -> None:
    learned = [w for w in mobilenet.to_onnx().graph.initializer if "limit" not in w.name]
    counted = [w for w in learned if not w.name.endswith((".mean", ".variance"))]
    assert sum(int(np.prod(w.dims)) for w in counted) == 4_231_976  # 4.2 million in the paper


def test_few_random_layers_are_right() -> None:
    assert study_random(6).value == 0


@pytest.mark.slow
def test_more_of_anything_is_not_slower() -> None:
    assert study_monotone(30).value == 0
