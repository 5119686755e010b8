"""The cycle simulator: when everything happens, exactly, without moving any data.

Timing does not depend on data, so a program and the addresses of its segments are enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import final

import numpy as np

from codesign.accel.config import PAGE_BYTES, AccelConfig
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
        state = _initial_state(table, self._machine, self._config, burst_log)
        cycles = cycle_core.simulate(self._machine, state, program_base)
        if cycles < 0:
            raise _deadlock(program, state)
        return CycleResult(
            cycles=cycles,
            counters=_counters(program, self._config, cycles, state),
            timeline=Timeline(
                start=table[:, cycle_state.START].copy(), end=table[:, cycle_state.END].copy()
            ),
            bursts=state.log[: int(state.scalars[cycle_state.BURSTS])],
        )


def time_program(program: Program, config: AccelConfig) -> CycleResult:
    """Time a program whose segments lie one behind the other from address 0 on."""
    bases, end = [], 0
    for size in program.segments:
        bases.append(end)
        end += -(-size // PAGE_BYTES) * PAGE_BYTES
    return CycleSimulator(config).run(program, bases, program_base=end)


def program_cycles(program: Program, config: AccelConfig) -> int:
    """Return the cycles of `time_program`."""
    return time_program(program, config).cycles


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


def _initial_state(
    table: Array, machine: cycle_state.Machine, config: AccelConfig, burst_log: int
) -> cycle_state.State:
    """Return the state before cycle 0."""

    def zeros(*shape: int) -> Array:
        return np.zeros(shape, dtype=np.int64)

    actors = zeros(cycle_state.ACTORS, cycle_state.ACTOR_COLUMNS)
    actors[:, cycle_state.WAKE] = cycle_state.NEVER
    actors[cycle_state.REQUESTS, cycle_state.WAKE] = 0
    pairs, tokens = _pairs(table)
    chunks = -(-len(table) * machine.instruction_beats // machine.chunk_beats)
    return cycle_state.State(
        scalars=zeros(cycle_state.SCALARS),
        actors=actors,
        table=table,
        order=zeros(cycle_state.ACTORS, len(table)),
        pairs=pairs,
        tokens=zeros(tokens),
        held=zeros(2, config.acc_banks),
        chunk_first=zeros(chunks),
        ring=zeros(2 * machine.outstanding, cycle_state.RING_COLUMNS),
        open_rows=np.full(machine.banks, NO_ROW, dtype=np.int64),
        log=zeros(burst_log, 4),
    )


def _pairs(table: Array) -> tuple[Array, int]:
    """Return the pairs of units with the places of their tokens, and the number of all tokens."""
    pairs = np.zeros((cycle_state.UNITS**2, cycle_state.PAIR_COLUMNS), dtype=np.int64)
    total = 0
    for giver in Unit:
        of_giver = table[:, cycle_state.ACTOR] == cycle_state.FIRST_UNIT + giver
        pushes = table[of_giver, cycle_state.PUSH]
        for taker in Unit:
            pairs[cycle_state.UNITS * giver + taker, cycle_state.OFFSET] = total
            total += int(((pushes >> int(taker)) & 1).sum())
    return pairs, total


def _deadlock(program: Program, state: cycle_state.State) -> CodesignError:
    """Return the error that names every unit that waits, with its instruction."""
    problems = []
    for unit in Unit:
        actor = cycle_state.FIRST_UNIT + unit
        popped = state.actors[actor, cycle_state.POPPED]
        if popped == state.actors[actor, cycle_state.PUSHED]:
            continue
        index = int(state.order[actor, popped])
        missing = [
            other.name.lower()
            for other in sorted(program.instructions[index].wait)
            if _is_token_missing(state, other, unit)
        ]
        problems.append(
            Problem(
                what=f"the program deadlocks: {unit.name.lower()} waits for ever",
                found=f"instruction {index} waits for a token of {', '.join(missing)}",
                help="a token must be given by an instruction that can run before it is taken",
            )
        )
    return CodesignError(*problems)


def _is_token_missing(state: cycle_state.State, giver: Unit, taker: Unit) -> bool:
    pair = state.pairs[cycle_state.UNITS * giver + taker]
    return bool(pair[cycle_state.USED] == pair[cycle_state.GIVEN])


def _counters(
    program: Program, config: AccelConfig, cycles: int, state: cycle_state.State
) -> Counters:
    rows = {"fetch": cycle_state.ASSEMBLER}
    rows |= {unit.name.lower(): cycle_state.FIRST_UNIT + unit for unit in Unit}
    columns = dict(zip(STATES, cycle_state.COUNTER_COLUMNS, strict=True))
    values = {
        f"{unit}_{name}": int(state.actors[rows[unit], column])
        for unit in COUNTED_UNITS
        for name, column in columns.items()
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
