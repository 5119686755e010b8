"""The board's memory: when beats come is the DRAM rule's, which is written once more here."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from amaranth.sim import Simulator

from codesign.accel.presets import TINY
from hardware.shells.block_memory import BlockMemory

SIZE_BYTES = 8192
BEAT_BYTES = 4
CYCLES = 1800


@dataclass
class _Burst:
    address: int
    beats: int
    slots: list[int]


@dataclass
class _Rule:
    """docs/microarchitecture.md, section DRAM, for latency 6 and a beat in every cycle."""

    free: int = 0
    reads: list[_Burst] = field(default_factory=list)
    writes: list[_Burst] = field(default_factory=list)

    def arrive(self, cycle: int, address: int, beats: int, *, is_write: bool) -> None:
        first = max(cycle + 6, self.free)
        self.free = first + beats
        burst = _Burst(address, beats, list(range(first, first + beats)))
        (self.writes if is_write else self.reads).append(burst)

    def is_being_written(self, cycle: int, address: int, beats: int) -> bool:
        """Return whether a write that is not answered yet has a beat in common."""
        return any(
            address < each.address + each.beats * BEAT_BYTES
            and each.address < address + beats * BEAT_BYTES
            for each in self.writes
            if each.slots[-1] + 1 >= cycle
        )


def _random_burst(rng: np.random.Generator) -> tuple[int, int]:
    beats = int(rng.integers(1, TINY.burst_beats + 1))
    page = int(rng.integers(SIZE_BYTES // 4096)) * 4096
    first = int(rng.integers(1024 - beats + 1))
    return page + first * BEAT_BYTES, beats


@pytest.mark.parametrize("seed", range(2))
def test_every_beat_is_in_its_slot_with_the_data_written_before(seed: int) -> None:
    rng = np.random.default_rng(seed)
    memory, rule = BlockMemory(TINY, SIZE_BYTES), _Rule()
    content: dict[int, int] = {}
    seen_reads: list[tuple[int, int, int, int]] = []
    expected_reads: list[tuple[int, int, int]] = []
    answers: list[int] = []
    outstanding = {False: 0, True: 0}

    async def bench(ctx) -> None:
        slots_w: dict[int, tuple[int, int, bool]] = {}
        slots_r: dict[int, tuple[int, bool]] = {}
        for cycle in range(CYCLES):
            # Not more in flight than the configuration allows, in each direction.
            rate = 0.3 if cycle < CYCLES - 400 else 0.0
            for is_write, channel in ((False, "ar"), (True, "aw")):
                asks = bool(rng.random() < rate) and outstanding[is_write] < TINY.outstanding
                ctx.set(getattr(memory, f"axi_{channel}valid"), asks)
                if not asks:
                    continue
                address, beats = _random_burst(rng)
                if not is_write and rule.is_being_written(cycle, address, beats):
                    ctx.set(memory.axi_arvalid, 0)
                    continue
                ctx.set(getattr(memory, f"axi_{channel}addr"), address)
                ctx.set(getattr(memory, f"axi_{channel}len"), beats - 1)
                rule.arrive(cycle, address, beats, is_write=is_write)
                outstanding[is_write] += 1
                burst = (rule.writes if is_write else rule.reads)[-1]
                for index, slot in enumerate(burst.slots):
                    at, last = address + index * BEAT_BYTES, index == beats - 1
                    if is_write:
                        slots_w[slot] = (at, int(rng.integers(1 << 32)), last)
                    else:
                        slots_r[slot] = (at, last)
            write = slots_w.get(cycle)
            ctx.set(memory.axi_wvalid, write is not None)
            ctx.set(memory.axi_wdata, write[1] if write else 0)
            _, _, rvalid, rdata, rlast, rresp, wready, bvalid = await ctx.tick().sample(
                memory.axi_rvalid,
                memory.axi_rdata,
                memory.axi_rlast,
                memory.axi_rresp,
                memory.axi_wready,
                memory.axi_bvalid,
            )
            assert wready == (write is not None), cycle
            assert rvalid == (cycle in slots_r), cycle
            if bvalid:
                answers.append(cycle)
                outstanding[True] -= 1
            if rvalid:
                at, last = slots_r[cycle]
                seen_reads.append((cycle, rdata, rlast, rresp))
                expected_reads.append((content.get(at, 0), int(last), 0))
                outstanding[False] -= int(last)
            if write:
                content[write[0]] = write[1]

    simulator = Simulator(memory)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert len(rule.reads) > 30
    assert len(rule.writes) > 30
    assert [each[1:] for each in seen_reads] == expected_reads
    assert answers == [burst.slots[-1] + 1 for burst in rule.writes]


def test_host_shares_the_memory_and_bursts_outside_are_refused() -> None:
    memory = BlockMemory(TINY, SIZE_BYTES)
    found: dict[str, object] = {}

    async def bench(ctx) -> None:
        ctx.set(memory.host_valid, 1)
        ctx.set(memory.host_write, 1)
        ctx.set(memory.host_beat, 7)
        ctx.set(memory.host_wdata, 0xCAFE)
        await ctx.tick().until(memory.host_ready)
        ctx.set(memory.host_write, 0)
        await ctx.tick().until(memory.host_ready)
        await ctx.tick()
        found["read"] = ctx.get(memory.host_rdata)
        ctx.set(memory.host_valid, 0)
        ctx.set(memory.axi_arvalid, 1)
        ctx.set(memory.axi_araddr, SIZE_BYTES)
        ctx.set(memory.axi_awvalid, 1)
        ctx.set(memory.axi_awaddr, SIZE_BYTES + 28)
        await ctx.tick()
        ctx.set(memory.axi_arvalid, 0)
        ctx.set(memory.axi_awvalid, 0)
        ctx.set(memory.axi_wvalid, 1)
        ctx.set(memory.axi_wdata, 0xDEAD)
        found["rresp"] = (await ctx.tick().sample(memory.axi_rresp).until(memory.axi_rvalid))[0]
        found["bresp"] = (await ctx.tick().sample(memory.axi_bresp).until(memory.axi_bvalid))[0]
        ctx.set(memory.host_valid, 1)
        await ctx.tick().until(memory.host_ready)
        await ctx.tick()
        found["kept"] = ctx.get(memory.host_rdata)

    simulator = Simulator(memory)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run_until(1e-3)
    assert found == {"read": 0xCAFE, "rresp": 2, "bresp": 2, "kept": 0xCAFE}


def test_late_write_data_is_counted_as_a_fault() -> None:
    memory = BlockMemory(TINY, SIZE_BYTES)
    found = []

    async def bench(ctx) -> None:
        ctx.set(memory.axi_awvalid, 1)
        ctx.set(memory.axi_awlen, 2)
        await ctx.tick()
        ctx.set(memory.axi_awvalid, 0)
        await ctx.tick().repeat(12)
        found.append(ctx.get(memory.faults))

    simulator = Simulator(memory)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert found == [3]
