"""Adds tile products to the accumulators, back to back into one tile if need be."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from codesign.accel.config import AccelConfig, Memory
from hardware.rtl.mac_array import SUM_BITS


class Accumulate(wiring.Component):
    """Read, add, write; sums that are not yet in the memory are forwarded.

    Members
    -------
    valid, tile, overwrite : In
        A product will be here in two cycles; the memory is being read at `tile`.
    acc_read : In
        The tile of the cycle before's `tile`.
    addend : In
        The product whose `valid` was two cycles ago.
    write_en, write_tile, write : Out
        The sum, one cycle after its addend.
    saturated : Out
        Elements of `write` that saturated (acc_bits = 16), while `write_en`.

    Timing
    ------
    `valid` in u: memory read in u, its tile in u + 1, addition in u + 2, write in u + 3. One
    product a cycle, of any tile.

    Source
    ------
    The rule is codesign.accel.arithmetic.accumulate.
    """

    def __init__(self, config: AccelConfig) -> None:
        self._config = config
        index = config.index_bits(Memory.ACC)
        super().__init__(
            {
                "valid": In(1),
                "tile": In(index),
                "overwrite": In(1),
                "acc_read": In(config.acc_tile_bits),
                "addend": In(data.ArrayLayout(signed(SUM_BITS), config.tile_lanes)),
                "write_en": Out(1),
                "write_tile": Out(index),
                "write": Out(config.acc_tile_bits),
                "saturated": Out(range(config.tile_lanes + 1)),
            }
        )

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        config = self._config
        index = config.index_bits(Memory.ACC)
        # Stages of a product: 0 read address, 1 tile read, 2 addition, 3 write, 4 written.
        valid = [self.valid, *(Signal(name=f"valid_{i}_r") for i in range(1, 5))]
        tile = [
            self.tile,
            *(Signal(index, name=f"tile_{i}_r", reset_less=True) for i in range(1, 5)),
        ]
        overwrite_1_r, overwrite_2_r = Signal(reset_less=True), Signal(reset_less=True)
        operand_r = Signal(config.acc_tile_bits, reset_less=True)
        written_r = Signal(config.acc_tile_bits, reset_less=True)
        # Compared one cycle before they are used, when both products are a stage behind.
        add_from_write_r = Signal(reset_less=True)
        read_from_write_r, read_from_written_r = Signal(reset_less=True), Signal(reset_less=True)
        for stage in range(1, 5):
            m.d.sync += [valid[stage].eq(valid[stage - 1]), tile[stage].eq(tile[stage - 1])]
        m.d.sync += [
            overwrite_1_r.eq(self.overwrite),
            overwrite_2_r.eq(overwrite_1_r),
            add_from_write_r.eq(valid[2] & (tile[2] == tile[1])),
            read_from_write_r.eq(valid[2] & (tile[2] == tile[0])),
            read_from_written_r.eq(valid[3] & (tile[3] == tile[0])),
        ]
        with m.If(valid[1]):
            m.d.sync += operand_r.eq(
                Mux(
                    read_from_write_r,
                    self.write,
                    Mux(read_from_written_r, written_r, self.acc_read),
                )
            )
        with m.If(valid[3]):
            m.d.sync += written_r.eq(self.write)
        base = Signal(config.acc_tile_bits)
        m.d.comb += [
            base.eq(Mux(overwrite_2_r, 0, Mux(add_from_write_r, self.write, operand_r))),
            self.write_en.eq(valid[3]),
            self.write_tile.eq(tile[3]),
        ]
        limited = [self._add(m, base, lane, valid[2]) for lane in range(config.tile_lanes)]
        if config.acc_bits < SUM_BITS:
            with m.If(valid[3]):
                m.d.comb += self.saturated.eq(sum(limited))
        return m

    def _add(self, m: Module, base: Value, lane: int, valid: Value) -> Signal:
        """Register one element's sum; return whether it saturated."""
        bits = self._config.acc_bits
        old = base.word_select(lane, bits).as_signed()
        result = self.write.word_select(lane, bits)
        limited_r = Signal(name=f"limited_{lane}_r", reset_less=True)
        if bits == SUM_BITS:
            with m.If(valid):
                m.d.sync += result.eq((old + self.addend[lane])[:bits])
            return limited_r
        total = old + self.addend[lane]
        low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        with m.If(valid):
            m.d.sync += [
                result.eq(Mux(total < low, low, Mux(total > high, high, total))),
                limited_r.eq((total < low) | (total > high)),
            ]
        return limited_r
