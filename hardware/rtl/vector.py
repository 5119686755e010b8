"""Vector unit: loop nest, lanes, lookup tables, write-back."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from codesign.accel.config import VECTOR_LOOPS, AccelConfig, Memory
from codesign.accel.isa import IMMEDIATE_BITS, Destination, Opcode, Unit, XSource, YSource
from codesign.accel.timing import REDUCE_STAGE, vector_latency
from hardware.rtl.arm import Arm
from hardware.rtl.box_walker import extent_bits
from hardware.rtl.gemm import bank_of
from hardware.rtl.layouts import instruction_layout, queue_bits
from hardware.rtl.loops import LoopNest
from hardware.rtl.vector_lane import LANE_STAGES, param_layout
from hardware.rtl.vector_lanes import VectorLanes, param_words, result_bits

PARAM_READ_STAGE = 3
"""Stage that reads the param tile of the requantization, in time for stage 5."""

LOOKUP_STAGE = 11


class Vector(wiring.Component):
    """The vector unit.

    Members
    -------
    head_valid, head : In; pop : Out
        The command queue.
    there : In; take, give, give_sync : Out
        Tokens.
    held : Out; held_by_gemm, started_by_gemm : In
        Masks of accumulator banks.
    acc_read_en, acc_tile : Out; acc : In; vec_read_en, vec_tile : Out; vec : In
        Memories of x and y.
    field_read_en, field_tile : Out; field : In; param_read_en, param_tile : Out; param : In
        The param scratchpad: operand y, and the requantization.
    table_en, table_base, table_values : Out; table_entries : In
        The lookup tables (with has_lut).
    acc_write_en, out_write_en, write_tile, acc_write, out_write : Out
        Result; one enable for each slice of lanes.
    idle, busy, wait_token : Out
        State; what this cycle counts as.

    Timing
    ------
    codesign.accel.timing.vector_latency states the stages.
    """

    def __init__(self, config: AccelConfig, arm: Arm) -> None:
        self._config, self._arm = config, arm
        acc_index, vec_index = config.index_bits(Memory.ACC), config.index_bits(Memory.VEC)
        param_index = config.index_bits(Memory.PARAM)
        self._dst_bits = max(acc_index, config.index_bits(Memory.OUT))
        members = {
            "head_valid": In(1),
            "head": In(queue_bits(config, Unit.VECTOR)),
            "pop": Out(1),
            "there": In(len(Unit)),
            "take": Out(len(Unit)),
            "give": Out(len(Unit)),
            "give_sync": Out(len(Unit)),
            "held": Out(config.acc_banks),
            "held_by_gemm": In(config.acc_banks),
            "started_by_gemm": In(config.acc_banks),
            "acc_read_en": Out(1),
            "acc_tile": Out(acc_index),
            "acc": In(config.acc_tile_bits),
            "vec_read_en": Out(1),
            "vec_tile": Out(vec_index),
            "vec": In(config.vec_tile_bits),
            "field_read_en": Out(1),
            "field_tile": Out(param_index),
            "field": In(config.param_tile_bits),
            "param_read_en": Out(1),
            "param_tile": Out(param_index),
            "param": In(config.param_tile_bits),
            "table_en": Out(1),
            "acc_write_en": Out(config.vector_passes),
            "out_write_en": Out(config.vector_passes),
            "write_tile": Out(self._dst_bits),
            "acc_write": Out(config.acc_tile_bits),
            "out_write": Out(config.vec_tile_bits),
            "idle": Out(1),
            "busy": Out(1),
            "wait_token": Out(1),
        }
        if config.has_lut:
            members |= {
                "table_base": Out(config.index_bits(Memory.LUT)),
                "table_values": Out(config.vector_lanes * result_bits(config)),
                "table_entries": In(config.vector_lanes * config.inp_bits),
            }
        super().__init__(members)

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        config = self._config
        vector_layout = instruction_layout(config, Opcode.VECTOR)
        head = data.View(vector_layout, self.head[: vector_layout.size])
        control = Signal(vector_layout, reset_less=True)
        issue_r, drain_r = Signal(), Signal()
        start, start_vector, done = Signal(), Signal(), Signal()
        ready = ~issue_r & ~drain_r
        is_sync = head.opcode == Opcode.SYNC.value
        bank = self._needed_banks(head)
        bank_free = (bank & (self.held_by_gemm | self.started_by_gemm)) == 0
        m.submodules.loops = loops = LoopNest(
            VECTOR_LOOPS,
            extent_bits(config),
            {name: len(getattr(head, name)) for name in ("dst", "x", "y", "q")},
            arm=self._arm,
            slices=config.vector_passes,
        )
        m.d.comb += [
            start.eq(
                ready & self.head_valid & ((head.wait & ~self.there) == 0) & (is_sync | bank_free)
            ),
            start_vector.eq(start & ~is_sync),
            self.pop.eq(start),
            self.take.eq(Mux(start, head.wait, 0)),
            self.give_sync.eq(Mux(start & is_sync, head.push, 0)),
            self.give.eq(Mux(done, control.push, 0)),
            self.idle.eq(ready),
            self.busy.eq(~ready | start),
            self.wait_token.eq(ready & self.head_valid & ~start),
            loops.start.eq(start_vector),
            loops.step.eq(issue_r),
            loops.reduce.eq(_innermost(head.reduce_loops)),
            loops.extents.eq(head.extents),
            *(
                getattr(loops, f"{name}{suffix}").eq(getattr(head, f"{name}{field}"))
                for name in ("dst", "x", "y", "q")
                for suffix, field in (("_base", ""), ("_strides", "_strides"))
            ),
        ]
        with m.If(start_vector):
            m.d.sync += [control.eq(head), issue_r.eq(1), self.held.eq(bank)]
        with m.Elif(issue_r & loops.last):
            m.d.sync += [issue_r.eq(0), drain_r.eq(1)]
        with m.If(done):
            m.d.sync += [drain_r.eq(0), self.held.eq(0)]
        self._pipeline(m, loops, issue_r, control, done)
        return m

    def _needed_banks(self, head: data.View) -> Value:
        """Return the mask of the bank that x, y or the destination lies in."""
        config = self._config
        x_acc = head.x_source == XSource.ACC.value
        y_acc = head.y_source == YSource.ACC.value
        needed = x_acc | y_acc | (head.destination == Destination.ACC.value)
        if config.acc_banks == 1:
            return needed
        tile = Mux(x_acc, head.x, Mux(y_acc, head.y, head.dst))
        return Mux(needed, 1 << bank_of(config, tile), 0)

    def _pipeline(
        self, m: Module, loops: LoopNest, issue: Signal, control: data.View, done: Signal
    ) -> None:
        config = self._config
        write_stage = vector_latency(config) - 1
        tag_layout = data.StructLayout(
            {
                "dst": self._dst_bits,
                "q": config.index_bits(Memory.PARAM),
                "field": 2,
                "slice": len(loops.slice),
                "first": 1,
                "final": 1,
                "last": 1,
            }
        )
        tag = Signal(tag_layout)
        m.d.comb += [
            tag.dst.eq(loops.dst),
            tag.q.eq(loops.q),
            tag.field.eq(loops.y[:2]),
            tag.slice.eq(loops.slice),
            tag.first.eq(loops.first),
            tag.final.eq(loops.final),
            tag.last.eq(loops.last),
        ]
        valids: list[Value] = [issue]
        tags: list[data.View] = [tag]
        for stage in range(1, write_stage + 1):
            valid_r = Signal(name=f"valid_{stage}_r")
            tag_r = Signal(tag_layout, name=f"tag_{stage}_r", reset_less=True)
            # From stage 5 on, only the last of the reducing iterations goes on.
            enter = valids[-1] & tags[-1].final if stage == REDUCE_STAGE + 1 else valids[-1]
            m.d.sync += valid_r.eq(enter)
            with m.If(valids[-1]):
                m.d.sync += tag_r.eq(tags[-1])
            valids.append(valid_r)
            tags.append(tag_r)
        self._read(m, loops, issue, control, valids, tags)
        results = self._lanes(m, control, valids, tags)
        if config.has_lut:
            results = self._look_up(m, control, results, valids)
        write = Mux(valids[-1], 1 << tags[-1].slice, 0)[: config.vector_passes]
        to_acc = control.destination == Destination.ACC.value
        m.d.comb += [
            done.eq(valids[-1] & tags[-1].last),
            self.acc_write_en.eq(Mux(to_acc, write, 0)),
            self.out_write_en.eq(Mux(to_acc, 0, write)),
            self.write_tile.eq(tags[-1].dst),
            self.acc_write.eq(
                Cat(r[: config.acc_bits] for r in results).replicate(config.vector_passes)
            ),
            self.out_write.eq(
                Cat(r[: config.inp_bits] for r in results).replicate(config.vector_passes)
            ),
        ]

    def _read(
        self,
        m: Module,
        loops: LoopNest,
        issue: Signal,
        control: data.View,
        valids: list[Value],
        tags: list[data.View],
    ) -> None:
        x_acc = control.x_source == XSource.ACC.value
        m.d.comb += [
            self.acc_read_en.eq(issue),
            self.acc_tile.eq(Mux(x_acc, loops.x, loops.y)),
            self.vec_read_en.eq(issue),
            self.vec_tile.eq(Mux(x_acc, loops.y, loops.x)),
            self.field_read_en.eq(issue & (control.y_source == YSource.PARAM.value)),
            self.field_tile.eq(loops.y >> 2),
            self.param_read_en.eq(valids[PARAM_READ_STAGE] & control.requantize),
            self.param_tile.eq(tags[PARAM_READ_STAGE].q),
        ]

    def _lanes(
        self, m: Module, control: data.View, valids: list[Value], tags: list[data.View]
    ) -> list[Value]:
        """Select the slice of lanes, one register behind the memories, and feed the lanes."""
        config = self._config
        count = config.vector_lanes
        acc_r = _slice_register(m, self.acc, config.acc_bits * count, tags[1].slice, valids[1])
        vec_r = _slice_register(m, self.vec, config.inp_bits * count, tags[1].slice, valids[1])
        field_r = self._fields(m, tags[1], valids[1])
        words = param_words(config)
        param_stage = PARAM_READ_STAGE + 1
        param_r = _slice_register(
            m, self.param, param_layout().size * words, tags[param_stage].slice, valids[param_stage]
        )
        m.submodules.lanes = lanes = VectorLanes(config, self._arm)
        for name in lanes.control.shape().members:
            if name != "to_acc":
                m.d.comb += lanes.control[name].eq(getattr(control, name))
        m.d.comb += [
            lanes.control.to_acc.eq(control.destination == Destination.ACC.value),
            lanes.valid.eq(Cat(*valids[:LANE_STAGES])),
            lanes.first.eq(tags[REDUCE_STAGE].first),
            lanes.acc.eq(acc_r),
            lanes.vec.eq(vec_r),
            lanes.field.eq(field_r),
            lanes.param.eq(param_r),
        ]
        bits = result_bits(config)
        return [lanes.result.word_select(index, bits).as_signed() for index in range(count)]

    def _fields(self, m: Module, tag: data.View, valid: Value) -> Signal:
        """Return the 16-bit fields of the slice's param words, in stage 2."""
        config = self._config
        words = param_words(config)
        fields = [
            self.field.word_select(word, param_layout().size).word_select(tag.field, IMMEDIATE_BITS)
            for word in range(config.block_out)
        ]
        return _slice_register(m, Cat(*fields), IMMEDIATE_BITS * words, tag.slice, valid)

    def _look_up(
        self, m: Module, control: data.View, results: list[Value], valids: list[Value]
    ) -> list[Value]:
        looked_up = []
        m.d.comb += [
            self.table_en.eq(valids[LOOKUP_STAGE] & control.lookup),
            self.table_base.eq(control.lut_base),
            self.table_values.eq(Cat(*results)),
        ]
        for lane, result in enumerate(results):
            delayed_r = Signal(result.shape(), name=f"unlooked_{lane}_r", reset_less=True)
            final_r = Signal(result.shape(), name=f"result_{lane}_r", reset_less=True)
            with m.If(valids[LOOKUP_STAGE]):
                m.d.sync += delayed_r.eq(result)
            with m.If(valids[LOOKUP_STAGE + 1]):
                value = self.table_entries.word_select(lane, self._config.inp_bits).as_signed()
                m.d.sync += final_r.eq(Mux(control.lookup, value, delayed_r))
            looked_up.append(final_r)
        return looked_up


def _innermost(loops: Value) -> Value:
    """Return the mask of the innermost loops, of which there are so many."""
    return Cat(loops > VECTOR_LOOPS - 1 - level for level in range(VECTOR_LOOPS))


def _slice_register(m: Module, tile: Value, bits: int, index: Value, valid: Value) -> Signal:
    """Register slice `index` of a tile; a tile of few slices repeats."""
    slices = len(tile) // bits
    register = Signal(unsigned(bits), reset_less=True)
    chosen = tile
    if slices > 1:
        chosen = tile.word_select(index[: (slices - 1).bit_length()], bits)
    with m.If(valid):
        m.d.sync += register.eq(chosen)
    return register
