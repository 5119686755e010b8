"""Softmax and layer normalization as chains: near the real functions, whole on the accelerator."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.study.host_operators.answer import ERRORS, TIMES, copies_ms
from experiments.study.host_operators.chains import (
    Choice,
    input_codes,
    layer_norm_chain,
    softmax_chain,
)
from experiments.study.host_operators.measure import (
    LENGTHS,
    SPREADS,
    error_points,
    rows_of,
    time_points,
)
from experiments.study.host_operators.point import (
    CHAINS,
    HOST,
    HOST_FROM_INT8,
    LAYER_NORM,
    SOFTMAX,
    ErrorPoint,
    TimePoint,
)
from experiments.study.host_operators.steps import Codes, less_copies, row_sums, table
from experiments.study.table import read_points

WAYS = {HOST, HOST_FROM_INT8, *CHAINS}


def test_every_length_and_spread_is_committed() -> None:
    errors = {(e.operator, e.length, e.spread, e.way) for e in read_points(ERRORS, ErrorPoint)}
    assert errors == {
        (operator, length, spread, way)
        for operator, lengths in LENGTHS.items()
        for length in lengths
        for spread in SPREADS[operator]
        for way in WAYS
    }
    times = {(e.operator, e.length, e.way) for e in read_points(TIMES, TimePoint)}
    assert times == {(o, length, way) for o, length, _, way in errors if way != HOST_FROM_INT8}


@pytest.mark.parametrize(("operator", "spread"), [(SOFTMAX, 2), (LAYER_NORM, 16)])
def test_errors_measured_afresh_are_those_committed(operator: str, spread: int) -> None:
    committed = {
        each.way: each.sqnr_db
        for each in read_points(ERRORS, ErrorPoint)
        if (each.operator, each.length, each.spread) == (operator, 64, spread)
    }
    found = {each.way: each.sqnr_db for each in error_points(operator, 64, spread)}
    assert found == pytest.approx(committed, abs=0.5)


def test_cycles_of_chains_measured_afresh_are_those_committed() -> None:
    committed = {
        each.way: each.cycles
        for each in read_points(TIMES, TimePoint)
        if (each.operator, each.length) == (LAYER_NORM, 64) and each.cycles is not None
    }
    points = time_points(LAYER_NORM, 64)
    found = {each.way: each.cycles for each in points if each.cycles is not None}
    assert found == pytest.approx(committed, rel=0.05)


def test_a_softmax_chain_of_alike_rows_is_near_softmax() -> None:
    rows = rows_of(SOFTMAX, 32, 1, 8)
    choice = Choice(rounds=1, quantile=1.0, span=6.0)
    found = softmax_chain(input_codes(rows), choice).real[0, :, 0].T
    powers = np.exp(rows)
    assert np.abs(found - powers / powers.sum(axis=1, keepdims=True)).max() < 0.02


def test_a_layer_norm_chain_of_alike_rows_is_near_layer_norm() -> None:
    rows = rows_of(LAYER_NORM, 32, 1, 8)
    choice = Choice(rounds=1, quantile=1.0, span=0.0)
    found = layer_norm_chain(input_codes(rows), choice).real[0, :, 0].T
    wanted = (rows - rows.mean(axis=1, keepdims=True)) / rows.std(axis=1, keepdims=True)
    assert np.abs(found - wanted).max() < 0.1


def test_copies_of_a_sum_hold_more_than_one() -> None:
    rows = np.tile(np.arange(-127, 128, 2)[:, None], (1, 16)) * 1.0
    sums = row_sums(input_codes(rows), zero_point=0)
    means = sums.real.mean(axis=1)[0, 0]
    assert np.abs(sums.real[0, 0, 0] - rows.sum(axis=1)).max() <= sums.scale
    assert np.abs(means - rows.sum(axis=1)).max() <= sums.scale / 8


def test_a_table_holds_a_function_of_every_integer() -> None:
    data = input_codes(np.arange(-127.0, 128.0)[:, None])
    squares = table(data, np.square, 0.0, 127.0**2)
    steps = np.arange(-127.0, 128.0)
    assert np.abs(squares.real[0, 0, 0] - steps**2).max() <= 127**2 / 255 / 2


def test_a_difference_takes_off_what_the_copies_mean() -> None:
    data = input_codes(np.array([[3.0, 1.0], [-2.0, 4.0]]))
    integers = np.tile(np.array([100, -50], np.int8), (1, 16, 1, 1))
    copies = Codes(expr=data.expr, integers=integers, scale=0.01, offset=2.0)
    found = less_copies(data, copies, 0.05, zero_point=0, top=0.0).real[0, :, 0].T
    assert found == pytest.approx(np.array([[0.0, -2.0], [-3.5, 2.5]]), abs=0.06)


def test_copies_to_the_host_and_back_pass_the_bus() -> None:
    host = next(each for each in read_points(TIMES, TimePoint) if each.way == HOST)
    # 768 rows of 64 bytes each way, 8 bytes in a cycle, 100,000 cycles in a millisecond.
    assert copies_ms(host) == pytest.approx(2 * 768 * 64 / 8 / 100_000)
