"""What runs accelerator programs: one of the simulators, chosen by name."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from codesign.accel.config import AccelConfig
from codesign.diagnostics import CodesignError
from codesign.sim.composed import TimedSimulator, ValueSimulator
from codesign.sim.rtl import RtlSimulator
from codesign.sim.simulator import Simulator

DEVICES: Final = ("functional", "cycle", "rtl")
"""Values; values and cycles; the Verilated circuit."""


def open_device(name: str, config: AccelConfig, library: Path | None = None) -> Simulator:
    """Return a simulator of a configuration; `rtl` needs the library that `hardware` builds.

    Raises
    ------
    CodesignError
        No such device; `rtl` without a library or with that of other hardware.
    """
    match name:
        case "functional":
            return ValueSimulator(config)
        case "cycle":
            return TimedSimulator(config)
        case "rtl" if library is not None:
            return RtlSimulator(config, library)
        case "rtl":
            raise CodesignError.of(
                "the device 'rtl' needs a library",
                help="build it with hardware.verilate for the same configuration",
            )
        case _:
            raise CodesignError.of(
                f"there is no device {name!r}", found=f"the devices are {', '.join(DEVICES)}"
            )
