"""accel-bitstream, accel-board and accel-estimate: the accelerator on an FPGA."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

import numpy as np

from codesign.accel.config import AccelConfig
from codesign.accel.presets import EDGE, TINY, preset
from codesign.accel.resources import Family, estimate
from codesign.diagnostics import CodesignError
from experiments.road.build import compile_accel, quantize_subject
from experiments.road.devices import simulator_cache
from experiments.road.subject import subject
from experiments.rows.measurement import CONSOLE, Measurement
from hardware.boards import ulx3s
from hardware.boards.board import DEFAULT_PRESET
from hardware.boards.simulate import BoardSimulation, build_board_simulator, simulated_plan
from hardware.synthesize import Target, synthesize_accelerator
from host_runtime.device import open_device
from host_runtime.serial_device import SerialDevice
from host_runtime.serial_link import SerialLink, open_line
from host_runtime.session import Session, Trace

BOARD_SAMPLES: Final = 8

SIMULATED_REPLY_SECONDS: Final = 60.0
"""Longest wait for a byte: the simulated board may share its processor with much else."""

ESTIMATED: Final[Mapping[str, AccelConfig]] = MappingProxyType(
    {
        "tiny, two lanes, one bank": replace(TINY, vector_lanes=2, acc_banks=1),
        "tiny, batch 2": replace(TINY, batch=2, vector_lanes=8, acc_depth=512),
        "1x4x8, four banks": replace(TINY, block_out=8, acc_banks=4, queue_depth=8),
        "1x8x8, four lanes, small memories": replace(
            EDGE, vector_lanes=4, inp_depth=512, wgt_depth=256, acc_depth=512, has_lut=False
        ),
        "1x8x8, weights of 4 bits, 32-bit bus": replace(EDGE, wgt_bits=4, bus_bits=32),
        "1x2x4, 64-bit bus": replace(TINY, block_in=2, bus_bits=64, inp_bits=16),
        "tiny, 16-bit sums, inputs of 4 bits": replace(TINY, acc_bits=16, inp_bits=4, wgt_bits=4),
        "1x8x4, no multiplier, 16 bursts, queues of 16": replace(
            TINY, block_in=8, has_multiplier=False, outstanding=16, queue_depth=16
        ),
    }
)
"""Configurations on which the estimate is held to synthesis for ECP5; its factors are from others:
`tiny`, `tiny` with a bare vector unit, and `edge`."""


def accel_bitstream() -> Measurement:
    """Return the frequency that place and route promises for the ULX3S."""
    made = ulx3s.build(ulx3s.plan(preset(DEFAULT_PRESET)), ulx3s.OUT, CONSOLE.print)
    CONSOLE.print(f"{made.path}: {made.needed}, memory {made.plan.memory_bytes:,} bytes")
    return Measurement(value=made.fmax_mhz, unit="MHz", digits=1)


def accel_board() -> Measurement:
    """Count the elements in which the digits network on the simulated board differs.

    Every layer's result and every output of every sample, against the functional simulator.
    """
    config = preset(DEFAULT_PRESET)
    plan = simulated_plan(config)
    library = build_board_simulator(plan, simulator_cache(), CONSOLE.print)
    judged = subject("digits", samples=BOARD_SAMPLES)
    quantized = quantize_subject(judged, CONSOLE.print)
    executable = compile_accel(judged, quantized, config, CONSOLE.print)
    reference = Session(executable, open_device("functional", config))
    total = 0
    with (
        BoardSimulation(plan, library) as board,
        SerialLink(open_line(board.port, reply_seconds=SIMULATED_REPLY_SECONDS)) as link,
    ):
        session = Session(executable, SerialDevice(config, link))
        for index, sample in enumerate(judged.evaluation):
            trace = session.trace(sample)
            found = _differences(trace, reference.trace(sample))
            CONSOLE.print(f"sample {index}: {trace.profile.cycles} cycles, {found} elements differ")
            total += found
    return Measurement(value=total, unit="differing elements")


def _differences(found: Trace, expected: Trace) -> int:
    pairs = [
        (group[name], array)
        for group, wanted in ((found.tensors, expected.tensors), (found.outputs, expected.outputs))
        for name, array in wanted.items()
    ]
    return sum(int(np.count_nonzero(ours != theirs)) for ours, theirs in pairs)


def accel_estimate() -> Measurement:
    """Return the worst error of the estimated LUTs and flip-flops against synthesis for ECP5.

    Raises
    ------
    CodesignError
        Multipliers or block RAMs are not exactly those of synthesis.
    """
    worst = 0.0
    for name, config in ESTIMATED.items():
        with tempfile.TemporaryDirectory(prefix="codesign-synthesis-") as folder:
            made = synthesize_accelerator(config, Target.ECP5, Path(folder), CONSOLE.print)
        found = made.needed
        expected = estimate(config, Family.ECP5)
        CONSOLE.print(f"{name}: synthesis {found}, estimate {expected}")
        if (found.dsp, found.block_ram) != (expected.dsp, expected.block_ram):
            raise CodesignError.of(
                f"the estimate of {name!r} counts multipliers or block RAMs wrongly",
                found=f"synthesis has {found.dsp} and {found.block_ram}, "
                f"the estimate {expected.dsp} and {expected.block_ram}",
            )
        ours, theirs = asdict(expected), asdict(found)
        errors = [abs(ours[each] / theirs[each] - 1) for each in ("lut", "ff")]
        worst = max(worst, *errors)
    return Measurement(value=100 * worst, unit="percent", digits=1)
