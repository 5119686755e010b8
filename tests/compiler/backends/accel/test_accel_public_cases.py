"""Mistakes that users of other accelerator compilers reported; the right answers are by hand."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.accel.config import AccelConfig
from codesign.ir.relay.expr import Call, Constant, Expr, OpRef, Var
from codesign.ops.qnn.conv2d import QConv2DAttrs
from codesign.ops.qnn.requantize import RequantizeAttrs
from tests.support.regions import CONFIGS, Maker, assert_same, kernel_of, run_kernel


def _scaled(sums: Expr, channels: int, multiplier: int, shift: int) -> Call:
    """Give sums * multiplier / 2**shift."""
    words = [np.full(channels, each, np.int32) for each in (0, multiplier, shift)]
    return Call(
        OpRef("qnn.requantize"), (sums, *(Constant(word) for word in words)), RequantizeAttrs()
    )


@pytest.mark.parametrize("config", ["tiny", "base", "batch4", "one", "small"])
def test_depthwise_takes_each_channel_by_its_own_filter(config: str) -> None:
    x = Var("x", Maker(np.random.default_rng(0)).var((1, 2, 4, 4)).annotation)
    weight = np.stack([np.full((1, 3, 3), 1), np.full((1, 3, 3), 2)]).astype(np.int8)
    sums = Call(OpRef("qnn.conv2d"), (x, Constant(weight)), QConv2DAttrs(groups=2))
    data = np.arange(32, dtype=np.int8).reshape(1, 2, 4, 4)
    (quarter,) = run_kernel(kernel_of((x,), _scaled(sums, 2, 1, 2), CONFIGS[config]), (data,))
    expected = np.array([[45, 54, 81, 90], [378, 396, 450, 468]]) / 4
    np.testing.assert_array_equal(quarter.reshape(2, 4), np.rint(expected))


@pytest.mark.parametrize("block", [8, 16, 32, 64])
@pytest.mark.parametrize("channels", [16, 3, 17, 1])
def test_any_block_runs_any_number_of_channels(block: int, channels: int) -> None:
    config = AccelConfig(block_in=block, block_out=block, vector_lanes=block).check()
    rng = np.random.default_rng(block + channels)
    maker = Maker(rng)
    x = maker.var((1, channels, 4, 4))
    body = maker.conv(x, (channels, channels, 3, 3), padding=(1, 1, 1, 1))
    body = maker.dense(maker.reshape(body, (1, channels * 16)), (10, channels * 16))
    assert_same((x,), body, config, rng)


@pytest.mark.parametrize("batch", [1, 2, 4])
@pytest.mark.parametrize("samples", [1, 2, 3, 5])
def test_any_batch_runs_any_number_of_samples(batch: int, samples: int) -> None:
    config = AccelConfig(batch=batch, block_in=8, block_out=8, vector_lanes=8 * batch).check()
    rng = np.random.default_rng(batch * 10 + samples)
    maker = Maker(rng)
    x, y = maker.var((samples, 12, 3, 4)), maker.var((samples, 9, 3, 4), "y")
    gemm = maker.add(maker.conv(x, (9, 12, 1, 1)), y)
    pooled = maker.max_pool(gemm, pool_size=(2, 2))
    assert_same((x, y), maker.lookup(pooled), config, rng)


@pytest.mark.parametrize("block", [1, 4, 16, 32])
def test_products_in_consecutive_cycles_add_up(block: int) -> None:
    config = AccelConfig(block_in=block, block_out=block, vector_lanes=block, bus_bits=32)
    channels = 8 * block
    x = Var("x", Maker(np.random.default_rng(0)).var((1, channels, 1, 2)).annotation)
    weight = np.zeros((block, channels, 1, 1), np.int8)
    weight[:, ::block] = 1
    sums = Call(OpRef("qnn.conv2d"), (x, Constant(weight)), QConv2DAttrs())
    data = np.full((1, channels, 1, 2), 99, np.int8)
    data[0, ::block, 0, 0] = np.arange(8)
    data[0, ::block, 0, 1] = -np.arange(8)
    (result,) = run_kernel(kernel_of((x,), _scaled(sums, block, 1, 0), config.check()), (data,))
    assert np.array_equal(result[0, :, 0, 0], np.full(block, 28))
    assert np.array_equal(result[0, :, 0, 1], np.full(block, -28))
