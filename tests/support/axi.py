"""A host and a memory for the accelerator in Amaranth's simulator; the memory stalls at random."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign.accel.config import PAGE_BYTES
from codesign.accel.registers import OFFSETS, Control, Status
from hardware.rtl.accelerator import Accelerator

OKAY, SLAVE_ERROR = 0, 2
BYTE_STROBES = 15
INCR = 1


@dataclass
class Burst:
    """A burst whose address has been taken."""

    address: int
    beats: int
    broken: bool
    done: int = 0

    @property
    def last(self) -> bool:
        return self.done == self.beats - 1


@dataclass
class AxiMemory:
    """DRAM behind the AXI4 port.

    In each cycle, each channel is ready or answers with probability `pace`. A burst that begins in
    a byte range of `broken` is answered with an error; while `dead`, nothing is answered at all.
    """

    pins: Accelerator
    data: NDArray[np.uint8]
    rng: np.random.Generator
    pace: float = 1.0
    broken: range = range(0)
    dead: bool = False
    reads: deque[Burst] = field(default_factory=deque)
    writes: deque[Burst] = field(default_factory=deque)
    answers: deque[bool] = field(default_factory=deque)
    held: dict[str, tuple[int, ...]] = field(default_factory=dict)

    async def serve(self, ctx: Any) -> None:
        """Behave as a memory for ever."""
        while True:
            self._answer(ctx)
            self._give_beat(ctx)
            self._take_beat(ctx)
            self._take_address(ctx, "ar", self.reads)
            self._take_address(ctx, "aw", self.writes)
            await ctx.tick()

    def _now(self) -> bool:
        return not self.dead and bool(self.rng.random() < self.pace)

    def _pin(self, ctx: Any, name: str) -> int:
        return int(ctx.get(getattr(self.pins, f"m_axi_{name}")))

    def _offered(self, ctx: Any, channel: str, names: Sequence[str], ready: bool) -> bool:
        """Return whether the channel transfers; check that an offer stands until it is taken."""
        valid = bool(self._pin(ctx, f"{channel}valid"))
        values = tuple(self._pin(ctx, f"{channel}{name}") for name in names)
        if channel in self.held:
            assert valid, f"{channel}valid fell before {channel}ready"
            assert values == self.held.pop(channel), f"{channel} changed before it was taken"
        if valid and not ready:
            self.held[channel] = values
        ctx.set(getattr(self.pins, f"m_axi_{channel}ready"), ready)
        return valid and ready

    def _take_address(self, ctx: Any, channel: str, bursts: deque[Burst]) -> None:
        names = ("addr", "len", "size", "burst", "id", "lock", "prot")
        if not self._offered(ctx, channel, names, self._now()):
            return
        address, beats = self._pin(ctx, f"{channel}addr"), self._pin(ctx, f"{channel}len") + 1
        size = beats * self._bus_bytes
        assert 1 << self._pin(ctx, f"{channel}size") == self._bus_bytes
        assert self._pin(ctx, f"{channel}burst") == INCR
        assert address % self._bus_bytes == 0
        assert address // PAGE_BYTES == (address + size - 1) // PAGE_BYTES
        assert address + size <= len(self.data)
        bursts.append(Burst(address, beats, address in self.broken))

    @property
    def _bus_bytes(self) -> int:
        return len(self.pins.m_axi_rdata) // 8

    def _place(self, burst: Burst) -> slice:
        begin = burst.address + burst.done * self._bus_bytes
        return slice(begin, begin + self._bus_bytes)

    def _give_beat(self, ctx: Any) -> None:
        assert self._pin(ctx, "rready")
        give = bool(self.reads) and self._now()
        ctx.set(self.pins.m_axi_rvalid, give)
        if not give:
            return
        burst = self.reads[0]
        beat = int.from_bytes(self.data[self._place(burst)].tobytes(), "little")
        ctx.set(self.pins.m_axi_rdata, beat)
        ctx.set(self.pins.m_axi_rlast, burst.last)
        ctx.set(self.pins.m_axi_rresp, SLAVE_ERROR if burst.broken else OKAY)
        if burst.last:
            self.reads.popleft()
        burst.done += 1

    def _take_beat(self, ctx: Any) -> None:
        ready = bool(self.writes) and self._now()
        if not self._offered(ctx, "w", ("data", "last", "strb"), ready):
            return
        burst = self.writes[0]
        assert self._pin(ctx, "wlast") == burst.last
        assert self._pin(ctx, "wstrb") == (1 << self._bus_bytes) - 1
        beat = self._pin(ctx, "wdata").to_bytes(self._bus_bytes, "little")
        if not burst.broken:
            self.data[self._place(burst)] = np.frombuffer(beat, dtype=np.uint8)
        if burst.last:
            self.answers.append(burst.broken)
            self.writes.popleft()
        burst.done += 1

    def _answer(self, ctx: Any) -> None:
        assert self._pin(ctx, "bready")
        give = bool(self.answers) and self._now()
        ctx.set(self.pins.m_axi_bvalid, give)
        if give:
            ctx.set(self.pins.m_axi_bresp, SLAVE_ERROR if self.answers.popleft() else OKAY)


@dataclass
class AxiHost:
    """The host behind the AXI4-Lite port."""

    pins: Accelerator

    async def write(self, ctx: Any, name: str, value: int, strobes: int = BYTE_STROBES) -> None:
        """Write a register by its name."""
        pins = self.pins
        ctx.set(pins.s_axi_awaddr, OFFSETS[name])
        ctx.set(pins.s_axi_wdata, value)
        ctx.set(pins.s_axi_wstrb, strobes)
        await self._both(ctx, "aw", "w")
        ctx.set(pins.s_axi_bready, 1)
        await ctx.tick().until(pins.s_axi_bvalid)
        ctx.set(pins.s_axi_bready, 0)

    async def _both(self, ctx: Any, *channels: str) -> None:
        waiting = set(channels)
        for channel in channels:
            ctx.set(getattr(self.pins, f"s_axi_{channel}valid"), 1)
        while waiting:
            taken = {c for c in waiting if ctx.get(getattr(self.pins, f"s_axi_{c}ready"))}
            await ctx.tick()
            for channel in taken:
                ctx.set(getattr(self.pins, f"s_axi_{channel}valid"), 0)
            waiting -= taken

    async def read(self, ctx: Any, name: str) -> int:
        """Return a register by its name."""
        return await self.read_at(ctx, OFFSETS[name])

    async def read_at(self, ctx: Any, offset: int) -> int:
        """Return the register at a byte offset."""
        pins = self.pins
        ctx.set(pins.s_axi_araddr, offset)
        await self._both(ctx, "ar")
        ctx.set(pins.s_axi_rready, 1)
        value, _ = (
            await ctx.tick().sample(pins.s_axi_rdata, pins.s_axi_rvalid).until(pins.s_axi_rvalid)
        )
        ctx.set(pins.s_axi_rready, 0)
        return int(value)

    async def start(
        self,
        ctx: Any,
        instructions: int,
        program: int,
        bases: Sequence[int],
        watchdog: int = 0,
    ) -> None:
        """Tell the accelerator where all is, and start it."""
        await self.write(ctx, "instructions", instructions)
        await self.write(ctx, "program_lo", program)
        await self.write(ctx, "watchdog", watchdog)
        for index, base in enumerate(bases):
            await self.write(ctx, f"segment{index}_lo", base)
        await self.write(ctx, "control", Control.START | Control.INTERRUPT_ENABLE)

    async def finish(self, ctx: Any, limit: int) -> int:
        """Return the status register after the interrupt and the end of the run."""
        for _ in range(limit):
            if ctx.get(self.pins.interrupt):
                break
            await ctx.tick()
        return await self.idle(ctx, limit)

    async def idle(self, ctx: Any, limit: int) -> int:
        """Return the status register after the end of the run."""
        for _ in range(limit):
            status = await self.read(ctx, "status")
            if not status & Status.RUNNING:
                return status
        raise AssertionError(f"still running after {limit} looks at the status")
