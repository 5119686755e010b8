"""What the machine counts while it runs: one declaration for RTL, simulators and reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final, final

COUNTED_UNITS: Final = ("fetch", "load", "gemm", "vector", "store")
"""Units with the four counters of `STATES`, in the order of their registers."""

STATES: Final = ("busy", "wait_token", "wait_memory", "idle")
"""Every unit is in exactly one of these in every cycle: they sum to `cycles`."""


def _count(unit: str, doc: str) -> Any:
    return field(default=0, metadata={"unit": unit, "doc": doc})


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """One run's counters. `docs/microarchitecture.md` states each per cycle."""

    cycles: int = _count("cycles", "from the start to the end of the run")
    fetch_busy: int = _count("cycles", "fetch takes a beat or hands on an instruction")
    fetch_wait_token: int = _count("cycles", "fetch holds an instruction whose queue is full")
    fetch_wait_memory: int = _count("cycles", "fetch waits for beats of the program")
    fetch_idle: int = _count("cycles", "fetch has handed on the whole program")
    load_busy: int = _count("cycles", "load starts, writes padding or asks for a burst and gets it")
    load_wait_token: int = _count("cycles", "load has an instruction that waits for a token")
    load_wait_memory: int = _count("cycles", "load waits for the bus or for data in flight")
    load_idle: int = _count("cycles", "load has nothing to do")
    gemm_busy: int = _count("cycles", "gemm starts, multiplies or empties its pipeline")
    gemm_wait_token: int = _count("cycles", "gemm has an instruction that waits for token or bank")
    gemm_wait_memory: int = _count("cycles", "always 0: gemm does not use the bus")
    gemm_idle: int = _count("cycles", "gemm has nothing to do")
    vector_busy: int = _count("cycles", "vector starts, computes or empties its pipeline")
    vector_wait_token: int = _count("cycles", "vector has an instruction that waits likewise")
    vector_wait_memory: int = _count("cycles", "always 0: vector does not use the bus")
    vector_idle: int = _count("cycles", "vector has nothing to do")
    store_busy: int = _count("cycles", "store starts or asks for a burst and gets it")
    store_wait_token: int = _count("cycles", "store has an instruction that waits for a token")
    store_wait_memory: int = _count("cycles", "store waits for the bus or for bursts in flight")
    store_idle: int = _count("cycles", "store has nothing to do")
    bytes_read: int = _count("bytes", "read over AXI by fetch and load, whole beats")
    bytes_written: int = _count("bytes", "written over AXI by store, whole beats")
    macs: int = _count("MACs", "tile products of gemm times batch * block_in * block_out")
    saturations: int = _count("elements", "additions of gemm that saturated (acc_bits = 16)")
    instructions: int = _count("instructions", "handed by fetch to a unit")

    def as_dict(self) -> dict[str, int]:
        """Return the counters by name, in the order of their registers."""
        return asdict(self)

    @classmethod
    def of(cls, values: Mapping[str, int]) -> Counters:
        """Return counters from values by name; those left out are 0."""
        return cls(**values)


COUNTER_NAMES: Final = tuple(each.name for each in fields(Counters))
"""All counters in the order of their registers."""
