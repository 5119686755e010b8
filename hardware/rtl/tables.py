"""The lookup tables: every lane reads an entry of one table in the same cycle."""

from __future__ import annotations

from amaranth.hdl import Cat, ClockSignal, Instance, Module, Signal, Value, unsigned
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from codesign.accel.config import LOADABLE, AccelConfig, Memory
from hardware.rtl.arm import Arm
from hardware.rtl.scratchpad import NO_COLLISIONS, load_write_layout
from hardware.rtl.vector_lanes import result_bits

MODULE = "accel_tables"
"""The module of tables.sv."""

TABLE_BITS = 8
"""Width of an index within a table."""


class Tables(wiring.Component):
    """The lut memory.

    Members
    -------
    write_en, write : In
        A write of the load unit; ignored where `write.memory` is another memory.
    read_en, base, values : In
        First entry of the table, a multiple of 256; the low 8 bits of each lane's value choose.
    entries : Out
        One entry for each lane, one cycle later.
    """

    def __init__(self, config: AccelConfig, arm: Arm) -> None:
        self._config, self._arm = config, arm
        lanes = config.vector_lanes
        super().__init__(
            {
                "write_en": In(1),
                "write": In(load_write_layout(config, LOADABLE)),
                "read_en": In(1),
                "base": In(config.index_bits(Memory.LUT)),
                "values": In(lanes * result_bits(config)),
                "entries": Out(lanes * config.inp_bits),
            }
        )

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        mine = Signal()
        m.d.comb += mine.eq(self.write_en & (self.write.memory == Memory.LUT.value))
        if self._arm is Arm.SIMULATION:
            self._leaf(m, mine)
        else:
            self._memory(m, mine)
        return m

    def _leaf(self, m: Module, mine: Value) -> None:
        config = self._config
        m.submodules.tables = Instance(
            MODULE,
            p_DEPTH=config.lut_depth,
            p_INDEX_BITS=config.index_bits(Memory.LUT),
            p_ENTRY_BITS=config.inp_bits,
            p_LANES=config.vector_lanes,
            p_VALUE_BITS=result_bits(config),
            i_clk=ClockSignal(),
            i_write_en=mine,
            i_write_index=self.write.tile[: config.index_bits(Memory.LUT)],
            i_write_entry=self.write.data[: config.inp_bits],
            i_read_en=self.read_en,
            i_base=self.base,
            i_values=self.values,
            o_entries=self.entries,
        )

    def _memory(self, m: Module, mine: Value) -> None:
        config = self._config
        m.submodules.tables = tables = memory.Memory(
            shape=unsigned(config.inp_bits), depth=config.lut_depth, init=[], attrs=NO_COLLISIONS
        )
        write = tables.write_port()
        m.d.comb += [
            write.addr.eq(self.write.tile),
            write.data.eq(self.write.data),
            write.en.eq(mine),
        ]
        for lane in range(config.vector_lanes):
            read = tables.read_port()
            value = self.values.word_select(lane, result_bits(config))
            m.d.comb += [
                read.addr.eq(Cat(value[:TABLE_BITS], self.base[TABLE_BITS:])),
                read.en.eq(self.read_en),
                self.entries.word_select(lane, config.inp_bits).eq(read.data),
            ]
