"""The two ways in which the arithmetic is written."""

from __future__ import annotations

from enum import StrEnum


class Arm(StrEnum):
    """Meaning and latency are the same."""

    FPGA = "fpga"
    """Registers of exact width where synthesis wants them; runs in Amaranth's simulator too."""

    SIMULATION = "simulation"
    """SystemVerilog loops of 32- and 64-bit arithmetic, which Verilator turns into fast C++."""
