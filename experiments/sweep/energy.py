"""Energy of a run, from what the accelerator counts and a table of energies per operation.

Energies are of 45 nm CMOS at 0.9 V: a scale by which designs are compared, not a chip's figure.

Source: M. Horowitz, Computing's Energy Problem (and what we can do about it), ISSCC 2014, figure
1.1.9. Between the sizes that it states, a memory's energy for 64 bits grows with the square root of
its bytes: 10 pJ at 8 KiB, 20 pJ at 32 KiB, 100 pJ at 1 MiB.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Final, final

from codesign.accel.config import AccelConfig, Memory
from codesign.accel.counters import Counters

ADD_8_PJ: Final = 0.03
ADD_32_PJ: Final = 0.1
MULTIPLY_8_PJ: Final = 0.2
MULTIPLY_32_PJ: Final = 3.1
SRAM_8_KIB_PJ_PER_64_BITS: Final = 10.0
DRAM_PJ_PER_BYTE: Final = 162.5
"""1.3 nJ for 64 bits, the lower end of the source's range."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Energy:
    """Energy of one run by where it goes, in microjoules."""

    mac_uj: float
    sram_uj: float
    dram_uj: float

    @property
    def total_uj(self) -> float:
        """Energy of the run."""
        return self.mac_uj + self.sram_uj + self.dram_uj


def energy(config: AccelConfig, counters: Counters) -> Energy:
    """Return the energy of a run.

    Each product of the array's `macs` costs one multiplication and one addition; each cycle of the
    array reads a tile of inputs and one of weights and turns an accumulator over; each tile of the
    vector unit reads an accumulator and writes an output. Bytes on the bus are DRAM's.
    """
    tiles = counters.macs / config.macs
    per_mac = _multiply(max(config.inp_bits, config.wgt_bits)) + _add(config.acc_bits)
    per_tile = (
        access_pj(config, Memory.INP)
        + access_pj(config, Memory.WGT)
        + 2 * access_pj(config, Memory.ACC)
    )
    drained = counters.vector_busy / max(1, config.vector_passes)
    per_drained = access_pj(config, Memory.ACC) + access_pj(config, Memory.OUT)
    moved = counters.bytes_read + counters.bytes_written
    return Energy(
        mac_uj=counters.macs * per_mac / 1e6,
        sram_uj=(tiles * per_tile + drained * per_drained) / 1e6,
        dram_uj=moved * DRAM_PJ_PER_BYTE / 1e6,
    )


def access_pj(config: AccelConfig, memory: Memory) -> float:
    """Return the energy of one tile's access to a memory, in picojoules.

    Examples
    --------
    >>> round(access_pj(AccelConfig(inp_depth=512), Memory.INP), 1)
    20.0
    """
    size = sqrt(config.memory_bytes(memory) / (8 * 1024))
    return SRAM_8_KIB_PJ_PER_64_BITS * size * config.tile_bits(memory) / 64


def _multiply(bits: int) -> float:
    """Products grow with the square of their width."""
    return MULTIPLY_8_PJ * (bits / 8) ** 2 if bits <= 8 else MULTIPLY_32_PJ * (bits / 32) ** 2


def _add(bits: int) -> float:
    return ADD_8_PJ * bits / 8 if bits <= 8 else ADD_32_PJ * bits / 32
