"""Load unit: boxes of tiles from DRAM into the scratchpads, with padding."""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from codesign.accel.config import LOADABLE, SEGMENTS, AccelConfig, Memory
from codesign.accel.encoding import layout
from codesign.accel.isa import Opcode, Unit
from hardware.rtl.box_walker import BoxWalker, extent_bits
from hardware.rtl.command_queue import CommandQueue
from hardware.rtl.layouts import beat_address_bits, burst_layout, instruction_layout, queue_bits
from hardware.rtl.padding import BOTTOM, LEFT, RIGHT, TOP, PaddingWalker
from hardware.rtl.scratchpad import load_write_layout


def _sram_bits(config: AccelConfig) -> int:
    return next(slot.width for slot in layout(Opcode.LOAD, config) if slot.name == "sram")


def _beat_bits(config: AccelConfig, memory: Memory) -> int:
    return (config.beats(memory) - 1).bit_length()


class Load(wiring.Component):
    """The load unit.

    Members
    -------
    head_valid, head : In; pop : Out
        The command queue.
    there : In; take, give, give_sync : Out
        Tokens.
    segments : In
        Bases of the segments, in beats.
    stop : In
        Ask for no more bursts.
    request_valid, request : Out; grant : In
        Read bursts.
    beat_valid, beat, beat_last : In
        A beat on R that belongs to this unit, unregistered.
    write_en, write : Out
        To the scratchpads.
    in_flight, idle : Out
        Bursts are in flight; nothing is under way.
    busy, wait_token, wait_memory : Out
        What this cycle counts as.

    Timing
    ------
    As in docs/microarchitecture.md: a beat on R in t is written at the end of t + 1.
    """

    def __init__(self, config: AccelConfig) -> None:
        self._config = config
        super().__init__(
            {
                "head_valid": In(1),
                "head": In(queue_bits(config, Unit.LOAD)),
                "pop": Out(1),
                "there": In(len(Unit)),
                "take": Out(len(Unit)),
                "give": Out(len(Unit)),
                "give_sync": Out(len(Unit)),
                "segments": In(data.ArrayLayout(unsigned(beat_address_bits(config)), SEGMENTS)),
                "stop": In(1),
                "request_valid": Out(1),
                "request": Out(burst_layout(config)),
                "grant": In(1),
                "beat_valid": In(1),
                "beat": In(config.bus_bits),
                "beat_last": In(1),
                "write_en": Out(1),
                "write": Out(load_write_layout(config, LOADABLE)),
                "in_flight": Out(1),
                "idle": Out(1),
                "busy": Out(1),
                "wait_token": Out(1),
                "wait_memory": Out(1),
            }
        )

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        config = self._config
        load_layout = instruction_layout(config, Opcode.LOAD)
        head = data.View(load_layout, self.head[: load_layout.size])
        m.submodules.walker = walker = BoxWalker(config)
        m.submodules.padding = padding = PaddingWalker(config, _sram_bits(config))
        start, start_load = Signal(), Signal()
        pad_r, ready = Signal(), Signal()
        has_padding = Cat(*(head.pad[side] for side in range(4))).any()
        is_sync = head.opcode == Opcode.SYNC.value
        flying_r = Signal(range(config.outstanding + 1))
        beat_valid_r, beat_last_r = Signal(), Signal(reset_less=True)
        pad_write = Signal()
        m.d.comb += [
            ready.eq(~pad_r & ~walker.active),
            start.eq(
                ready
                & self.head_valid
                & ((head.wait & ~self.there) == 0)
                & ~(is_sync & (flying_r != 0))
            ),
            start_load.eq(start & ~is_sync),
            self.pop.eq(start),
            self.take.eq(Mux(start, head.wait, 0)),
            self.give_sync.eq(Mux(start & is_sync, head.push, 0)),
            pad_write.eq(pad_r & ~beat_valid_r),
            padding.take.eq(start_load),
            padding.step.eq(pad_write),
            padding.sram.eq(head.sram),
            padding.size.eq(head.size),
            padding.pad.eq(head.pad),
            walker.take.eq(start_load),
            walker.begin.eq((start_load & ~has_padding) | (pad_write & padding.last)),
            walker.hold.eq((flying_r == config.outstanding) | self.stop),
            walker.address.eq(
                Array(self.segments[i] for i in range(SEGMENTS))[head.segment] + head.address
            ),
            walker.planes.eq(head.size[0]),
            walker.rows.eq(head.size[1]),
            walker.row_beats.eq(_by_memory(config, head.memory, head.size[2] + 1)),
            walker.stride.eq(head.stride),
            self.request_valid.eq(walker.request_valid),
            self.request.eq(walker.request),
            walker.grant.eq(self.grant),
            self.in_flight.eq(flying_r != 0),
            self.idle.eq(ready & ~self.in_flight & ~beat_valid_r),
            self.busy.eq(start | pad_write | (walker.active & (~walker.requesting | self.grant))),
            self.wait_token.eq(ready & self.head_valid & ~start),
            self.wait_memory.eq(
                (pad_r & ~pad_write)
                | (walker.requesting & ~self.grant)
                | (ready & ~self.head_valid & self.in_flight)
            ),
        ]
        m.d.sync += [
            flying_r.eq(flying_r + self.grant - (self.beat_valid & self.beat_last)),
            beat_valid_r.eq(self.beat_valid),
            beat_last_r.eq(self.beat_last),
        ]
        with m.If(start_load & has_padding):
            m.d.sync += pad_r.eq(1)
        with m.Elif(pad_write & padding.last):
            m.d.sync += pad_r.eq(0)
        bursts = self._positions(m, head, start_load, walker)
        m.d.comb += [
            self.write_en.eq(beat_valid_r | pad_write),
            self.write.padding.eq(pad_write),
            self.write.tile.eq(padding.tile),
        ]
        self._data(m, bursts, beat_valid_r, beat_last_r)
        return m

    def _positions(
        self, m: Module, head: data.View, start: Signal, walker: BoxWalker
    ) -> CommandQueue:
        """Track where each burst goes; return the queue of the bursts in flight."""
        config = self._config
        sram_bits = _sram_bits(config)
        width_r = Signal(extent_bits(config) + 2, reset_less=True)
        top_r = Signal.like(head.pad[TOP], reset_less=True)
        both_r = Signal(len(head.pad[TOP]) + 1, reset_less=True)
        plane_step_r = Signal(sram_bits, reset_less=True)
        row_r = Signal(sram_bits, reset_less=True)
        memory_r = Signal(head.memory.shape(), reset_less=True)
        push_r = Signal(len(Unit), reset_less=True)
        position_r = Signal(self._position_bits(), reset_less=True)
        fresh_r = Signal()
        first_row, next_row = Signal(sram_bits), Signal(sram_bits)
        m.d.comb += [
            first_row.eq(row_r + top_r * width_r),
            next_row.eq(row_r + Mux(walker.plane_end, plane_step_r, width_r)),
        ]
        m.d.sync += fresh_r.eq(start)
        with m.If(start):
            m.d.sync += [
                memory_r.eq(head.memory),
                push_r.eq(head.push),
                width_r.eq(head.pad[LEFT] + head.size[2] + 1 + head.pad[RIGHT]),
                top_r.eq(head.pad[TOP]),
                both_r.eq(head.pad[TOP] + head.pad[BOTTOM]),
                row_r.eq(head.sram + head.pad[LEFT]),
            ]
        with m.Elif(fresh_r):
            m.d.sync += [
                row_r.eq(first_row),
                position_r.eq(_by_memory(config, memory_r, first_row)),
                plane_step_r.eq(width_r + both_r * width_r),
            ]
        with m.Elif(self.grant):
            with m.If(walker.row_end):
                m.d.sync += [
                    row_r.eq(next_row),
                    position_r.eq(_by_memory(config, memory_r, next_row)),
                ]
            with m.Else():
                m.d.sync += position_r.eq(position_r + walker.length)
        m.submodules.bursts = bursts = CommandQueue(
            self._burst_layout().size, max(2, config.outstanding)
        )
        entry = data.View(self._burst_layout(), bursts.data)
        m.d.comb += [
            bursts.push.eq(self.grant),
            entry.memory.eq(memory_r),
            entry.position.eq(position_r),
            entry.push.eq(Mux(walker.last, push_r, 0)),
        ]
        return bursts

    def _position_bits(self) -> int:
        config = self._config
        return max(config.index_bits(each) + _beat_bits(config, each) for each in LOADABLE)

    def _burst_layout(self) -> data.StructLayout:
        return data.StructLayout(
            {
                "memory": unsigned(max(Memory).bit_length()),
                "position": unsigned(self._position_bits()),
                "push": unsigned(len(Unit)),
            }
        )

    def _data(self, m: Module, bursts: CommandQueue, valid: Signal, last: Signal) -> None:
        """Write the registered beat; padding fills the cycles without one."""
        config = self._config
        beat_r = Signal(config.bus_bits, reset_less=True)
        first_r = Signal(init=1)
        next_r = Signal(self._position_bits(), reset_less=True)
        position = Signal(self._position_bits())
        burst = data.View(self._burst_layout(), bursts.head)
        pad_memory_r = Signal(self.write.memory.shape(), reset_less=True)
        pad_value_r = Signal(self.write.pad_value.shape(), reset_less=True)
        head = data.View(
            instruction_layout(config, Opcode.LOAD),
            self.head[: instruction_layout(config, Opcode.LOAD).size],
        )
        with m.If(self.pop):
            m.d.sync += [pad_memory_r.eq(head.memory), pad_value_r.eq(head.pad_value)]
        with m.If(self.beat_valid):
            m.d.sync += beat_r.eq(self.beat)
        with m.If(valid):
            m.d.sync += [first_r.eq(last), next_r.eq(position + 1)]
        m.d.comb += [
            position.eq(Mux(first_r, burst.position, next_r)),
            bursts.pop.eq(valid & last),
            self.give.eq(Mux(valid & last, burst.push, 0)),
            self.write.pad_value.eq(pad_value_r),
            self.write.data.eq(beat_r),
            self.write.memory.eq(Mux(valid, burst.memory, pad_memory_r)),
        ]
        with m.If(valid), m.Switch(burst.memory):
            for each in LOADABLE:
                shift = _beat_bits(config, each)
                with m.Case(each.value):
                    m.d.comb += [
                        self.write.tile.eq(position >> shift),
                        self.write.beat.eq(position[:shift]),
                    ]


def _by_memory(config: AccelConfig, memory: Value, tiles: Value) -> Value:
    """Return tiles of a memory in beats."""
    choices = [Value.cast(tiles) for _ in range(1 << len(memory))]
    for each in LOADABLE:
        choices[each.value] = tiles << _beat_bits(config, each)
    return Array(choices)[memory]
