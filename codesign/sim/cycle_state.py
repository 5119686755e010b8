"""The tables of the cycle simulator: what an instruction, a machine and its state consist of."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

import numba

from codesign.accel import memory
from codesign.accel.isa import Unit

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _sources() -> str:
    """Return the digest of all sources whose constants and functions are compiled in."""
    here = Path(__file__).parent
    files = [*sorted(here.glob("cycle_*.py")), Path(memory.__file__)]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


_STAMP: Final = _sources()


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return the function as machine code, cached on disk between runs.

    numba throws its cache away when the function's own file changes; these functions call each
    other across files, so the stamp that it compares covers all of them.
    """
    result = numba.njit(cache=True)(function)
    result._cache._cache_file._source_stamp = _STAMP
    compiled_function: Callable[_P, _R] = result
    return compiled_function


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
