"""The event loop of the cycle simulator, compiled by numba.

Six actors (fetch's requests, fetch's assembler, load, store, gemm, vector) each have a cycle in
which they act next. The loop takes the earliest; actors of one cycle act in the order of
`REQUESTS` … `VECTOR`, which is the order in which the hardware decides: fetch before load on AR, a
read before a write on the channel, gemm before vector for a bank. Everything else that one actor
tells another becomes visible in a later cycle, so it is passed on as a time stamp.

Source: `docs/microarchitecture.md`, whose words (start, visible, CALC, REQUEST, PAD) are used here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

import numba

from codesign.accel.isa import Unit
from codesign.accel.memory import burst_length, first_slot
from codesign.accel.timing import READ_LEAD, WRITE_LEAD

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    compiled: Callable[_P, _R] = numba.njit(cache=True)(function)
    return compiled


NEVER: Final = 1 << 62
"""The time of an event that nothing has caused yet."""

# --- actors, in the order within a cycle --------------------------------------------------------

REQUESTS: Final = 0
ASSEMBLER: Final = 1
FIRST_UNIT: Final = 2
LOAD: Final = 2
STORE: Final = 3
GEMM: Final = 4
VECTOR: Final = 5
ACTORS: Final = 6

ACTOR_OF_UNIT: Final = {
    Unit.LOAD: LOAD,
    Unit.STORE: STORE,
    Unit.GEMM: GEMM,
    Unit.VECTOR: VECTOR,
}

# --- counters, one row per actor ----------------------------------------------------------------

BUSY: Final = 0
WAIT_TOKEN: Final = 1
WAIT_MEMORY: Final = 2
IDLE: Final = 3
COUNTERS: Final = 4

# --- instruction columns ------------------------------------------------------------------------

ACTOR: Final = 0
IS_SYNC: Final = 1
WAIT: Final = 2
PUSH: Final = 3
ISSUES: Final = 4
"""gemm, vector: cycles of issue."""
BANK: Final = 5
"""gemm, vector: accumulator bank that is held, or -1."""
PADS: Final = 6
"""load: padding tiles."""
ADDRESS: Final = 7
"""load, store: byte address of the box; `STRIDE_*` are bytes too."""
ROWS_Z: Final = 8
ROWS_Y: Final = 9
ROW_BEATS: Final = 10
STRIDE_Z: Final = 11
STRIDE_Y: Final = 12
COLUMNS: Final = 13

# --- scalar state -------------------------------------------------------------------------------

REQUESTED: Final = 0
"""Beats of the program that were requested."""
TAKEN: Final = 1
"""Beats of the program that the assembler has taken."""
DISPATCHED: Final = 2
"""Instructions written to a queue."""
ASSEMBLER_SINCE: Final = 3
"""First cycle of the assembler that is not counted yet."""
AR_CYCLE: Final = 4
"""Last cycle in which AR was granted."""
CHANNEL_FREE: Final = 5
BYTES_READ: Final = 6
BYTES_WRITTEN: Final = 7
BURSTS: Final = 8
SCALARS: Final = 9


class Machine(NamedTuple):
    """The numbers of a configuration that time depends on."""

    queue_depth: int
    outstanding: int
    burst_beats: int
    bus_bytes: int
    chunk_beats: int
    buffer_beats: int
    instruction_beats: int
    gemm_latency: int
    vector_latency: int
    latency: int
    interval: int
    banks: int
    row_bytes: int
    miss_cycles: int


class State(NamedTuple):
    """Everything that changes; all arrays are int64 and are changed in place."""

    scalars: Any
    wake: Any
    """[actor]: the cycle in which it acts next."""
    counters: Any
    """[actor, counter]: the fetch actors share row `ASSEMBLER`."""
    pushed: Any
    """[actor]: entries ever written to its queue."""
    popped: Any
    ready_at: Any
    """[actor]: the cycle from which the unit is READY; `NEVER` while it is at work."""
    in_work: Any
    """[actor]: 1 while the unit is between start and READY and waits for AR or AW."""
    visible: Any
    """[instruction]: the cycle from which its unit sees it in the queue."""
    start: Any
    """[instruction]: the cycle of its start, or -1."""
    end: Any
    """[instruction]: the cycle in which its tokens are visible."""
    tokens: Any
    """[offset + n]: the cycle from which the n-th token of a pair is visible."""
    given: Any
    """[giver, taker]: tokens ever given; `taken` likewise."""
    taken: Any
    drained_at: Any
    """[actor]: the cycle from which its pipeline is empty, or no burst of it is in flight."""
    bank_held: Any
    """[0 gemm or 1 vector, bank]: the cycle from which the bank is not held by that unit."""
    chunk_first: Any
    """[chunk of the program]: slot of its first beat, or -1."""
    burst_done: Any
    """[0 load or 1 store, n % outstanding]: last cycle in which the n-th burst is in flight."""
    burst_slots: Any
    """[n % outstanding, 2]: first slot and beats of the n-th load burst."""
    burst_count: Any
    """[0 load or 1 store]: bursts ever granted."""
    cursor: Any
    """[0 load or 1 store, z y beat since]: place in the box; cycle REQUEST was entered."""
    open_rows: Any
    log: Any
    """[burst, 4]: arrival, 0 read or 1 write, address, beats; no rows where it is not wanted."""


_burst_length = _compiled(burst_length)
_first_slot = _compiled(first_slot)


@_compiled
def _burst(m: Machine, s: State, arrival: int, address: int, beats: int, write: int) -> int:
    """Let a burst arrive at the channel; return its first slot."""
    penalty = 0
    if m.banks:
        row = address // m.row_bytes
        bank = row % m.banks
        if s.open_rows[bank] != row:
            penalty = m.miss_cycles
        s.open_rows[bank] = row
    lead = WRITE_LEAD if write else READ_LEAD
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


@_compiled
def _wake(s: State, actor: int, cycle: int) -> None:
    if cycle < s.wake[actor]:
        s.wake[actor] = cycle


@_compiled
def _request_program(m: Machine, s: State, t: int, base: int, program_beats: int) -> None:
    """fetch: request the next chunk where the buffer has room for it."""
    requested = s.scalars[REQUESTED]
    beats = min(m.chunk_beats, program_beats - requested)
    s.wake[REQUESTS] = NEVER
    if beats == 0 or requested + beats - s.scalars[TAKEN] > m.buffer_beats:
        return
    first = _burst(m, s, t + 1, base + requested * m.bus_bytes, beats, 0)
    s.chunk_first[requested // m.chunk_beats] = first
    s.scalars[REQUESTED] = requested + beats
    s.scalars[AR_CYCLE] = t
    s.wake[REQUESTS] = t + 1
    if s.scalars[TAKEN] == requested:
        _wake(s, ASSEMBLER, first + 1)


@_compiled
def _assemble(m: Machine, s: State, t: int, table: Any, order: Any) -> None:
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
            _wake(s, actor, t + 1)
    else:
        slot = _slot_of_beat(m, s, taken)
        if slot >= t:
            s.wake[ASSEMBLER] = slot + 1 if slot < NEVER else NEVER
            return
        s.counters[ASSEMBLER, WAIT_MEMORY] += t - since
        s.scalars[TAKEN] = taken + 1
        _wake(s, REQUESTS, t + 1)
    s.counters[ASSEMBLER, BUSY] += 1
    s.scalars[ASSEMBLER_SINCE] = t + 1
    if s.scalars[DISPATCHED] < table.shape[0]:
        s.wake[ASSEMBLER] = t + 1


@_compiled
def _slot_of_beat(m: Machine, s: State, beat: int) -> int:
    if beat >= s.scalars[REQUESTED]:
        return NEVER
    return int(s.chunk_first[beat // m.chunk_beats]) + beat % m.chunk_beats * m.interval


@_compiled
def _start_cycle(s: State, actor: int, row: Any, unit_of: Any, offsets: Any) -> int:
    """Return the first cycle in which the visible head `row` can start, or `NEVER`."""
    cycle: int = s.ready_at[actor]
    mine = unit_of[actor]
    for other in range(4):
        if row[WAIT] >> other & 1:
            if s.taken[other, mine] == s.given[other, mine]:
                return NEVER
            cycle = max(cycle, s.tokens[offsets[other, mine] + s.taken[other, mine]])
    if row[IS_SYNC]:
        cycle = max(cycle, s.drained_at[actor])
        return cycle
    if row[BANK] >= 0:
        holder = 1 if actor == GEMM else 0
        cycle = max(cycle, s.bank_held[holder, row[BANK]])
    return cycle


@_compiled
def _give(
    s: State, actor: int, row: Any, visible: int, unit_of: Any, offsets: Any, units: Any
) -> None:
    mine = unit_of[actor]
    for other in range(4):
        if row[PUSH] >> other & 1:
            s.tokens[offsets[mine, other] + s.given[mine, other]] = visible
            s.given[mine, other] += 1
            taker = units[other]
            if s.ready_at[taker] < NEVER:
                _wake(s, taker, max(visible, s.ready_at[taker]))


@_compiled
def _count_headless(s: State, actor: int, since: int, until: int) -> None:
    """Count the cycles `since` … `until` - 1 in READY without a head."""
    if until <= since:
        return
    draining = min(max(s.drained_at[actor] - since, 0), until - since)
    s.counters[actor, WAIT_MEMORY if actor < GEMM else BUSY] += draining
    s.counters[actor, IDLE] += until - since - draining


@_compiled
def _padding_end(m: Machine, s: State, t: int, pads: int) -> int:
    """Return the cycle after the last padding tile; tiles are written from `t` on.

    A load beat on R in cycle c keeps the write port in c + 1.
    """
    end = t + pads
    count = s.burst_count[0]
    for n in range(max(0, count - m.outstanding), count):
        first = s.burst_slots[n % m.outstanding, 0]
        for beat in range(s.burst_slots[n % m.outstanding, 1]):
            held = first + beat * m.interval + 1
            if held >= end:
                return end
            if held >= t:
                end += 1
    return end


@_compiled
def _start(
    m: Machine,
    s: State,
    t: int,
    actor: int,
    table: Any,
    order: Any,
    unit_of: Any,
    offsets: Any,
    units: Any,
) -> None:
    """READY: start the head of the queue if all it needs is there."""
    s.wake[actor] = NEVER
    if s.popped[actor] == s.pushed[actor]:
        return
    index = order[actor, s.popped[actor]]
    row = table[index]
    visible = max(s.visible[index], s.ready_at[actor])
    cycle = max(visible, _start_cycle(s, actor, row, unit_of, offsets))
    if cycle > t:
        s.wake[actor] = cycle
        return
    _count_headless(s, actor, s.ready_at[actor], visible)
    s.counters[actor, WAIT_TOKEN] += t - visible
    s.counters[actor, BUSY] += 1
    if s.pushed[actor] - s.popped[actor] == m.queue_depth:
        blocked = s.scalars[DISPATCHED]
        if blocked < table.shape[0] and s.scalars[TAKEN] == (blocked + 1) * m.instruction_beats:
            _wake(s, ASSEMBLER, t + 1)
    s.popped[actor] += 1
    s.start[index] = t
    mine = unit_of[actor]
    for other in range(4):
        if row[WAIT] >> other & 1:
            s.taken[other, mine] += 1
    if row[IS_SYNC]:
        _ready_after(s, actor, t + 1)
        s.end[index] = t + 1
        _give(s, actor, row, t + 1, unit_of, offsets, units)
    elif actor in (GEMM, VECTOR):
        _issue(m, s, t, actor, index, row, unit_of, offsets, units)
    else:
        _begin_box(m, s, t, actor, row)


@_compiled
def _ready_after(s: State, actor: int, cycle: int) -> None:
    s.ready_at[actor] = cycle
    s.in_work[actor] = 0
    s.wake[actor] = cycle


@_compiled
def _issue(
    m: Machine,
    s: State,
    t: int,
    actor: int,
    index: int,
    row: Any,
    unit_of: Any,
    offsets: Any,
    units: Any,
) -> None:
    """gemm, vector: the whole instruction follows from its start."""
    last = t + row[ISSUES]
    done = last + (m.gemm_latency if actor == GEMM else m.vector_latency)
    ready = last + 1 if actor == GEMM else done
    s.counters[actor, BUSY] += ready - t - 1
    s.drained_at[actor] = done
    s.end[index] = done
    if row[BANK] >= 0:
        s.bank_held[0 if actor == GEMM else 1, row[BANK]] = done
        other = VECTOR if actor == GEMM else GEMM
        if s.ready_at[other] < NEVER:
            _wake(s, other, max(done, s.ready_at[other]))
    _ready_after(s, actor, ready)
    _give(s, actor, row, done, unit_of, offsets, units)


@_compiled
def _begin_box(m: Machine, s: State, t: int, actor: int, row: Any) -> None:
    """load, store: PAD and the first CALC follow the start."""
    port = actor - LOAD
    calc = t + 1
    if row[PADS]:
        calc = _padding_end(m, s, t + 1, row[PADS])
        s.counters[actor, BUSY] += row[PADS]
        s.counters[actor, WAIT_MEMORY] += calc - t - 1 - row[PADS]
    s.cursor[port, 0] = 0
    s.cursor[port, 1] = 0
    s.cursor[port, 2] = 0
    s.ready_at[actor] = NEVER
    s.in_work[actor] = 1
    _calculate(m, s, calc, actor)


@_compiled
def _calculate(m: Machine, s: State, calc: int, actor: int) -> None:
    """CALC in cycle `calc`; REQUEST follows, asserted while few enough bursts are in flight."""
    port = actor - LOAD
    s.counters[actor, BUSY] += 1
    s.cursor[port, 3] = calc + 1
    asserted = calc + 1
    if s.burst_count[port] >= m.outstanding:
        asserted = max(asserted, s.burst_done[port, s.burst_count[port] % m.outstanding] + 1)
    s.wake[actor] = asserted


@_compiled
def _request(
    m: Machine,
    s: State,
    t: int,
    actor: int,
    table: Any,
    order: Any,
    unit_of: Any,
    offsets: Any,
    units: Any,
) -> None:
    """REQUEST is asserted in cycle `t`: it is granted unless fetch takes AR."""
    if actor == LOAD and s.scalars[AR_CYCLE] == t:
        s.wake[actor] = t + 1
        return
    port = actor - LOAD
    index = order[actor, s.popped[actor] - 1]
    row = table[index]
    z, y, done_beats, since = s.cursor[port]
    s.counters[actor, WAIT_MEMORY] += t - since
    s.counters[actor, BUSY] += 1
    address = row[ADDRESS] + z * row[STRIDE_Z] + y * row[STRIDE_Y] + done_beats * m.bus_bytes
    beats = _burst_length(address, row[ROW_BEATS] - done_beats, m.bus_bytes, m.burst_beats)
    first = _burst(m, s, t + 1, address, beats, port)
    last = first + (beats - 1) * m.interval + port
    slot = s.burst_count[port] % m.outstanding
    s.burst_done[port, slot] = last
    if actor == LOAD:
        s.burst_slots[slot, 0] = first
        s.burst_slots[slot, 1] = beats
    s.burst_count[port] += 1
    s.drained_at[actor] = last + 1
    if _advance(s, port, row, done_beats + beats):
        _calculate(m, s, t + 1, actor)
        return
    visible = last + 1 if actor == STORE else last + 2
    s.end[index] = visible
    _ready_after(s, actor, t + 1)
    _give(s, actor, row, visible, unit_of, offsets, units)


@_compiled
def _advance(s: State, port: int, row: Any, done_beats: int) -> bool:
    """Move to the next burst of the box; return False after the last."""
    s.cursor[port, 2] = done_beats
    if done_beats < row[ROW_BEATS]:
        return True
    s.cursor[port, 2] = 0
    s.cursor[port, 1] += 1
    if s.cursor[port, 1] < row[ROWS_Y]:
        return True
    s.cursor[port, 1] = 0
    s.cursor[port, 0] += 1
    return bool(s.cursor[port, 0] < row[ROWS_Z])


@_compiled
def _is_complete(s: State, instructions: int) -> bool:
    if s.scalars[DISPATCHED] < instructions:
        return False
    for actor in range(FIRST_UNIT, ACTORS):
        if s.popped[actor] < s.pushed[actor] or s.in_work[actor]:
            return False
    return True


@_compiled
def simulate(
    m: Machine, s: State, table: Any, order: Any, base: int, unit_of: Any, offsets: Any, units: Any
) -> int:
    """Run a program to its end; return its cycles, or -1 where nothing can happen any more.

    `table` is [instruction, column]; `order` is scratch of [actor, instruction]; `unit_of` maps an
    actor to its unit's code and `units` back; `offsets` is [giver, taker] into `s.tokens`.
    """
    instructions = table.shape[0]
    program_beats = instructions * m.instruction_beats
    while True:
        actor = 0
        for each in range(1, ACTORS):
            if s.wake[each] < s.wake[actor]:
                actor = each
        t = s.wake[actor]
        if t == NEVER:
            break
        if actor == REQUESTS:
            _request_program(m, s, t, base, program_beats)
        elif actor == ASSEMBLER:
            _assemble(m, s, t, table, order)
        elif s.in_work[actor]:
            _request(m, s, t, actor, table, order, unit_of, offsets, units)
        else:
            _start(m, s, t, actor, table, order, unit_of, offsets, units)
    if not _is_complete(s, instructions):
        return -1
    quiet = s.scalars[ASSEMBLER_SINCE]
    for actor in range(FIRST_UNIT, ACTORS):
        quiet = max(quiet, s.ready_at[actor], s.drained_at[actor])
    for actor in range(FIRST_UNIT, ACTORS):
        _count_headless(s, actor, s.ready_at[actor], quiet + 1)
    s.counters[ASSEMBLER, IDLE] += quiet + 1 - s.scalars[ASSEMBLER_SINCE]
    return int(quiet) + 1
