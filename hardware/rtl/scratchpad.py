"""A scratchpad: written by the load unit beat by beat, read a tile at a time."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal, Value, signed, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from codesign.accel.config import AccelConfig, Memory
from codesign.accel.tiles import element_bits


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
    same tile gets the old tile.
    """

    def __init__(
        self,
        config: AccelConfig,
        which: Memory,
        memories: tuple[Memory, ...],
        *,
        readers: int = 1,
    ) -> None:
        self._config, self._which, self._readers = config, which, readers
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
        config, which = self._config, self._which
        tile_bits, bus_bits = config.tile_bits(which), config.bus_bits
        granules = max(1, tile_bits // bus_bits)
        m.submodules.tiles = tiles = memory.Memory(
            shape=unsigned(tile_bits), depth=config.depth(which), init=[]
        )
        write = tiles.write_port(granularity=tile_bits // granules)
        mine = Signal()
        pad = self._padding_tile()
        beat = self.write.data[: min(tile_bits, bus_bits)]
        m.d.comb += [
            mine.eq(self.write_en & (self.write.memory == which.value)),
            write.addr.eq(self.write.tile),
            write.data.eq(beat.replicate(granules)),
        ]
        for index in range(granules):
            m.d.comb += write.en[index].eq(mine & (self.write.beat == index))
        with m.If(self.write.padding):
            m.d.comb += [write.data.eq(pad), write.en.eq(mine.replicate(granules))]
        for index in range(self._readers):
            read = tiles.read_port()
            m.d.comb += [
                read.en.eq(getattr(self, f"read_{index}_en")),
                read.addr.eq(getattr(self, f"read_{index}_tile")),
                getattr(self, f"read_{index}_data").eq(read.data),
            ]
        return m

    def _padding_tile(self) -> Value:
        bits = element_bits(self._which, self._config)
        value = self.write.pad_value
        sign = value[-1].replicate(max(0, bits - self._config.inp_bits))
        element = Cat(value, sign)[:bits]
        return element.replicate(self._config.tile_bits(self._which) // bits)
