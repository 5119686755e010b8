"""What a user chooses about the text: how the arithmetic is written, when reset is active."""

from __future__ import annotations

from enum import StrEnum


class Arm(StrEnum):
    """Meaning and latency are the same."""

    FPGA = "fpga"
    """Registers of exact width where synthesis wants them; runs in Amaranth's simulator too."""

    SIMULATION = "simulation"
    """SystemVerilog loops of 32- and 64-bit arithmetic, which Verilator turns into fast C++."""


class Reset(StrEnum):
    """The level of the reset pin that resets; the value names the pin."""

    LOW = "aresetn"
    """What AXI calls for."""

    HIGH = "areset"
    """What the flip-flops of most FPGAs take without an inverter."""
