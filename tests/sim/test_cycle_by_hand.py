"""Programs so small that their cycles were counted by hand from docs/microarchitecture.md.

With memory that answers at once, the first instruction of eight beats is requested in cycle 0, on
R in 2 to 9, taken in 3 to 10, dispatched in 11, and starts in 12.
"""

from __future__ import annotations

import json

import pytest

from codesign.accel.config import GEMM_LOOPS, AccelConfig, DramTiming, Memory
from codesign.accel.isa import Gemm, Load, Store, Sync, Unit
from codesign.accel.program import Program
from codesign.accel.timing import gemm_latency
from codesign.diagnostics import CodesignError
from codesign.sim.cycle import CycleResult, CycleSimulator
from codesign.sim.trace import chrome_trace

CONFIG = AccelConfig(bus_bits=64)
NONE = (0,) * GEMM_LOOPS


def run(*instructions, config: AccelConfig = CONFIG) -> CycleResult:
    program = Program(instructions=instructions, digest=config.digest, segments=(4096,))
    return CycleSimulator(config).run(program, (0,), burst_log=100)


def states(result: CycleResult, unit: str) -> tuple[int, int, int, int]:
    names = ("busy", "wait_token", "wait_memory", "idle")
    return tuple(getattr(result.counters, f"{unit}_{name}") for name in names)


def gemm(*extents: int, **fields) -> Gemm:
    extents = (*extents, *(1,) * (GEMM_LOOPS - len(extents)))
    return Gemm(
        extents=extents, acc_strides=NONE, inp_strides=NONE, wgt_strides=NONE,
        **{"acc": 0, "inp": 0, "wgt": 0, **fields},
    )  # fmt: skip


def test_an_empty_program_takes_one_cycle() -> None:
    assert run().cycles == 1


def test_a_sync_takes_its_fetch_and_one_cycle() -> None:
    result = run(Sync(unit=Unit.GEMM))
    assert result.cycles == 14
    assert states(result, "fetch") == (9, 0, 3, 2)
    assert states(result, "gemm") == (1, 0, 0, 13)
    assert result.counters.bytes_read == 64


def test_a_load_is_done_when_its_last_beat_has_arrived() -> None:
    result = run(Load(memory=Memory.INP, sram=0, segment=0, address=0, size=(1, 1, 2)))
    assert result.bursts.tolist() == [[1, 0, 0, 8], [15, 0, 0, 4]]
    assert result.cycles == 22
    assert states(result, "load") == (3, 0, 5, 14)
    assert result.timeline.end.tolist() == [21]


def test_padding_takes_a_cycle_a_tile() -> None:
    padded = Load(memory=Memory.INP, sram=0, segment=0, address=0, size=(1, 1, 2), pad=(1, 0, 1, 2))
    assert run(padded).cycles == 22 + 8


def test_a_store_is_done_with_its_answer() -> None:
    result = run(Store(sram=0, segment=0, address=0, size=(1, 1, 1)))
    assert result.bursts.tolist()[1:] == [[15, 1, 0, 2]]
    assert result.cycles == 23
    assert result.counters.bytes_written == 16


def test_gemm_issues_one_product_a_cycle_and_drains() -> None:
    result = run(gemm(3, 5))
    assert result.cycles == 13 + 15 + gemm_latency(CONFIG)
    assert states(result, "gemm")[0] == 15 + gemm_latency(CONFIG)
    assert result.counters.macs == 15 * 256


def test_the_next_gemm_starts_in_the_cycle_after_the_last_issue() -> None:
    result = run(gemm(50), gemm(1))
    assert result.timeline.start.tolist() == [12, 63]


def test_rows_are_cut_at_page_boundaries_and_burst_length() -> None:
    result = run(Load(memory=Memory.INP, sram=0, segment=0, address=510, size=(1, 1, 20)))
    assert result.bursts[1:, 2:].tolist() == [[4080, 2], [4096, 32], [4352, 6]]


def test_bandwidth_and_latency_delay_beats_but_not_requests() -> None:
    slow = CONFIG.with_dram(latency_cycles=60, bytes_per_cycle=2)
    result = run(Sync(unit=Unit.GEMM), config=slow)
    last_beat = 1 + 60 + 7 * 4
    assert result.cycles == last_beat + 1 + 1 + 1 + 1 + 1


def test_a_closed_row_costs_its_miss() -> None:
    plain = DramTiming(latency_cycles=20, banks=2, row_bytes=4096, miss_cycles=0)
    missing = DramTiming(latency_cycles=20, banks=2, row_bytes=4096, miss_cycles=7)

    def cycles(dram: DramTiming) -> int:
        return run(Sync(unit=Unit.GEMM), config=AccelConfig(bus_bits=64, dram=dram)).cycles

    assert cycles(missing) == cycles(plain) + 7


def test_a_deadlock_names_the_unit_and_its_instruction() -> None:
    with pytest.raises(CodesignError) as caught:
        run(Sync(unit=Unit.LOAD), gemm(1, wait=frozenset({Unit.LOAD})))
    text = str(caught.value)
    assert "gemm waits for ever" in text
    assert "instruction 1 waits for a token of load" in text


def test_the_trace_has_one_event_an_instruction() -> None:
    load = Load(memory=Memory.INP, sram=0, segment=0, address=0, size=(1, 1, 2))
    program = Program(instructions=(load, gemm(4)), digest=CONFIG.digest, segments=(4096,))
    timeline = CycleSimulator(CONFIG).run(program, (0,)).timeline
    trace = json.loads(chrome_trace(program, timeline, CONFIG))
    events = [each for each in trace["traceEvents"] if each["ph"] == "X"]
    assert [(each["ts"], each["dur"]) for each in events] == [
        (12, 23 - 12),  # its four beats stand behind the program's sixteen: 18 to 21
        (21, 4 + gemm_latency(CONFIG)),
    ]
    assert events[0]["name"].startswith("load")
