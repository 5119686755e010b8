"""The counters of codesign.accel.counters, in hardware."""

from __future__ import annotations

from amaranth.hdl import Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from codesign.accel.config import AccelConfig
from codesign.accel.counters import COUNTED_UNITS, COUNTER_NAMES

COUNTER_BITS = 64
STATE_SIGNALS = ("busy", "wait_token", "wait_memory")


class PerformanceCounters(wiring.Component):
    """Counts while `running`.

    Members
    -------
    clear : In
        Set all to 0.
    running : In
        This cycle counts.
    <unit>_busy, <unit>_wait_token, <unit>_wait_memory : In
        At most one of them; none is idle.
    read_beat, written_beat, product, saturated, dispatched : In
        Events of this cycle; `saturated` is a number of elements.
    values : Out
        In the order of `COUNTER_NAMES`.

    Timing
    ------
    An event of cycle t shows in t + 2. Beats and products are counted, and scaled at the output.
    """

    def __init__(self, config: AccelConfig) -> None:
        self._config = config
        members = {
            "clear": In(1),
            "running": In(1),
            "read_beat": In(1),
            "written_beat": In(1),
            "product": In(1),
            "saturated": In(range(config.tile_lanes + 1)),
            "dispatched": In(1),
            "values": Out(data.ArrayLayout(unsigned(COUNTER_BITS), len(COUNTER_NAMES))),
        }
        for unit in COUNTED_UNITS:
            members |= {f"{unit}_{state}": In(1) for state in STATE_SIGNALS}
        super().__init__(members)

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        # Events end long paths, and 64-bit sums are one: a register lies between them.
        clear_r = Signal()
        m.d.sync += clear_r.eq(self.clear)
        events = self._events()
        for index, name in enumerate(COUNTER_NAMES):
            amount, scale = events[name]
            shift = scale.bit_length() - 1
            count_r = Signal(COUNTER_BITS - shift, name=f"{name}_r")
            if not isinstance(amount, Const):
                amount_r = Signal(len(amount), name=f"{name}_now_r")
                m.d.sync += amount_r.eq(Mux(self.running, amount, 0))
                with m.If(clear_r):
                    m.d.sync += count_r.eq(0)
                with m.Else():
                    m.d.sync += count_r.eq(count_r + amount_r)
            m.d.comb += self.values[index].eq(count_r << shift)
        return m

    def _events(self) -> dict[str, tuple[Value, int]]:
        """Return, for each counter, what is added in a cycle and its scale, a power of 2."""
        bus_bytes = self._config.bus_bytes
        events: dict[str, tuple[Value, int]] = {
            "cycles": (Value.cast(self.running), 1),
            "bytes_read": (self.read_beat, bus_bytes),
            "bytes_written": (self.written_beat, bus_bytes),
            "macs": (self.product, self._config.macs),
            "saturations": (self.saturated, 1),
            "instructions": (self.dispatched, 1),
        }
        for unit in COUNTED_UNITS:
            states = {state: getattr(self, f"{unit}_{state}") for state in STATE_SIGNALS}
            for state, signal in states.items():
                events[f"{unit}_{state}"] = (signal, 1)
            events[f"{unit}_idle"] = (
                ~(states["busy"] | states["wait_token"] | states["wait_memory"]),
                1,
            )
        return events
