"""First-in first-out queue whose head is visible the cycle after it was written."""

from __future__ import annotations

from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out


class CommandQueue(wiring.Component):
    """A queue in distributed memory.

    Parameters
    ----------
    width, depth : int
        Bits of an entry; entries, a power of two of at least 2.

    Members
    -------
    push, data : In
        Append an entry; only while `full` is 0.
    pop : In
        Drop the head; only while `valid` is 1.
    valid, head : Out
        Whether there is a head, and the head.
    full : Out
        Whether `depth` entries are held at the start of the cycle.

    Timing
    ------
    An entry written in cycle t is visible in t + 1.
    """

    def __init__(self, width: int, depth: int) -> None:
        self._width, self._depth = width, depth
        super().__init__(
            {
                "push": In(1),
                "data": In(width),
                "pop": In(1),
                "valid": Out(1),
                "head": Out(width),
                "full": Out(1),
            }
        )

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        index_bits = (self._depth - 1).bit_length()
        m.submodules.entries = entries = memory.Memory(
            shape=unsigned(self._width), depth=self._depth, init=[]
        )
        write, read = entries.write_port(), entries.read_port(domain="comb")
        write_r, read_r = Signal(index_bits), Signal(index_bits)
        level_r = Signal(range(self._depth + 1))
        m.d.comb += [
            write.addr.eq(write_r),
            write.data.eq(self.data),
            write.en.eq(self.push),
            read.addr.eq(read_r),
            self.head.eq(read.data),
            self.valid.eq(level_r != 0),
            self.full.eq(level_r == self._depth),
        ]
        m.d.sync += level_r.eq(level_r + self.push - self.pop)
        with m.If(self.push):
            m.d.sync += write_r.eq(write_r + 1)
        with m.If(self.pop):
            m.d.sync += read_r.eq(read_r + 1)
        return m
