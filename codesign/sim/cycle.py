"""The cycle simulator: when everything happens, exactly, without moving any data.

Timing does not depend on data, so a program and the addresses of its segments are enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import final

import numpy as np

from codesign.accel.config import AccelConfig
from codesign.accel.counters import COUNTED_UNITS, STATES, Counters
from codesign.accel.encoding import instruction_beats
from codesign.accel.isa import Gemm, Unit
from codesign.accel.memory import NO_ROW, DramRule
from codesign.accel.program import Program
from codesign.accel.timing import (
    READ_LEAD,
    WRITE_LEAD,
    fetch_buffer_beats,
    fetch_chunk_beats,
    gemm_latency,
    vector_latency,
)
from codesign.diagnostics import CodesignError, Problem
from codesign.dtypes import Array
from codesign.sim import cycle_core, cycle_state
from codesign.sim.cycle_decode import instruction_table
from codesign.sim.simulator import Timeline

_UNITS = len(Unit)


@final
@dataclass(frozen=True, slots=True, eq=False)
class CycleResult:
    """What a run took; `bursts` is int64[(n, 4)]: arrival, 0 read or 1 write, address, beats."""

    cycles: int
    counters: Counters
    timeline: Timeline
    bursts: Array


@final
class CycleSimulator:
    """Times programs of one configuration."""

    def __init__(self, config: AccelConfig) -> None:
        self._config = config
        self._machine = machine(config)

    @property
    def config(self) -> AccelConfig:
        """The configuration that is simulated."""
        return self._config

    def run(
        self,
        program: Program,
        bases: Sequence[int],
        *,
        program_base: int = 0,
        burst_log: int = 0,
    ) -> CycleResult:
        """Return the cycles, counters and timeline of a program.

        `bases` are the byte addresses of the segments; `program_base` is that of the program, which
        matters only where DRAM rows are modelled. The first `burst_log` bursts are recorded.

        Raises
        ------
        CodesignError
            A deadlock: a unit waits for a token, or for a bank, that never comes.
        """
        table = instruction_table(program.instructions, self._config, bases)
        state, offsets = _initial_state(table, self._machine, self._config, burst_log)
        order = np.zeros((cycle_state.ACTORS, max(1, len(table))), dtype=np.int64)
        unit_of, actor_of = _unit_maps()
        cycles = int(
            cycle_core.simulate(
                self._machine, state, table, order, program_base, unit_of, offsets, actor_of
            )
        )
        if cycles < 0:
            raise _deadlock(program, state, order)
        return CycleResult(
            cycles=cycles,
            counters=_counters(program, self._config, cycles, state),
            timeline=Timeline(start=state.start, end=state.end),
            bursts=state.log[: int(state.scalars[cycle_state.BURSTS])],
        )


def machine(config: AccelConfig) -> cycle_state.Machine:
    """Return the numbers of a configuration that time depends on."""
    rule = DramRule.of(config)
    beats = instruction_beats(config)
    return cycle_state.Machine(
        queue_depth=config.queue_depth,
        outstanding=config.outstanding,
        burst_beats=config.burst_beats,
        bus_bytes=config.bus_bytes,
        chunk_beats=fetch_chunk_beats(config, beats),
        buffer_beats=fetch_buffer_beats(beats),
        instruction_beats=beats,
        gemm_latency=gemm_latency(config),
        vector_latency=vector_latency(config),
        read_lead=READ_LEAD,
        write_lead=WRITE_LEAD,
        latency=rule.latency,
        interval=rule.interval,
        banks=rule.banks,
        row_bytes=rule.row_bytes,
        miss_cycles=rule.miss_cycles,
    )


def _unit_maps() -> tuple[Array, Array]:
    unit_of = np.zeros(cycle_state.ACTORS, dtype=np.int64)
    actor_of = np.zeros(_UNITS, dtype=np.int64)
    for unit, actor in cycle_state.ACTOR_OF_UNIT.items():
        unit_of[actor] = unit
        actor_of[unit] = actor
    return unit_of, actor_of


def _initial_state(
    table: Array, machine: cycle_state.Machine, config: AccelConfig, burst_log: int
) -> tuple[cycle_state.State, Array]:
    """Return the state before cycle 0, and where the tokens of each pair of units lie in it."""

    def zeros(*shape: int) -> Array:
        return np.zeros(shape, dtype=np.int64)

    offsets, tokens = _token_offsets(table)
    instructions = len(table)
    wake = np.full(cycle_state.ACTORS, cycle_state.NEVER, dtype=np.int64)
    wake[cycle_state.REQUESTS] = 0
    chunks = -(-instructions * machine.instruction_beats // machine.chunk_beats)
    state = cycle_state.State(
        scalars=zeros(cycle_state.SCALARS),
        wake=wake,
        counters=zeros(cycle_state.ACTORS, cycle_state.COUNTERS),
        pushed=zeros(cycle_state.ACTORS),
        popped=zeros(cycle_state.ACTORS),
        ready_at=zeros(cycle_state.ACTORS),
        in_work=zeros(cycle_state.ACTORS),
        visible=zeros(instructions),
        start=np.full(instructions, -1, dtype=np.int64),
        end=np.full(instructions, -1, dtype=np.int64),
        tokens=zeros(tokens + 1),
        given=zeros(_UNITS, _UNITS),
        taken=zeros(_UNITS, _UNITS),
        drained_at=zeros(cycle_state.ACTORS),
        bank_held=zeros(2, config.acc_banks),
        chunk_first=zeros(chunks + 1),
        burst_done=zeros(2, machine.outstanding),
        burst_slots=zeros(machine.outstanding, 2),
        burst_count=zeros(2),
        cursor=zeros(2, 4),
        open_rows=np.full(max(1, machine.banks), NO_ROW, dtype=np.int64),
        log=zeros(burst_log, 4),
    )
    return state, offsets


def _token_offsets(table: Array) -> tuple[Array, int]:
    """Return [giver, taker] -> first token of the pair, and the number of all tokens."""
    offsets = np.zeros((_UNITS, _UNITS), dtype=np.int64)
    total = 0
    for giver, actor in cycle_state.ACTOR_OF_UNIT.items():
        pushes = table[table[:, cycle_state.ACTOR] == actor, cycle_state.PUSH]
        for taker in Unit:
            offsets[giver, taker] = total
            total += int(((pushes >> int(taker)) & 1).sum())
    return offsets, total


def _deadlock(program: Program, state: cycle_state.State, order: Array) -> CodesignError:
    """Return the error that names every unit that waits, with its instruction."""
    problems = []
    for unit, actor in cycle_state.ACTOR_OF_UNIT.items():
        if state.popped[actor] == state.pushed[actor]:
            continue
        index = int(order[actor, state.popped[actor]])
        missing = [
            other.name.lower()
            for other in sorted(program.instructions[index].wait)
            if state.taken[other, unit] == state.given[other, unit]
        ]
        problems.append(
            Problem(
                what=f"the program deadlocks: {unit.name.lower()} waits for ever",
                found=f"instruction {index} waits for a token of {', '.join(missing)}",
                help="a token must be given by an instruction that can run before it is taken",
            )
        )
    return CodesignError(*problems)


def _counters(
    program: Program, config: AccelConfig, cycles: int, state: cycle_state.State
) -> Counters:
    rows = {"fetch": cycle_state.ASSEMBLER}
    rows |= {unit.name.lower(): actor for unit, actor in cycle_state.ACTOR_OF_UNIT.items()}
    values = {
        f"{unit}_{name}": int(state.counters[rows[unit], column])
        for unit in COUNTED_UNITS
        for column, name in enumerate(STATES)
    }
    products = sum(prod(each.extents) for each in program.instructions if isinstance(each, Gemm))
    return Counters(
        cycles=cycles,
        bytes_read=int(state.scalars[cycle_state.BYTES_READ]),
        bytes_written=int(state.scalars[cycle_state.BYTES_WRITTEN]),
        macs=products * config.macs,
        instructions=len(program.instructions),
        **values,
    )
