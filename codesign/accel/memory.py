"""The timing of the DRAM behind the AXI port: one rule for all simulators.

Reads and writes share one channel, in the order of their arrival. The functions below are plain
integer code, so that a simulator may compile them; `hardware/harness.cpp` states the same rule in
C++ and takes the numbers from `DramRule`.

Source: `docs/microarchitecture.md`, section DRAM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

from codesign.accel.config import PAGE_BYTES, AccelConfig
from codesign.accel.timing import READ_LEAD, WRITE_LEAD

NO_ROW: Final = -1
"""The open row of a bank in which none was opened yet."""


def burst_length(address: int, beats_left: int, bus_bytes: int, burst_beats: int) -> int:
    """Return the beats of the next burst of a row of contiguous beats.

    `address` is the byte address of the first beat left; no burst crosses a 4 KiB boundary.
    """
    to_boundary = (PAGE_BYTES - address % PAGE_BYTES) // bus_bytes
    return min(beats_left, burst_beats, to_boundary)


def first_slot(arrival: int, lead: int, latency: int, channel_free: int, penalty: int) -> int:
    """Return the cycle of a burst's first beat.

    `channel_free` is the first cycle that no earlier burst uses; `penalty` is `miss_cycles` where
    the burst's row has to be opened, else 0.
    """
    return max(arrival + max(lead, latency), channel_free) + penalty


@final
@dataclass(frozen=True, slots=True)
class DramRule:
    """The numbers of the rule for one configuration, in cycles and bytes."""

    latency: int
    interval: int
    banks: int
    row_bytes: int
    miss_cycles: int

    @classmethod
    def of(cls, config: AccelConfig) -> DramRule:
        """Return the rule's numbers for the memory of a configuration."""
        dram = config.dram
        return cls(
            latency=dram.latency_cycles,
            interval=config.beat_interval,
            banks=dram.banks,
            row_bytes=dram.row_bytes,
            miss_cycles=dram.miss_cycles,
        )


@final
class DramChannel:
    """The channel's state: when it is free and which row is open in each bank.

    Examples
    --------
    >>> rule = DramRule(latency=10, interval=2, banks=0, row_bytes=8192, miss_cycles=0)
    >>> channel = DramChannel(rule)
    >>> channel.schedule(arrival=5, address=0, beats=4, is_write=False)
    15
    >>> channel.schedule(arrival=6, address=64, beats=1, is_write=False)
    23
    """

    def __init__(self, rule: DramRule) -> None:
        self._rule = rule
        self._free = 0
        self._open_rows = [NO_ROW] * rule.banks

    def schedule(self, *, arrival: int, address: int, beats: int, is_write: bool) -> int:
        """Return the slot of a burst's first beat; beat j follows `j * interval` cycles later.

        Bursts must be given in the order of their arrival; of two in one cycle, the read first.
        """
        rule = self._rule
        penalty = 0
        if rule.banks:
            row = address // rule.row_bytes
            bank = row % rule.banks
            penalty = rule.miss_cycles if self._open_rows[bank] != row else 0
            self._open_rows[bank] = row
        lead = WRITE_LEAD if is_write else READ_LEAD
        first = first_slot(arrival, lead, rule.latency, self._free, penalty)
        self._free = first + beats * rule.interval
        return first
