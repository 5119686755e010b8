"""study-lstm: cells of recurrent and tree-shaped networks at batch 1, against the memory's roof.

A cell reads each weight once, so that at batch 1 the bus is its bound: bytes / bandwidth. Bytes are
the cell's own (`cell_bytes`): each weight, what requantizes each channel, state and input once.
Padding of tiles, tables and instructions are not counted; they are cycles all the same.

The memory answers after 60 cycles. The figure is the least of LSTM at `base` (1x16x16; 256 numbers
fill its tiles) and TreeLSTM at `edge` (1x8x8): a state of 150 numbers fills 10 tiles of 16 by 94 %
and so its weights, cut along both axes, by 88 %; at `base` that is what the roof leaves at most.
The TreeLSTM runs on the RTL too, at its full size: a cycle or an element that differs is an error.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from codesign.accel.config import AccelConfig
from codesign.accel.peaks import peaks
from codesign.accel.presets import preset
from codesign.compiler import driver
from codesign.diagnostics import InternalError
from codesign.dtypes import Array
from codesign.ir.executable.executable import Executable
from experiments.models.cells import (
    cell_bytes,
    cell_inputs,
    cell_macs,
    cell_on_accelerator,
    integer_cell,
)
from experiments.road.devices import Recorder, device
from experiments.rows.measurement import CONSOLE, Measurement
from host_runtime.session import Session

LATENCY: Final = 60
JUDGED: Final = (("lstm", "base"), ("tree", "edge"))
"""Whose share of the roof the figure is the least of."""

SHOWN: Final = (("gru", "base"), ("lstm", "edge"), ("gru", "edge"), ("tree", "base"))
"""What is measured beside them."""

ON_RTL: Final = ("tree", "edge")


def study_lstm() -> Measurement:
    """Return the least share of the memory's roof that a cell reaches at batch 1, in %."""
    shares = {each: _share(*each) for each in (*JUDGED, *SHOWN)}
    return Measurement(value=min(shares[each] for each in JUDGED), unit="percent", digits=2)


def _share(kind: str, name: str) -> float:
    config = preset(name).with_dram(latency_cycles=LATENCY)
    executable = cell_on_accelerator(kind, 1, config)
    cycles = run_cell(kind, executable, config, "cycle")
    if (kind, name) == ON_RTL:
        again = run_cell(kind, executable, config, "rtl")
        CONSOLE.print(f"{kind} at {name}: {cycles:,} cycles, on the RTL {again:,}")
        if again != cycles:
            raise InternalError("cycle simulator and RTL differ")
    roof = peaks(config)
    bound = cell_bytes(kind, 1) / roof.bytes_per_cycle
    share = 100 * bound / cycles
    macs = cell_macs(kind, 1) / roof.macs_per_cycle
    CONSOLE.print(
        f"{kind:5} at {name:5} {cycles:8,} cycles, memory's roof {bound:10,.1f}"
        f" = {share:5.2f} %, array's {macs:9,.1f}"
    )
    return share


def run_cell(kind: str, executable: Executable, config: AccelConfig, simulator: str) -> int:
    """Return a cell's cycles on a simulator; its codes are those of the host, bit for bit."""
    made = integer_cell(kind, 1)
    codes = {
        name: made.inputs[name].codes(values).astype(np.int8)
        for name, values in next(iter(cell_inputs(kind, 1, 1))).items()
    }
    wanted = Session(driver.compile(made, target="cpu")).run(codes)
    recorder = Recorder(device(simulator, config, CONSOLE.print))
    found = Session(executable, recorder).run(codes)
    _require_equal(wanted, found)
    return sum(outcome.cycles or 0 for _, outcome in recorder.runs)


def _require_equal(wanted: dict[str, Array], found: dict[str, Array]) -> None:
    for name, values in wanted.items():
        if not np.array_equal(values, found[name]):
            raise InternalError(f"{name} of a cell differs between host and accelerator")
