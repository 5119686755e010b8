"""Random layers on random legal configurations: equal to NumPy, or refused with the numbers."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from codesign.accel.config import AccelConfig
from codesign.diagnostics import CodesignError
from codesign.ir.relay.expr import Expr, Var
from tests.support.regions import Maker, assert_same

SHORTAGE = re.compile(
    r"its least tile needs (\d+) bytes of (\w+), which has (\d+); "
    r"the smallest that works is \w+_depth = (\d+)"
)


def _power(rng: np.random.Generator, low: int, high: int) -> int:
    return 1 << int(rng.integers(low, high + 1))


def _config(rng: np.random.Generator) -> AccelConfig:
    block = _power(rng, 0, 4)
    batch = _power(rng, 0, 2)
    banks = _power(rng, 0, 2)
    return AccelConfig(
        batch=batch,
        block_in=block,
        block_out=block if rng.random() < 0.7 else _power(rng, 0, 4),
        inp_depth=_power(rng, 1, 8),
        wgt_depth=_power(rng, 1, 8),
        vec_depth=_power(rng, 1, 8),
        acc_depth=banks * _power(rng, 1, 6),
        out_depth=_power(rng, 1, 6),
        param_depth=_power(rng, 1, 5),
        lut_depth=_power(rng, 8, 9),
        acc_banks=banks,
        vector_lanes=1,
        bus_bits=_power(rng, 5, 7),
        burst_beats=_power(rng, 0, 4),
        has_multiplier=bool(rng.random() < 0.8),
    ).check()


def _layer(rng: np.random.Generator, maker: Maker) -> tuple[tuple[Var, ...], Expr]:
    n, c = int(rng.integers(1, 4)), int(rng.integers(1, 20))
    h, w = (int(each) for each in rng.integers(3, 9, 2))
    kernel = tuple(int(each) for each in rng.integers(1, 4, 2))
    window = {
        "strides": tuple(int(each) for each in rng.integers(1, 4, 2)),
        "padding": tuple(int(rng.integers(0, kernel[axis % 2])) for axis in range(4)),
    }
    x, y = maker.var((n, c, h, w)), maker.var((n, c, h, w), "y")
    match int(rng.integers(7)):
        case 0:
            outputs = int(rng.integers(1, 20))
            return (x,), maker.conv(x, (outputs, c, *kernel), **window)
        case 1:
            return (x,), maker.conv(x, (2 * c, 1, *kernel), groups=c, **window)
        case 2:
            return (x,), maker.conv(x, (c, 1, *kernel), groups=c, **window)
        case 3:
            return (x,), maker.max_pool(x, pool_size=kernel, **window)
        case 4:
            return (x,), maker.sum_pool(x, c, pool_size=kernel, **window)
        case 5:
            return (x, y), maker.add(x, y)
        case _:
            return (x,), maker.lookup(x)


SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS)
@example(573_413)  # loads that could run more than 255 tiles ahead
@example(1_239_784_555)  # one row of weights, unrolled by the host, in strides of three
def test_random_layer_is_equal_or_refused(seed: int) -> None:
    _try(seed)


@pytest.mark.slow
@settings(max_examples=1000, deadline=None)
@given(seed=SEEDS)
def test_a_thousand_random_layers_are_equal_or_refused(seed: int) -> None:
    _try(seed)


def _try(seed: int) -> None:
    rng = np.random.default_rng(seed)
    config = _config(rng)
    params, body = _layer(rng, Maker(rng))
    try:
        assert_same(params, body, config, rng, must_vary=False)
    except CodesignError as error:
        _assert_refusal(str(error), config)


def _assert_refusal(text: str, config: AccelConfig) -> None:
    shortages = SHORTAGE.findall(text)
    for needed, memory, present, smallest in shortages:
        assert int(needed) > int(present)
        assert int(smallest) > getattr(config, f"{memory}_depth")
    assert shortages or "has_multiplier = false" in text, text
