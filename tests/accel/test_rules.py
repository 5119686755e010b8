"""Feasibility rules: the limits themselves, and that all broken ones are told together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from codesign.accel.config import AccelConfig, DramTiming, Memory
from codesign.accel.presets import PRESETS, preset
from codesign.accel.rules import POWERS, nearest_power
from codesign.diagnostics import CodesignError
from tests.support.programs import random_config


def _sentences(config: AccelConfig) -> list[str]:
    return [problem.title_text() for problem in config.problems()]


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_legal_and_waste_no_beat(name: str) -> None:
    config = preset(name).check()
    assert config.inp_tile_bits % config.bus_bits == 0
    assert config.vec_tile_bits % config.bus_bits == 0


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("tiny", (1, 4, 4)),
        ("edge", (1, 8, 8)),
        ("base", (1, 16, 16)),
        ("batch4", (4, 8, 8)),
        ("batch16", (16, 4, 4)),
        ("wide", (1, 32, 32)),
    ],
)
def test_presets_have_the_shape_that_they_are_named_for(
    name: str, shape: tuple[int, int, int]
) -> None:
    config = preset(name)
    assert (config.batch, config.block_in, config.block_out) == shape


def test_base_has_the_memories_of_vta() -> None:
    sizes = [preset("base").memory_bytes(memory) for memory in (Memory.INP, Memory.WGT, Memory.ACC)]
    assert sizes == [32 << 10, 256 << 10, 128 << 10]


def test_unknown_preset_names_the_known_ones() -> None:
    with pytest.raises(CodesignError, match="the presets are tiny, edge, base, batch4, batch16, w"):
        preset("huge")


@pytest.mark.parametrize("knob", POWERS)
@pytest.mark.parametrize("side", ["below", "above", "between"])
def test_a_power_of_two_outside_its_limits_is_refused(knob: str, side: str) -> None:
    low, high = POWERS[knob]
    value = {"below": low // 2, "above": high * 2, "between": low + 1 if low > 1 else 3}[side]
    config = replace(AccelConfig(), **{knob: value})
    expected = f"{knob} must be a power of two from {low} to {high}, not {value}"
    assert expected in _sentences(config)


@pytest.mark.parametrize(
    ("knobs", "sentence", "help_text"),
    [
        ({"batch": 12}, "batch must be a power of two from 1 to 32, not 12", "batch = 8"),
        (
            {"address_bits": 41},
            "address_bits must be an integer from 32 to 40, not 41",
            "address_bits = 40",
        ),
        (
            {"vector_lanes": 32},
            "vector_lanes must be a divisor of batch * block_out = 16, not 32",
            "vector_lanes = 16",
        ),
        (
            {"lut_depth": 128},
            "lut_depth must be at least 256 where has_lut is true, not 128",
            "lut_depth = 256",
        ),
        (
            {"acc_depth": 2, "acc_banks": 4},
            "acc_depth must be at least one tile for each of 4 banks, not 2",
            "acc_depth = 4",
        ),
        (
            {"bus_bits": 512, "burst_beats": 128},
            "burst_beats must be at most 64 (beats of 64 bytes in a page of 4096), not 128",
            "burst_beats = 64",
        ),
        ({"has_lut": 1}, "has_lut must be true or false, not 1", "has_lut = true"),
        (
            {"dram": DramTiming(bytes_per_cycle=3)},
            "dram.bytes_per_cycle must be a power of two from 1 to 65536, or 0, not 3",
            "dram.bytes_per_cycle = 2",
        ),
        (
            {"dram": DramTiming(row_bytes=2048)},
            "dram.row_bytes must be a power of two from 4096 to 1048576, not 2048",
            "dram.row_bytes = 4096",
        ),
    ],
)
def test_one_broken_rule_names_knob_limit_value_and_nearest(
    knobs: dict[str, int], sentence: str, help_text: str
) -> None:
    problems = replace(AccelConfig(), **knobs).problems()
    assert [problem.title_text() for problem in problems] == [sentence]
    assert problems[0].help == f"the nearest legal value is {help_text}"


def test_all_broken_rules_are_told_at_once() -> None:
    config = AccelConfig(
        batch=3, inp_bits=5, lut_depth=128, queue_depth=1, dram=DramTiming(latency_cycles=-1)
    )
    with pytest.raises(CodesignError) as error:
        config.check()
    told = [diagnostic.title_text().split()[0] for diagnostic in error.value.diagnostics]
    assert told == ["batch", "inp_bits", "queue_depth", "dram.latency_cycles", "lut_depth"]


def test_without_tables_the_lut_may_be_small() -> None:
    assert AccelConfig(has_lut=False, lut_depth=2).problems() == ()


@pytest.mark.parametrize("value", range(-3, 70))
def test_nearest_power_is_nearest(value: int) -> None:
    powers = [2, 4, 8, 16, 32]
    found = nearest_power(value, 2, 32)
    assert abs(found - value) == min(abs(power - value) for power in powers)
    assert found in powers


@pytest.mark.parametrize("seed", range(10))
def test_toml_reads_back_to_an_equal_configuration(seed: int) -> None:
    config = random_config(np.random.default_rng(seed)).with_dram(latency_cycles=60)
    assert AccelConfig.from_toml(config.to_toml()) == config


def test_digest_tells_hardware_and_not_memory_apart() -> None:
    config = AccelConfig()
    assert config.with_dram(latency_cycles=60).digest == config.digest
    assert replace(config, clock_mhz=50).digest == config.digest
    assert replace(config, queue_depth=4).digest != config.digest


def test_unknown_knob_and_wrong_type_are_told_together() -> None:
    with pytest.raises(CodesignError) as error:
        AccelConfig.from_toml('rows = 4\nbatch = "two"\n[dram]\nspeed = 1\n')
    told = [diagnostic.title_text() for diagnostic in error.value.diagnostics]
    assert told == [
        "configuration has no knob 'rows'",
        "configuration: batch must be int, not 'two'",
        "configuration: dram has no knob 'speed'",
    ]


def test_a_dram_that_is_no_table_is_refused() -> None:
    with pytest.raises(CodesignError, match="dram must be a table"):
        AccelConfig.from_toml("dram = 5\n")


def test_missing_file_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(CodesignError, match="cannot read configuration"):
        AccelConfig.from_file(tmp_path / "absent.toml")
