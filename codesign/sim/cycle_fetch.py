"""The memory channel of the cycle simulator, and the fetch unit on it."""

from __future__ import annotations

from typing import Any

from codesign.accel.memory import first_slot
from codesign.sim.cycle_state import (
    ACTOR,
    AR_CYCLE,
    ASSEMBLER,
    ASSEMBLER_SINCE,
    BURSTS,
    BUSY,
    BYTES_READ,
    BYTES_WRITTEN,
    CHANNEL_FREE,
    DISPATCHED,
    NEVER,
    POPPED,
    PUSHED,
    READY_AT,
    REQUESTED,
    REQUESTS,
    TAKEN,
    VISIBLE,
    WAIT_MEMORY,
    WAIT_TOKEN,
    WAKE,
    Machine,
    State,
    compiled,
)

_first_slot = compiled(first_slot)


@compiled
def burst(m: Machine, s: State, arrival: int, address: int, beats: int, write: int) -> int:
    """Let a burst arrive at the channel; return its first slot."""
    penalty = 0
    if m.banks:
        row = address // m.row_bytes
        bank = row % m.banks
        if s.open_rows[bank] != row:
            penalty = m.miss_cycles
        s.open_rows[bank] = row
    lead = m.write_lead if write else m.read_lead
    first = _first_slot(arrival, lead, m.latency, s.scalars[CHANNEL_FREE], penalty)
    s.scalars[CHANNEL_FREE] = first + beats * m.interval
    s.scalars[BYTES_WRITTEN if write else BYTES_READ] += beats * m.bus_bytes
    count = s.scalars[BURSTS]
    if count < s.log.shape[0]:
        s.log[count, 0] = arrival
        s.log[count, 1] = write
        s.log[count, 2] = address
        s.log[count, 3] = beats
    s.scalars[BURSTS] = count + 1
    return int(first)


@compiled
def wake(actor: Any, cycle: int) -> None:
    """Let the actor of a row of `State.actors` act in a cycle, unless it does so earlier."""
    if cycle < actor[WAKE]:
        actor[WAKE] = cycle


@compiled
def request_program(m: Machine, s: State, t: int, base: int) -> None:
    """fetch: request the next chunk where the buffer has room for it."""
    requested = s.scalars[REQUESTED]
    beats = min(m.chunk_beats, s.table.shape[0] * m.instruction_beats - requested)
    s.actors[REQUESTS, WAKE] = NEVER
    if beats == 0 or requested + beats - s.scalars[TAKEN] > m.buffer_beats:
        return
    first = burst(m, s, t + 1, base + requested * m.bus_bytes, beats, 0)
    s.chunk_first[requested // m.chunk_beats] = first
    s.scalars[REQUESTED] = requested + beats
    s.scalars[AR_CYCLE] = t
    s.actors[REQUESTS, WAKE] = t + 1
    if s.scalars[TAKEN] == requested:
        wake(s.actors[ASSEMBLER], first + 1)


@compiled
def assemble(m: Machine, s: State, t: int) -> None:
    """fetch: take a beat, or dispatch the instruction that is complete."""
    taken = s.scalars[TAKEN]
    index = s.scalars[DISPATCHED]
    waited = t - s.scalars[ASSEMBLER_SINCE]
    me = s.actors[ASSEMBLER]
    me[WAKE] = NEVER
    if taken == (index + 1) * m.instruction_beats:
        actor = s.table[index, ACTOR]
        unit = s.actors[actor]
        if unit[PUSHED] - unit[POPPED] == m.queue_depth:
            return
        me[WAIT_TOKEN] += waited
        s.order[actor, unit[PUSHED]] = index
        unit[PUSHED] += 1
        s.table[index, VISIBLE] = t + 1
        s.scalars[DISPATCHED] = index + 1
        if unit[READY_AT] < NEVER:
            wake(unit, t + 1)
    else:
        slot = _slot_of_beat(m, s, taken)
        if slot >= t:
            me[WAKE] = slot + 1 if slot < NEVER else NEVER
            return
        me[WAIT_MEMORY] += waited
        s.scalars[TAKEN] = taken + 1
        wake(s.actors[REQUESTS], t + 1)
    me[BUSY] += 1
    s.scalars[ASSEMBLER_SINCE] = t + 1
    if s.scalars[DISPATCHED] < s.table.shape[0]:
        me[WAKE] = t + 1


@compiled
def _slot_of_beat(m: Machine, s: State, beat: int) -> int:
    if beat >= s.scalars[REQUESTED]:
        return NEVER
    return int(s.chunk_first[beat // m.chunk_beats]) + beat % m.chunk_beats * m.interval
