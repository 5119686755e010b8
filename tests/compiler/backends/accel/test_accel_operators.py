"""Every operator of the accelerator on every kind of configuration, bit for bit with NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from codesign.diagnostics import CodesignError
from codesign.ir.relay.expr import Expr, Tuple, Var
from tests.support.regions import CONFIGS, Maker, assert_same, kernel_of

Case = Callable[[Maker], tuple[tuple[Var, ...], Expr]]


def _unary(shape: tuple[int, ...], make: Callable[[Maker, Var], Expr]) -> Case:
    def case(maker: Maker) -> tuple[tuple[Var, ...], Expr]:
        x = maker.var(shape)
        return (x,), make(maker, x)

    return case


def _binary(
    shape: tuple[int, ...], other: tuple[int, ...], make: Callable[[Maker, Var, Var], Expr]
) -> Case:
    def case(maker: Maker) -> tuple[tuple[Var, ...], Expr]:
        x, y = maker.var(shape), maker.var(other, "y")
        return (x, y), make(maker, x, y)

    return case


CASES: dict[str, Case] = {
    "conv-1x1": _unary((1, 16, 5, 7), lambda m, x: m.conv(x, (16, 16, 1, 1))),
    "conv-3x3-17-33": _unary(
        (1, 17, 6, 9), lambda m, x: m.conv(x, (33, 17, 3, 3), padding=(1, 1, 1, 1))
    ),
    "conv-one-channel": _unary(
        (2, 1, 9, 5), lambda m, x: m.conv(x, (10, 1, 5, 3), padding=(0, 2, 4, 1))
    ),
    "conv-first-layer": _unary(
        (1, 3, 15, 14),
        lambda m, x: m.conv(x, (20, 3, 7, 7), strides=(2, 2), padding=(3, 3, 3, 3)),
    ),
    "conv-strided-1x1": _unary(
        (1, 20, 9, 8),
        lambda m, x: m.conv(m.conv(x, (24, 20, 1, 1)), (8, 24, 1, 1), strides=(2, 3)),
    ),
    "conv-dilated": _unary(
        (1, 5, 11, 12),
        lambda m, x: m.conv(
            m.conv(x, (5, 5, 1, 1)), (7, 5, 3, 2), dilation=(3, 2), padding=(2, 1, 5, 0)
        ),
    ),
    "conv-uneven-strides": _unary(
        (2, 6, 8, 9),
        lambda m, x: m.conv(
            m.conv(x, (18, 6, 1, 1)), (9, 18, 3, 3), strides=(3, 2), padding=(1, 0, 2, 2)
        ),
    ),
    "conv-lookup": _unary((1, 9, 5, 5), lambda m, x: m.lookup(m.conv(x, (12, 9, 1, 1)))),
    "grouped": _unary((1, 32, 5, 6), lambda m, x: m.conv(x, (48, 8, 3, 3), groups=4)),
    "grouped-ragged": _unary((1, 15, 4, 4), lambda m, x: m.conv(x, (21, 5, 2, 2), groups=3)),
    "depthwise": _unary(
        (2, 17, 7, 6), lambda m, x: m.conv(x, (17, 1, 3, 3), groups=17, padding=(1, 1, 1, 1))
    ),
    "depthwise-5x5-strided": _unary(
        (1, 40, 9, 9),
        lambda m, x: m.conv(x, (40, 1, 5, 5), groups=40, padding=(2, 2, 2, 2), strides=(2, 1)),
    ),
    "depthwise-multiplier": _unary(
        (1, 6, 6, 6), lambda m, x: m.conv(x, (12, 1, 3, 3), groups=6, strides=(2, 2))
    ),
    "dense": _unary((5, 37), lambda m, x: m.dense(m.dense(x, (70, 37)), (10, 70))),
    "flatten-dense": _unary(
        (3, 6, 3, 4),
        lambda m, x: m.dense(m.reshape(m.conv(x, (9, 6, 1, 1)), (3, 108)), (10, 108)),
    ),
    "max-pool": _unary(
        (1, 18, 9, 10),
        lambda m, x: m.max_pool(x, pool_size=(3, 3), strides=(2, 2), padding=(1, 1, 1, 1)),
    ),
    "max-pool-ceil": _unary(
        (2, 5, 8, 7),
        lambda m, x: m.max_pool(x, pool_size=(3, 2), strides=(2, 2), ceil_mode=True),
    ),
    "max-pool-lookup": _unary(
        (1, 5, 6, 6), lambda m, x: m.lookup(m.max_pool(x, pool_size=(2, 2), strides=(2, 2)))
    ),
    "average-pool": _unary(
        (1, 20, 7, 8),
        lambda m, x: m.sum_pool(x, 20, pool_size=(3, 3), strides=(2, 1), padding=(1, 1, 1, 1)),
    ),
    "global-pool": _unary(
        (2, 21, 5, 6), lambda m, x: m.reshape(m.sum_pool(x, 21, pool_size=(5, 6)), (2, 21))
    ),
    "lookup": _unary((3, 11, 4, 5), lambda m, x: m.lookup(x)),
    "lookup-twice": _unary((1, 3, 4, 4), lambda m, x: m.lookup(m.lookup(x))),
    "add": _binary((2, 19, 5, 7), (2, 19, 5, 7), lambda m, x, y: m.add(x, y)),
    "add-itself": _unary((1, 8, 3, 3), lambda m, x: m.add(x, x)),
    "add-flat": _binary((3, 33), (3, 33), lambda m, x, y: m.lookup(m.add(x, y))),
    "multiply": _binary((2, 19, 5, 7), (2, 19, 5, 7), lambda m, x, y: m.multiply(x, y)),
    "multiply-gate": _binary((3, 11, 5, 5), (3, 11, 1, 1), lambda m, x, y: m.multiply(x, y)),
    "multiply-gate-1x1": _binary((2, 9, 1, 1), (2, 9, 1, 1), lambda m, x, y: m.multiply(x, y)),
}

# Two tiles of inp and vec hold no window; what the host can unroll runs all the same.
REFUSED = {
    ("minute", "conv-dilated"): "needs 336 bytes of inp, which has 32",
    ("minute", "conv-uneven-strides"): "needs 144 bytes of inp, which has 32",
    ("minute", "grouped"): "needs 144 bytes of inp, which has 32",
    ("minute", "grouped-ragged"): "needs 64 bytes of inp, which has 32",
    ("minute", "depthwise"): "needs 144 bytes of vec, which has 32",
    ("minute", "depthwise-5x5-strided"): "needs 400 bytes of vec, which has 32",
    ("minute", "depthwise-multiplier"): "needs 144 bytes of inp, which has 32",
    ("minute", "flatten-dense"): "needs 192 bytes of inp, which has 32",
    ("minute", "max-pool"): "needs 144 bytes of vec, which has 32",
    ("minute", "max-pool-ceil"): "needs 96 bytes of vec, which has 32",
    ("minute", "max-pool-lookup"): "needs 64 bytes of vec, which has 32",
    ("minute", "average-pool"): "needs 144 bytes of vec, which has 32",
    ("minute", "global-pool"): "needs 480 bytes of vec, which has 32",
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("config", CONFIGS)
def test_operator_equals_numpy(case: str, config: str) -> None:
    rng = np.random.default_rng(sum(map(ord, case + config)))
    params, body = CASES[case](Maker(rng))
    if (config, case) not in REFUSED:
        assert_same(params, body, CONFIGS[config], rng)
        return
    with pytest.raises(CodesignError, match=REFUSED[config, case]) as caught:
        kernel_of(params, body, CONFIGS[config])
    assert "the smallest that works is" in str(caught.value)


def test_a_region_with_two_results_and_a_shared_operand() -> None:
    rng = np.random.default_rng(5)
    maker = Maker(rng)
    x = maker.var((2, 24, 6, 6))
    left = maker.conv(x, (24, 24, 3, 3), padding=(1, 1, 1, 1))
    right = maker.conv(left, (24, 1, 3, 3), groups=24, padding=(1, 1, 1, 1))
    gate = maker.conv(maker.sum_pool(right, 24, pool_size=(6, 6)), (24, 24, 1, 1))
    scaled = maker.multiply(right, gate)
    for name in ("tiny", "base", "batch4", "one-bank"):
        assert_same((x,), Tuple((maker.add(scaled, left), right)), CONFIGS[name], rng)


def test_layers_that_pad_one_input_with_other_values_get_it_twice() -> None:
    rng = np.random.default_rng(12)
    maker = Maker(rng)
    x = maker.var((1, 2, 4, 5))
    both = Tuple(tuple(maker.conv(x, (16, 2, 2, 1), padding=(1, 0, 1, 0)) for _ in range(2)))
    zero_points = {each.args[0].attrs.zero_point for each in both.fields}
    assert len(zero_points) == 2
    assert_same((x,), both, CONFIGS["minute"], rng)
