"""Block RAM behind an AXI4 slave: the DRAM of a board that has none.

Its timing is the rule of docs/microarchitecture.md for an ideal memory: latency 1, a beat in every
cycle, no rows. So a program takes the cycles that the cycle simulator says.
"""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from codesign.accel.config import PAGE_BYTES, AccelConfig
from codesign.accel.encoding import instruction_beats
from codesign.accel.timing import READ_LEAD, WRITE_LEAD, fetch_buffer_beats, fetch_chunk_beats
from hardware.rtl.axi_master import axi_members
from hardware.rtl.command_queue import CommandQueue

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
        What was read, in the cycle after it was taken.
    faults : Out
        Beats of W that were not there in their slot.

    Timing
    ------
    A burst's address in t: the first beat is on R in the later of t + 1 and the first free slot; is
    taken from W in the later of t + 4 and that slot. Read before write in one cycle. B follows the
    last slot.
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
        self._reads = _queue_depth(fetches + config.outstanding)
        self._writes = _queue_depth(config.outstanding)
        # Every burst in flight may have to wait for all others.
        waiting = (self._reads + self._writes) * config.burst_beats
        self._time = unsigned((waiting + WRITE_LEAD).bit_length() + 1)
        self._burst = data.StructLayout(
            {
                "slot": self._time,
                "beat": self._index_bits,
                "last": LENGTH_BITS,
                "outside": unsigned(1),
            }
        )

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        now_r = Signal(self._time)
        m.d.sync += now_r.eq(now_r + 1)
        read, write, at_once = self._arrivals(m, now_r)
        read_valid, read_beat = self._read_channel(m, now_r, read, at_once)
        write_slot, write_beat, write_enable = self._write_channel(m, now_r, write)
        self._storage(m, read_valid, read_beat, write_slot, write_beat, write_enable)
        m.d.comb += [
            self.axi_arready.eq(1),
            self.axi_awready.eq(1),
            self.axi_rid.eq(0),
            self.axi_bid.eq(0),
        ]
        return m

    def _arrivals(self, m: Module, now: Signal) -> tuple[data.View, data.View, Value]:
        """Give the bursts of this cycle their slots; the read's is the next cycle if `at_once`."""
        # Cycles from this one to the channel's first free slot; 0 where it is free.
        busy_r = Signal(self._time)
        read = Signal(self._burst)
        write = Signal(self._burst)
        read_delay, write_delay = Signal(self._time), Signal(self._time)
        after_read, after_write = Signal(self._time), Signal(self._time)
        reads, writes = self.axi_arvalid, self.axi_awvalid
        m.d.comb += [
            read_delay.eq(Mux(busy_r > READ_LEAD, busy_r, READ_LEAD)),
            after_read.eq(Mux(reads, read_delay + self.axi_arlen + 1, busy_r)),
            write_delay.eq(Mux(after_read > WRITE_LEAD, after_read, WRITE_LEAD)),
            after_write.eq(Mux(writes, write_delay + self.axi_awlen + 1, after_read)),
            read.slot.eq(now + read_delay),
            write.slot.eq(now + write_delay),
            *self._describe(read, self.axi_araddr, self.axi_arlen),
            *self._describe(write, self.axi_awaddr, self.axi_awlen),
        ]
        m.d.sync += busy_r.eq(Mux(after_write == 0, 0, after_write - 1))
        return read, write, read_delay == READ_LEAD

    def _describe(self, burst: data.View, address: Value, last: Value) -> list[object]:
        return [
            burst.beat.eq(address >> self._shift),
            burst.last.eq(last),
            burst.outside.eq(address >= self._size_bytes),
        ]

    def _read_channel(
        self, m: Module, now: Signal, arrived: data.View, at_once: Value
    ) -> tuple[Value, Value]:
        """Decide in every cycle what is on R in the next; return whether, and which beat."""
        m.submodules.reads = queue = CommandQueue(self._burst.size, self._reads)
        head = data.View(self._burst, queue.head)
        begins_now = self.axi_arvalid & at_once
        m.d.comb += [
            queue.push.eq(self.axi_arvalid & ~at_once),
            queue.data.eq(arrived.as_value()),
        ]
        left_r, beat_r, outside_r = Signal(LENGTH_BITS), Signal(self._index_bits), Signal()
        valid, beat, left, outside = (
            Signal(),
            Signal(self._index_bits),
            Signal(LENGTH_BITS),
            Signal(),
        )
        with m.If(left_r != 0):
            m.d.comb += [
                valid.eq(1),
                beat.eq(beat_r),
                left.eq(left_r - 1),
                outside.eq(outside_r),
            ]
        with m.Elif(queue.valid & (head.slot == (now + 1)[: len(now)])):
            m.d.comb += [
                queue.pop.eq(1),
                valid.eq(1),
                beat.eq(head.beat),
                left.eq(head.last),
                outside.eq(head.outside),
            ]
        with m.Elif(begins_now):
            m.d.comb += [
                valid.eq(1),
                beat.eq(arrived.beat),
                left.eq(arrived.last),
                outside.eq(arrived.outside),
            ]
        m.d.sync += [
            left_r.eq(left),
            beat_r.eq(beat + 1),
            outside_r.eq(outside),
            self.axi_rvalid.eq(valid),
            self.axi_rlast.eq(valid & (left == 0)),
            self.axi_rresp.eq(Mux(outside, SLAVE_ERROR, 0)),
        ]
        return valid, beat

    def _write_channel(
        self, m: Module, now: Signal, arrived: data.View
    ) -> tuple[Value, Value, Value]:
        """Decide in every cycle whether the next takes W; return slot, beat, enable of this one."""
        m.submodules.writes = queue = CommandQueue(self._burst.size, self._writes)
        head = data.View(self._burst, queue.head)
        m.d.comb += [queue.push.eq(self.axi_awvalid), queue.data.eq(arrived.as_value())]
        left_r, beat_r, outside_r = Signal(LENGTH_BITS), Signal(self._index_bits), Signal()
        ends_r = Signal()
        with m.If(left_r != 0):
            m.d.sync += [left_r.eq(left_r - 1), beat_r.eq(beat_r + 1), self.axi_wready.eq(1)]
            m.d.sync += ends_r.eq(left_r == 1)
        with m.Elif(queue.valid & (head.slot == (now + 1)[: len(now)])):
            m.d.comb += queue.pop.eq(1)
            m.d.sync += [
                left_r.eq(head.last),
                beat_r.eq(head.beat),
                outside_r.eq(head.outside),
                self.axi_wready.eq(1),
                ends_r.eq(head.last == 0),
            ]
        with m.Else():
            m.d.sync += [self.axi_wready.eq(0), ends_r.eq(0)]
        m.d.sync += [
            self.axi_bvalid.eq(self.axi_wready & ends_r),
            self.axi_bresp.eq(Mux(outside_r, SLAVE_ERROR, 0)),
        ]
        with m.If(self.axi_wready & ~self.axi_wvalid):
            m.d.sync += self.faults.eq(self.faults + 1)
        return self.axi_wready, beat_r, self.axi_wready & self.axi_wvalid & ~outside_r

    def _storage(
        self,
        m: Module,
        read_valid: Value,
        read_beat: Value,
        write_slot: Value,
        write_beat: Value,
        write_enable: Value,
    ) -> None:
        bits = self._config.bus_bits
        m.submodules.beats = beats = memory.Memory(shape=unsigned(bits), depth=self._depth, init=[])
        read, write = beats.read_port(), beats.write_port()
        m.d.comb += [
            read.en.eq(1),
            read.addr.eq(Mux(read_valid, read_beat, self.host_beat)),
            write.addr.eq(Mux(write_slot, write_beat, self.host_beat)),
            write.data.eq(Mux(write_slot, self.axi_wdata, self.host_wdata)),
            write.en.eq(Mux(write_slot, write_enable, self.host_valid & self.host_write)),
            self.host_ready.eq(Mux(self.host_write, ~write_slot, ~read_valid)),
            self.host_rdata.eq(read.data),
            self.axi_rdata.eq(read.data),
        ]


def _queue_depth(bursts: int) -> int:
    """Return the entries of a queue for so many bursts: a power of two, at least 2."""
    return max(2, 1 << (bursts - 1).bit_length())
