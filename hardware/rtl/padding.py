"""Walks over the padding tiles of a load's box, one a cycle, in the order of the box."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

from codesign.accel.config import AccelConfig
from codesign.accel.encoding import layout
from codesign.accel.isa import Opcode
from hardware.rtl.box_walker import extent_bits

TOP, BOTTOM, LEFT, RIGHT = range(4)
"""Indices of `isa.Load.pad`."""


def pad_bits(config: AccelConfig) -> int:
    """Return the width of one side's padding."""
    return next(slot.width for slot in layout(Opcode.LOAD, config) if slot.name == "pad")


class Phase(enum.Enum, shape=unsigned(2)):
    """Which part of the box is walked: whole rows above, both sides of a row, rows below."""

    TOP = 0
    LEFT = 1
    RIGHT = 2
    BOTTOM = 3


class PaddingWalker(wiring.Component):
    """Yields the tile index of each padding tile.

    Between two runs of padding lies a gap of data: the middle of a row, or, where there is no
    padding at the sides, all rows. No two gaps follow each other, so one pending gap is enough.

    Members
    -------
    take : In
        Take `sram`, `size` (less one) and `pad`; the first tile stands in the next cycle.
    step : In
        Go to the next tile.
    tile, last : Out
        Index of the tile; whether it is the last one.
    """

    def __init__(self, config: AccelConfig, tile_bits: int) -> None:
        self._config, self._tile_bits = config, tile_bits
        super().__init__(
            {
                "take": In(1),
                "step": In(1),
                "sram": In(tile_bits),
                "size": In(data.ArrayLayout(unsigned(extent_bits(config)), 3)),
                "pad": In(data.ArrayLayout(unsigned(pad_bits(config)), 4)),
                "tile": Out(tile_bits),
                "last": Out(1),
            }
        )

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        extent, bits = extent_bits(self._config), self._tile_bits
        pad_r = Signal(self.pad.shape(), reset_less=True)
        size_r = Signal(self.size.shape(), reset_less=True)
        gap_r, next_r = Signal(bits, reset_less=True), Signal(bits, reset_less=True)
        skip_r = Signal(reset_less=True)
        width_r = Signal(extent + 2, reset_less=True)
        phase_r = Signal(Phase, reset_less=True)
        x_r, y_r = Signal(extent + 2, reset_less=True), Signal(extent, reset_less=True)
        z_r = Signal(extent, reset_less=True)
        x_last, y_last = Signal(), Signal()
        m.d.comb += self.tile.eq(next_r + Mux(skip_r, gap_r, 0))
        with m.Switch(phase_r):
            for phase, x_count, y_count in (
                (Phase.TOP, width_r, pad_r[TOP]),
                (Phase.LEFT, pad_r[LEFT], size_r[1] + 1),
                (Phase.RIGHT, pad_r[RIGHT], size_r[1] + 1),
                (Phase.BOTTOM, width_r, pad_r[BOTTOM]),
            ):
                with m.Case(phase):
                    m.d.comb += [x_last.eq(x_r + 1 == x_count), y_last.eq(y_r + 1 == y_count)]
        with m.If(self.take):
            sides = (self.pad[LEFT] != 0) | (self.pad[RIGHT] != 0)
            rows, row = self.size[1] + 1, self.size[2] + 1
            m.d.sync += [
                pad_r.eq(self.pad),
                size_r.eq(self.size),
                next_r.eq(self.sram),
                width_r.eq(self.pad[LEFT] + row + self.pad[RIGHT]),
                gap_r.eq(Mux(sides, row, rows * row)),
                *(each.eq(0) for each in (x_r, y_r, z_r)),
            ]
            self._enter_plane(m, self.pad, phase_r, skip_r, pending=False)
        with m.Elif(self.step):
            m.d.sync += [next_r.eq(self.tile + 1), skip_r.eq(0), x_r.eq(x_r + 1)]
        with m.If(x_last & ~self.take):
            self._next_run(m, pad_r, size_r, phase_r, skip_r, (x_r, y_r, z_r), y_last)
        return m

    def _next_run(
        self,
        m: Module,
        pad: data.View,
        size: data.View,
        phase: Signal,
        skip: Signal,
        counts: tuple[Signal, Signal, Signal],
        y_last: Signal,
    ) -> None:
        """Leave a run at its last tile; `x_last` holds."""
        x, y, z = counts
        to_plane, gap_pending, row_done = Signal(), Signal(), Signal()
        with m.If(self.step):
            m.d.sync += x.eq(0)
        with m.Switch(phase):
            with m.Case(Phase.TOP):
                m.d.comb += [gap_pending.eq(1), to_plane.eq(0)]
                with m.If(y_last):
                    with m.If(self.step):
                        m.d.sync += y.eq(0)
                    with m.If(pad[LEFT] != 0):
                        self._go(m, phase, skip, Phase.LEFT, 0)
                    with m.Elif(pad[RIGHT] != 0):
                        self._go(m, phase, skip, Phase.RIGHT, 1)
                    with m.Elif(pad[BOTTOM] != 0):
                        self._go(m, phase, skip, Phase.BOTTOM, 1)
                    with m.Else():
                        m.d.comb += to_plane.eq(1)
                with m.Elif(self.step):
                    m.d.sync += y.eq(y + 1)
            with m.Case(Phase.LEFT):
                m.d.comb += gap_pending.eq(1)
                with m.If(pad[RIGHT] != 0):
                    self._go(m, phase, skip, Phase.RIGHT, 1)
                with m.Else():
                    m.d.comb += row_done.eq(1)
            with m.Case(Phase.RIGHT):
                m.d.comb += row_done.eq(1)
            with m.Case(Phase.BOTTOM):
                with m.If(y_last):
                    m.d.comb += to_plane.eq(1)
                with m.Elif(self.step):
                    m.d.sync += y.eq(y + 1)
        with m.If(row_done):
            with m.If(~y_last):
                with m.If(self.step):
                    m.d.sync += y.eq(y + 1)
                with m.If(pad[LEFT] != 0):
                    self._go(m, phase, skip, Phase.LEFT, gap_pending)
                with m.Else():
                    self._go(m, phase, skip, Phase.RIGHT, 1)
            with m.Elif(pad[BOTTOM] != 0):
                with m.If(self.step):
                    m.d.sync += y.eq(0)
                self._go(m, phase, skip, Phase.BOTTOM, gap_pending)
            with m.Else():
                m.d.comb += to_plane.eq(1)
        with m.If(to_plane):
            m.d.comb += self.last.eq(z == size[0])
            with m.If(self.step):
                m.d.sync += [y.eq(0), z.eq(z + 1)]
                self._enter_plane(m, pad, phase, skip, pending=gap_pending)

    def _go(self, m: Module, phase: Signal, skip: Signal, to: Phase, gap: object) -> None:
        with m.If(self.step):
            m.d.sync += [phase.eq(to), skip.eq(gap)]

    def _enter_plane(
        self, m: Module, pad: data.View, phase: Signal, skip: Signal, *, pending: object
    ) -> None:
        with m.If(pad[TOP] != 0):
            m.d.sync += [phase.eq(Phase.TOP), skip.eq(pending)]
        with m.Elif(pad[LEFT] != 0):
            m.d.sync += [phase.eq(Phase.LEFT), skip.eq(pending)]
        with m.Elif(pad[RIGHT] != 0):
            m.d.sync += [phase.eq(Phase.RIGHT), skip.eq(1)]
        with m.Else():
            m.d.sync += [phase.eq(Phase.BOTTOM), skip.eq(1)]
