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
    REQUESTED,
    REQUESTS,
    TAKEN,
    WAIT_MEMORY,
    WAIT_TOKEN,
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
def wake(s: State, actor: int, cycle: int) -> None:
    if cycle < s.wake[actor]:
        s.wake[actor] = cycle


@compiled
def request_program(m: Machine, s: State, t: int, base: int, program_beats: int) -> None:
    """fetch: request the next chunk where the buffer has room for it."""
    requested = s.scalars[REQUESTED]
    beats = min(m.chunk_beats, program_beats - requested)
    s.wake[REQUESTS] = NEVER
    if beats == 0 or requested + beats - s.scalars[TAKEN] > m.buffer_beats:
        return
    first = burst(m, s, t + 1, base + requested * m.bus_bytes, beats, 0)
    s.chunk_first[requested // m.chunk_beats] = first
    s.scalars[REQUESTED] = requested + beats
    s.scalars[AR_CYCLE] = t
    s.wake[REQUESTS] = t + 1
    if s.scalars[TAKEN] == requested:
        wake(s, ASSEMBLER, first + 1)


@compiled
def assemble(m: Machine, s: State, t: int, table: Any, order: Any) -> None:
    """fetch: take a beat, or dispatch the instruction that is complete."""
    taken = s.scalars[TAKEN]
    index = s.scalars[DISPATCHED]
    since = s.scalars[ASSEMBLER_SINCE]
    s.wake[ASSEMBLER] = NEVER
    if taken == (index + 1) * m.instruction_beats:
        actor = table[index, ACTOR]
        if s.pushed[actor] - s.popped[actor] == m.queue_depth:
            return
        s.counters[ASSEMBLER, WAIT_TOKEN] += t - since
        order[actor, s.pushed[actor]] = index
        s.pushed[actor] += 1
        s.visible[index] = t + 1
        s.scalars[DISPATCHED] = index + 1
        if s.ready_at[actor] < NEVER:
            wake(s, actor, t + 1)
    else:
        slot = _slot_of_beat(m, s, taken)
        if slot >= t:
            s.wake[ASSEMBLER] = slot + 1 if slot < NEVER else NEVER
            return
        s.counters[ASSEMBLER, WAIT_MEMORY] += t - since
        s.scalars[TAKEN] = taken + 1
        wake(s, REQUESTS, t + 1)
    s.counters[ASSEMBLER, BUSY] += 1
    s.scalars[ASSEMBLER_SINCE] = t + 1
    if s.scalars[DISPATCHED] < table.shape[0]:
        s.wake[ASSEMBLER] = t + 1


@compiled
def _slot_of_beat(m: Machine, s: State, beat: int) -> int:
    if beat >= s.scalars[REQUESTED]:
        return NEVER
    return int(s.chunk_first[beat // m.chunk_beats]) + beat % m.chunk_beats * m.interval
