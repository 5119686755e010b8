"""Plans of sweeps: what they say, and every mistake in them at once."""

from __future__ import annotations

import pytest

from codesign.accel.presets import preset
from codesign.diagnostics import CodesignError
from experiments.sweep.plan import parse_plan
from experiments.sweep.point import points

PLAN = """
networks = ["digits", "orientation"]
targets = ["accel", "cpu"]
preset = "edge"
[grid]
bus_bits = [32, 64]
wgt_depth = [64, 128, 256]
[grid.dram]
latency_cycles = [1, 60]
"""


def test_a_grid_is_every_combination_for_every_network() -> None:
    plan = parse_plan(PLAN)
    listed = list(points(plan))
    assert plan.size == len(listed) == 2 * (2 * 3 * 2 + 1)
    assert len({point.identity for point in listed}) == len(listed)
    accel = [point.config for point in listed if point.target == "accel"][:12]
    found = [(each.bus_bits, each.wgt_depth, each.dram.latency_cycles) for each in accel]
    assert found == [
        (b, w, latency) for b in (32, 64) for w in (64, 128, 256) for latency in (1, 60)
    ]
    assert all(each.block_in == preset("edge").block_in for each in accel)


def test_identities_depend_on_what_is_measured_and_on_nothing_else() -> None:
    one, two = (list(points(parse_plan(PLAN)))[1].identity for _ in range(2))
    other = list(points(parse_plan(PLAN.replace('"edge"', '"base"'))))[1].identity
    assert one == two != other


def test_all_mistakes_are_named_together() -> None:
    with pytest.raises(CodesignError) as caught:
        parse_plan(
            """
            networks = []
            targets = ["fpga"]
            presets = "edge"
            [grid]
            bus_bit = [32]
            wgt_depth = [64, "x"]
            inp_depth = [64, 64]
            [grid.dram]
            latency_cycles = 60
            [search]
            trials = 0
            objectives = ["speed"]
            """
        )
    text = str(caught.value)
    for expected in (
        "networks must be a list",
        "targets must be a list of accel and cpu",
        "has no 'presets'",
        "there is preset",
        "has no 'bus_bit'",
        "there is bus_bits",
        "wgt_depth must be a list of int",
        "inp_depth has a value twice",
        "latency_cycles must be a list of int",
        "trials must be a positive number",
        "objectives must be a list of columns",
    ):
        assert expected in text


def test_text_that_is_no_toml_is_refused() -> None:
    with pytest.raises(CodesignError, match="is not TOML"):
        parse_plan("networks = [")


def test_a_plan_has_presets_side_by_side_and_numbers_of_samples() -> None:
    plan = parse_plan('networks = ["digits"]\npreset = ["base", "batch16"]\nsamples = [1, 16]')
    found = [(each.samples, each.config.batch) for each in points(plan)]
    assert found == [(1, 1), (16, 1), (1, 16), (16, 16)]
    assert plan.size == len({each.identity for each in points(plan)}) == 4


def test_a_plan_fills_the_rows_of_each_preset() -> None:
    plan = parse_plan(
        'networks = ["digits"]\npreset = ["base", "batch4", "batch16"]\nsamples = "rows"'
    )
    assert [(each.samples, each.config.batch) for each in points(plan)] == [
        (1, 1),
        (4, 4),
        (16, 16),
    ]
    assert plan.size == 3


def test_what_a_plan_cannot_mean_is_named() -> None:
    with pytest.raises(CodesignError) as caught:
        parse_plan('networks = ["digits"]\nsamples = [0]\ntiling = "fast"\npreset = []')
    text = str(caught.value)
    assert "samples must be positive" in text
    assert "tiling must be search or estimate" in text
    assert "preset must be a name or names" in text
