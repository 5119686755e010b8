"""The `out` scratchpad: written by vector in slices of lanes, read by store."""

from __future__ import annotations

from amaranth.hdl import Module, unsigned
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from codesign.accel.config import AccelConfig, Memory


class Output(wiring.Component):
    """Block memory of tiles with one write and one read port.

    Members
    -------
    write_en, write_tile, write : In
        One enable for each slice of lanes; the whole tile's data.
    read_en, read_tile : In; read : Out
        A tile, one cycle after its index.
    """

    def __init__(self, config: AccelConfig) -> None:
        self._config = config
        index, bits = config.index_bits(Memory.OUT), config.vec_tile_bits
        super().__init__(
            {
                "write_en": In(config.vector_passes),
                "write_tile": In(index),
                "write": In(bits),
                "read_en": In(1),
                "read_tile": In(index),
                "read": Out(bits),
            }
        )

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        config = self._config
        m.submodules.tiles = tiles = memory.Memory(
            shape=unsigned(config.vec_tile_bits), depth=config.out_depth, init=[]
        )
        write = tiles.write_port(granularity=config.vec_tile_bits // config.vector_passes)
        read = tiles.read_port()
        m.d.comb += [
            write.addr.eq(self.write_tile),
            write.data.eq(self.write),
            write.en.eq(self.write_en),
            read.addr.eq(self.read_tile),
            read.en.eq(self.read_en),
            self.read.eq(read.data),
        ]
        return m
