"""docs/microarchitecture.md written down cycle by cycle: slow, plain, the oracle of sim.cycle.

Each unit is a generator that runs the logic of one cycle per step and yields the counter that the
cycle counts in. What becomes visible later is deferred to the start of that cycle.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product

from codesign.accel.config import AccelConfig, Memory
from codesign.accel.encoding import instruction_beats
from codesign.accel.isa import Destination, Load, Store, Sync, Unit, Vector, XSource, YSource
from codesign.accel.timing import (
    fetch_buffer_beats,
    fetch_chunk_beats,
    gemm_latency,
    vector_latency,
)


@dataclass
class Measured:
    cycles: int
    counters: dict[str, dict[str, int]]
    starts: dict[int, int]
    bursts: list[tuple[int, int, int, int]] = field(default_factory=list)


class CycleModel:
    def __init__(self, instructions, config: AccelConfig, bases, program_base: int = 0) -> None:
        self.c = config
        self.instructions = instructions
        self.bases = bases
        self.program_base = program_base
        self.beats = instruction_beats(config)
        self.t = 0
        self.deferred: dict[int, list[Callable[[], None]]] = defaultdict(list)
        self.queue: dict[Unit, deque[int]] = {u: deque() for u in Unit}
        self.queue_at_start: dict[Unit, int] = dict.fromkeys(Unit, 0)
        self.tokens: dict[tuple[Unit, Unit], int] = defaultdict(int)
        self.holds: dict[tuple[Unit, int], int] = defaultdict(int)
        self.in_flight = {Unit.LOAD: 0, Unit.STORE: 0}
        self.pipeline = {Unit.GEMM: 0, Unit.VECTOR: 0}
        self.headless: set[Unit] = set()
        self.gemm_starts_on: int | None = None
        self.ar_granted = False
        self.channel_free = 0
        self.open_rows: dict[int, int] = {}
        self.fetch_slots: list[int] = []
        self.load_slots: set[int] = set()
        self.requested = 0
        self.taken = 0
        self.taken_visible = 0
        self.dispatched = 0
        self.starts: dict[int, int] = {}
        self.bursts: list[tuple[int, int, int, int]] = []

    # --- machinery ------------------------------------------------------------------------------

    def at(self, cycle: int, action: Callable[[], None]) -> None:
        assert cycle > self.t
        self.deferred[cycle].append(action)

    def add(self, table, key, amount: int, cycle: int) -> None:
        def action() -> None:
            table[key] += amount

        self.at(cycle, action)

    def run(self, limit: int = 1_000_000) -> Measured:
        units = {
            Unit.LOAD: self.load(),
            Unit.STORE: self.store(),
            Unit.GEMM: self.gemm(),
            Unit.VECTOR: self.vector(),
        }
        fetch = self.assembler()
        counted: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        while self.t < limit:
            for action in self.deferred.pop(self.t, []):
                action()
            self.headless.clear()
            self.gemm_starts_on = None
            self.ar_granted = False
            self.queue_at_start = {u: len(q) for u, q in self.queue.items()}
            dispatched_before = self.dispatched
            self.request_program()
            for unit, generator in units.items():
                counted[unit.name.lower()][next(generator)] += 1
            counted["fetch"][next(fetch)] += 1
            if (
                dispatched_before == len(self.instructions)
                and len(self.headless) == len(Unit)
                and not any(self.in_flight.values())
                and not any(self.pipeline.values())
                and self.t - 1 not in self.load_slots
            ):
                return Measured(self.t + 1, counted, self.starts, self.bursts)
            self.t += 1
        raise TimeoutError(f"not done after {limit} cycles")

    def burst(self, address: int, beats: int, write: int) -> list[int]:
        """Slots of a burst that is granted in this cycle."""
        arrival = self.t + 1
        lead = 4 if write else 1
        first = max(arrival + max(lead, self.c.dram.latency_cycles), self.channel_free)
        if self.c.dram.banks:
            row = address // self.c.dram.row_bytes
            bank = row % self.c.dram.banks
            if self.open_rows.get(bank) != row:
                first += self.c.dram.miss_cycles
            self.open_rows[bank] = row
        slots = [first + j * self.c.beat_interval for j in range(beats)]
        self.channel_free = first + beats * self.c.beat_interval
        self.bursts.append((arrival, write, address, beats))
        return slots

    # --- fetch ----------------------------------------------------------------------------------

    def request_program(self) -> None:
        total = len(self.instructions) * self.beats
        n = min(fetch_chunk_beats(self.c, self.beats), total - self.requested)
        room = fetch_buffer_beats(self.beats) - (self.requested - self.taken_visible)
        if n and room >= n:
            address = self.program_base + self.requested * self.c.bus_bytes
            self.fetch_slots += self.burst(address, n, 0)
            self.requested += n
            self.ar_granted = True

    def assembler(self) -> Iterator[str]:
        for index, instruction in enumerate(self.instructions):
            for _ in range(self.beats):
                while self.taken >= len(self.fetch_slots) or self.fetch_slots[self.taken] >= self.t:
                    yield "wait_memory"
                self.taken += 1

                def visible(taken: int = self.taken) -> None:
                    self.taken_visible = taken

                self.at(self.t + 1, visible)
                yield "busy"
            unit = instruction.unit
            while self.queue_at_start[unit] >= self.c.queue_depth:
                yield "wait_token"

            def enter(unit: Unit = unit, index: int = index) -> None:
                self.queue[unit].append(index)

            self.at(self.t + 1, enter)
            self.dispatched += 1
            yield "busy"
        while True:
            yield "idle"

    # --- all units ------------------------------------------------------------------------------

    def ready(self, unit: Unit, extra: Callable[[object], bool], empty: Callable[[], str]):
        """READY until an instruction starts; returns it in the cycle of its start."""
        while True:
            if not self.queue[unit]:
                self.headless.add(unit)
                yield empty()
                continue
            index = self.queue[unit][0]
            instruction = self.instructions[index]
            if all(self.tokens[w, unit] > 0 for w in instruction.wait) and extra(instruction):
                self.queue[unit].popleft()
                for w in instruction.wait:
                    self.tokens[w, unit] -= 1
                self.starts[index] = self.t
                return instruction
            yield "wait_token"

    def give(self, unit: Unit, instruction, cycle: int) -> None:
        for other in instruction.push:
            self.add(self.tokens, (unit, other), 1, cycle)

    # --- load and store -------------------------------------------------------------------------

    def box_bursts(self, each, memory: Memory) -> Iterator[tuple[int, int]]:
        row = each.size[2] * self.c.beats(memory)
        size = self.c.bus_bytes
        for z, y in product(range(each.size[0]), range(each.size[1])):
            beat = each.address + z * each.stride[0] + y * each.stride[1]
            left = row
            while left:
                address = self.bases[each.segment] + beat * size
                n = min(left, self.c.burst_beats, (4096 - address % 4096) // size)
                yield address, n
                beat += n
                left -= n

    def mover(self, unit: Unit, memory_of, padding: Callable[[object], int]) -> Iterator[str]:
        def empty() -> str:
            return "wait_memory" if self.in_flight[unit] else "idle"

        def may_start(instruction) -> bool:
            return not isinstance(instruction, Sync) or not self.in_flight[unit]

        while True:
            instruction = yield from self.ready(unit, may_start, empty)
            if isinstance(instruction, Sync):
                self.give(unit, instruction, self.t + 1)
                yield "busy"
                continue
            yield "busy"
            for _ in range(padding(instruction)):
                while self.t - 1 in self.load_slots:
                    yield "wait_memory"
                yield "busy"
            last = 0
            for address, beats in self.box_bursts(instruction, memory_of(instruction)):
                yield "busy"
                while self.in_flight[unit] >= self.c.outstanding or (
                    unit is Unit.LOAD and self.ar_granted
                ):
                    yield "wait_memory"
                slots = self.burst(address, beats, int(unit is Unit.STORE))
                if unit is Unit.LOAD:
                    self.load_slots.update(slots)
                last = slots[-1] + int(unit is Unit.STORE)
                self.add(self.in_flight, unit, 1, self.t + 1)
                self.add(self.in_flight, unit, -1, last + 1)
                yield "busy"
            self.give(unit, instruction, last + (1 if unit is Unit.STORE else 2))

    def load(self) -> Iterator[str]:
        def padding(each: Load) -> int:
            z, y, x = each.size
            top, bottom, left, right = each.pad
            return sum(
                not (top <= row < top + y and left <= column < left + x)
                for _ in range(z)
                for row in range(top + y + bottom)
                for column in range(left + x + right)
            )

        return self.mover(Unit.LOAD, lambda each: each.memory, padding)

    def store(self) -> Iterator[str]:
        def padding(each: Store) -> int:
            return 0

        return self.mover(Unit.STORE, lambda each: Memory.OUT, padding)

    # --- gemm and vector ------------------------------------------------------------------------

    def gemm(self) -> Iterator[str]:
        def may_start(each) -> bool:
            if isinstance(each, Sync):
                return not self.pipeline[Unit.GEMM]
            return not self.holds[Unit.VECTOR, each.acc // self.c.acc_bank_depth]

        def empty() -> str:
            return "busy" if self.pipeline[Unit.GEMM] else "idle"

        while True:
            each = yield from self.ready(Unit.GEMM, may_start, empty)
            if isinstance(each, Sync):
                self.give(Unit.GEMM, each, self.t + 1)
                yield "busy"
                continue
            bank = each.acc // self.c.acc_bank_depth
            self.gemm_starts_on = bank
            self.add(self.holds, (Unit.GEMM, bank), 1, self.t + 1)
            self.add(self.pipeline, Unit.GEMM, 1, self.t + 1)
            yield "busy"
            products = list(product(*(range(e) for e in each.extents)))
            for n in range(len(products)):
                if n == len(products) - 1:
                    end = self.t + gemm_latency(self.c)
                    self.give(Unit.GEMM, each, end)
                    self.add(self.holds, (Unit.GEMM, bank), -1, end)
                    self.add(self.pipeline, Unit.GEMM, -1, end)
                yield "busy"

    def vector_bank(self, each: Vector) -> int | None:
        banks = set()
        if each.x_source is XSource.ACC:
            banks.add(each.x // self.c.acc_bank_depth)
        if each.y_source is YSource.ACC:
            banks.add(each.y // self.c.acc_bank_depth)
        if each.destination is Destination.ACC:
            banks.add(each.dst // self.c.acc_bank_depth)
        assert len(banks) <= 1
        return banks.pop() if banks else None

    def vector(self) -> Iterator[str]:
        def may_start(each) -> bool:
            if isinstance(each, Sync):
                return True
            bank = self.vector_bank(each)
            return bank is None or not (self.holds[Unit.GEMM, bank] or self.gemm_starts_on == bank)

        while True:
            each = yield from self.ready(Unit.VECTOR, may_start, lambda: "idle")
            if isinstance(each, Sync):
                self.give(Unit.VECTOR, each, self.t + 1)
                yield "busy"
                continue
            bank = self.vector_bank(each)
            if bank is not None:
                self.add(self.holds, (Unit.VECTOR, bank), 1, self.t + 1)
            yield "busy"
            passes = self.c.batch * self.c.block_out // self.c.vector_lanes
            for extent in each.extents:
                passes *= extent
            for _ in range(passes - 1):
                yield "busy"
            end = self.t + vector_latency(self.c)
            self.give(Unit.VECTOR, each, end)
            if bank is not None:
                self.add(self.holds, (Unit.VECTOR, bank), -1, end)
            while self.t < end:
                yield "busy"
