"""What the accelerator does at its pins, whatever host and memory do at theirs."""

from __future__ import annotations

import json

import cocotb
from bench import FOLDER, Bench, Job, record
from cocotb.handle import SimHandleBase
from cocotb.triggers import ClockCycles, RisingEdge

from codesign.accel.counters import COUNTED_UNITS, STATES
from codesign.accel.isa import Unit
from codesign.accel.registers import (
    ABI_VERSION,
    IDENTITY,
    OFFSETS,
    UNIT_NONE,
    Control,
    ErrorCode,
    Status,
)

ALL = ("ar", "r", "aw", "w", "b")
WATCHDOG = 4000


async def ready(dut: SimHandleBase) -> Bench:
    bench = Bench(dut)
    await bench.reset()
    return bench


@cocotb.test()
async def runs_two_programs_in_turn(dut: SimHandleBase) -> None:
    bench = await ready(dut)
    first = await bench.run(Job.load("first"))
    await bench.run(Job.load("second"))
    assert await bench.run(Job.load("first")) == first
    record("no stalls", first)


@cocotb.test()
async def counts_every_cycle_once(dut: SimHandleBase) -> None:
    bench = await ready(dut)
    job = Job.load("first")
    bench.stall(5, ALL, 0.3)
    cycles = await bench.run(job)
    for unit in COUNTED_UNITS:
        states = [await bench.read_wide(f"{unit}_{state}") for state in STATES]
        assert sum(states) == cycles, (unit, states, cycles)
    beat = bench.slave.write_if.byte_lanes
    assert await bench.read_wide("bytes_read") == beat * len(bench.memory.reads)
    assert await bench.read_wide("bytes_written") == beat * len(bench.memory.writes)
    assert await bench.read_wide("instructions") == job.instructions


@cocotb.test()
@cocotb.parametrize(channel=ALL)
async def obeys_back_pressure_of(dut: SimHandleBase, channel: str) -> None:
    bench = await ready(dut)
    bench.stall(None, (channel,), 0.75)
    record(f"back-pressure of {channel}", await bench.run(Job.load("first")))


@cocotb.test()
@cocotb.parametrize(seed=(1, 2), share=(0.5, 0.9))
async def obeys_random_stalls(dut: SimHandleBase, seed: int, share: float) -> None:
    bench = await ready(dut)
    bench.stall(seed, ALL, share)
    record(f"random stalls {seed}, {share}", await bench.run(Job.load("second")))
    await bench.run(Job.load("first"))


@cocotb.test()
async def names_the_read_that_failed(dut: SimHandleBase) -> None:
    bench = await ready(dut)
    job = Job.load("first")
    base = job.program_base
    bench.memory.refused_reads = range(base + 64, base + 128)
    await bench.start(job)
    assert await bench.finish() is ErrorCode.READ
    burst = await bench.read_wide("error")
    assert base <= burst < base + 128
    bench.memory.refused_reads = range(0)
    await stopped(bench)
    await bench.run(job)


@cocotb.test()
async def names_the_write_that_failed(dut: SimHandleBase) -> None:
    bench = await ready(dut)
    job = Job.load("first")
    await bench.run(job)
    target = bench.memory.writes[len(bench.memory.writes) // 2]
    bench.memory.refused_writes = range(target, target + 1)
    await bench.start(job)
    assert await bench.finish() is ErrorCode.WRITE
    burst = await bench.read_wide("error")
    assert burst <= target < burst + 256 * bench.slave.write_if.byte_lanes
    bench.memory.refused_writes = range(0)
    await stopped(bench)
    await bench.run(job)


async def stopped(bench: Bench) -> None:
    """Wait until the machine may be started again."""
    for _ in range(500):
        if not await bench.read("status") & Status.RUNNING:
            return
    raise AssertionError("the machine does not stop")


@cocotb.test()
@cocotb.parametrize(cycles=(60, 333, 700))
async def runs_right_after_a_reset_in_the_middle(dut: SimHandleBase, cycles: int) -> None:
    bench = await ready(dut)
    await bench.start(Job.load("second"))
    await ClockCycles(dut.aclk, cycles)
    await bench.reset(2)
    assert await bench.read("status") == 0
    assert await bench.read("control") == 0
    assert await bench.run(Job.load("first")) == recorded("no stalls")


def recorded(name: str) -> int:
    known = json.loads(next(FOLDER.glob("record-*.json")).read_text(encoding="utf-8"))
    return int(known[name])


@cocotb.test()
@cocotb.parametrize(cycles=(20, 250, 600))
async def stops_on_abort_and_runs_again(dut: SimHandleBase, cycles: int) -> None:
    bench = await ready(dut)
    bench.stall(7, ALL, 0.5)
    await bench.start(Job.load("second"))
    await ClockCycles(dut.aclk, cycles)
    assert await bench.read("status") & Status.RUNNING
    await bench.write("control", Control.ABORT)
    await stopped(bench)
    assert await bench.read("status") == 0
    await bench.run(Job.load("first"))


@cocotb.test()
async def the_interrupt_follows_its_enable(dut: SimHandleBase) -> None:
    bench = await ready(dut)
    await bench.run(Job.load("first"))
    assert int(dut.interrupt.value) == 1
    await bench.write("control", 0)
    await ClockCycles(dut.aclk, 2)
    assert int(dut.interrupt.value) == 0
    await bench.write("control", Control.INTERRUPT_ENABLE)
    await ClockCycles(dut.aclk, 2)
    assert int(dut.interrupt.value) == 1
    await bench.write("control", Control.START)
    while not await bench.read("status") & Status.DONE:
        assert int(dut.interrupt.value) == 0
    bench.check(Job.load("first"))
    await ClockCycles(dut.aclk, 2)
    assert int(dut.interrupt.value) == 0


@cocotb.test()
async def the_watchdog_names_who_waits(dut: SimHandleBase) -> None:
    bench = await ready(dut)
    job = Job.load("deadlock")
    await bench.start(job, watchdog=WATCHDOG)
    assert await bench.finish() is ErrorCode.WATCHDOG
    assert await bench.read("waiting") == Unit.GEMM
    assert await bench.read_wide("error") == job.program_base + job.image.size
    await stopped(bench)
    await bench.run(Job.load("first"), watchdog=WATCHDOG)
    assert await bench.read("waiting") == UNIT_NONE


@cocotb.test()
async def the_register_map_is_as_stated(dut: SimHandleBase) -> None:
    bench = await ready(dut)
    digest = int((FOLDER / "digest.txt").read_text(encoding="utf-8")[:8], 16)
    assert await bench.read("id") == IDENTITY
    assert await bench.read("version") == ABI_VERSION
    assert await bench.read("digest") == digest
    assert await bench.read("status") == 0
    written = ("instructions", "program_lo", "watchdog", *(f"segment{i}_lo" for i in range(8)))
    for number, name in enumerate(written):
        await bench.write(name, 0x12345678 + number)
    for number, name in enumerate(written):
        assert await bench.read(name) == 0x12345678 + number, name
    for name in ("id", "status", "error_lo", "waiting", "cycles_lo", "macs_hi"):
        before = await bench.read(name)
        await bench.write(name, ~before)
        assert await bench.read(name) == before, name
    await bench.host.write(OFFSETS["watchdog"] + 1, b"\xaa")
    assert await bench.read("watchdog") == 0x1234AA7A
    for hole in set(range(0, 1 << 12, 4)) - set(OFFSETS.values()):
        if hole % 0x100 < 0x10 or hole > 0xFF0:
            assert int(await bench.host.read_dword(hole)) == 0, hex(hole)


@cocotb.test()
async def the_register_port_obeys_back_pressure(dut: SimHandleBase) -> None:
    bench = await ready(dut)
    host = bench.host
    bench.stall(3, ALL, 0.3)
    for channel in (host.write_if.b_channel, host.read_if.r_channel):
        channel.set_pause_generator(n % 4 != 0 for n in range(1 << 30))
    host.write_if.w_channel.set_pause_generator(n % 3 != 0 for n in range(1 << 30))
    await bench.run(Job.load("first"))


@cocotb.test()
async def nothing_moves_during_reset(dut: SimHandleBase) -> None:
    bench = await ready(dut)
    await bench.start(Job.load("first"))
    await ClockCycles(dut.aclk, 100)
    dut.aresetn.value = 0
    await ClockCycles(dut.aclk, 3)
    for _ in range(20):
        await RisingEdge(dut.aclk)
        for pin in (dut.m_axi_arvalid, dut.m_axi_awvalid, dut.m_axi_wvalid, dut.interrupt):
            assert int(pin.value) == 0
        for pin in (dut.s_axi_bvalid, dut.s_axi_rvalid):
            assert int(pin.value) == 0
    await bench.reset()
    await bench.run(Job.load("first"))
