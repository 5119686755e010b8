"""Runs a synchronous circuit in Amaranth's simulator."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from amaranth.hdl import Elaboratable
from amaranth.sim import Simulator

PERIOD = 1e-6

Bench = Callable[[Any], Awaitable[None]]


def simulate(circuit: Elaboratable, *benches: Bench, background: tuple[Bench, ...] = ()) -> None:
    """Run until all benches have ended; those in the background may run for ever."""
    simulator = Simulator(circuit)
    simulator.add_clock(PERIOD)
    for bench in background:
        simulator.add_testbench(bench, background=True)
    for bench in benches:
        simulator.add_testbench(bench)
    simulator.run()
