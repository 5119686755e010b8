"""The array of multiply-accumulates: one tile product a cycle, in two arms of one latency."""

from __future__ import annotations

from enum import StrEnum

from amaranth.hdl import Instance, Module, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from codesign.accel.config import AccelConfig
from codesign.accel.timing import ADDER_LEVELS, gemm_tree_stages

SUM_BITS = 32
"""Width of a tile product's element; inp_bits + wgt_bits + log2(block_in) is at most 30."""


class Arm(StrEnum):
    """How the arithmetic is written; meaning and latency are the same."""

    FPGA = "fpga"
    """Products and adder tree in registers of exact width; runs in Amaranth's simulator too."""

    SIMULATION = "simulation"
    """32-bit cells in a linear chain, then a delay line: C++ compilers turn it into SIMD."""


class MacArray(wiring.Component):
    """Multiplies an inp tile by a wgt tile.

    Members
    -------
    enable : In
        The tiles of this cycle are wanted; the simulation arm computes only then.
    inp, wgt : In
        Tiles: [batch][block_in] and [block_out][block_in] elements.
    sums : Out
        [batch][block_out] sums of products.

    Timing
    ------
    Latency 2 + gemm_tree_stages cycles; one tile product a cycle; no stall.
    """

    def __init__(self, config: AccelConfig, arm: Arm) -> None:
        self._config, self._arm = config, arm
        super().__init__(
            {
                "enable": In(1),
                "inp": In(config.inp_tile_bits),
                "wgt": In(config.wgt_tile_bits),
                "sums": Out(data.ArrayLayout(signed(SUM_BITS), config.tile_lanes)),
            }
        )

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        if self._arm is Arm.SIMULATION:
            self._chains(m)
        else:
            self._trees(m)
        return m

    def _pairs(self, inp: Value, wgt: Value, lane: int) -> list[tuple[Value, Value]]:
        """Return the operands of one lane's products, in the order of the input channels."""
        config = self._config
        row, column = divmod(lane, config.block_out)
        pairs = []
        for channel in range(config.block_in):
            x = inp.word_select(row * config.block_in + channel, config.inp_bits)
            w = wgt.word_select(column * config.block_in + channel, config.wgt_bits)
            pairs.append((x.as_signed(), w.as_signed()))
        return pairs

    def _trees(self, m: Module) -> None:
        inp_r = Signal(self._config.inp_tile_bits, reset_less=True)
        wgt_r = Signal(self._config.wgt_tile_bits, reset_less=True)
        m.d.sync += [inp_r.eq(self.inp), wgt_r.eq(self.wgt)]
        for lane in range(self._config.tile_lanes):
            products = [x * w for x, w in self._pairs(inp_r, wgt_r, lane)]
            terms = [_registered(m, product) for product in products]
            for _ in range(gemm_tree_stages(self._config)):
                for _ in range(ADDER_LEVELS):
                    terms = _added(terms)
                terms = [_registered(m, term) for term in terms]
            m.d.comb += self.sums[lane].eq(terms[0])

    def _chains(self, m: Module) -> None:
        config = self._config
        sums = Signal(self.sums.shape())
        for lane in range(config.tile_lanes):
            total: Value | None = None
            for x, w in self._pairs(self.inp, self.wgt, lane):
                product = _cell(m, "$mul", x, w)
                total = product if total is None else _cell(m, "$add", total, product)
            m.d.comb += sums[lane].eq(total)
        stage: Value = sums
        enable: Value = self.enable
        for _ in range(2 + gemm_tree_stages(config)):
            next_stage, next_enable = Signal(self.sums.shape(), reset_less=True), Signal()
            m.d.sync += next_enable.eq(enable)
            with m.If(enable):
                m.d.sync += next_stage.eq(stage)
            stage, enable = next_stage, next_enable
        m.d.comb += self.sums.eq(stage)


def _registered(m: Module, value: Value) -> Signal:
    register = Signal(value.shape(), reset_less=True)
    m.d.sync += register.eq(value)
    return register


def _added(terms: list[Value]) -> list[Value]:
    if len(terms) == 1:
        return terms
    return [a + b for a, b in zip(terms[::2], terms[1::2], strict=True)]


def _cell(m: Module, kind: str, a: Value, b: Value) -> Signal:
    """Return the 32-bit result of a Yosys cell, which Amaranth's own operators would widen."""
    result = Signal(signed(SUM_BITS))
    m.submodules += Instance(
        kind,
        p_A_SIGNED=1,
        p_B_SIGNED=1,
        p_A_WIDTH=len(a),
        p_B_WIDTH=len(b),
        p_Y_WIDTH=SUM_BITS,
        i_A=a,
        i_B=b,
        o_Y=result,
    )
    return result
