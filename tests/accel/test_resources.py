"""The resource estimate: hand counts of multipliers and block RAMs, and what fits where."""

from __future__ import annotations

from dataclasses import replace

import pytest

from codesign.accel.presets import PRESETS
from codesign.accel.resources import PARTS, Family, block_rams, estimate, fit
from codesign.diagnostics import CodesignError


@pytest.mark.parametrize(
    ("name", "multipliers"),
    [("tiny", 16 + 4 * 6), ("edge", 64 + 8 * 6), ("base", 256 + 16 * 6), ("wide", 1024 + 32 * 6)],
)
def test_multipliers_on_ecp5_are_one_a_mac_and_six_a_lane(name: str, multipliers: int) -> None:
    """33 x 24 takes four blocks of 18 x 18; x op y and the residual one each; load has three."""
    assert estimate(PRESETS[name]).dsp == multipliers + 3


def test_multipliers_on_xilinx_are_wider() -> None:
    assert estimate(PRESETS["edge"], Family.XILINX).dsp == 64 + 8 * 4 + 3


@pytest.mark.parametrize(
    ("words", "bits", "blocks"),
    [(512, 36, 1), (513, 36, 2), (1024, 18, 1), (2048, 64, 8), (16384, 1, 1), (1024, 512, 29)],
)
def test_block_rams_by_hand(words: int, bits: int, blocks: int) -> None:
    assert block_rams(words, bits) == blocks


def test_block_rams_of_edge_by_hand() -> None:
    """inp, vec, out 8 each; wgt 8 x 4 and param 2 x 8 x 2 by beats; acc 2 x 15; lut 8."""
    assert estimate(PRESETS["edge"]).block_ram == 3 * 8 + 8 * 4 + 2 * 8 * 2 + 2 * 15 + 8


@pytest.mark.parametrize(
    ("name", "part", "fits"),
    [
        ("tiny", "LFE5U-45F", True),
        ("edge", "LFE5U-85F", True),
        ("base", "LFE5U-85F", False),
        ("base", "XC7A200T", True),
        ("wide", "XC7A200T", False),
        ("wide", "XCZU9EG", True),
    ],
)
def test_presets_fit_the_parts_that_they_are_meant_for(name: str, part: str, fits: bool) -> None:
    found = fit(PRESETS[name], part)
    assert found.fits is fits
    assert set(found.usage) == {"dsp", "block_ram", "lut", "ff"}


@pytest.mark.parametrize(
    ("name", "counted"),
    [
        ("tiny", (43, 42, 12306 + 2 * 2578 + 6 * 337, 9278)),
        ("edge", (115, 126, 20398 + 2 * 3983 + 6 * 360, 15578)),
    ],
)
def test_estimate_is_near_what_yosys_counted(name: str, counted: tuple[int, ...]) -> None:
    """Yosys 0.70: MULT18X18D, DP16KD, LUT4 + 2 CCU2C + 6 TRELLIS_DPR16X4, TRELLIS_FF."""
    found = estimate(PRESETS[name])
    assert (found.dsp, found.block_ram) == counted[:2]
    assert found.lut == pytest.approx(counted[2], rel=0.1)
    assert found.ff == pytest.approx(counted[3], rel=0.1)


def test_fewer_knobs_cost_less() -> None:
    edge = PRESETS["edge"]
    small = replace(edge, has_lut=False, has_multiplier=False, vector_lanes=4, wgt_depth=512)
    for name in ("dsp", "block_ram", "lut", "ff"):
        assert getattr(estimate(small), name) < getattr(estimate(edge), name)


def test_unknown_part_names_the_known_ones() -> None:
    with pytest.raises(CodesignError, match="known are LFE5U-25F, LFE5U-45F, LFE5U-85F"):
        fit(PRESETS["edge"], "LFE5U-12F")
    assert all(name == part.name for name, part in PARTS.items())
