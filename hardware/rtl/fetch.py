"""Fetch unit: reads the program and hands each instruction to the queue of its unit."""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from codesign.accel.config import AccelConfig
from codesign.accel.encoding import instruction_beats
from codesign.accel.isa import Opcode, Unit
from codesign.accel.timing import fetch_buffer_beats, fetch_chunk_beats
from hardware.rtl.layouts import beat_address_bits, burst_layout, instruction_layout

COUNT_BITS = 32
"""Width of the number of a program's instructions."""


class Fetch(wiring.Component):
    """Streams the program through a buffer, assembles instructions, dispatches them.

    Members
    -------
    start, base, instructions : In
        Begin a program at an address in beats.
    stop : In
        Ask for no more bursts.
    request_valid, request : Out; grant : In
        Read bursts.
    beat_valid, beat : In
        A beat on R that belongs to this unit.
    queue_full : In; queue_push, instruction : Out
        One bit per unit.
    done : Out
        All instructions are dispatched.
    unknown : Out
        The assembled word has no known opcode.
    position : Out
        Address, in beats, of the first instruction that is not dispatched.
    busy, wait_token, wait_memory : Out
        What this cycle counts as.

    Timing
    ------
    As in docs/microarchitecture.md: a beat on R in t is taken from t + 1 on; the cycle after an
    instruction's last beat is the first in which it can be dispatched.
    """

    def __init__(self, config: AccelConfig) -> None:
        self._config = config
        super().__init__(
            {
                "start": In(1),
                "base": In(beat_address_bits(config)),
                "instructions": In(COUNT_BITS),
                "stop": In(1),
                "request_valid": Out(1),
                "request": Out(burst_layout(config)),
                "grant": In(1),
                "beat_valid": In(1),
                "beat": In(config.bus_bits),
                "queue_full": In(len(Unit)),
                "queue_push": Out(len(Unit)),
                "instruction": Out(instruction_beats(config) * config.bus_bits),
                "done": Out(1),
                "unknown": Out(1),
                "position": Out(beat_address_bits(config)),
                "busy": Out(1),
                "wait_token": Out(1),
                "wait_memory": Out(1),
            }
        )

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        beats = instruction_beats(self._config)
        remaining_bits = COUNT_BITS + (beats - 1).bit_length()
        to_take_r = Signal(remaining_bits)
        take = Signal()
        self._requests(m, take, remaining_bits)
        buffered = self._buffer(m, take)
        self._assemble(m, take, buffered, to_take_r)
        with m.If(self.start):
            m.d.sync += to_take_r.eq(self.instructions * beats)
        with m.Elif(take):
            m.d.sync += to_take_r.eq(to_take_r - 1)
        return m

    def _requests(self, m: Module, take: Signal, remaining_bits: int) -> None:
        """Ask for the next chunk as soon as the buffer has room for it."""
        beats = instruction_beats(self._config)
        chunk = fetch_chunk_beats(self._config, beats)
        buffer = fetch_buffer_beats(beats)
        left_r = Signal(remaining_bits)
        address_r = Signal(self.base.shape(), reset_less=True)
        room_r = Signal(range(buffer + 1), init=buffer)
        length = Signal(range(chunk + 1))
        m.d.comb += [
            length.eq(Mux(left_r < chunk, left_r, chunk)),
            self.request_valid.eq((left_r != 0) & (room_r >= length) & ~self.stop),
            self.request.address.eq(address_r),
            self.request.last.eq(length - 1),
        ]
        m.d.sync += room_r.eq(room_r + take - Mux(self.grant, length, 0))
        with m.If(self.start):
            m.d.sync += [left_r.eq(self.instructions * beats), address_r.eq(self.base)]
        with m.Elif(self.grant):
            m.d.sync += [left_r.eq(left_r - length), address_r.eq(address_r + length)]

    def _buffer(self, m: Module, take: Signal) -> tuple[Signal, Signal]:
        """Keep beats that have arrived; return whether there is one, and the first."""
        depth = fetch_buffer_beats(instruction_beats(self._config))
        m.submodules.buffer = buffer = memory.Memory(
            shape=unsigned(self._config.bus_bits), depth=depth, init=[]
        )
        write, read = buffer.write_port(), buffer.read_port(domain="comb")
        write_r, read_r = Signal(range(depth)), Signal(range(depth))
        level_r = Signal(range(depth + 1))
        valid = Signal()
        m.d.comb += [
            write.addr.eq(write_r),
            write.data.eq(self.beat),
            write.en.eq(self.beat_valid),
            read.addr.eq(read_r),
            valid.eq(level_r != 0),
        ]
        m.d.sync += level_r.eq(level_r + self.beat_valid - take)
        with m.If(self.beat_valid):
            m.d.sync += write_r.eq(write_r + 1)
        with m.If(take):
            m.d.sync += read_r.eq(read_r + 1)
        return valid, read.data

    def _assemble(
        self, m: Module, take: Signal, buffered: tuple[Signal, Signal], to_take: Signal
    ) -> None:
        beats = instruction_beats(self._config)
        valid, beat = buffered
        parts = [Signal(len(beat), name=f"part_{i}_r", reset_less=True) for i in range(beats)]
        index_r = Signal(range(max(2, beats)))
        dispatching_r = Signal()
        push = Signal()
        target = Signal(range(len(Unit)))
        m.d.comb += [
            take.eq(valid & ~dispatching_r),
            self.instruction.eq(Cat(*parts)),
            self.done.eq((to_take == 0) & ~dispatching_r),
            push.eq(dispatching_r & ~self.unknown & ~self.queue_full.bit_select(target, 1)),
            # Not a shift: `target` is unknown until the first instruction.
            *(self.queue_push[unit.value].eq(push & (target == unit.value)) for unit in Unit),
            self.busy.eq(take | push),
            self.wait_token.eq(dispatching_r & ~push),
            self.wait_memory.eq(~dispatching_r & ~valid & (to_take != 0)),
        ]
        with m.If(take):
            m.d.sync += [Array(parts)[index_r].eq(beat), index_r.eq(index_r + 1)]
            with m.If(index_r == beats - 1):
                m.d.sync += [dispatching_r.eq(1), index_r.eq(0)]
        with m.If(push):
            m.d.sync += [dispatching_r.eq(0), self.position.eq(self.position + beats)]
        with m.If(self.start):
            m.d.sync += self.position.eq(self.base)
        self._decode(m, target, dispatching_r)

    def _decode(self, m: Module, target: Signal, dispatching: Signal) -> None:
        sync = data.View(
            instruction_layout(self._config, Opcode.SYNC),
            self.instruction[: instruction_layout(self._config, Opcode.SYNC).size],
        )
        known = Signal()
        m.d.comb += self.unknown.eq(dispatching & ~known)
        with m.Switch(sync.opcode):
            for opcode, unit in (
                (Opcode.LOAD, Unit.LOAD),
                (Opcode.GEMM, Unit.GEMM),
                (Opcode.VECTOR, Unit.VECTOR),
                (Opcode.STORE, Unit.STORE),
            ):
                with m.Case(opcode.value):
                    m.d.comb += [known.eq(1), target.eq(unit.value)]
            with m.Case(Opcode.SYNC.value):
                m.d.comb += [known.eq(1), target.eq(sync.unit)]
