"""The accelerator's pins in a simulator: a host on its register port, a memory on its DRAM port.

Runs inside the simulator; what it runs lies in the folder that the environment names.
"""

from __future__ import annotations

import itertools
import json
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.handle import SimHandleBase
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiSlave
from numpy.typing import NDArray

from codesign.accel.registers import ERROR_SHIFT, OFFSETS, Control, ErrorCode, Status

FOLDER = Path(os.environ.get("ACCEL_JOBS", "."))
MEMORY_BYTES = 1 << 17
RUN_LIMIT_CYCLES = 60_000
CLOCK_NS = 10


@dataclass(frozen=True)
class Job:
    """A program in memory, and the memory that the functional simulator leaves."""

    image: NDArray[np.uint8]
    program_base: int
    instructions: int
    dram: NDArray[np.uint8]
    bases: tuple[int, ...]
    expected: NDArray[np.uint8]

    @classmethod
    def load(cls, name: str) -> Job:
        with np.load(FOLDER / f"{name}.npz") as stored:
            return cls(
                image=stored["image"],
                program_base=int(stored["program_base"]),
                instructions=int(stored["instructions"]),
                dram=stored["dram"],
                bases=tuple(int(base) for base in stored["bases"]),
                expected=stored["expected"],
            )


class RefusalError(Exception):
    """The memory does not answer at this address: the AXI slave turns it into SLVERR."""


class DramModel:
    """Bytes; addresses in `refused_reads` and `refused_writes` raise."""

    def __init__(self) -> None:
        self.bytes = bytearray(MEMORY_BYTES)
        self.refused_reads: range = range(0)
        self.refused_writes: range = range(0)
        self.reads: list[int] = []
        self.writes: list[int] = []

    async def read(self, address: int, length: int) -> bytes:
        self.reads.append(address)
        if address in self.refused_reads:
            raise RefusalError
        return bytes(self.bytes[address : address + length])

    async def write(self, address: int, data: bytes) -> None:
        self.writes.append(address)
        if address in self.refused_writes:
            raise RefusalError
        self.bytes[address : address + len(data)] = data


class Bench:
    """Clock, reset, host and memory around the device."""

    def __init__(self, dut: SimHandleBase) -> None:
        self.dut = dut
        self.memory = DramModel()
        cocotb.start_soon(Clock(dut.aclk, CLOCK_NS, unit="ns").start())
        reset = {"reset": dut.aresetn, "reset_active_level": False}
        dut.aresetn.value = 0
        self.slave = AxiSlave(
            AxiBus.from_prefix(dut, "m_axi"), dut.aclk, target=self.memory, **reset
        )
        self.host = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axi"), dut.aclk, **reset)
        self.channels = {
            "ar": self.slave.read_if.ar_channel,
            "r": self.slave.read_if.r_channel,
            "aw": self.slave.write_if.aw_channel,
            "w": self.slave.write_if.w_channel,
            "b": self.slave.write_if.b_channel,
        }

    async def reset(self, cycles: int = 4) -> None:
        self.dut.aresetn.value = 0
        await ClockCycles(self.dut.aclk, cycles)
        self.dut.aresetn.value = 1
        await ClockCycles(self.dut.aclk, 3)

    async def write(self, register: str, value: int) -> None:
        await self.host.write_dword(OFFSETS[register], value & 0xFFFFFFFF)

    async def read(self, register: str) -> int:
        return int(await self.host.read_dword(OFFSETS[register]))

    async def read_wide(self, register: str) -> int:
        return await self.read(f"{register}_lo") | (await self.read(f"{register}_hi") << 32)

    async def start(self, job: Job, watchdog: int = 0) -> None:
        """Put a job into memory and registers and start it, with the interrupt enabled."""
        self.memory.bytes[: job.dram.size] = job.dram.tobytes()
        first = job.program_base
        self.memory.bytes[first : first + job.image.size] = job.image.tobytes()
        await self.write("instructions", job.instructions)
        await self.write("program_lo", job.program_base)
        await self.write("watchdog", watchdog)
        for index, base in enumerate(job.bases):
            await self.write(f"segment{index}_lo", base)
        await self.write("control", Control.START | Control.INTERRUPT_ENABLE)

    async def finish(self, limit: int = RUN_LIMIT_CYCLES) -> ErrorCode:
        """Wait for the interrupt and return the error code."""
        for _ in range(limit):
            await RisingEdge(self.dut.aclk)
            if int(self.dut.interrupt.value):
                break
        else:
            raise AssertionError(f"no interrupt in {limit} cycles")
        status = await self.read("status")
        assert status & Status.DONE
        return ErrorCode(status >> ERROR_SHIFT & 0xF)

    async def run(self, job: Job, watchdog: int = 0) -> int:
        """Run a job, hold the memory to what is expected, and return the cycles it took."""
        await self.start(job, watchdog)
        assert await self.finish() is ErrorCode.NONE
        assert not await self.read("status") & Status.RUNNING
        self.check(job)
        return await self.read_wide("cycles")

    def check(self, job: Job) -> None:
        found = np.frombuffer(bytes(self.memory.bytes[: job.dram.size]), dtype=np.uint8)
        wrong = np.flatnonzero(found != job.expected)
        assert not wrong.size, f"{wrong.size} bytes differ, the first at {int(wrong[0]):#x}"

    def stall(self, seed: int | None, channels: tuple[str, ...], share: float) -> None:
        """Hold channels back in `share` of the cycles: at random, or evenly without a seed."""
        for number, name in enumerate(channels):
            self.channels[name].set_pause_generator(_pauses(seed, number, share))


def _pauses(seed: int | None, number: int, share: float) -> Iterator[bool]:
    if seed is None:
        period = max(2, round(1 / (1 - share)))
        return itertools.cycle([True] * (period - 1) + [False])
    rng = random.Random(1000 * seed + number)
    return iter(lambda: rng.random() < share, None)


def record(name: str, value: int) -> None:
    """Leave a number for the test outside the simulator."""
    path = FOLDER / os.environ["ACCEL_RECORD"]
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    path.write_text(json.dumps({**known, name: value}), encoding="utf-8")
