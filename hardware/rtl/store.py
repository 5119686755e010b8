"""Store unit: consecutive tiles of `out` to a box in DRAM."""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from codesign.accel.config import SEGMENTS, AccelConfig, Memory
from codesign.accel.isa import Opcode, Unit
from hardware.rtl.box_walker import BoxWalker
from hardware.rtl.command_queue import CommandQueue
from hardware.rtl.layouts import beat_address_bits, burst_layout, instruction_layout, queue_bits

READ_AHEAD = 8
"""Beats read from `out` ahead of W: more than the pipeline between them holds."""


class Store(wiring.Component):
    """The store unit.

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
        Write bursts.
    read_en, tile : Out; out : In
        The `out` scratchpad.
    beat_valid, beat, beat_last : Out; beat_ready : In
        W, registered.
    response : In
        A response on B.
    in_flight, idle : Out
        Bursts are in flight; nothing is under way.
    busy, wait_token, wait_memory : Out
        What this cycle counts as.

    Timing
    ------
    As in docs/microarchitecture.md: the first beat of a burst that is granted in t is on W in
    t + 1 + WRITE_LEAD or, behind other beats, right after them.
    """

    def __init__(self, config: AccelConfig) -> None:
        self._config = config
        super().__init__(
            {
                "head_valid": In(1),
                "head": In(queue_bits(config, Unit.STORE)),
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
                "read_en": Out(1),
                "tile": Out(config.index_bits(Memory.OUT)),
                "out": In(config.vec_tile_bits),
                "beat_valid": Out(1),
                "beat": Out(config.bus_bits),
                "beat_last": Out(1),
                "beat_ready": In(1),
                "response": In(1),
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
        store_layout = instruction_layout(config, Opcode.STORE)
        head = data.View(store_layout, self.head[: store_layout.size])
        m.submodules.walker = walker = BoxWalker(config)
        start, ready = Signal(), ~walker.active
        is_sync = head.opcode == Opcode.SYNC.value
        flying_r = Signal(range(config.outstanding + 1))
        m.d.comb += [
            start.eq(
                ready
                & self.head_valid
                & ((head.wait & ~self.there) == 0)
                & ~(is_sync & (flying_r != 0))
            ),
            self.pop.eq(start),
            self.take.eq(Mux(start, head.wait, 0)),
            self.give_sync.eq(Mux(start & is_sync, head.push, 0)),
            walker.take.eq(start & ~is_sync),
            walker.begin.eq(start & ~is_sync),
            walker.hold.eq((flying_r == config.outstanding) | self.stop),
            walker.address.eq(
                Array(self.segments[i] for i in range(SEGMENTS))[head.segment] + head.address
            ),
            walker.planes.eq(head.size[0]),
            walker.rows.eq(head.size[1]),
            walker.row_beats.eq((head.size[2] + 1) << self._beat_bits()),
            walker.stride.eq(head.stride),
            self.request_valid.eq(walker.request_valid),
            self.request.eq(walker.request),
            walker.grant.eq(self.grant),
            self.in_flight.eq(flying_r != 0),
            self.idle.eq(ready & ~self.in_flight),
            self.busy.eq(start | (walker.active & (~walker.requesting | self.grant))),
            self.wait_token.eq(ready & self.head_valid & ~start),
            self.wait_memory.eq(
                (walker.requesting & ~self.grant) | (ready & ~self.head_valid & self.in_flight)
            ),
        ]
        m.d.sync += flying_r.eq(flying_r + self.grant - self.response)
        self._responses(m, head, start, walker)
        self._stream(m, head, start, walker)
        return m

    def _beat_bits(self) -> int:
        return (self._config.beats(Memory.OUT) - 1).bit_length()

    def _responses(self, m: Module, head: data.View, start: Signal, walker: BoxWalker) -> None:
        """Give an instruction's tokens with the response of its last burst."""
        push_r = Signal(len(Unit), reset_less=True)
        with m.If(start):
            m.d.sync += push_r.eq(head.push)
        m.submodules.responses = pending = CommandQueue(len(Unit), max(2, self._config.outstanding))
        m.d.comb += [
            pending.push.eq(self.grant),
            pending.data.eq(Mux(walker.last, push_r, 0)),
            pending.pop.eq(self.response),
            self.give.eq(Mux(self.response, pending.head, 0)),
        ]

    def _stream(self, m: Module, head: data.View, start: Signal, walker: BoxWalker) -> None:
        """Read the beats of granted bursts, in order, into a short queue before W."""
        config = self._config
        beat_bits = self._beat_bits()
        position_bits = config.index_bits(Memory.OUT) + beat_bits
        position_r = Signal(position_bits, reset_less=True)
        with m.If(start):
            m.d.sync += position_r.eq(head.sram << beat_bits)
        with m.Elif(self.grant):
            m.d.sync += position_r.eq(position_r + walker.length)
        burst_bits = data.StructLayout(
            {"position": position_bits, "last": walker.request.last.shape()}
        )
        m.submodules.bursts = bursts = CommandQueue(burst_bits.size, max(2, config.outstanding))
        pushed, burst = data.View(burst_bits, bursts.data), data.View(burst_bits, bursts.head)
        count_r = Signal.like(burst.last)
        next_r = Signal(position_bits, reset_less=True)
        position = Signal(position_bits)
        ahead_r = Signal(range(READ_AHEAD + 1))
        leave = Signal()
        last = count_r == burst.last
        m.d.comb += [
            bursts.push.eq(self.grant),
            pushed.position.eq(position_r),
            pushed.last.eq(walker.request.last),
            position.eq(Mux(count_r == 0, burst.position, next_r)),
            self.read_en.eq(bursts.valid & (ahead_r != READ_AHEAD)),
            self.tile.eq(position >> beat_bits),
            bursts.pop.eq(self.read_en & last),
        ]
        m.d.sync += ahead_r.eq(ahead_r + self.read_en - leave)
        with m.If(self.read_en):
            m.d.sync += [next_r.eq(position + 1), count_r.eq(Mux(last, 0, count_r + 1))]
        self._ahead(m, self.read_en, last, position[:beat_bits], leave)

    def _ahead(self, m: Module, read: Signal, last: Value, beat: Value, leave: Signal) -> None:
        """Keep beats that were read until W takes them; select a beat of a wide tile."""
        config = self._config
        read_r, last_1_r = Signal(), Signal(reset_less=True)
        selected_r = Signal(config.bus_bits, reset_less=True)
        arrived_r, last_2_r = Signal(), Signal(reset_less=True)
        m.d.sync += [read_r.eq(read), last_1_r.eq(last)]
        chosen: Value = self.out
        if len(beat):
            beat_r = Signal.like(beat, reset_less=True)
            m.d.sync += beat_r.eq(beat)
            chosen = self.out.word_select(beat_r, config.bus_bits)
        m.d.sync += [arrived_r.eq(read_r), last_2_r.eq(last_1_r)]
        with m.If(read_r):
            m.d.sync += selected_r.eq(chosen)
        m.submodules.ahead = ahead = CommandQueue(config.bus_bits + 1, READ_AHEAD)
        m.d.comb += [
            ahead.push.eq(arrived_r),
            ahead.data.eq(Cat(selected_r, last_2_r)),
            leave.eq(ahead.valid & (~self.beat_valid | self.beat_ready)),
            ahead.pop.eq(leave),
        ]
        with m.If(~self.beat_valid | self.beat_ready):
            m.d.sync += self.beat_valid.eq(ahead.valid)
        with m.If(leave):
            m.d.sync += [
                self.beat.eq(ahead.head[: config.bus_bits]),
                self.beat_last.eq(ahead.head[config.bus_bits]),
            ]
