"""Walks over the padding tiles of a load's box, one a cycle, in the order of the box."""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True, kw_only=True)
class _Place:
    """Registers that say where the walk is; `y_last` is combinational.

    `pad` and `size` are those of the box. `x` counts tiles of a run, `y` rows of the phase, `z`
    planes. `skip`: a gap lies before the next tile.
    """

    pad: data.View
    size: data.View
    phase: Signal
    skip: Signal
    x: Signal
    y: Signal
    z: Signal
    y_last: Signal


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
        gap_r, next_r = Signal(bits, reset_less=True), Signal(bits, reset_less=True)
        width_r = Signal(extent + 2, reset_less=True)
        x_last = Signal()
        place = _Place(
            pad=Signal(self.pad.shape(), name="pad_r", reset_less=True),
            size=Signal(self.size.shape(), name="size_r", reset_less=True),
            phase=Signal(Phase, name="phase_r", reset_less=True),
            skip=Signal(name="skip_r", reset_less=True),
            x=Signal(extent + 2, name="x_r", reset_less=True),
            y=Signal(extent, name="y_r", reset_less=True),
            z=Signal(extent, name="z_r", reset_less=True),
            y_last=Signal(name="y_last"),
        )
        m.d.comb += self.tile.eq(next_r + Mux(place.skip, gap_r, 0))
        with m.Switch(place.phase):
            for phase, x_count, y_count in (
                (Phase.TOP, width_r, place.pad[TOP]),
                (Phase.LEFT, place.pad[LEFT], place.size[1] + 1),
                (Phase.RIGHT, place.pad[RIGHT], place.size[1] + 1),
                (Phase.BOTTOM, width_r, place.pad[BOTTOM]),
            ):
                with m.Case(phase):
                    m.d.comb += [
                        x_last.eq(place.x + 1 == x_count),
                        place.y_last.eq(place.y + 1 == y_count),
                    ]
        with m.If(self.take):
            sides = (self.pad[LEFT] != 0) | (self.pad[RIGHT] != 0)
            rows, row = self.size[1] + 1, self.size[2] + 1
            m.d.sync += [
                place.pad.eq(self.pad),
                place.size.eq(self.size),
                next_r.eq(self.sram),
                width_r.eq(self.pad[LEFT] + row + self.pad[RIGHT]),
                gap_r.eq(Mux(sides, row, rows * row)),
                *(each.eq(0) for each in (place.x, place.y, place.z)),
            ]
            self._enter_plane(m, place, self.pad, pending=False)
        with m.Elif(self.step):
            m.d.sync += [next_r.eq(self.tile + 1), place.skip.eq(0), place.x.eq(place.x + 1)]
        with m.If(x_last & ~self.take):
            self._leave_run(m, place)
        return m

    def _leave_run(self, m: Module, place: _Place) -> None:
        """Go on behind the last tile of a run: within the phase, the row, or to the next plane."""
        row_done, plane_done, gap_pending = Signal(), Signal(), Signal()
        with m.If(self.step):
            m.d.sync += place.x.eq(0)
        with m.Switch(place.phase):
            with m.Case(Phase.TOP):
                m.d.comb += gap_pending.eq(1)
                with m.If(place.y_last):
                    self._leave_top(m, place, plane_done)
                with m.Elif(self.step):
                    m.d.sync += place.y.eq(place.y + 1)
            with m.Case(Phase.LEFT):
                m.d.comb += gap_pending.eq(1)
                with m.If(place.pad[RIGHT] != 0):
                    self._go(m, place, Phase.RIGHT, 1)
                with m.Else():
                    m.d.comb += row_done.eq(1)
            with m.Case(Phase.RIGHT):
                m.d.comb += row_done.eq(1)
            with m.Case(Phase.BOTTOM):
                with m.If(place.y_last):
                    m.d.comb += plane_done.eq(1)
                with m.Elif(self.step):
                    m.d.sync += place.y.eq(place.y + 1)
        with m.If(row_done):
            self._leave_row(m, place, plane_done, gap_pending)
        with m.If(plane_done):
            m.d.comb += self.last.eq(place.z == place.size[0])
            with m.If(self.step):
                m.d.sync += [place.y.eq(0), place.z.eq(place.z + 1)]
                self._enter_plane(m, place, place.pad, pending=gap_pending)

    def _leave_top(self, m: Module, place: _Place, plane_done: Signal) -> None:
        """Go to the first padding below the whole rows on top."""
        with m.If(self.step):
            m.d.sync += place.y.eq(0)
        with m.If(place.pad[LEFT] != 0):
            self._go(m, place, Phase.LEFT, 0)
        with m.Elif(place.pad[RIGHT] != 0):
            self._go(m, place, Phase.RIGHT, 1)
        with m.Elif(place.pad[BOTTOM] != 0):
            self._go(m, place, Phase.BOTTOM, 1)
        with m.Else():
            m.d.comb += plane_done.eq(1)

    def _leave_row(self, m: Module, place: _Place, plane_done: Signal, gap_pending: Signal) -> None:
        """Go from the sides of a row of data to the next row's, or below the rows."""
        with m.If(~place.y_last):
            with m.If(self.step):
                m.d.sync += place.y.eq(place.y + 1)
            with m.If(place.pad[LEFT] != 0):
                self._go(m, place, Phase.LEFT, gap_pending)
            with m.Else():
                self._go(m, place, Phase.RIGHT, 1)
        with m.Elif(place.pad[BOTTOM] != 0):
            with m.If(self.step):
                m.d.sync += place.y.eq(0)
            self._go(m, place, Phase.BOTTOM, gap_pending)
        with m.Else():
            m.d.comb += plane_done.eq(1)

    def _go(self, m: Module, place: _Place, to: Phase, gap: object) -> None:
        with m.If(self.step):
            m.d.sync += [place.phase.eq(to), place.skip.eq(gap)]

    def _enter_plane(self, m: Module, place: _Place, pad: data.View, *, pending: object) -> None:
        for phase, count, gap in (
            (Phase.TOP, pad[TOP], pending),
            (Phase.LEFT, pad[LEFT], pending),
            (Phase.RIGHT, pad[RIGHT], 1),
        ):
            with m.If(count != 0) if phase is Phase.TOP else m.Elif(count != 0):
                m.d.sync += [place.phase.eq(phase), place.skip.eq(gap)]
        with m.Else():
            m.d.sync += [place.phase.eq(Phase.BOTTOM), place.skip.eq(1)]
