"""Block RAM behind an AXI4 slave: the DRAM of a board that has none.

Its timing is the rule of docs/microarchitecture.md for a latency of `LATENCY_CYCLES`, a beat in
every cycle and no rows. So a program takes the cycles that the cycle simulator says.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from codesign.accel.config import PAGE_BYTES, AccelConfig, DramTiming
from codesign.accel.encoding import instruction_beats
from codesign.accel.timing import fetch_buffer_beats, fetch_chunk_beats
from hardware.rtl.axi_master import axi_members
from hardware.rtl.command_queue import CommandQueue

LATENCY_CYCLES: Final = 6
"""From a burst's address to its first beat: block RAM all over a chip is reached by registers."""

TIMING: Final = DramTiming(latency_cycles=LATENCY_CYCLES)
"""What the cycle simulator has to be told of this memory."""

SLAVE_ERROR = 0b10
"""xRESP of a burst outside the memory."""

LENGTH_BITS = 8
"""Bits of AxLEN."""

FAULT_BITS = 32


class BlockMemory(wiring.Component):
    """Memory at addresses 0 … `size_bytes` - 1.

    Parameters
    ----------
    config : AccelConfig
        Of the master on the bus, whose bursts neither wrap nor cross 4 KiB, all with ID 0.
    size_bytes : int
        A multiple of 4096.

    Members
    -------
    axi_* : pins of an AXI4 slave. Addresses are always taken; a burst that begins outside the
        memory is answered with SLVERR; its data means nothing and its writes are dropped.
    host_valid, host_write, host_beat, host_wdata : In; host_ready : Out
        One access of the host to a beat; taken in a cycle in which valid and ready are 1, one in
        which the bus needs no such port.
    host_rdata : Out
        What was read, two cycles after it was taken.
    faults : Out
        Beats of W that were not there in their slot.

    Timing
    ------
    A burst's address in t: its first beat is on R, or taken from W, in the later of
    t + LATENCY_CYCLES and the first free slot. B follows the last slot. A read behind a write's B
    sees what was written; one before it may see what was there.
    """

    def __init__(self, config: AccelConfig, size_bytes: int) -> None:
        if size_bytes % PAGE_BYTES:
            raise ValueError(f"BlockMemory.size_bytes must be a multiple of 4096, not {size_bytes}")
        self._config, self._size_bytes = config, size_bytes
        self._depth = size_bytes // config.bus_bytes
        self._index_bits = (self._depth - 1).bit_length()
        self._shift = (config.bus_bytes - 1).bit_length()
        pins = wiring.Signature(axi_members(config, "axi_")).flip().members
        super().__init__(
            {
                **dict(pins.items()),
                "host_valid": In(1),
                "host_write": In(1),
                "host_beat": In(self._index_bits),
                "host_wdata": In(config.bus_bits),
                "host_ready": Out(1),
                "host_rdata": Out(config.bus_bits),
                "faults": Out(FAULT_BITS),
            }
        )
        beats = instruction_beats(config)
        fetches = fetch_buffer_beats(beats) // fetch_chunk_beats(config, beats) + 1
        self._bursts = _queue_depth(fetches + 2 * config.outstanding)
        self._burst = data.StructLayout(
            {"asked": unsigned(1), "beat": self._index_bits, "last": LENGTH_BITS, "outside": 1}
        )
        # The bursts whose addresses came in one cycle; the read goes first.
        self._pair = data.StructLayout({"read": self._burst, "write": self._burst})
        self._slot = data.StructLayout(
            {"read": 1, "write": 1, "beat": self._index_bits, "last": 1, "outside": 1}
        )

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        # A slot begins in stage 0; in stage 3 its beat is on R or is taken from W.
        slots = [Signal(self._slot, name=f"slot_{stage}_r") for stage in range(5)]
        self._give_slots(m, self._arrivals(m), slots[0])
        m.d.sync += [after.eq(before) for before, after in pairwise(slots)]
        reading, here, done = slots[0], slots[3], slots[4]
        m.d.comb += [
            self.axi_arready.eq(1),
            self.axi_awready.eq(1),
            self.axi_rid.eq(0),
            self.axi_bid.eq(0),
            self.axi_rvalid.eq(here.read),
            self.axi_rlast.eq(here.read & here.last),
            self.axi_rresp.eq(Mux(here.outside, SLAVE_ERROR, 0)),
            self.axi_wready.eq(here.write),
            self.axi_bvalid.eq(done.write & done.last),
            self.axi_bresp.eq(Mux(done.outside, SLAVE_ERROR, 0)),
            self.host_ready.eq(~Mux(self.host_write, here.write, reading.read)),
        ]
        with m.If(here.write & ~self.axi_wvalid):
            m.d.sync += self.faults.eq(self.faults + 1)
        self._storage(m, reading, here)
        return m

    def _arrivals(self, m: Module) -> data.View:
        """Describe, one cycle later, the bursts whose addresses come in a cycle."""
        pair_r = Signal(self._pair, name="arrived_r")
        for burst, asked, address, last in (
            (pair_r.read, self.axi_arvalid, self.axi_araddr, self.axi_arlen),
            (pair_r.write, self.axi_awvalid, self.axi_awaddr, self.axi_awlen),
        ):
            m.d.sync += [
                burst.asked.eq(asked),
                burst.beat.eq(address >> self._shift),
                burst.last.eq(last),
                burst.outside.eq(address >= self._size_bytes),
            ]
        return pair_r

    def _give_slots(self, m: Module, arrived: data.View, slot: data.View) -> None:
        """Give the bursts, in the order in which they came, a slot for each beat."""
        m.submodules.bursts = queue = CommandQueue(self._pair.size, self._bursts)
        head = data.View(self._pair, queue.head)
        # Of the head, the read has had its slots and the write has not.
        writes_r = Signal()
        is_write = writes_r | ~head.read.asked
        burst = Signal(self._burst)
        left_r = Signal(LENGTH_BITS)
        m.d.comb += [
            queue.push.eq(arrived.read.asked | arrived.write.asked),
            queue.data.eq(arrived.as_value()),
            burst.eq(Mux(is_write, head.write.as_value(), head.read.as_value())),
        ]
        with m.If(left_r != 0):
            m.d.sync += [left_r.eq(left_r - 1), slot.beat.eq(slot.beat + 1)]
            m.d.sync += slot.last.eq(left_r == 1)
        with m.Elif(queue.valid):
            m.d.comb += queue.pop.eq(is_write | ~head.write.asked)
            m.d.sync += [
                writes_r.eq(~queue.pop),
                left_r.eq(burst.last),
                slot.read.eq(~is_write),
                slot.write.eq(is_write),
                slot.beat.eq(burst.beat),
                slot.last.eq(burst.last == 0),
                slot.outside.eq(burst.outside),
            ]
        with m.Else():
            m.d.sync += [slot.read.eq(0), slot.write.eq(0)]

    def _storage(self, m: Module, reading: data.View, taken: data.View) -> None:
        """Read for a slot of stage 0; write what a slot of stage 3 takes."""
        bits = self._config.bus_bits
        m.submodules.beats = beats = memory.Memory(shape=unsigned(bits), depth=self._depth, init=[])
        read, write = beats.read_port(), beats.write_port()
        read_beat_r, write_beat_r = Signal(self._index_bits), Signal(self._index_bits)
        wdata_r, write_r = Signal(bits), Signal()
        m.d.comb += [
            read.en.eq(1),
            read.addr.eq(read_beat_r),
            write.addr.eq(write_beat_r),
            write.data.eq(wdata_r),
            write.en.eq(write_r),
            self.host_rdata.eq(read.data),
        ]
        accepted = self.axi_wvalid & ~taken.outside
        m.d.sync += [
            read_beat_r.eq(Mux(reading.read, reading.beat, self.host_beat)),
            write_beat_r.eq(Mux(taken.write, taken.beat, self.host_beat)),
            wdata_r.eq(Mux(taken.write, self.axi_wdata, self.host_wdata)),
            write_r.eq(Mux(taken.write, accepted, self.host_valid & self.host_write)),
            self.axi_rdata.eq(read.data),
        ]


def _queue_depth(bursts: int) -> int:
    """Return the entries of a queue for so many bursts: a power of two, at least 2."""
    return max(2, 1 << (bursts - 1).bit_length())
