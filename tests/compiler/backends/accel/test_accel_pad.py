"""Padding that no window takes in: a layer of the vector unit, or the host's with the reason."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from codesign.compiler.analysis.infer_types import infer_expression
from codesign.compiler.backends.accel.search import Tuning
from codesign.compiler.partition.assign import assign
from codesign.ir.relay.expr import Call, OpRef
from codesign.ops.nn.pad import PadAttrs
from codesign.sim.cycle import program_cycles
from tests.support.regions import CONFIGS, Maker, assert_same, kernel_of

NARROW, WIDE = (1, 0, 2, 3), (11, 9, 0, 14)


@pytest.mark.parametrize("tuned", [False, True])
@pytest.mark.parametrize("around", [NARROW, WIDE])
@pytest.mark.parametrize("config", CONFIGS)
def test_padding_equals_numpy(config: str, around: tuple[int, int, int, int], tuned: bool) -> None:
    rng = np.random.default_rng(sum(map(ord, config)) + sum(around))
    maker = Maker(rng)
    x = maker.var((3, 20, 4, 5))
    tuning = Tuning(program_cycles) if tuned else None
    assert_same((x,), maker.pad(x, around), CONFIGS[config], rng, tuning=tuning)
    assert_same((x,), maker.lookup(maker.pad(x, around)), CONFIGS[config], rng, tuning=tuning)


def test_tiles_of_padding_alone_load_one_tile() -> None:
    rng = np.random.default_rng(1)
    maker = Maker(rng)
    x = maker.var((1, 4, 1, 4))
    config = replace(CONFIGS["small"], vec_depth=4, out_depth=4)
    (layer,) = kernel_of((x,), maker.pad(x, (3, 0, 4, 0)), config).layers
    assert layer.operator == "nn.pad"
    assert layer.bytes_read == 4 * 4 + 7 * 4  # a row of data, and a tile for each row of padding
    assert layer.bytes_written == 8 * 4 * 4


def test_a_layer_reads_what_was_padded_on_chip() -> None:
    rng = np.random.default_rng(2)
    maker = Maker(rng)
    x = maker.var((1, 16, 6, 6))
    padded = maker.pad(maker.lookup(x), (2, 2, 2, 2))
    body = maker.conv(padded, (16, 16, 3, 3))
    operators = [layer.operator for layer in kernel_of((x,), body, CONFIGS["base"]).layers]
    assert operators == ["qnn.lookup", "nn.pad", "qnn.conv2d"]
    assert_same((x,), body, CONFIGS["base"], rng)


@pytest.mark.parametrize(
    ("attrs", "reason"),
    [
        (PadAttrs(pad_width=((0, 0), (0, 0), (1, 1), (1, 1)), mode="edge"), "mode edge"),
        (PadAttrs(pad_width=((0, 0), (0, 3), (1, 1), (1, 1))), "channels have no padding"),
        (PadAttrs(pad_width=((0, 0), (0, 0), (-1, 0), (1, 1))), "padding of -1 removes elements"),
        (PadAttrs(pad_width=((0, 0), (0, 0), (0, 64), (0, 0))), "64 beyond 63"),
    ],
)
def test_other_padding_is_the_host_s(attrs: PadAttrs, reason: str) -> None:
    x = Maker(np.random.default_rng(3)).var((1, 4, 5, 5))
    pad = Call(OpRef("nn.pad"), (x,), attrs)
    assignment = assign((pad,), infer_expression(pad), CONFIGS["base"])
    assert assignment.units[pad] == "host"
    assert reason in assignment.reasons[pad]
