"""Affine loop nest: one tile index per operand and cycle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import and_
from typing import Any

from amaranth.hdl import Cat, ClockSignal, Const, Instance, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hardware.rtl.arm import Arm

MODULE = "accel_loop_nest"
"""The module of loop_nest.sv."""

WORD_BITS = 32
"""Width of every number in that module; indices of memories are narrower."""


class LoopNest(wiring.Component):
    """Counts through nested loops and keeps the tile index of every operand.

    Parameters
    ----------
    loops : int
        Loops, the outermost first.
    extent_bits : int
        Width of an extent less one.
    operands : Mapping[str, int]
        Name and index width of each operand.
    slices : int
        Slices of lanes; they run inside the loops that do not reduce and outside those that do.

    Members
    -------
    start : In
        Take `reduce`, `extents`, bases and strides; the first iteration stands in the next cycle.
    step : In
        Go to the next iteration.
    reduce, extents, <operand>_base, <operand>_strides : In
        Mask of the reducing loops (with slices: the innermost ones); extents less one; tiles.
    slice, first, final, last : Out
        Slice of lanes; whether all reducing loops are at their beginning, at their end; whether
        this is the last iteration.
    <operand> : Out
        Tile index.
    """

    def __init__(
        self,
        loops: int,
        extent_bits: int,
        operands: Mapping[str, int],
        *,
        arm: Arm = Arm.FPGA,
        slices: int = 1,
    ) -> None:
        self._arm = arm
        self._loops, self._extent_bits = loops, extent_bits
        self._operands, self._slices = dict(operands), slices
        members = {
            "start": In(1),
            "step": In(1),
            "reduce": In(loops),
            "extents": In(data.ArrayLayout(extent_bits, loops)),
            "slice": Out(range(max(2, slices))),
            "first": Out(1),
            "final": Out(1),
            "last": Out(1),
        }
        for name, bits in operands.items():
            members[name] = Out(bits)
            members[f"{name}_base"] = In(bits)
            members[f"{name}_strides"] = In(data.ArrayLayout(bits, loops))
        super().__init__(members)

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        if self._arm is Arm.SIMULATION:
            self._leaf(m)
        else:
            self._nest(m)
        return m

    def _leaf(self, m: Module) -> None:
        names = list(self._operands)
        tiles = Signal(WORD_BITS * len(names))
        part = Signal(WORD_BITS)
        m.submodules.nest = Instance(
            MODULE,
            p_LOOPS=self._loops,
            p_OPERANDS=len(names),
            p_SLICES=self._slices,
            i_clk=ClockSignal(),
            i_start=self.start,
            i_step=self.step,
            i_reduce=self.reduce,
            i_extents=_words(self.extents),
            i_bases=Cat(_word(getattr(self, f"{name}_base")) for name in names),
            i_strides=Cat(_words(getattr(self, f"{name}_strides")) for name in names),
            o_slice=part,
            o_first=self.first,
            o_final_one=self.final,
            o_last=self.last,
            o_tiles=tiles,
        )
        m.d.comb += self.slice.eq(part)
        for index, name in enumerate(names):
            m.d.comb += getattr(self, name).eq(tiles.word_select(index, WORD_BITS))

    def _nest(self, m: Module) -> None:
        levels = range(self._loops)
        reduce_r = Signal(self._loops, reset_less=True)
        extents_r = Signal(self.extents.shape(), reset_less=True)
        counts = [
            Signal(self._extent_bits, name=f"count_{level}_r", reset_less=True) for level in levels
        ]
        at_end = [Signal(name=f"at_end_{level}") for level in levels]
        at_begin = [counts[level] == 0 for level in levels]
        slice_end = Signal()
        m.d.comb += [
            *(at_end[level].eq(counts[level] == extents_r[level]) for level in levels),
            slice_end.eq(self.slice == self._slices - 1),
            self.first.eq(_all(at_begin[level] | ~reduce_r[level] for level in levels)),
            self.final.eq(_all(at_end[level] | ~reduce_r[level] for level in levels)),
            self.last.eq(_all(at_end) & slice_end),
        ]
        next_slice = self.final & ~slice_end if self._slices > 1 else None
        self._count(m, counts, at_end, reduce_r, next_slice)
        for name in self._operands:
            self._point(m, name, at_end, reduce_r, next_slice)
        with m.If(self.start):
            m.d.sync += [reduce_r.eq(self.reduce), extents_r.eq(self.extents)]

    def _count(
        self,
        m: Module,
        counts: list[Signal],
        at_end: list[Signal],
        reduce_r: Signal,
        next_slice: Value | None,
    ) -> None:
        with m.If(self.start):
            m.d.sync += [count.eq(0) for count in counts]
            m.d.sync += self.slice.eq(0)
        with m.Elif(self.step):
            if next_slice is None:
                self._count_up(m, counts, at_end)
                return
            with m.If(next_slice):
                m.d.sync += self.slice.eq(self.slice + 1)
                for level, count in enumerate(counts):
                    with m.If(reduce_r[level]):
                        m.d.sync += count.eq(0)
            with m.Else():
                with m.If(self.final):
                    m.d.sync += self.slice.eq(0)
                self._count_up(m, counts, at_end)

    def _count_up(self, m: Module, counts: list[Signal], at_end: list[Signal]) -> None:
        for level, count in enumerate(counts):
            inner_done = _all(at_end[level + 1 :])
            with m.If(inner_done):
                m.d.sync += count.eq(Mux(at_end[level], 0, count + 1))

    def _point(
        self,
        m: Module,
        name: str,
        at_end: list[Signal],
        reduce_r: Signal,
        next_slice: Value | None,
    ) -> None:
        """Keep, for each level, the tile index at the beginning of its inner loops."""
        base, strides = getattr(self, f"{name}_base"), getattr(self, f"{name}_strides")
        bits = self._operands[name]
        levels = range(self._loops)
        origin_r = Signal(bits, name=f"{name}_origin_r", reset_less=True)
        strides_r = Signal(strides.shape(), name=f"{name}_strides_r", reset_less=True)
        pointers = [Signal(bits, name=f"{name}_{level}_r", reset_less=True) for level in levels]
        m.d.comb += getattr(self, name).eq(pointers[-1])
        outer = Signal(bits, name=f"{name}_outer")
        cases: list[tuple[Value, list[Any]]] = []
        if next_slice is not None:
            m.d.comb += outer.eq(_outer_pointer(pointers, origin_r, reduce_r))
            again = [p.eq(Mux(reduce_r[level], outer, p)) for level, p in enumerate(pointers)]
            cases.append((next_slice, again))
        for level in reversed(levels):
            stepped = Signal(bits, name=f"{name}_stepped_{level}")
            m.d.comb += stepped.eq(pointers[level] + strides_r[level])
            cases.append((~at_end[level], [p.eq(stepped) for p in pointers[level:]]))
        with m.If(self.start):
            m.d.sync += [origin_r.eq(base), strides_r.eq(strides)]
            m.d.sync += [pointer.eq(base) for pointer in pointers]
        with m.Elif(self.step):
            for index, (condition, statements) in enumerate(cases):
                with m.Elif(condition) if index else m.If(condition):
                    m.d.sync += statements


def _word(value: Value) -> Value:
    return Cat(value, Const(0, WORD_BITS - len(value)))


def _words(values: data.View) -> Value:
    return Cat(_word(values[index]) for index in range(values.shape().length))


def _all(values: Iterable[Value]) -> Value:
    return reduce(and_, values, Const(1))


def _outer_pointer(pointers: list[Signal], origin: Signal, reduce_mask: Signal) -> Value:
    value: Value = origin
    for level, pointer in enumerate(pointers):
        value = Mux(reduce_mask[level], value, pointer)
    return value
