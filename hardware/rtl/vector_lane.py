"""One lane of the vector unit: operands, operation, reduction, requantization, clip."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from codesign.accel.arithmetic import LANE_BITS
from codesign.accel.config import AccelConfig
from codesign.accel.isa import (
    IMMEDIATE_BITS,
    MULTIPLIER_BITS,
    RESIDUAL_SHIFT_MAX,
    SHIFT_MAX,
    Reduce,
    VectorOp,
    XSource,
    YSource,
)

LOW_BITS = 17
"""Low part of the 33-bit factor of the requantization: with a zero sign bit, 18 bits of a DSP."""

EXACT_BITS = LANE_BITS + 1 + MULTIPLIER_BITS + 1
"""Width of the exact product plus the residual."""

LANE_STAGES = 11
"""Stages 0 to 10 end with the lane's result; 0 and 1 lie before the lane."""

COARSE = 8
"""The shift is done by multiples of this, then by the rest."""


def control_layout(config: AccelConfig) -> data.StructLayout:
    """Return what is constant during an instruction."""
    return data.StructLayout(
        {
            "op": unsigned(3),
            "reduce": unsigned(2),
            "x_source": unsigned(1),
            "y_source": unsigned(2),
            "requantize": unsigned(1),
            "residual": unsigned(1),
            "to_acc": unsigned(1),
            "immediate": signed(IMMEDIATE_BITS),
            "residual_shift": unsigned(RESIDUAL_SHIFT_MAX.bit_length()),
            "vec_zero_point": signed(config.inp_bits),
            "zero_point": signed(config.inp_bits),
            "low": signed(config.inp_bits),
            "high": signed(config.inp_bits),
        }
    )


def param_layout() -> data.StructLayout:
    """Return the layout of a param word."""
    return data.StructLayout(
        {
            "bias": signed(LANE_BITS),
            "multiplier": signed(MULTIPLIER_BITS),
            "shift": unsigned(64 - LANE_BITS - MULTIPLIER_BITS),
        }
    )


class VectorLane(wiring.Component):
    """One lane.

    Members
    -------
    control : In
        Constant while anything is in the pipeline.
    valid : In
        Bit k: stage k holds work, for stages 2 to 10.
    first : In
        Stage 4 holds the first of the reducing iterations.
    acc, vec, field : In
        Elements and 16-bit field of a param word, in stage 2.
    param : In
        Param word of the requantization, in stage 5.
    result : Out
        In stage 11: clipped to inp_bits, or for the accumulators, saturated to acc_bits.

    Timing
    ------
    Stages as in codesign.accel.timing.vector_latency; one element a cycle, no stall.

    Source
    ------
    The rules are codesign.accel.arithmetic's combine, reduce_step, requantize, quantized_output.
    """

    def __init__(self, config: AccelConfig) -> None:
        self._config = config
        super().__init__(
            {
                "control": In(control_layout(config)),
                "valid": In(LANE_STAGES),
                "first": In(1),
                "acc": In(signed(config.acc_bits)),
                "vec": In(signed(config.inp_bits)),
                "field": In(signed(IMMEDIATE_BITS)),
                "param": In(param_layout()),
                "result": Out(signed(max(config.acc_bits, config.inp_bits))),
            }
        )

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        x, y = self._operands(m)
        term = self._combine(m, x, y)
        total = self._reduce(m, term)
        residual = self._residual(m, y)
        exact, shift = self._scale(m, total, residual)
        rounded = self._round(m, exact, shift)
        self._clip(m, rounded)
        return m

    def _stage(self, m: Module, stage: int, value: Value, name: str) -> Signal:
        """Return a register that takes the value at the end of a stage."""
        register = Signal(value.shape(), name=f"{name}_{stage + 1}_r", reset_less=True)
        with m.If(self.valid[stage]):
            m.d.sync += register.eq(value)
        return register

    def _operands(self, m: Module) -> tuple[Signal, Signal]:
        control = self.control
        vec = Signal(signed(self._config.inp_bits + 1))
        x, y = Signal(signed(LANE_BITS)), Signal(signed(LANE_BITS))
        m.d.comb += [
            vec.eq(self.vec - control.vec_zero_point),
            x.eq(Mux(control.x_source == XSource.ACC.value, self.acc, vec)),
        ]
        with m.Switch(control.y_source):
            for source, value in (
                (YSource.IMMEDIATE, control.immediate),
                (YSource.PARAM, self.field),
                (YSource.ACC, self.acc),
                (YSource.VEC, vec),
            ):
                with m.Case(source.value):
                    m.d.comb += y.eq(value)
        return self._stage(m, 2, x, "x"), self._stage(m, 2, y, "y")

    def _combine(self, m: Module, x: Signal, y: Signal) -> Signal:
        result = Signal(signed(LANE_BITS))
        less = Signal()
        m.d.comb += [less.eq(x < y), result.eq(x)]
        with m.Switch(self.control.op):
            with m.Case(VectorOp.ADD.value):
                m.d.comb += result.eq(saturated(x + y, LANE_BITS))
            with m.Case(VectorOp.SUB.value):
                m.d.comb += result.eq(saturated(x - y, LANE_BITS))
            with m.Case(VectorOp.MIN.value):
                m.d.comb += result.eq(Mux(less, x, y))
            with m.Case(VectorOp.MAX.value):
                m.d.comb += result.eq(Mux(less, y, x))
            if self._config.has_multiplier:
                with m.Case(VectorOp.MUL.value):
                    factor = x[: self._config.inp_bits + 1].as_signed()
                    product = factor * y[:IMMEDIATE_BITS].as_signed()
                    m.d.comb += result.eq(saturated(product, LANE_BITS))
        return self._stage(m, 3, result, "term")

    def _reduce(self, m: Module, term: Signal) -> Signal:
        so_far_r = Signal(signed(LANE_BITS), reset_less=True)
        less = Signal()
        result = Signal(signed(LANE_BITS))
        m.d.comb += [less.eq(so_far_r < term), result.eq(term)]
        with m.If(~self.first), m.Switch(self.control.reduce):
            with m.Case(Reduce.SUM.value):
                m.d.comb += result.eq(saturated(so_far_r + term, LANE_BITS))
            with m.Case(Reduce.MIN.value):
                m.d.comb += result.eq(Mux(less, so_far_r, term))
            with m.Case(Reduce.MAX.value):
                m.d.comb += result.eq(Mux(less, term, so_far_r))
        with m.If(self.valid[4]):
            m.d.sync += so_far_r.eq(result)
        return so_far_r

    def _residual(self, m: Module, y: Signal) -> Value:
        """Return y * immediate * 2**residual_shift in stage 7."""
        if not self._config.has_multiplier:
            return Const(0, signed(1))
        element = y[: self._config.inp_bits + 1].as_signed()
        element = self._stage(m, 3, element, "residual_y")
        element = self._stage(m, 4, element, "residual_y")
        product = self._stage(m, 5, element * self.control.immediate, "residual")
        shifted = (product << self.control.residual_shift)[:EXACT_BITS].as_signed()
        wanted = self.control.requantize & self.control.residual
        return self._stage(m, 6, Mux(wanted, shifted, 0), "residual")

    def _scale(self, m: Module, total: Signal, residual: Value) -> tuple[Signal, Signal]:
        """Return (total + bias) * multiplier + residual, and the shift, in stage 8."""
        on = self.control.requantize
        bias = Mux(on, self.param.bias, 0)
        multiplier = self._stage(m, 5, Mux(on, self.param.multiplier, 1), "multiplier")
        shift_bits = SHIFT_MAX.bit_length()
        shift = self._stage(m, 5, Mux(on, self.param.shift[:shift_bits], 0), "shift")
        factor = self._stage(m, 5, (total + bias)[: LANE_BITS + 1].as_signed(), "factor")
        low = self._stage(m, 6, Cat(factor[:LOW_BITS], Const(0, 1)).as_signed() * multiplier, "low")
        high = self._stage(m, 6, factor[LOW_BITS:].as_signed() * multiplier, "high")
        exact = (low + (high << LOW_BITS) + residual)[:EXACT_BITS].as_signed()
        shift = self._stage(m, 7, self._stage(m, 6, shift, "shift"), "shift")
        return self._stage(m, 7, exact, "exact"), shift

    def _round(self, m: Module, exact: Signal, shift: Signal) -> Signal:
        """Return exact / 2**shift, half to even, saturated to 32 bits, in stage 10.

        The lowest bit kept is the one below the point; what is lost below it is one sticky bit.
        """
        fine_bits = (COARSE - 1).bit_length()
        coarse = shift[fine_bits:]
        fixed = Cat(Const(0, 1), exact).as_signed()
        coarsely = Signal(signed(EXACT_BITS + 1))
        lost = Signal()
        m.d.comb += coarsely.eq(fixed >> (coarse << fine_bits))
        with m.Switch(coarse):
            for step in range(1, (SHIFT_MAX // COARSE) + 1):
                with m.Case(step):
                    m.d.comb += lost.eq(exact[: step * COARSE - 1].any())
        kept = self._stage(m, 8, coarsely, "kept")
        sticky = self._stage(m, 8, lost, "sticky")
        fine = self._stage(m, 8, shift[:fine_bits], "fine")
        finely = Signal(signed(EXACT_BITS + 1))
        below = Signal()
        m.d.comb += [finely.eq(kept >> fine), below.eq(sticky)]
        with m.Switch(fine):
            for step in range(1, COARSE):
                with m.Case(step):
                    m.d.comb += below.eq(sticky | kept[:step].any())
        whole = finely[1:].as_signed()
        up = finely[0] & (below | finely[1])
        return self._stage(m, 9, saturated(whole + up, LANE_BITS), "rounded")

    def _clip(self, m: Module, rounded: Signal) -> None:
        control, config = self.control, self._config
        moved = Signal(signed(LANE_BITS + 1))
        clipped = Signal(signed(config.inp_bits))
        m.d.comb += moved.eq(rounded + control.zero_point)
        at_least = Mux(moved < control.low, control.low, moved)
        m.d.comb += clipped.eq(Mux(at_least > control.high, control.high, at_least))
        for_acc = saturated(rounded, config.acc_bits)
        value = Mux(control.to_acc, for_acc, clipped)
        with m.If(self.valid[10]):
            m.d.sync += self.result.eq(value)


def saturated(value: Value, bits: int) -> Value:
    """Return the nearest `bits`-bit signed integer."""
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    if len(value) <= bits:
        return value
    return Mux(value < low, low, Mux(value > high, high, value))[:bits].as_signed()
