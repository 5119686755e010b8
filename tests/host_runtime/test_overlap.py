"""Steps on two threads: in order, at the same time, bounded; errors come through, threads end."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from codesign.accel.presets import preset
from codesign.compiler.driver import compile as compile_network
from codesign.diagnostics import CodesignError
from codesign.ir.executable.executable import Executable
from codesign.ir.relay.expr import Call, Function, OpRef, Tuple, Var
from codesign.ir.relay.module import Module
from codesign.ops.qnn.quantize import QuantizeAttrs
from host_runtime.device import open_device
from host_runtime.overlap import overlapped
from host_runtime.schedule import AHEAD, Turn
from host_runtime.session import Session
from tests.support.networks import IMAGE, image, small_network
from tests.support.regions import Maker

CHAIN = (
    Turn("host", frozenset()),
    Turn("accel", frozenset({0})),
    Turn("host", frozenset({1})),
)
PATIENCE_S = 30


@pytest.fixture(autouse=True)
def no_thread_stays() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


def test_samples_come_in_order_with_all_their_steps() -> None:
    ran: dict[int, list[int]] = {number: [] for number in range(20)}
    got = list(overlapped(range(20), CHAIN, lambda sample, step: ran[sample].append(step)))
    assert got == list(range(20))
    assert all(steps == [0, 1, 2] for steps in ran.values())


def test_host_and_accelerator_work_at_the_same_time() -> None:
    """The accelerator does not end sample 0 before the host has begun sample 1."""
    begun = threading.Event()

    def run(sample: int, step: int) -> None:
        if (sample, step) == (1, 0):
            begun.set()
        if (sample, step) == (0, 1):
            assert begun.wait(PATIENCE_S), "the host waits for the accelerator"

    assert list(overlapped(range(2), CHAIN, run)) == [0, 1]


def test_samples_are_taken_only_as_they_are_needed() -> None:
    taken: list[int] = []

    def source() -> Iterator[int]:
        for number in range(100):
            taken.append(number)
            yield number

    running = overlapped(source(), CHAIN, lambda _sample, _step: None)
    for number in range(5):
        assert next(running) == number
        assert len(taken) == number + AHEAD
    running.close()


@pytest.mark.parametrize("step", [0, 1, 2])
def test_an_error_ends_all(step: int) -> None:
    def run(sample: int, at: int) -> None:
        if (sample, at) == (3, step):
            raise CodesignError.of("the step fails")

    got: list[int] = []
    with pytest.raises(CodesignError, match="the step fails"):
        got.extend(overlapped(range(100), CHAIN, run))
    assert got == list(range(len(got)))
    assert len(got) <= 3


def test_an_error_of_the_source_ends_all() -> None:
    def source() -> Iterator[int]:
        yield 0
        raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        list(overlapped(source(), CHAIN, lambda _sample, _step: None))


@pytest.fixture(scope="module")
def on_base() -> Executable:
    return compile_network(small_network(), target="accel", config=preset("base"))


def test_many_samples_give_the_bits_of_single_runs(on_base: Executable) -> None:
    session = Session(on_base, open_device("cycle", preset("base")))
    samples = [{"image": image(seed)} for seed in range(7)]
    expected = [session.run(each)["output"] for each in samples]
    cycles = session.profile.cycles
    for got, want in zip(session.run_many(samples), expected, strict=True):
        np.testing.assert_array_equal(got["output"], want)
    assert session.pipeline is not None
    assert [each.cycles for each in session.pipeline.samples] == [cycles] * 7
    assert 7 * cycles / 1e8 <= session.pipeline.makespan_s(100) <= session.pipeline.in_turn_s(100)


def test_many_traces_are_those_of_single_runs(on_base: Executable) -> None:
    session = Session(on_base)
    samples = [{"image": image(seed)} for seed in range(4)]
    expected = [session.trace(each) for each in samples]
    for got, want in zip(session.trace_many(samples), expected, strict=True):
        assert list(got.tensors) == list(want.tensors)
        for name, tensor in want.tensors.items():
            np.testing.assert_array_equal(got.tensors[name], tensor)


def test_wrong_inputs_of_a_later_sample_are_told(on_base: Executable) -> None:
    samples = [{"image": image()}, {"image": image()}, {"picture": image()}]
    with pytest.raises(CodesignError, match="there is no input 'picture'"):
        list(Session(on_base).run_many(samples))


def test_the_host_alone_runs_many_without_threads() -> None:
    session = Session(compile_network(small_network(), target="cpu"))
    samples = [{"image": image(seed)} for seed in range(3)]
    expected = [session.run(each)["output"] for each in samples]
    before = threading.active_count()
    for got, want in zip(session.run_many(samples), expected, strict=True):
        assert threading.active_count() == before
        np.testing.assert_array_equal(got["output"], want)


class Meeting:
    """A device that waits, in its run, until the host has read the values of its step."""

    def __init__(self, inner, met: threading.Event) -> None:
        self._inner, self._met = inner, met
        self.name, self.config = inner.name, inner.config

    def run(self, program, dram, bases, progress=None):
        assert self._met.wait(PATIENCE_S), "the host waits for the accelerator"
        return self._inner.run(program, dram, bases, progress)


def test_branches_of_one_run_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A convolution on the accelerator, tanh on the host; the former ends after the latter."""
    maker = Maker(np.random.default_rng(5))
    x, y = maker.var((1, 8, 4, 4)), Var("y", IMAGE)
    attrs = QuantizeAttrs(scale=0.1, zero_point=0)
    real = Call(OpRef("qnn.dequantize"), (maker.conv(x, (8, 8, 1, 1)),), attrs)
    module = Module({"main": Function((x, y), Tuple((real, Call(OpRef("tanh"), (y,)))))})
    executable = compile_network(module, target="accel", config=preset("base"))
    met = threading.Event()
    session = Session(executable, Meeting(open_device("functional", preset("base")), met))
    run_step = session._run_step

    def watched(sample, place: int) -> None:
        run_step(sample, place)
        if executable.steps[place].name == "1-cpu":
            met.set()

    monkeypatch.setattr(session, "_run_step", watched)
    inputs = {"x": maker.data((1, 8, 4, 4)), "y": image()}
    expected = Session(compile_network(module, target="cpu")).run(inputs)
    for name, got in session.run(inputs).items():
        np.testing.assert_array_equal(got, expected[name])
    assert [step.name for step in session.profile.steps] == [s.name for s in executable.steps]
