"""The array of multiply-accumulates: one tile product a cycle, in two arms of one latency."""

from __future__ import annotations

from amaranth.hdl import ClockSignal, Instance, Module, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from codesign.accel.config import AccelConfig
from codesign.accel.timing import ADDER_LEVELS, gemm_tree_stages
from hardware.rtl.arm import Arm

SUM_BITS = 32
"""Width of a tile product's element; inp_bits + wgt_bits + log2(block_in) is at most 30."""


MODULE = "accel_mac_array"
"""The module of mac_array.sv."""


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
            self._leaf(m)
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

    def _leaf(self, m: Module) -> None:
        config = self._config
        m.submodules.array = Instance(
            MODULE,
            p_BATCH=config.batch,
            p_BLOCK_IN=config.block_in,
            p_BLOCK_OUT=config.block_out,
            p_INP_BITS=config.inp_bits,
            p_WGT_BITS=config.wgt_bits,
            p_STAGES=2 + gemm_tree_stages(config),
            i_clk=ClockSignal(),
            i_enable=self.enable,
            i_inp=self.inp,
            i_wgt=self.wgt,
            o_sums=self.sums,
        )


def _registered(m: Module, value: Value) -> Signal:
    register = Signal(value.shape(), reset_less=True)
    m.d.sync += register.eq(value)
    return register


def _added(terms: list[Value]) -> list[Value]:
    if len(terms) == 1:
        return terms
    return [a + b for a, b in zip(terms[::2], terms[1::2], strict=True)]
