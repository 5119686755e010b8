"""Token counters between neighbouring units."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from codesign.accel.isa import NEIGHBOURS, TOKEN_BITS, Unit


class Tokens(wiring.Component):
    """One counter for each direction of each pair of neighbours.

    Members
    -------
    take_<unit> : In
        For each unit, the mask of the units whose tokens it takes in this cycle.
    give_<unit>, give_sync_<unit> : In
        For each unit, the mask of the units to which it gives a token in this cycle; both may
        name one unit.
    there_<unit> : Out
        For each unit, the mask of the units of which a token is waiting for it.

    Timing
    ------
    Taken and given tokens are visible in the next cycle.
    """

    def __init__(self) -> None:
        flows = {"take": In, "give": In, "give_sync": In, "there": Out}
        super().__init__(
            {
                f"{name}_{unit.name.lower()}": flow(len(Unit))
                for name, flow in flows.items()
                for unit in Unit
            }
        )

    def mask(self, name: str, unit: Unit) -> Signal:
        """Return a member by its name without the unit's."""
        signal: Signal = getattr(self, f"{name}_{unit.name.lower()}")
        return signal

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        for giver, takers in NEIGHBOURS.items():
            for taker in takers:
                count_r = Signal(TOKEN_BITS, name=f"{giver.name}_to_{taker.name}_r".lower())
                give = self.mask("give", giver)[taker.value]
                give_sync = self.mask("give_sync", giver)[taker.value]
                take = self.mask("take", taker)[giver.value]
                with m.If(give | give_sync | take):
                    m.d.sync += count_r.eq(count_r + give + give_sync - take)
                m.d.comb += self.mask("there", taker)[giver.value].eq(count_r != 0)
        return m
