"""Cuts a box in DRAM into bursts."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from codesign.accel.config import PAGE_BYTES, AccelConfig, Memory
from codesign.accel.encoding import layout
from codesign.accel.isa import Opcode
from hardware.rtl.layouts import beat_address_bits, burst_layout


def row_beats_bits(config: AccelConfig) -> int:
    """Return the width of the beats of a row, which may be as many as the extent's field holds."""
    most_beats = max(config.beats(memory) for memory in Memory)
    return extent_bits(config) + 1 + (most_beats - 1).bit_length()


def extent_bits(config: AccelConfig) -> int:
    """Return the width of a box's size along one axis, less one."""
    return next(slot.width for slot in layout(Opcode.LOAD, config) if slot.name == "size")


def _stride_bits(config: AccelConfig) -> int:
    return next(slot.width for slot in layout(Opcode.LOAD, config) if slot.name == "stride")


class BoxWalker(wiring.Component):
    """Asks for the bursts of a box, row by row.

    Members
    -------
    take : In
        Take `address` (beats), `planes`, `rows` (less one), `row_beats`, `stride` (beats).
    begin : In
        Ask for the first burst; with `take` or after it.
    hold : In
        Ask for nothing: too many bursts are in flight.
    request_valid, request : Out; grant : In
        Bursts.
    requesting, active : Out
        In REQUEST; in CALC or REQUEST.
    length : Out
        Beats of the burst that is asked for.
    row_end, plane_end, last : Out
        Whether that burst ends its row, plane, box.

    Timing
    ------
    CALC follows `begin` and each grant but the last; REQUEST follows CALC.
    """

    def __init__(self, config: AccelConfig) -> None:
        self._config = config
        extent = extent_bits(config)
        super().__init__(
            {
                "take": In(1),
                "begin": In(1),
                "hold": In(1),
                "address": In(beat_address_bits(config)),
                "planes": In(extent),
                "rows": In(extent),
                "row_beats": In(row_beats_bits(config)),
                "stride": In(data.ArrayLayout(unsigned(_stride_bits(config)), 2)),
                "request_valid": Out(1),
                "request": Out(burst_layout(config)),
                "grant": In(1),
                "requesting": Out(1),
                "active": Out(1),
                "length": Out(range(config.burst_beats + 1)),
                "row_end": Out(1),
                "plane_end": Out(1),
                "last": Out(1),
            }
        )

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        address_bits = beat_address_bits(self._config)
        extent = extent_bits(self._config)
        address_r = Signal(address_bits, reset_less=True)
        row_r = Signal(address_bits, reset_less=True)
        plane_r = Signal(address_bits, reset_less=True)
        stride_r = Signal(self.stride.shape(), reset_less=True)
        left_r = Signal(row_beats_bits(self._config), reset_less=True)
        row_beats_r = Signal.like(left_r)
        rows_left_r, rows_r = Signal(extent, reset_less=True), Signal(extent, reset_less=True)
        planes_left_r = Signal(extent, reset_less=True)
        self._states(m, address_r, left_r)
        next_row, next_plane = Signal(address_bits), Signal(address_bits)
        m.d.comb += [
            self.request.address.eq(address_r),
            self.plane_end.eq(self.row_end & (rows_left_r == 0)),
            self.last.eq(self.plane_end & (planes_left_r == 0)),
            next_row.eq(row_r + stride_r[1]),
            next_plane.eq(plane_r + stride_r[0]),
        ]
        with m.If(self.take):
            m.d.sync += [
                *(each.eq(self.address) for each in (address_r, row_r, plane_r)),
                stride_r.eq(self.stride),
                left_r.eq(self.row_beats),
                row_beats_r.eq(self.row_beats),
                rows_left_r.eq(self.rows),
                rows_r.eq(self.rows),
                planes_left_r.eq(self.planes),
            ]
        with m.Elif(self.grant):
            m.d.sync += [address_r.eq(address_r + self.length), left_r.eq(left_r - self.length)]
            with m.If(self.row_end):
                m.d.sync += left_r.eq(row_beats_r)
            with m.If(self.plane_end):
                m.d.sync += [each.eq(next_plane) for each in (address_r, row_r, plane_r)]
                m.d.sync += [rows_left_r.eq(rows_r), planes_left_r.eq(planes_left_r - 1)]
            with m.Elif(self.row_end):
                m.d.sync += [each.eq(next_row) for each in (address_r, row_r)]
                m.d.sync += rows_left_r.eq(rows_left_r - 1)
        return m

    def _states(self, m: Module, address: Signal, left: Signal) -> None:
        calc_r, request_r = Signal(), Signal()
        page_beats = PAGE_BYTES // self._config.bus_bytes
        to_page = Signal(range(page_beats + 1))
        limit = Signal(range(self._config.burst_beats + 1))
        m.d.comb += [
            to_page.eq(page_beats - address[: (page_beats - 1).bit_length()]),
            limit.eq(Mux(to_page < self._config.burst_beats, to_page, self._config.burst_beats)),
            self.request.last.eq(self.length - 1),
            self.request_valid.eq(request_r & ~self.hold),
            self.requesting.eq(request_r),
            self.active.eq(calc_r | request_r),
        ]
        m.d.sync += calc_r.eq(self.begin | (self.grant & ~self.last))
        with m.If(calc_r):
            m.d.sync += [
                request_r.eq(1),
                self.length.eq(Mux(left < limit, left, limit)),
                self.row_end.eq(left <= limit),
            ]
        with m.Elif(self.grant):
            m.d.sync += request_r.eq(0)
