"""A serial line: 8 data bits, no parity, one stop bit."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

BYTE_BITS = 8
FRAME_BITS = BYTE_BITS + 2
"""Start bit, data, stop bit."""


class Receiver(wiring.Component):
    """Turns the line into bytes.

    Parameters
    ----------
    divisor : int
        Cycles of one bit, at least 4.

    Members
    -------
    rx : In
        The line, not synchronous to the clock.
    valid, byte : Out
        A byte, for one cycle. A byte whose stop bit is 0 is dropped.

    Timing
    ------
    Bits are sampled in their middle, counted from the start bit's edge.
    """

    def __init__(self, divisor: int) -> None:
        self._divisor = divisor
        super().__init__({"rx": In(1, init=1), "valid": Out(1), "byte": Out(BYTE_BITS)})

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        line = Signal(init=1)
        m.submodules.synchronizer = FFSynchronizer(self.rx, line, init=1)
        timer_r = Signal(range(self._divisor))
        bits_r = Signal(range(FRAME_BITS + 1))
        shift_r = Signal(BYTE_BITS, reset_less=True)
        m.d.comb += self.byte.eq(shift_r)
        m.d.sync += self.valid.eq(0)
        with m.If(bits_r == 0), m.If(~line):
            m.d.sync += [timer_r.eq(self._divisor // 2 - 1), bits_r.eq(FRAME_BITS)]
        with m.Elif(timer_r != 0):
            m.d.sync += timer_r.eq(timer_r - 1)
        with m.Else():
            m.d.sync += [timer_r.eq(self._divisor - 1), bits_r.eq(bits_r - 1)]
            # The line must still be low in the middle of the start bit: else it was a spike.
            with m.If((bits_r == FRAME_BITS) & line):
                m.d.sync += bits_r.eq(0)
            with m.If(bits_r == 1):
                m.d.sync += self.valid.eq(line)
            with m.Elif(bits_r != FRAME_BITS):
                m.d.sync += shift_r.eq(Cat(shift_r[1:], line))
        return m


class Transmitter(wiring.Component):
    """Turns bytes into the line.

    Members
    -------
    valid, byte : In; ready : Out
        A byte is taken in a cycle in which both are 1.
    tx : Out
        The line: a register.
    """

    def __init__(self, divisor: int) -> None:
        self._divisor = divisor
        super().__init__(
            {"valid": In(1), "byte": In(BYTE_BITS), "ready": Out(1), "tx": Out(1, init=1)}
        )

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        timer_r = Signal(range(self._divisor))
        bits_r = Signal(range(FRAME_BITS + 1))
        shift_r = Signal(BYTE_BITS + 1, reset_less=True)
        m.d.comb += self.ready.eq(bits_r == 0)
        with m.If(bits_r == 0):
            m.d.sync += self.tx.eq(1)
            with m.If(self.valid):
                m.d.sync += [
                    bits_r.eq(FRAME_BITS),
                    shift_r.eq(Cat(self.byte, 1)),
                    self.tx.eq(0),
                    timer_r.eq(self._divisor - 1),
                ]
        with m.Elif(timer_r != 0):
            m.d.sync += timer_r.eq(timer_r - 1)
        with m.Else():
            m.d.sync += [timer_r.eq(self._divisor - 1), bits_r.eq(bits_r - 1)]
            m.d.sync += [self.tx.eq(shift_r[0]), shift_r.eq(Cat(shift_r[1:], 1))]
        return m
