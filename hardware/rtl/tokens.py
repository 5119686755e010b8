"""Token counters between neighbouring units."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from codesign.accel.isa import NEIGHBOURS, TOKEN_BITS, Unit

MASKS = data.ArrayLayout(len(Unit), len(Unit))
"""One mask of units for each unit."""


class Tokens(wiring.Component):
    """One counter for each direction of each pair of neighbours.

    Members
    -------
    take : In
        For each unit, the units whose tokens it takes in this cycle.
    give, give_sync : In
        For each unit, the units to which it gives a token in this cycle; both may in one cycle.
    there : Out
        For each unit, the units of which a token is waiting for it.

    Timing
    ------
    Taken and given tokens are visible in the next cycle.
    """

    def __init__(self) -> None:
        super().__init__(
            {"take": In(MASKS), "give": In(MASKS), "give_sync": In(MASKS), "there": Out(MASKS)}
        )

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        for giver, takers in NEIGHBOURS.items():
            for taker in takers:
                count_r = Signal(TOKEN_BITS, name=f"{giver.name}_to_{taker.name}_r".lower())
                give = self.give[giver.value][taker.value]
                give_sync = self.give_sync[giver.value][taker.value]
                take = self.take[taker.value][giver.value]
                with m.If(give | give_sync | take):
                    m.d.sync += count_r.eq(count_r + give + give_sync - take)
                m.d.comb += self.there[taker.value][giver.value].eq(count_r != 0)
        return m
