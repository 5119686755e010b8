"""Register map and counters: no two in one place, all in the window, each with a meaning."""

from __future__ import annotations

from dataclasses import fields

from codesign.accel.config import SEGMENTS
from codesign.accel.counters import COUNTED_UNITS, COUNTER_NAMES, STATES, Counters
from codesign.accel.presets import PRESETS
from codesign.accel.registers import OFFSETS, REGISTERS, WINDOW_BITS, digest_word


def test_registers_are_aligned_apart_and_in_the_window() -> None:
    offsets = [register.offset for register in REGISTERS]
    assert offsets == sorted(set(offsets))
    assert all(offset % 4 == 0 and offset + 4 <= 1 << WINDOW_BITS for offset in offsets)
    assert len(OFFSETS) == len(REGISTERS)


def test_every_segment_and_counter_has_two_neighbouring_halves() -> None:
    names = [f"segment{index}" for index in range(SEGMENTS)] + list(COUNTER_NAMES)
    for name in names:
        assert OFFSETS[f"{name}_lo"] % 8 == 0
        assert OFFSETS[f"{name}_hi"] == OFFSETS[f"{name}_lo"] + 4


def test_every_unit_has_every_state() -> None:
    assert {f"{unit}_{state}" for unit in COUNTED_UNITS for state in STATES} <= set(COUNTER_NAMES)


def test_everything_says_what_it_means() -> None:
    assert all(len(register.doc) > 5 for register in REGISTERS)
    for each in fields(Counters):
        assert each.metadata["unit"]
        assert len(each.metadata["doc"]) > 5


def test_counters_go_to_names_and_back() -> None:
    counters = Counters(cycles=9, gemm_busy=4)
    assert Counters.of(counters.as_dict()) == counters
    assert tuple(counters.as_dict()) == COUNTER_NAMES


def test_presets_have_different_digest_words() -> None:
    assert len({digest_word(config) for config in PRESETS.values()}) == len(PRESETS)
