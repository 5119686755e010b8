"""The whole accelerator behind a host and a memory that stalls, fails or never answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from codesign.accel.config import AccelConfig, Memory
from codesign.accel.encoding import encode_program, instruction_bytes
from codesign.accel.isa import Load, Store, Sync, Unit
from codesign.accel.registers import (
    ABI_VERSION,
    ERROR_SHIFT,
    IDENTITY,
    UNIT_NONE,
    Control,
    ErrorCode,
    Status,
    digest_word,
)
from codesign.sim.functional import FunctionalSimulator
from hardware.rtl.accelerator import Accelerator
from tests.support.axi import AxiHost, AxiMemory
from tests.support.programs import random_program
from tests.support.rtl import simulate

CONFIG = AccelConfig(
    batch=1,
    block_in=2,
    block_out=4,
    inp_depth=16,
    wgt_depth=16,
    vec_depth=16,
    acc_depth=16,
    out_depth=16,
    param_depth=8,
    lut_depth=256,
    vector_lanes=2,
    bus_bits=32,
    burst_beats=4,
    outstanding=2,
    queue_depth=2,
)
LIMIT = 20_000
PAGE = 4096

Scenario = Callable[[Any, AxiHost, AxiMemory], Awaitable[None]]


def run(config: AccelConfig, memory: dict[str, Any], scenario: Scenario) -> AxiMemory:
    accelerator = Accelerator(config)
    host, dram = AxiHost(accelerator), AxiMemory(accelerator, **memory)

    async def bench(ctx):
        await scenario(ctx, host, dram)

    simulate(accelerator, bench, background=(dram.serve,))
    return dram


def with_program(config, instructions, dram):
    """Return DRAM with the program's words behind it, and their address."""
    base = -(-len(dram) // PAGE) * PAGE
    words = np.frombuffer(encode_program(instructions, config), dtype=np.uint8)
    data = np.zeros(base + -(-len(words) // PAGE) * PAGE, dtype=np.uint8)
    data[: len(dram)] = dram
    data[base : base + len(words)] = words
    return data, base


CASES = {
    "lanes narrower than the tile": CONFIG,
    "one bank": replace(CONFIG, acc_banks=1, acc_bits=16),
    "tiles narrower than the bus": replace(CONFIG, bus_bits=128, inp_bits=4, wgt_bits=2),
    "1x1x1": replace(CONFIG, block_in=1, block_out=1, vector_lanes=1, burst_beats=1),
    "bare vector unit": replace(CONFIG, has_lut=False, has_multiplier=False, lut_depth=256),
}


def cases(quick: str) -> list[Any]:
    slow = [pytest.param(name, marks=pytest.mark.slow) for name in CASES if name != quick]
    return [quick, *slow]


@pytest.mark.parametrize("pace", [0.4, pytest.param(1.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", cases("lanes narrower than the tile"))
def test_random_programs_under_stalls_leave_what_the_functional_simulator_leaves(name, pace):
    config = CASES[name]
    rng = np.random.default_rng((len(name), int(10 * pace)))
    program, before, bases = random_program(rng, config, 8)
    data, base = with_program(config, program.instructions, before)
    status = None

    async def scenario(ctx, host, _):
        nonlocal status
        await host.start(ctx, len(program.instructions), base, bases)
        status = await host.finish(ctx, LIMIT)
        assert await host.read(ctx, "instructions_lo") == len(program.instructions)

    run(config, {"data": data, "rng": rng, "pace": pace}, scenario)
    wanted = before.copy()
    FunctionalSimulator(config).run(program, wanted, bases)
    assert status == Status.DONE
    assert np.array_equal(data[: len(before)], wanted)
    assert not np.array_equal(wanted, before)


LOAD = Load(memory=Memory.INP, sram=0, segment=0, address=64, size=(1, 1, 8))
STORE = Store(sram=0, segment=0, address=128, size=(1, 1, 8))
GOOD = (LOAD, STORE)


@dataclass
class Ending:
    """What the host reads after a run that failed, and after a good one behind it.

    `program` is the address of the program that failed.
    """

    status: int = 0
    address: int = 0
    program: int = 0
    waiting: int = 0
    afterwards: int = 0


def failing(instructions, words=None, **memory) -> Ending:
    """Run a bad program, then a good one on the same accelerator.

    `words` replaces instructions, by their index, with other bytes.
    """
    rng = np.random.default_rng(0)
    data, base = with_program(CONFIG, instructions, rng.integers(0, 256, PAGE, dtype=np.uint8))
    for index, word in (words or {}).items():
        first = base + index * instruction_bytes(CONFIG)
        data[first : first + len(word)] = np.frombuffer(word, dtype=np.uint8)
    good, good_base = with_program(CONFIG, GOOD, data)
    ending = Ending(program=base)

    async def scenario(ctx, host, dram):
        await host.start(ctx, len(instructions), base, (0,), watchdog=200)
        ending.status = await host.finish(ctx, LIMIT)
        ending.address = await host.read(ctx, "error_lo")
        ending.waiting = await host.read(ctx, "waiting")
        dram.broken = range(0)
        await host.start(ctx, len(GOOD), good_base, (0,))
        ending.afterwards = await host.finish(ctx, LIMIT)

    run(CONFIG, {"data": good, "rng": rng, **memory}, scenario)
    return ending


def code(status: int) -> ErrorCode:
    assert status & Status.DONE
    return ErrorCode(status >> ERROR_SHIFT)


def test_read_error_names_the_burst_and_the_next_run_is_good():
    ending = failing((LOAD, *[STORE] * 5), broken=range(256 + 16, 256 + 17))
    assert code(ending.status) is ErrorCode.READ
    assert ending.address == 256 + 16
    assert ending.afterwards == Status.DONE


def test_write_error_names_the_burst_and_the_next_run_is_good():
    ending = failing((STORE, LOAD), broken=range(512 + 16, 512 + 17))
    assert code(ending.status) is ErrorCode.WRITE
    assert ending.address == 512 + 16
    assert ending.afterwards == Status.DONE


@pytest.mark.parametrize("index", [2, *(pytest.param(i, marks=pytest.mark.slow) for i in (0, 4))])
def test_unknown_opcode_ends_the_run_and_is_named(index):
    ending = failing([LOAD] * 5, words={index: b"\x07" * instruction_bytes(CONFIG)})
    assert code(ending.status) is ErrorCode.OPCODE
    assert ending.address == ending.program + index * instruction_bytes(CONFIG)
    assert ending.waiting == UNIT_NONE
    assert ending.afterwards == Status.DONE


@pytest.mark.parametrize(
    "unit",
    [Unit.VECTOR, *(pytest.param(u, marks=pytest.mark.slow) for u in Unit if u != Unit.VECTOR)],
)
def test_watchdog_names_the_unit_that_waits_for_a_token(unit):
    neighbour = Unit.LOAD if unit is not Unit.LOAD else Unit.STORE
    waits = Sync(unit=unit, wait=frozenset({neighbour}))
    ending = failing([LOAD, *[waits] * 5])
    assert code(ending.status) is ErrorCode.WATCHDOG
    dispatched = 1 + CONFIG.queue_depth
    assert ending.address == ending.program + dispatched * instruction_bytes(CONFIG)
    assert ending.waiting == unit
    assert ending.afterwards == Status.DONE


@pytest.mark.slow
def test_watchdog_says_so_when_the_memory_is_dead_and_waits_for_it():
    data, base = with_program(CONFIG, GOOD, np.zeros(PAGE, dtype=np.uint8))

    async def scenario(ctx, host, dram):
        await host.start(ctx, 2, base, (0,), watchdog=50)
        await ctx.tick().until(host.pins.interrupt)
        status = await host.read(ctx, "status")
        assert code(status) is ErrorCode.WATCHDOG
        assert status & Status.RUNNING
        assert await host.read(ctx, "error_lo") == base
        await host.write(ctx, "control", Control.START)
        await ctx.tick().repeat(200)
        assert await host.read(ctx, "status") == status
        dram.dead = False
        assert await host.idle(ctx, LIMIT) == status - Status.RUNNING
        await host.start(ctx, 2, base, (0,), watchdog=50)
        assert await host.finish(ctx, LIMIT) == Status.DONE

    rng = np.random.default_rng(0)
    run(CONFIG, {"data": data, "rng": rng, "dead": True}, scenario)


def test_abort_at_any_time_and_the_next_run_is_good():
    program = (LOAD, *[STORE] * 4, Sync(unit=Unit.GEMM, wait=frozenset({Unit.LOAD})))
    rng = np.random.default_rng(0)
    data, base = with_program(CONFIG, program, rng.integers(0, 256, PAGE, dtype=np.uint8))
    good, good_base = with_program(CONFIG, GOOD, data)

    async def scenario(ctx, host, dram):
        for after in (1, 25, 36, 47, 70):
            await host.start(ctx, len(program), base, (0,))
            await ctx.tick().repeat(after)
            await host.write(ctx, "control", Control.ABORT)
            assert await host.idle(ctx, LIMIT) == 0
            assert not [*dram.reads, *dram.writes, *dram.answers]
        await host.start(ctx, len(GOOD), good_base, (0,))
        assert await host.finish(ctx, LIMIT) == Status.DONE

    run(CONFIG, {"data": good, "rng": rng, "pace": 0.5}, scenario)


def test_host_registers():
    async def scenario(ctx, host, _):
        assert await host.read(ctx, "id") == IDENTITY
        assert await host.read(ctx, "version") == ABI_VERSION
        assert await host.read(ctx, "digest") == digest_word(CONFIG)
        await host.write(ctx, "segment3_lo", 0x11223344)
        await host.write(ctx, "segment3_lo", 0xAABBCCDD, strobes=0b0101)
        assert await host.read(ctx, "segment3_lo") == 0x11BB33DD
        await host.write(ctx, "id", 5)
        assert await host.read(ctx, "id") == IDENTITY
        await host.write(ctx, "control", Control.INTERRUPT_ENABLE)
        assert await host.read(ctx, "control") == Control.INTERRUPT_ENABLE
        assert await host.read_at(ctx, 0xFFC) == 0

    rng = np.random.default_rng(0)
    run(CONFIG, {"data": np.zeros(PAGE, dtype=np.uint8), "rng": rng}, scenario)


@pytest.mark.slow
def test_start_during_a_run_changes_nothing():
    data, base = with_program(CONFIG, [LOAD] * 6, np.zeros(PAGE, dtype=np.uint8))

    async def scenario(ctx, host, _):
        await host.start(ctx, 6, base, (0,))
        await host.write(ctx, "control", Control.START | Control.INTERRUPT_ENABLE)
        assert await host.finish(ctx, LIMIT) == Status.DONE
        assert await host.read(ctx, "instructions_lo") == 6

    rng = np.random.default_rng(0)
    run(CONFIG, {"data": data, "rng": rng, "pace": 0.2}, scenario)
