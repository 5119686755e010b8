"""The tables of the cycle simulator: what an instruction, a machine and its state consist of."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple

from codesign.accel import memory
from codesign.accel.isa import Unit
from codesign.sim.machine_code import MachineCode

compiled: Final = MachineCode.of([*Path(__file__).parent.glob("cycle_*.py"), Path(memory.__file__)])
"""Makes machine code of a function: they call each other across files."""

NEVER: Final = 1 << 62
"""The time of an event that nothing has caused yet."""

# --- actors: their order is that of their decisions within a cycle ------------------------------

REQUESTS: Final = 0
ASSEMBLER: Final = 1
FIRST_UNIT: Final = 2
"""Unit u is actor `FIRST_UNIT + u`."""
LOAD: Final = FIRST_UNIT + int(Unit.LOAD)
GEMM: Final = FIRST_UNIT + int(Unit.GEMM)
VECTOR: Final = FIRST_UNIT + int(Unit.VECTOR)
STORE: Final = FIRST_UNIT + int(Unit.STORE)
ACTORS: Final = 6
UNITS: Final = len(Unit)

# --- columns of `State.actors` ------------------------------------------------------------------

WAKE: Final = 0
"""The cycle in which the actor acts next."""
BUSY: Final = 1
"""Counters; both fetch actors count in row `ASSEMBLER`."""
WAIT_TOKEN: Final = 2
WAIT_MEMORY: Final = 3
IDLE: Final = 4
COUNTER_COLUMNS: Final = (BUSY, WAIT_TOKEN, WAIT_MEMORY, IDLE)
"""In the order of `accel.counters.STATES`."""
PUSHED: Final = 5
"""Entries ever written to the unit's queue."""
POPPED: Final = 6
READY_AT: Final = 7
"""The cycle from which the unit is READY; `NEVER` while a box is under way."""
DRAINED_AT: Final = 8
"""The cycle from which the unit's pipeline is empty, or no burst of it is in flight."""
GRANTED: Final = 9
"""load, store: bursts ever granted."""
BOX_Z: Final = 10
"""load, store: place in the box that is under way."""
BOX_Y: Final = 11
BOX_BEAT: Final = 12
REQUESTED_AT: Final = 13
"""load, store: the cycle in which REQUEST was entered."""
ACTOR_COLUMNS: Final = 14

# --- columns of `State.table`, one row per instruction ------------------------------------------

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
VISIBLE: Final = 13
"""The cycle from which the unit sees the instruction in its queue."""
START: Final = 14
END: Final = 15
"""The cycle from which its tokens are visible."""
TABLE_COLUMNS: Final = 16

# --- columns of `State.pairs`, row `UNITS * giver + taker` --------------------------------------

OFFSET: Final = 0
"""Where the pair's tokens lie in `State.tokens`."""
GIVEN: Final = 1
USED: Final = 2
PAIR_COLUMNS: Final = 3

# --- columns of `State.ring`, row `n % outstanding` for a load's n-th burst; stores lie behind --

DONE: Final = 0
"""The last cycle in which the burst is in flight."""
FIRST: Final = 1
BEATS: Final = 2
RING_COLUMNS: Final = 3

# --- `State.scalars` ----------------------------------------------------------------------------

REQUESTED: Final = 0
"""Beats of the program that were requested."""
TAKEN: Final = 1
"""Beats of the program that the assembler has taken."""
DISPATCHED: Final = 2
"""Instructions written to a queue."""
ASSEMBLER_SINCE: Final = 3
"""First cycle of the assembler that is not counted yet."""
AR_CYCLE: Final = 4
"""Last cycle in which fetch was granted AR."""
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
    read_lead: int
    write_lead: int
    latency: int
    interval: int
    banks: int
    row_bytes: int
    miss_cycles: int


class State(NamedTuple):
    """Everything that changes; all arrays are int64 and are changed in place."""

    scalars: Any
    actors: Any
    table: Any
    order: Any
    """[actor, n]: the n-th instruction of a unit's queue."""
    pairs: Any
    tokens: Any
    """[offset + n]: the cycle from which the n-th token of a pair is visible."""
    held: Any
    """[0 gemm or 1 vector, bank]: the cycle from which the unit does not hold the bank."""
    chunk_first: Any
    """[chunk of the program]: slot of its first beat."""
    ring: Any
    open_rows: Any
    log: Any
    """[burst, 4]: arrival, 0 read or 1 write, address, beats; no rows where it is not wanted."""
