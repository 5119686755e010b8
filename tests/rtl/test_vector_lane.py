"""One lane of the vector unit against codesign.accel.arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from codesign.accel import arithmetic
from codesign.accel.config import AccelConfig
from codesign.accel.isa import Reduce, VectorOp, XSource, YSource
from hardware.rtl.vector_lane import LANE_STAGES, VectorLane
from tests.support.rtl import simulate

OPERAND_STAGE, REDUCE_STAGE, PARAM_STAGE = 2, 4, 5
SEEDS = 2


@dataclass
class Case:
    """One instruction of random controls, with `groups` results of `length` iterations each."""

    config: AccelConfig
    control: dict[str, int]
    length: int
    acc: np.ndarray
    vec: np.ndarray
    field: np.ndarray
    bias: np.ndarray
    multiplier: np.ndarray
    shift: np.ndarray


def integers(rng, bits, size):
    """Signed integers of all magnitudes, the extremes among them."""
    values = rng.integers(-(1 << (bits - 1)), 1 << (bits - 1), size) >> rng.integers(0, bits, size)
    return np.where(
        rng.random(size) < 0.1,
        rng.choice([-(1 << (bits - 1)), (1 << (bits - 1)) - 1], size),
        values,
    )


def random_case(rng, op, reduce) -> Case:
    config = AccelConfig(
        block_in=4,
        block_out=4,
        vector_lanes=1,
        inp_bits=int(rng.choice([4, 8, 16])),
        acc_bits=int(rng.choice([16, 32])),
    )
    bits = config.inp_bits
    residual = op is VectorOp.PASS and reduce is Reduce.NONE and rng.random() < 0.5
    x_source = XSource.ACC if residual else XSource(int(rng.integers(2)))
    y_sources = {YSource.IMMEDIATE, YSource.PARAM, YSource.ACC, YSource.VEC}
    y_sources -= {YSource.ACC if x_source is XSource.ACC else YSource.VEC}
    low, high = sorted(int(each) for each in integers(rng, bits, 2))
    control = {
        "op": op,
        "reduce": reduce,
        "x_source": x_source,
        "y_source": YSource.VEC if residual else int(rng.choice(sorted(y_sources))),
        "requantize": int(residual or rng.random() < 0.7),
        "residual": int(residual),
        "to_acc": int(rng.random() < 0.3),
        "immediate": int(integers(rng, 16, 1)[0]),
        "residual_shift": int(rng.integers(25)),
        "vec_zero_point": int(integers(rng, bits, 1)[0]),
        "zero_point": int(integers(rng, bits, 1)[0]),
        "low": low,
        "high": high,
    }
    length = 1 if reduce is Reduce.NONE else int(rng.integers(1, 6))
    groups = 30
    return Case(
        config,
        control,
        length,
        integers(rng, config.acc_bits, groups * length),
        integers(rng, bits, groups * length),
        integers(rng, 16, groups * length),
        integers(rng, 32, groups),
        integers(rng, 24, groups),
        rng.integers(0, 57, groups),
    )


def wanted(case: Case) -> list[int]:
    control = case.control
    vec = case.vec - control["vec_zero_point"]
    x = case.acc if control["x_source"] == XSource.ACC else vec
    y = (np.full_like(vec, control["immediate"]), case.field, case.acc, vec)[control["y_source"]]
    terms = arithmetic.combine(VectorOp(control["op"]), x, y, case.config.inp_bits)
    terms = terms.reshape(-1, case.length)
    s = terms[:, 0]
    for index in range(1, case.length):
        s = arithmetic.reduce_step(Reduce(control["reduce"]), s, terms[:, index])
    if control["requantize"]:
        residual = (
            arithmetic.residual_term(y, control["immediate"], control["residual_shift"])
            if control["residual"]
            else 0
        )
        parameters = arithmetic.Parameters(case.bias, case.multiplier, case.shift)
        s = arithmetic.requantize(s, parameters, residual)
    if control["to_acc"]:
        return arithmetic.saturate(s, case.config.acc_bits).tolist()
    return arithmetic.quantized_output(
        s, control["zero_point"], control["low"], control["high"]
    ).tolist()


def computed(case: Case) -> list[int]:
    lane = VectorLane(case.config)
    count, length = len(case.acc), case.length
    results: list[int] = []

    async def bench(ctx):
        for name, value in case.control.items():
            ctx.set(lane.control[name], int(value))
        for step in range(count + LANE_STAGES):
            valid = 0
            for stage in range(OPERAND_STAGE, LANE_STAGES):
                at = step - stage + OPERAND_STAGE
                final = at % length == length - 1
                if 0 <= at < count and (stage <= REDUCE_STAGE or final):
                    valid |= 1 << stage
            ctx.set(lane.valid, valid)
            if step < count:
                ctx.set(lane.acc, int(case.acc[step]))
                ctx.set(lane.vec, int(case.vec[step]))
                ctx.set(lane.field, int(case.field[step]))
            reducing = step - REDUCE_STAGE + OPERAND_STAGE
            ctx.set(lane.first, reducing % length == 0)
            group, rest = divmod(step - PARAM_STAGE + OPERAND_STAGE, length)
            if rest == length - 1 and 0 <= group < len(case.bias):
                ctx.set(lane.param.bias, int(case.bias[group]))
                ctx.set(lane.param.multiplier, int(case.multiplier[group]))
                ctx.set(lane.param.shift, int(case.shift[group]))
            await ctx.tick()
            done = step - (LANE_STAGES - 1) + OPERAND_STAGE
            if 0 <= done < count and done % length == length - 1:
                results.append(ctx.get(lane.result))

    simulate(lane, bench)
    return results


@pytest.mark.parametrize("reduce", Reduce, ids=lambda reduce: reduce.name.lower())
@pytest.mark.parametrize("op", VectorOp, ids=lambda op: op.name.lower())
def test_lane_equals_the_number_rules(op, reduce):
    for seed in range(SEEDS):
        case = random_case(np.random.default_rng((op, reduce, seed)), op, reduce)
        assert computed(case) == wanted(case), case.control
