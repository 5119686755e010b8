"""The event loop of the cycle simulator, compiled by numba.

Six actors (fetch's requests, fetch's assembler, load, store, gemm, vector) each have a cycle in
which they act next. The loop takes the earliest; actors of one cycle act in the order of
`REQUESTS` … `VECTOR`, which is the order in which the hardware decides: fetch before load on AR, a
read before a write on the channel, gemm before vector for a bank. Everything else that one actor
tells another becomes visible in a later cycle, so it is passed on as a time stamp.

Source: `docs/microarchitecture.md`, whose words (start, visible, CALC, REQUEST, PAD) are used here.
"""

from __future__ import annotations

from typing import Any

from codesign.accel.memory import burst_length
from codesign.sim.cycle_fetch import assemble, burst, request_program, wake
from codesign.sim.cycle_state import (
    ACTORS,
    ADDRESS,
    AR_CYCLE,
    ASSEMBLER,
    ASSEMBLER_SINCE,
    BANK,
    BUSY,
    DISPATCHED,
    FIRST_UNIT,
    GEMM,
    IDLE,
    IS_SYNC,
    ISSUES,
    LOAD,
    NEVER,
    PADS,
    PUSH,
    REQUESTS,
    ROW_BEATS,
    ROWS_Y,
    ROWS_Z,
    STORE,
    STRIDE_Y,
    STRIDE_Z,
    TAKEN,
    VECTOR,
    WAIT,
    WAIT_MEMORY,
    WAIT_TOKEN,
    Machine,
    State,
    compiled,
)

_burst_length = compiled(burst_length)


@compiled
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
        return int(max(cycle, s.drained_at[actor]))
    if row[BANK] >= 0:
        holder = 1 if actor == GEMM else 0
        cycle = max(cycle, s.bank_held[holder, row[BANK]])
    return cycle


@compiled
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
                wake(s, taker, max(visible, s.ready_at[taker]))


@compiled
def _count_headless(s: State, actor: int, since: int, until: int) -> None:
    """Count the cycles `since` … `until` - 1 in READY without a head."""
    if until <= since:
        return
    draining = min(max(s.drained_at[actor] - since, 0), until - since)
    s.counters[actor, WAIT_MEMORY if actor < GEMM else BUSY] += draining
    s.counters[actor, IDLE] += until - since - draining


@compiled
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


@compiled
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
            wake(s, ASSEMBLER, t + 1)
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


@compiled
def _ready_after(s: State, actor: int, cycle: int) -> None:
    s.ready_at[actor] = cycle
    s.in_work[actor] = 0
    s.wake[actor] = cycle


@compiled
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
            wake(s, other, max(done, s.ready_at[other]))
    _ready_after(s, actor, ready)
    _give(s, actor, row, done, unit_of, offsets, units)


@compiled
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


@compiled
def _calculate(m: Machine, s: State, calc: int, actor: int) -> None:
    """CALC in cycle `calc`; REQUEST follows, asserted while few enough bursts are in flight."""
    port = actor - LOAD
    s.counters[actor, BUSY] += 1
    s.cursor[port, 3] = calc + 1
    asserted = calc + 1
    if s.burst_count[port] >= m.outstanding:
        asserted = max(asserted, s.burst_done[port, s.burst_count[port] % m.outstanding] + 1)
    s.wake[actor] = asserted


@compiled
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
    first = burst(m, s, t + 1, address, beats, port)
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


@compiled
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


@compiled
def _is_complete(s: State, instructions: int) -> bool:
    if s.scalars[DISPATCHED] < instructions:
        return False
    for actor in range(FIRST_UNIT, ACTORS):
        if s.popped[actor] < s.pushed[actor] or s.in_work[actor]:
            return False
    return True


@compiled
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
            request_program(m, s, t, base, program_beats)
        elif actor == ASSEMBLER:
            assemble(m, s, t, table, order)
        elif s.in_work[actor]:
            _request(m, s, t, actor, table, order, unit_of, offsets, units)
        else:
            _start(m, s, t, actor, table, order, unit_of, offsets, units)
    if not _is_complete(s, instructions):
        return -1
    quiet = s.scalars[ASSEMBLER_SINCE]
    for actor in range(FIRST_UNIT, ACTORS):
        quiet = max(quiet, s.ready_at[actor], s.drained_at[actor])
    if s.burst_count[0]:
        quiet = max(quiet, s.drained_at[LOAD] + 1)
    for actor in range(FIRST_UNIT, ACTORS):
        _count_headless(s, actor, s.ready_at[actor], quiet + 1)
    s.counters[ASSEMBLER, IDLE] += quiet + 1 - s.scalars[ASSEMBLER_SINCE]
    return int(quiet) + 1
