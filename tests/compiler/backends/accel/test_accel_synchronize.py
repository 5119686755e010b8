"""Tokens: every conflict is ordered by them alone, and none is spent in vain."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from codesign.accel.config import Memory
from codesign.accel.isa import (
    Destination,
    Gemm,
    Instruction,
    Load,
    Store,
    Unit,
    Vector,
    VectorOp,
    XSource,
)
from codesign.compiler.backends.accel.node import Node, Region, tiles_at
from codesign.compiler.backends.accel.synchronize import synchronize

ZEROS = (0,) * 6
LOAD = Load(memory=Memory.INP, sram=0, segment=0, address=0, size=(1, 1, 1))
GEMM = Gemm(
    extents=(1,) * 6, acc=0, acc_strides=ZEROS, inp=0, inp_strides=ZEROS, wgt=0, wgt_strides=ZEROS
)
VECTOR = Vector(
    op=VectorOp.PASS,
    x_source=XSource.ACC,
    destination=Destination.OUT,
    extents=(1,) * 5,
    dst=0,
    dst_strides=ZEROS[:5],
    x=0,
    x_strides=ZEROS[:5],
    low=-128,
    high=127,
)
STORE = Store(sram=0, segment=0, address=0, size=(1, 1, 1))


def _random_nodes(rng: np.random.Generator, count: int) -> list[Node]:
    nodes = []
    for _ in range(count):
        at = {memory: tiles_at(memory, int(rng.integers(6)), 2) for memory in Memory}
        place = int(rng.integers(5))
        box = Region("tensor", ((0, 1), (place, place + 2), (0, 1), (0, 1)))
        kind = int(rng.integers(5))
        nodes.append(
            (
                Node(LOAD, (box,), (at[Memory.INP],)),
                Node(LOAD, (), (at[Memory.PARAM],)),
                Node(GEMM, (at[Memory.INP],), (at[Memory.ACC],)),
                Node(VECTOR, (at[Memory.ACC], at[Memory.PARAM]), (at[Memory.OUT],)),
                Node(STORE, (at[Memory.OUT],), (box,)),
            )[kind]
        )
    return nodes


def _ancestors(instructions: tuple[Instruction, ...]) -> list[set[int]]:
    """Return what must have finished before each instruction starts: by queues and tokens alone."""
    waiting: dict[tuple[Unit, Unit], deque[int]] = {}
    last: dict[Unit, int] = {}
    before: list[set[int]] = []
    for index, instruction in enumerate(instructions):
        mine: set[int] = set()
        for giver in instruction.wait:
            source = waiting[giver, instruction.unit].popleft()
            mine |= before[source] | {source}
        if instruction.unit in last:
            mine |= before[last[instruction.unit]] | {last[instruction.unit]}
        before.append(mine)
        last[instruction.unit] = index
        for taker in instruction.push:
            waiting.setdefault((instruction.unit, taker), deque()).append(index)
    assert not any(waiting.values()), "a token is given that nobody takes"
    return before


def _conflict(a: Node, b: Node) -> bool:
    pairs = [(x, y) for x in a.writes for y in (*b.reads, *b.writes)]
    pairs += [(x, y) for x in a.reads for y in b.writes]
    return any(x.space == y.space and x.overlaps(y) for x, y in pairs)


@pytest.mark.parametrize("seed", range(20))
def test_every_conflict_is_ordered(seed: int) -> None:
    nodes = _random_nodes(np.random.default_rng(seed), 120)
    before = _ancestors(synchronize(nodes))
    for later, node in enumerate(nodes):
        for earlier in range(later):
            if _conflict(nodes[earlier], node):
                assert earlier in before[later]


@pytest.mark.parametrize("seed", range(5))
def test_no_token_is_implied_by_the_others(seed: int) -> None:
    nodes = _random_nodes(np.random.default_rng(seed), 80)
    instructions = synchronize(nodes)
    taken = sum(len(instruction.wait) for instruction in instructions)
    conflicts = sum(
        _conflict(nodes[a], nodes[b])
        for b in range(len(nodes))
        for a in range(b)
        if nodes[a].instruction.unit is not nodes[b].instruction.unit
    )
    assert 0 < taken < conflicts / 4


def test_more_results_than_a_counter_counts_are_awaited_together() -> None:
    stores = []
    for index in range(300):
        box = Region("tensor", ((0, 1), (index, index + 1), (0, 1), (0, 1)))
        stores.append(Node(STORE, (), (box,)))
    loads = [Node(LOAD, store.writes, (tiles_at(Memory.INP, 0, 1),)) for store in stores]
    instructions = synchronize([*stores, *loads])
    assert [len(each.wait) for each in instructions[300:]] == [1] + [0] * 299
    assert instructions[299].push == {Unit.LOAD}


def test_a_unit_that_could_run_far_ahead_is_braked() -> None:
    nodes = []
    for index in range(1000):
        slot = tiles_at(Memory.VEC, index % 500, 1)
        out = tiles_at(Memory.OUT, 0, 1)
        nodes.append(Node(LOAD, (), (slot,)))
        nodes.append(Node(VECTOR, (slot,), (out,)))
    instructions = synchronize(nodes)
    before = _ancestors(instructions)
    assert all(2 * index in before[2 * index + 1] for index in range(1000))
    assert _most_ahead(instructions, Unit.LOAD, Unit.VECTOR) <= 255


def _most_ahead(instructions: tuple[Instruction, ...], giver: Unit, taker: Unit) -> int:
    """Return the most tokens that wait if `taker` starts only when nothing else can."""
    tokens: dict[tuple[Unit, Unit], int] = {}
    queues = {unit: deque(e for e in instructions if e.unit is unit) for unit in Unit}
    most = 0
    while any(queues.values()):
        ready = [
            unit
            for unit, queue in queues.items()
            if queue and all(tokens.get((other, unit), 0) for other in queue[0].wait)
        ]
        unit = min(ready, key=lambda each: each is taker)
        instruction = queues[unit].popleft()
        for other in instruction.wait:
            tokens[other, unit] -= 1
        for other in instruction.push:
            tokens[unit, other] = tokens.get((unit, other), 0) + 1
        most = max(most, tokens.get((giver, taker), 0))
    return most
