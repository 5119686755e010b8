"""The order of steps on host and accelerator, and what it takes, counted by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from codesign.accel.presets import preset
from codesign.compiler.driver import compile as compile_network
from codesign.dtypes import DType
from codesign.ir.relay.expr import Function, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType
from codesign.ops.table import call
from host_runtime.profile import PipelineProfile, Profile, StepProfile
from host_runtime.schedule import Plan, Standing, Turn, makespan, next_step, overlaps_alone, plan_of
from host_runtime.session import Session
from tests.support.networks import small_network


def _chain(*sides: str) -> Plan:
    return tuple(Turn(side, frozenset({i - 1} if i else ())) for i, side in enumerate(sides))


THERE_AND_BACK = _chain("host", "accel", "host")
TWO_BRANCHES = (
    Turn("host", frozenset()),
    Turn("accel", frozenset()),
    Turn("host", frozenset({0, 1})),
)


@pytest.mark.parametrize(
    ("plan", "times", "ahead", "expected"),
    [
        pytest.param(THERE_AND_BACK, [], 3, 0, id="nothing"),
        pytest.param(THERE_AND_BACK, [(2, 3, 1)], 3, 6, id="a chain of one sample"),
        # host 0-2 2-4, accel 2-5 5-8, host 5-6 8-9
        pytest.param(THERE_AND_BACK, [(2, 3, 1)] * 2, 3, 9, id="two samples"),
        pytest.param(THERE_AND_BACK, [(2, 3, 1)] * 2, 1, 12, id="two samples in turn"),
        # host 0-2 2-4, accel 2-3 4-5; at 4 the older one goes on: host 4-6 6-8
        pytest.param(THERE_AND_BACK, [(2, 1, 2)] * 2, 3, 8, id="the host is the bottleneck"),
        # the third begins at 6, when the first has left: host 6-7, accel 7-9, host 9-10
        pytest.param(THERE_AND_BACK, [(1, 2, 3), (1, 2, 0), (1, 2, 1)], 2, 10, id="two ahead"),
        pytest.param(TWO_BRANCHES, [(3, 4, 1)], 3, 5, id="branches of one sample"),
        pytest.param(_chain("host"), [(2,), (3,)], 3, 5, id="the host alone"),
    ],
)
def test_the_makespan_is_that_counted_by_hand(plan, times, ahead, expected: float) -> None:
    assert makespan(plan, times, ahead) == expected


def test_an_older_sample_goes_first_and_steps_keep_their_order() -> None:
    first, second = Standing({0, 1}, {0}), Standing()
    assert next_step(THERE_AND_BACK, [first, second], "host") == (1, 0)
    assert next_step(THERE_AND_BACK, [first, second], "accel") is None
    first.done.add(1)
    assert next_step(THERE_AND_BACK, [first, second], "host") == (0, 2)


def test_only_branches_of_two_sides_overlap_in_one_sample() -> None:
    assert overlaps_alone(TWO_BRANCHES)
    assert not overlaps_alone(THERE_AND_BACK)
    assert not overlaps_alone((Turn("host", frozenset()), Turn("host", frozenset())))


def test_a_result_may_be_named_as_an_input() -> None:
    x = Var("x", TensorType((2,), DType.FLOAT32))
    doubled = compile_network(Module({"main": Function((x,), call("add", x, x))}))
    (step,) = doubled.steps
    renamed = replace(doubled, steps=(replace(step, outputs=("x",)),), results=("x",))
    assert plan_of(renamed) == (Turn("host", frozenset()),)
    given = np.array([1, 2], np.float32)
    np.testing.assert_array_equal(Session(renamed).run({"x": given})["output"], [2, 4])


def test_the_plan_of_an_executable_names_sides_and_needs() -> None:
    executable = compile_network(small_network(), target="accel", config=preset("base"))
    assert plan_of(executable) == THERE_AND_BACK


def test_cycles_become_seconds_at_the_clock() -> None:
    """2 ms, 300,000 cycles, 1 ms: at 100 MHz 3 ms on the accelerator, so 9 ms for two samples."""
    steps = (
        StepProfile(name="0-cpu", kind="cpu", time_s=0.002),
        StepProfile(name="1-accel", kind="accel", time_s=9.0),
        StepProfile(name="2-cpu", kind="cpu", time_s=0.001),
    )
    valued = PipelineProfile(plan=THERE_AND_BACK, samples=(Profile(steps=steps),) * 2)
    assert valued.makespan_s(100) is None
    assert valued.in_turn_s(100) is None
    timed = valued.with_cycles({"1-accel": 300_000})
    assert timed.makespan_s(100) == pytest.approx(0.009)
    assert timed.in_turn_s(100) == pytest.approx(0.012)
    # at 300 MHz 1 ms there: host 0-2 2-4 4-5 5-6
    assert timed.makespan_s(300) == pytest.approx(0.006)
