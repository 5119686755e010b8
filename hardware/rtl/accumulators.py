"""Accumulator banks, each with one read and one write port for its holder."""

from __future__ import annotations

from amaranth.hdl import ClockSignal, Instance, Module, Mux, Signal, unsigned
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from codesign.accel.config import AccelConfig, Memory
from hardware.rtl.arm import Arm
from hardware.rtl.gemm import bank_bits, bank_of

MODULE = "accel_accumulators"
"""The module of accumulators.sv."""


class Accumulators(wiring.Component):
    """The acc memory.

    Members
    -------
    held_by_vector : In
        Mask of the banks whose ports belong to vector; the others' belong to gemm.
    gemm_read_en, gemm_read_tile : In; gemm_read : Out
    gemm_write_en, gemm_write_tile, gemm_write : In
        Whole tiles.
    vector_read_en, vector_read_tile : In; vector_read : Out
    vector_write_en, vector_write_tile, vector_write : In
        Whole tiles; `vector_write_en` has one bit for each slice of lanes.

    Timing
    ------
    Read data one cycle after the index. A read in the cycle of a write gets the old tile.
    """

    def __init__(self, config: AccelConfig, arm: Arm) -> None:
        self._config, self._arm = config, arm
        tile, bits = config.index_bits(Memory.ACC), config.acc_tile_bits
        super().__init__(
            {
                "held_by_vector": In(config.acc_banks),
                "gemm_read_en": In(1),
                "gemm_read_tile": In(tile),
                "gemm_read": Out(bits),
                "gemm_write_en": In(1),
                "gemm_write_tile": In(tile),
                "gemm_write": In(bits),
                "vector_read_en": In(1),
                "vector_read_tile": In(tile),
                "vector_read": Out(bits),
                "vector_write_en": In(config.vector_passes),
                "vector_write_tile": In(tile),
                "vector_write": In(bits),
            }
        )

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        if self._arm is Arm.SIMULATION:
            self._leaf(m)
        else:
            self._banks(m)
        return m

    def _leaf(self, m: Module) -> None:
        config = self._config
        ports = {
            f"{'o' if member.flow is Out else 'i'}_{name}": getattr(self, name)
            for name, member in self.signature.members.items()
            if name != "held_by_vector"
        }
        m.submodules.tiles = Instance(
            MODULE,
            p_DEPTH=config.acc_depth,
            p_INDEX_BITS=config.index_bits(Memory.ACC),
            p_TILE_BITS=config.acc_tile_bits,
            p_SLICES=config.vector_passes,
            i_clk=ClockSignal(),
            **ports,
        )

    def _banks(self, m: Module) -> None:
        config = self._config
        reads = [self._bank(m, index) for index in range(config.acc_banks)]
        for user in ("gemm", "vector"):
            bank_r = Signal(bank_bits(config), name=f"{user}_bank_r", reset_less=True)
            out = getattr(self, f"{user}_read")
            if config.acc_banks == 1:
                m.d.comb += out.eq(reads[0])
                continue
            m.d.sync += bank_r.eq(bank_of(config, getattr(self, f"{user}_read_tile")))
            with m.Switch(bank_r):
                for index, read in enumerate(reads):
                    with m.Case(index):
                        m.d.comb += out.eq(read)

    def _bank(self, m: Module, index: int) -> Signal:
        config = self._config
        passes = config.vector_passes
        # Amaranth has no address of width 0: a bank of one tile is built with two, of registers.
        m.submodules[f"bank_{index}"] = bank = memory.Memory(
            shape=unsigned(config.acc_tile_bits),
            depth=max(2, config.acc_bank_depth),
            init=[],
            attrs={"mem2reg": 1} if config.acc_bank_depth == 1 else {},
        )
        read = bank.read_port()
        write = bank.write_port(granularity=config.acc_tile_bits // passes)
        within = (config.acc_bank_depth - 1).bit_length()
        vector = self.held_by_vector[index]

        def here(tile: Signal) -> object:
            return bank_of(config, tile) == index if config.acc_banks > 1 else 1

        m.d.comb += [
            read.addr.eq(Mux(vector, self.vector_read_tile[:within], self.gemm_read_tile[:within])),
            read.en.eq(
                Mux(
                    vector,
                    self.vector_read_en & here(self.vector_read_tile),
                    self.gemm_read_en & here(self.gemm_read_tile),
                )
            ),
            write.addr.eq(
                Mux(vector, self.vector_write_tile[:within], self.gemm_write_tile[:within])
            ),
            write.data.eq(Mux(vector, self.vector_write, self.gemm_write)),
            write.en.eq(
                Mux(
                    vector,
                    Mux(here(self.vector_write_tile), self.vector_write_en, 0),
                    (self.gemm_write_en & here(self.gemm_write_tile)).replicate(passes),
                )
            ),
        ]
        return read.data
