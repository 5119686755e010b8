"""Gemm unit: loop nest, mac array, accumulation with forwarding."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from codesign.accel.config import GEMM_LOOPS, AccelConfig, Memory
from codesign.accel.isa import Opcode, Unit
from codesign.accel.timing import gemm_tree_stages
from hardware.rtl.accumulate import Accumulate
from hardware.rtl.arm import Arm
from hardware.rtl.box_walker import extent_bits
from hardware.rtl.layouts import instruction_layout, queue_bits
from hardware.rtl.loops import LoopNest
from hardware.rtl.mac_array import MacArray


def bank_bits(config: AccelConfig) -> int:
    """Return the width of a bank's number, at least 1."""
    return max(1, (config.acc_banks - 1).bit_length())


def bank_of(config: AccelConfig, tile: Value) -> Value:
    """Return the accumulator bank of a tile index of acc."""
    within = (config.acc_bank_depth - 1).bit_length()
    return tile[within : config.index_bits(Memory.ACC)]


class Gemm(wiring.Component):
    """The gemm unit.

    Members
    -------
    head_valid, head : In; pop : Out
        The command queue.
    there : In; take, give, give_sync : Out
        Tokens.
    held : Out; held_by_vector : In; start_bank : Out
        Masks of accumulator banks: held by this unit; by vector; taken in this cycle.
    inp_tile, wgt_tile, read_en : Out; inp, wgt : In
        The scratchpads.
    acc_read_en, acc_read_tile : Out; acc_read : In
        Accumulators, data one cycle later.
    acc_write_en, acc_write_tile, acc_write : Out
        Accumulators.
    issue, saturated : Out
        A tile product is issued; how many elements saturated.
    idle, busy, wait_token : Out
        State; what this cycle counts as.

    Timing
    ------
    codesign.accel.timing.gemm_latency states the stages.
    """

    def __init__(self, config: AccelConfig, arm: Arm) -> None:
        self._config, self._arm = config, arm
        acc_index = config.index_bits(Memory.ACC)
        super().__init__(
            {
                "head_valid": In(1),
                "head": In(queue_bits(config, Unit.GEMM)),
                "pop": Out(1),
                "there": In(len(Unit)),
                "take": Out(len(Unit)),
                "give": Out(len(Unit)),
                "give_sync": Out(len(Unit)),
                "held": Out(config.acc_banks),
                "held_by_vector": In(config.acc_banks),
                "start_bank": Out(config.acc_banks),
                "read_en": Out(1),
                "inp_tile": Out(config.index_bits(Memory.INP)),
                "wgt_tile": Out(config.index_bits(Memory.WGT)),
                "inp": In(config.inp_tile_bits),
                "wgt": In(config.wgt_tile_bits),
                "acc_read_en": Out(1),
                "acc_read_tile": Out(acc_index),
                "acc_read": In(config.acc_tile_bits),
                "acc_write_en": Out(1),
                "acc_write_tile": Out(acc_index),
                "acc_write": Out(config.acc_tile_bits),
                "issue": Out(1),
                "saturated": Out(range(config.tile_lanes + 1)),
                "idle": Out(1),
                "busy": Out(1),
                "wait_token": Out(1),
            }
        )

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        config = self._config
        gemm_layout = instruction_layout(config, Opcode.GEMM)
        head = data.View(gemm_layout, self.head[: gemm_layout.size])
        m.submodules.loops = loops = LoopNest(
            GEMM_LOOPS,
            extent_bits(config),
            {
                each.name.lower(): config.index_bits(each)
                for each in (Memory.ACC, Memory.INP, Memory.WGT)
            },
            arm=self._arm,
        )
        m.submodules.macs = macs = MacArray(config, self._arm)
        m.submodules.accumulate = accumulate = Accumulate(config)
        start, start_gemm, last_write = Signal(), Signal(), Signal()
        bank = Signal(config.acc_banks)
        is_sync = head.opcode == Opcode.SYNC.value
        accumulate_r = Signal(reset_less=True)
        m.d.comb += [
            bank.eq(1 << bank_of(config, head.acc) if config.acc_banks > 1 else 1),
            start.eq(
                ~self.issue
                & self.head_valid
                & ((head.wait & ~self.there) == 0)
                & Mux(is_sync, self.held == 0, (bank & self.held_by_vector) == 0)
            ),
            start_gemm.eq(start & ~is_sync),
            self.pop.eq(start),
            self.take.eq(Mux(start, head.wait, 0)),
            self.give_sync.eq(Mux(start & is_sync, head.push, 0)),
            self.start_bank.eq(Mux(start_gemm, bank, 0)),
            loops.start.eq(start_gemm),
            loops.step.eq(self.issue),
            loops.reduce.eq(head.reduce),
            loops.extents.eq(head.extents),
            *(
                getattr(loops, f"{name}{suffix}").eq(getattr(head, f"{name}{field}"))
                for name in ("acc", "inp", "wgt")
                for suffix, field in (("_base", ""), ("_strides", "_strides"))
            ),
            self.read_en.eq(self.issue),
            self.inp_tile.eq(loops.inp),
            self.wgt_tile.eq(loops.wgt),
            self.idle.eq(~self.issue & (self.held == 0)),
            self.wait_token.eq(~self.issue & self.head_valid & ~start),
            self.busy.eq(self.issue | start | (~self.head_valid & (self.held != 0))),
        ]
        push_r = Signal(len(Unit), reset_less=True)
        with m.If(start_gemm):
            m.d.sync += [self.issue.eq(1), accumulate_r.eq(head.accumulate), push_r.eq(head.push)]
        with m.Elif(self.issue & loops.last):
            m.d.sync += self.issue.eq(0)
        written = self._pipeline(m, loops, macs, accumulate, accumulate_r, push_r, last_write)
        self._hold(m, written, last_write)
        return m

    def _pipeline(
        self,
        m: Module,
        loops: LoopNest,
        macs: MacArray,
        accumulate: Accumulate,
        keep: Signal,
        push: Signal,
        last_write: Signal,
    ) -> Value:
        """Delay what belongs to a product; return the tile that is being written."""
        config = self._config
        request = data.StructLayout(
            {
                "tile": config.index_bits(Memory.ACC),
                "overwrite": 1,
                "last": 1,
                "push": len(Unit),
            }
        )
        issued = Signal(request)
        m.d.comb += [
            issued.tile.eq(loops.acc),
            issued.overwrite.eq(loops.first & ~keep),
            issued.last.eq(loops.last),
            issued.push.eq(push),
        ]
        valid: Value = self.issue
        stage: data.View = issued
        valids = [valid]
        stages = [stage]
        depth = 4 + gemm_tree_stages(config)
        for index in range(1, depth + 1):
            valid_r = Signal(name=f"valid_{index}_r")
            stage_r = Signal(request, name=f"stage_{index}_r", reset_less=True)
            m.d.sync += valid_r.eq(valids[-1])
            with m.If(valids[-1]):
                m.d.sync += stage_r.eq(stages[-1])
            valids.append(valid_r)
            stages.append(stage_r)
        read, write = depth - 3, depth
        m.d.comb += [
            macs.enable.eq(valids[1]),
            macs.inp.eq(self.inp),
            macs.wgt.eq(self.wgt),
            accumulate.valid.eq(valids[read]),
            accumulate.tile.eq(stages[read].tile),
            accumulate.overwrite.eq(stages[read].overwrite),
            accumulate.addend.eq(macs.sums),
            accumulate.acc_read.eq(self.acc_read),
            self.acc_read_en.eq(valids[read]),
            self.acc_read_tile.eq(stages[read].tile),
            self.acc_write_en.eq(accumulate.write_en),
            self.acc_write_tile.eq(accumulate.write_tile),
            self.acc_write.eq(accumulate.write),
            self.saturated.eq(accumulate.saturated),
            last_write.eq(valids[write] & stages[write].last),
            self.give.eq(Mux(last_write, stages[write].push, 0)),
        ]
        return stages[write].tile

    def _hold(self, m: Module, written: Value, last_write: Signal) -> None:
        """Count, for each bank, the instructions between their start and their last write."""
        config = self._config
        release = Signal(config.acc_banks)
        bank = 1 << bank_of(config, written) if config.acc_banks > 1 else 1
        m.d.comb += release.eq(Mux(last_write, bank, 0))
        for index in range(config.acc_banks):
            count_r = Signal(range(5 + gemm_tree_stages(config)), name=f"held_{index}_r")
            with m.If(self.start_bank[index] ^ release[index]):
                m.d.sync += count_r.eq(count_r + self.start_bank[index] - release[index])
            m.d.comb += self.held[index].eq(count_r != 0)
