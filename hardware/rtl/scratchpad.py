"""A scratchpad: written by the load unit beat by beat, read a tile at a time."""

from __future__ import annotations

from amaranth.hdl import Cat, ClockSignal, Const, Instance, Module, Signal, Value, signed, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from codesign.accel.config import AccelConfig, Memory
from hardware.rtl.arm import Arm

MODULE = "accel_scratchpad"
"""The module of scratchpad.sv."""

NO_COLLISIONS = {"no_rw_check": 1}
"""Attributes of a memory that is never read where it is written in the same cycle: tokens stand
between a load and who reads what it brings, so synthesis need not promise the old tile."""

PADDED = (Memory.INP, Memory.VEC)
"""Scratchpads that padding tiles are written to; legal programs pad no other."""


def load_write_layout(config: AccelConfig, memories: tuple[Memory, ...]) -> data.StructLayout:
    """Return the layout of one write of the load unit, to whichever of the memories.

    `beat` counts beats within the tile; `padding` writes `pad_value` to all elements of the tile.
    """
    return data.StructLayout(
        {
            "memory": unsigned(max(Memory).bit_length()),
            "tile": unsigned(max(config.index_bits(each) for each in memories)),
            "beat": range(max(2, *(config.beats(each) for each in memories))),
            "padding": unsigned(1),
            "pad_value": signed(config.inp_bits),
            "data": unsigned(config.bus_bits),
        }
    )


class Scratchpad(wiring.Component):
    """Block memory of tiles with one write port and `readers` read ports.

    Members
    -------
    write_en, write : In
        A beat or a padding tile; ignored where `write.memory` is another memory.
    read_<i>_en, read_<i>_tile : In; read_<i>_data : Out
        Read port i.

    Timing
    ------
    The tile is on `read_<i>_data` one cycle after its index. A read in the cycle of a write to the
    same tile gets anything: the simulation arm inverts the tile, so that programs would show it.
    """

    def __init__(
        self,
        config: AccelConfig,
        which: Memory,
        memories: tuple[Memory, ...],
        arm: Arm,
        *,
        readers: int = 1,
    ) -> None:
        self._config, self._which, self._readers = config, which, readers
        self._arm = arm
        tile_bits = config.tile_bits(which)
        members = {
            "write_en": In(1),
            "write": In(load_write_layout(config, memories)),
        }
        for index in range(readers):
            members[f"read_{index}_en"] = In(1)
            members[f"read_{index}_tile"] = In(config.index_bits(which))
            members[f"read_{index}_data"] = Out(tile_bits)
        super().__init__(members)

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        mine = Signal()
        m.d.comb += mine.eq(self.write_en & (self.write.memory == self._which.value))
        if self._arm is Arm.SIMULATION:
            self._leaf(m, mine)
        else:
            self._memory(m, mine)
        return m

    def _memory(self, m: Module, mine: Value) -> None:
        config, which = self._config, self._which
        granules = self._granules()
        m.submodules.tiles = tiles = memory.Memory(
            shape=unsigned(config.tile_bits(which)),
            depth=config.depth(which),
            init=[],
            attrs=NO_COLLISIONS,
        )
        write = tiles.write_port(granularity=self._granule_bits())
        m.d.comb += [
            write.addr.eq(self.write.tile),
            write.data.eq(self.write.data[: self._granule_bits()].replicate(granules)),
        ]
        for index in range(granules):
            m.d.comb += write.en[index].eq(mine & (self.write.beat == index))
        if which in PADDED:
            with m.If(self.write.padding):
                m.d.comb += [
                    write.data.eq(self._padding_tile()),
                    write.en.eq(mine.replicate(granules)),
                ]
        for index in range(self._readers):
            read = tiles.read_port()
            m.d.comb += [
                read.en.eq(getattr(self, f"read_{index}_en")),
                read.addr.eq(getattr(self, f"read_{index}_tile")),
                getattr(self, f"read_{index}_data").eq(read.data),
            ]

    def _leaf(self, m: Module, mine: Value) -> None:
        config, which = self._config, self._which
        padded = which in PADDED
        beat_bits = max(1, (self._granules() - 1).bit_length())
        ports = range(self._readers)
        m.submodules.tiles = Instance(
            MODULE,
            p_DEPTH=config.depth(which),
            p_INDEX_BITS=config.index_bits(which),
            p_TILE_BITS=config.tile_bits(which),
            p_GRANULE_BITS=self._granule_bits(),
            p_BEAT_BITS=beat_bits,
            p_READERS=self._readers,
            i_clk=ClockSignal(),
            i_write_en=mine,
            i_write_tile=self.write.tile[: config.index_bits(which)],
            i_write_beat=self.write.beat[:beat_bits],
            i_write_data=self.write.data[: self._granule_bits()],
            i_padding=self.write.padding if padded else Const(0, 1),
            i_pad=self._padding_tile() if padded else Const(0, config.tile_bits(which)),
            i_read_en=Cat(getattr(self, f"read_{index}_en") for index in ports),
            i_read_tile=Cat(getattr(self, f"read_{index}_tile") for index in ports),
            o_read_data=Cat(getattr(self, f"read_{index}_data") for index in ports),
        )

    def _granules(self) -> int:
        return max(1, self._config.tile_bits(self._which) // self._config.bus_bits)

    def _granule_bits(self) -> int:
        return min(self._config.tile_bits(self._which), self._config.bus_bits)

    def _padding_tile(self) -> Value:
        """Return `pad_value` in all elements: those of inp and vec are inp_bits wide."""
        bits = self._config.inp_bits
        return self.write.pad_value.replicate(self._config.tile_bits(self._which) // bits)
