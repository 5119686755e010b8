"""accel-lint and accel-xprop: the exported Verilog in the eyes of other tools."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from codesign.accel.presets import preset
from codesign.sim.functional import FunctionalSimulator
from experiments.rows.measurement import CONSOLE, Measurement
from tests.support.four_state import run_four_state
from tests.support.layers import Convolutions, convolutions
from tests.support.lint import complaints, corners

FOUR_STATE_PRESETS: Final = ("tiny", "edge", "base")
LAYERS: Final = Convolutions(side=4, rounds=2)


def accel_lint() -> Measurement:
    """Count the corner configurations that Verilator, Icarus or Yosys complain about."""
    unclean = 0
    chosen = list(corners())
    for done, (name, config) in enumerate(chosen, start=1):
        with tempfile.TemporaryDirectory(prefix="codesign-lint-") as folder:
            found = complaints(config, Path(folder))
        unclean += bool(found)
        CONSOLE.print(f"{done}/{len(chosen)} {name}: {len(found)} complaints", markup=False)
        for line in found[:5]:
            CONSOLE.print(f"  {line}", markup=False)
    return Measurement(value=unclean, unit="configurations not clean")


def accel_xprop() -> Measurement:
    """Count the pins that are ever x after reset while a layer runs, over three presets.

    The text has lost its registers' initial values: only the reset, and writes, make state known.
    A run that ends otherwise than the functional simulator's counts as one more.
    """
    unknown = 0
    for name in FOUR_STATE_PRESETS:
        config = preset(name)
        program, dram, bases = convolutions(config, LAYERS)
        expected = dram.copy()
        FunctionalSimulator(config).run(program, expected, bases)
        with tempfile.TemporaryDirectory(prefix="codesign-four-state-") as folder:
            found = run_four_state(config, program, dram, bases, Path(folder))
        differs = bool((found.dram != expected).any())
        unknown += len(found.unknown_pins) + differs
        CONSOLE.print(
            f"{name}: {found.cycles} cycles, x at {', '.join(found.unknown_pins) or 'no pin'}, "
            f"memory {'differs' if differs else 'as expected'}",
            markup=False,
        )
    return Measurement(value=unknown, unit="pins ever x")
