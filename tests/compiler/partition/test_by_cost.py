"""Placement by cost: the choice adds up, keeps the answer, and says its figures."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from codesign.accel.config import AccelConfig
from codesign.accel.presets import preset
from codesign.compiler import driver
from codesign.compiler.analysis.infer_types import infer_expression
from codesign.compiler.backends.accel.match import Composite, operator_name
from codesign.compiler.backends.accel.search import Tuning
from codesign.compiler.partition.assign import Assignment, assign
from codesign.compiler.partition.by_cost import place_by_cost
from codesign.compiler.partition.costs import ByCost, Totals
from codesign.compiler.partition.graph import sources
from codesign.compiler.partition.split import split
from codesign.diagnostics import CodesignError
from codesign.ir.executable.cpu_kernel import CpuKernel
from codesign.ir.relay.expr import Call, Expr, Function, OpRef, Tuple, Var
from codesign.ops.axis import AxisAttrs
from codesign.sim.cycle import program_cycles
from host_runtime.session import Session
from tests.support.networks import image, small_network
from tests.support.regions import CONFIGS, Maker, meaning, run_parts

SHAPE = (1, 8, 5, 5)


class TableCosts:
    """Made-up times: by the last operator on the host, by the main one on the accelerator."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._times: dict[tuple[str, str | None], int] = {}
        self._fixed, self._each = int(rng.integers(0, 100)), int(rng.integers(0, 2))

    def _time(self, side: str, name: str | None) -> int:
        if (side, name) not in self._times:
            self._times[side, name] = int(self._rng.integers(0, 1000))
        return self._times[side, name]

    def host_ns(self, function: Function) -> int:
        return self._time("host", operator_name(function.body))

    def of_call(self, call: Expr) -> int:
        return self._time("host", operator_name(call))

    def accel_ns(self, composite: Composite) -> int:
        return self._time("accel", operator_name(composite.main))

    def copy_ns(self, size_bytes: int) -> int:
        return self._fixed + self._each * size_bytes


def _random_graph(maker: Maker) -> tuple[Expr, ...]:
    """Return results over a random graph of layers, of concatenations of each kind, and of tanh."""
    rng = maker.rng
    pool: list[Expr] = [maker.var(SHAPE, "x"), maker.var(SHAPE, "y")]

    def drawn() -> Expr:
        return pool[int(rng.integers(max(0, len(pool) - 4), len(pool)))]

    def joined() -> Expr:
        parts = (maker.conv(drawn(), (8, 8, 1, 1)), maker.lookup(drawn()))
        whole = Call(OpRef("concatenate"), (Tuple(parts),), AxisAttrs(axis=1))
        return maker.conv(whole, (8, 16, 1, 1))

    makers = (
        lambda: maker.conv(drawn(), (8, 8, 3, 3), padding=(1, 1, 1, 1)),
        lambda: maker.conv(drawn(), (8, 1, 3, 3), padding=(1, 1, 1, 1), groups=8),
        lambda: maker.add(drawn(), maker.conv(drawn(), (8, 8, 1, 1))),
        lambda: maker.multiply(drawn(), drawn()),
        lambda: maker.max_pool(drawn(), pool_size=(3, 3), padding=(1, 1, 1, 1)),
        lambda: maker.lookup(drawn()),
        lambda: Call(OpRef("negative"), (drawn(),)),
        lambda: maker.matmul(drawn(), drawn(), 5, 5, 4),
        joined,
    )
    for _ in range(int(rng.integers(2, 8))):
        made = makers[int(rng.integers(len(makers)))]()
        pool.append(made)
    columns = tuple(maker.dense(maker.reshape(each, (1, 200)), (16, 200)) for each in pool[-2:])
    gathered = Call(OpRef("concatenate"), (Tuple(columns),), AxisAttrs(axis=1))
    return maker.dense(gathered, (10, 32)), maker.dense(gathered, (3, 32)), pool[-1]


def _recounted(
    results: tuple[Expr, ...], types, placed: Assignment, able: Assignment, costs: TableCosts
) -> float:
    """Return the seconds of a placement, counted over the steps that it makes."""
    total = 0
    for call in able.units:
        layer = placed.composites.get(call)
        group = able.composites.get(call)
        if layer is not None:
            total += costs.accel_ns(layer) if layer.root is call else 0
        elif group is None or group.root is call:
            total += costs.of_call(call)
    parts = split(results, types, placed, one_layer=False)
    alone = [each for each in dict.fromkeys(placed.composites.values()) if each.is_alone]
    inside = {call for each in alone for call in each.calls}
    made_there = {each for part in parts if part.side == "accel" for each in part.outputs} - inside
    crossing = {
        each
        for part in parts
        for call in part.calls
        for each in sources(call)
        if each in part.inputs and call not in inside
        if (part.side == "accel") != (each in made_there)
    } | (made_there & set(results))
    through_host = [each for layer in alone for each in (*dict.fromkeys(layer.data), layer.root)]
    crossing |= made_there & set(through_host)
    total += sum(costs.copy_ns(prod(types[each].shape)) for each in (*crossing, *through_host))
    return total / 1e9


@pytest.mark.parametrize("seed", range(25))
def test_any_choice_keeps_the_answer_and_adds_up(seed: int) -> None:
    rng = np.random.default_rng(seed)
    maker, costs = Maker(rng), TableCosts(rng)
    results = _random_graph(maker)
    types = infer_expression(Tuple(results))
    config = AccelConfig(block_in=8, block_out=8, vector_lanes=8)
    able = assign(results, types, config)
    placed, totals = place_by_cost(results, types, able, costs, one_layer=False)
    nowhere = assign(results, types, None)
    assert totals.chosen_s == pytest.approx(_recounted(results, types, placed, able, costs))
    assert totals.all_on_accel_s == pytest.approx(_recounted(results, types, able, able, costs))
    assert totals.all_on_host_s == pytest.approx(_recounted(results, types, nowhere, able, costs))
    assert totals.chosen_s <= min(totals.all_on_accel_s, totals.all_on_host_s)
    values: dict[Var, np.ndarray] = {
        each: maker.data(SHAPE) for each in types if isinstance(each, Var)
    }
    found = run_parts(results, values, config, assignment=placed)
    for got, want in zip(found, meaning(results, values), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("seed", range(6))
def test_layers_that_meet_on_the_host_alone_keep_the_answer(seed: int) -> None:
    rng = np.random.default_rng(seed)
    maker = Maker(rng)
    results = _random_graph(maker)
    types = infer_expression(Tuple(results))
    able = assign(results, types, CONFIGS["unequal"])
    placed, totals = place_by_cost(results, types, able, TableCosts(rng), one_layer=True)
    assert totals.chosen_s <= min(totals.all_on_accel_s, totals.all_on_host_s)
    values: dict[Var, np.ndarray] = {
        each: maker.data(SHAPE) for each in types if isinstance(each, Var)
    }
    found = run_parts(results, values, CONFIGS["unequal"], assignment=placed)
    for got, want in zip(found, meaning(results, values), strict=True):
        np.testing.assert_array_equal(got, want)


class OneFigure:
    """40 us for a layer on the host, 8 us on the accelerator, 5 us for a copy."""

    def host_ns(self, function: Function) -> int:
        return 40_000

    def accel_ns(self, composite: Composite) -> int:
        return 8_000

    def copy_ns(self, size_bytes: int) -> int:
        return 5_000


def test_the_reason_gives_both_figures_and_the_copies() -> None:
    maker = Maker(np.random.default_rng(0))
    body = maker.conv(maker.var(SHAPE), (8, 8, 1, 1))
    types = infer_expression(body)
    able = assign((body,), types, AccelConfig())
    placed, totals = place_by_cost((body,), types, able, OneFigure(), one_layer=False)
    assert placed.units[body] == "gemm"
    assert placed.reasons[body] == (
        "8.0 us on the accelerator; on the host 40.0 us and 10.0 us less of copies"
    )
    assert totals == Totals(chosen_s=18e-6, all_on_accel_s=18e-6, all_on_host_s=40e-6)


def _compiled(host_clock, told) -> Session:
    placement = ByCost(host_clock=host_clock, copy_s=1e-6, bytes_per_s=1e9, told=told)
    return Session(
        driver.compile(
            small_network(),
            target="accel",
            config=preset("base"),
            tuning=Tuning(program_cycles),
            placement=placement,
        )
    )


def test_a_network_goes_where_the_clocks_say() -> None:
    told: list[Totals] = []

    def slow(_: CpuKernel) -> float:
        return 1.0

    def fast(_: CpuKernel) -> float:
        return 0.0

    there, here = _compiled(slow, told.append), _compiled(fast, told.append)
    assert [len(each.executable.accel_steps) for each in (there, here)] == [1, 0]
    assert told[0].chosen_s == told[0].all_on_accel_s < told[0].all_on_host_s
    assert told[1].chosen_s == told[1].all_on_host_s == 0.0 < told[1].all_on_accel_s
    outputs = [each.run({"image": image()})["output"] for each in (there, here)]
    np.testing.assert_array_equal(*outputs)


@pytest.mark.parametrize(
    ("target", "tuning", "said"),
    [
        ("cpu", Tuning(program_cycles), "only a network for the accelerator is placed by cost"),
        ("accel", None, "placement by cost counts cycles, and no clock is given"),
    ],
)
def test_placement_without_accelerator_or_clock_is_refused(target, tuning, said: str) -> None:
    placement = ByCost(host_clock=lambda _: 0.0, copy_s=0.0, bytes_per_s=1.0)
    with pytest.raises(CodesignError, match=said):
        driver.compile(small_network(), target=target, tuning=tuning, placement=placement)
