"""The event loop of the cycle simulator, compiled by numba.

Six actors (fetch's requests, fetch's assembler, load, gemm, vector, store) each have a cycle in
which they act next. The loop takes the earliest; actors of one cycle act in the order of
`REQUESTS` … `STORE`, which is the order in which the hardware decides: fetch before load on AR, a
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
    BEATS,
    BOX_BEAT,
    BOX_Y,
    BOX_Z,
    BUSY,
    DISPATCHED,
    DONE,
    DRAINED_AT,
    END,
    FIRST,
    FIRST_UNIT,
    GEMM,
    GIVEN,
    GRANTED,
    IDLE,
    IS_SYNC,
    ISSUES,
    LOAD,
    NEVER,
    OFFSET,
    PADS,
    POPPED,
    PUSH,
    PUSHED,
    READY_AT,
    REQUESTED_AT,
    REQUESTS,
    ROW_BEATS,
    ROWS_Y,
    ROWS_Z,
    START,
    STORE,
    STRIDE_Y,
    STRIDE_Z,
    TAKEN,
    UNITS,
    USED,
    VECTOR,
    VISIBLE,
    WAIT,
    WAIT_MEMORY,
    WAIT_TOKEN,
    WAKE,
    Machine,
    State,
    compiled,
)

_burst_length = compiled(burst_length)


@compiled
def _start_cycle(s: State, actor: int, row: Any) -> int:
    """Return the first cycle in which the visible head `row` can start, or `NEVER`."""
    cycle: int = s.actors[actor, READY_AT]
    for other in range(UNITS):
        if row[WAIT] >> other & 1:
            pair = s.pairs[UNITS * other + actor - FIRST_UNIT]
            if pair[USED] == pair[GIVEN]:
                return NEVER
            cycle = max(cycle, s.tokens[pair[OFFSET] + pair[USED]])
    if row[IS_SYNC]:
        return int(max(cycle, s.actors[actor, DRAINED_AT]))
    if row[BANK] >= 0:
        cycle = max(cycle, s.held[1 if actor == GEMM else 0, row[BANK]])
    return cycle


@compiled
def _take(s: State, actor: int, row: Any) -> None:
    for other in range(UNITS):
        if row[WAIT] >> other & 1:
            s.pairs[UNITS * other + actor - FIRST_UNIT, USED] += 1


@compiled
def _finish(s: State, actor: int, row: Any, visible: int, ready: int) -> None:
    """End an instruction: READY from cycle `ready` on, its tokens visible from `visible` on."""
    s.actors[actor, READY_AT] = ready
    s.actors[actor, WAKE] = ready
    row[END] = visible
    for other in range(UNITS):
        if row[PUSH] >> other & 1:
            pair = s.pairs[UNITS * (actor - FIRST_UNIT) + other]
            s.tokens[pair[OFFSET] + pair[GIVEN]] = visible
            pair[GIVEN] += 1
            _wake_ready(s.actors[FIRST_UNIT + other], visible)


@compiled
def _wake_ready(unit: Any, cycle: int) -> None:
    """Let a unit look again in a cycle, or when it is READY; a box under way is not disturbed."""
    if unit[READY_AT] < NEVER:
        wake(unit, max(cycle, unit[READY_AT]))


@compiled
def _count_headless(unit: Any, draining: int, until: int) -> None:
    """Count the cycles in READY without a head, up to and without `until`.

    `draining` is the counter of those in which the pipeline is not empty.
    """
    cycles = until - unit[READY_AT]
    drained = min(max(unit[DRAINED_AT] - unit[READY_AT], 0), cycles)
    unit[draining] += drained
    unit[IDLE] += cycles - drained


@compiled
def _draining_counter(actor: int) -> int:
    return BUSY if actor in (GEMM, VECTOR) else WAIT_MEMORY


@compiled
def _start(m: Machine, s: State, t: int, actor: int) -> None:
    """READY: start the head of the queue if all it needs is there."""
    me = s.actors[actor]
    me[WAKE] = NEVER
    if me[POPPED] == me[PUSHED]:
        return
    row = s.table[s.order[actor, me[POPPED]]]
    visible = max(row[VISIBLE], me[READY_AT])
    cycle = max(visible, _start_cycle(s, actor, row))
    if cycle > t:
        me[WAKE] = cycle
        return
    _count_headless(me, _draining_counter(actor), visible)
    me[WAIT_TOKEN] += t - visible
    me[BUSY] += 1
    if me[PUSHED] - me[POPPED] == m.queue_depth:
        blocked = s.scalars[DISPATCHED]
        if blocked < s.table.shape[0] and s.scalars[TAKEN] == (blocked + 1) * m.instruction_beats:
            wake(s.actors[ASSEMBLER], t + 1)
    me[POPPED] += 1
    row[START] = t
    _take(s, actor, row)
    if row[IS_SYNC]:
        _finish(s, actor, row, t + 1, t + 1)
    elif actor in (GEMM, VECTOR):
        _issue(m, s, t, actor, row)
    else:
        _begin_box(m, s, t, actor, row)


@compiled
def _issue(m: Machine, s: State, t: int, actor: int, row: Any) -> None:
    """gemm, vector: the whole instruction follows from its start."""
    last = t + row[ISSUES]
    done = last + (m.gemm_latency if actor == GEMM else m.vector_latency)
    ready = last + 1 if actor == GEMM else done
    s.actors[actor, BUSY] += ready - t - 1
    s.actors[actor, DRAINED_AT] = done
    if row[BANK] >= 0:
        s.held[0 if actor == GEMM else 1, row[BANK]] = done
        _wake_ready(s.actors[VECTOR if actor == GEMM else GEMM], done)
    _finish(s, actor, row, done, ready)


@compiled
def _begin_box(m: Machine, s: State, t: int, actor: int, row: Any) -> None:
    """load, store: PAD and the first CALC follow the start."""
    me = s.actors[actor]
    calc = t + 1
    if row[PADS]:
        calc = _padding_end(m, s, t + 1, row[PADS])
        me[BUSY] += row[PADS]
        me[WAIT_MEMORY] += calc - t - 1 - row[PADS]
    me[BOX_Z] = 0
    me[BOX_Y] = 0
    me[BOX_BEAT] = 0
    me[READY_AT] = NEVER
    _calculate(m, s, calc, actor)


@compiled
def _padding_end(m: Machine, s: State, t: int, pads: int) -> int:
    """Return the cycle after the last padding tile; tiles are written from `t` on.

    A load beat on R in cycle c keeps the write port in c + 1.
    """
    end = t + pads
    count = s.actors[LOAD, GRANTED]
    for n in range(max(0, count - m.outstanding), count):
        flying = s.ring[n % m.outstanding]
        for beat in range(flying[BEATS]):
            held = flying[FIRST] + beat * m.interval + 1
            if held >= end:
                return end
            if held >= t:
                end += 1
    return end


@compiled
def _ring_row(m: Machine, me: Any, actor: int) -> int:
    """Return the row of a unit's next burst, which is still that of `outstanding` bursts ago."""
    behind = m.outstanding if actor == STORE else 0
    return int(behind + me[GRANTED] % m.outstanding)


@compiled
def _calculate(m: Machine, s: State, calc: int, actor: int) -> None:
    """CALC in cycle `calc`; REQUEST follows, asserted while few enough bursts are in flight."""
    me = s.actors[actor]
    me[BUSY] += 1
    me[REQUESTED_AT] = calc + 1
    asserted = calc + 1
    if me[GRANTED] >= m.outstanding:
        asserted = max(asserted, s.ring[_ring_row(m, me, actor), DONE] + 1)
    me[WAKE] = asserted


@compiled
def _request(m: Machine, s: State, t: int, actor: int) -> None:
    """REQUEST is asserted in cycle `t`: it is granted unless fetch takes AR."""
    me = s.actors[actor]
    if actor == LOAD and s.scalars[AR_CYCLE] == t:
        me[WAKE] = t + 1
        return
    me[WAIT_MEMORY] += t - me[REQUESTED_AT]
    me[BUSY] += 1
    row = s.table[s.order[actor, me[POPPED] - 1]]
    address = row[ADDRESS] + me[BOX_Z] * row[STRIDE_Z] + me[BOX_Y] * row[STRIDE_Y]
    address += me[BOX_BEAT] * m.bus_bytes
    beats = _burst_length(address, row[ROW_BEATS] - me[BOX_BEAT], m.bus_bytes, m.burst_beats)
    write = 1 if actor == STORE else 0
    first = burst(m, s, t + 1, address, beats, write)
    done = first + (beats - 1) * m.interval + write
    flying = s.ring[_ring_row(m, me, actor)]
    flying[DONE] = done
    flying[FIRST] = first
    flying[BEATS] = beats
    me[GRANTED] += 1
    me[DRAINED_AT] = done + 1
    if _advance(me, row, beats):
        _calculate(m, s, t + 1, actor)
    else:
        _finish(s, actor, row, done + 1 if write else done + 2, t + 1)


@compiled
def _advance(me: Any, row: Any, beats: int) -> bool:
    """Move to the next burst of the box; return False after the last."""
    me[BOX_BEAT] += beats
    if me[BOX_BEAT] < row[ROW_BEATS]:
        return True
    me[BOX_BEAT] = 0
    me[BOX_Y] += 1
    if me[BOX_Y] < row[ROWS_Y]:
        return True
    me[BOX_Y] = 0
    me[BOX_Z] += 1
    return bool(me[BOX_Z] < row[ROWS_Z])


@compiled
def _is_complete(s: State) -> bool:
    if s.scalars[DISPATCHED] < s.table.shape[0]:
        return False
    for actor in range(FIRST_UNIT, ACTORS):
        if s.actors[actor, POPPED] < s.actors[actor, PUSHED]:
            return False
    return True


@compiled
def _end(s: State) -> int:
    """Count the idle cycles at the end; return the cycles of the whole run."""
    quiet = s.scalars[ASSEMBLER_SINCE]
    for actor in range(FIRST_UNIT, ACTORS):
        quiet = max(quiet, s.actors[actor, READY_AT], s.actors[actor, DRAINED_AT])
    if s.actors[LOAD, GRANTED]:
        quiet = max(quiet, s.actors[LOAD, DRAINED_AT] + 1)
    for actor in range(FIRST_UNIT, ACTORS):
        _count_headless(s.actors[actor], _draining_counter(actor), quiet + 1)
    s.actors[ASSEMBLER, IDLE] += quiet + 1 - s.scalars[ASSEMBLER_SINCE]
    return int(quiet) + 1


@compiled
def _earliest(actors: Any) -> int:
    earliest = 0
    for each in range(1, ACTORS):
        if actors[each, WAKE] < actors[earliest, WAKE]:
            earliest = each
    return int(earliest)


@compiled
def simulate(m: Machine, s: State, base: int) -> int:
    """Run the program at `base`; return its cycles, or -1 where nothing can happen any more."""
    while True:
        actor = _earliest(s.actors)
        t = s.actors[actor, WAKE]
        if t == NEVER:
            return _end(s) if _is_complete(s) else -1
        if actor == REQUESTS:
            request_program(m, s, t, base)
        elif actor == ASSEMBLER:
            assemble(m, s, t)
        elif s.actors[actor, READY_AT] == NEVER:
            _request(m, s, t, actor)
        else:
            _start(m, s, t, actor)
