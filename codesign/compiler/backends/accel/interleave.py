"""The order of instructions where layers are short: no unit waits while another could go on.

Written layer by layer, a step of a recurrent network stalls at each of its small layers: their
operands have just left by `out`, and the loads behind them, of the next weights, wait in line.
Nodes are placed one by one instead, that one first which can start first by an estimate of all
times (list scheduling: Graham 1966); among loads that can start at once, all others go before
weights, which are long and come in any case. Nodes that touch one tile, one of them to write it,
keep their order.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Final, TypeAlias, assert_never

from codesign.accel.config import AccelConfig, Memory
from codesign.accel.isa import Gemm, Load, Store, Unit, Vector
from codesign.accel.timing import gemm_latency, vector_latency
from codesign.compiler.backends.accel.node import Node, Region

MOST_NODES: Final = 512
"""Programs above this length stay as they are written."""

_TOKEN_CYCLES: Final = 2

Access: TypeAlias = tuple[int, Region, bool]


def interleaved(nodes: Sequence[Node], config: AccelConfig) -> tuple[int, ...]:
    """Return the order in which nodes should stand, as their indices."""
    if len(nodes) > MOST_NODES:
        return tuple(range(len(nodes)))
    before = _predecessors(nodes)
    after: dict[int, list[int]] = defaultdict(list)
    for index, earlier in enumerate(before):
        for each in earlier:
            after[each].append(index)
    waiting = [len(earlier) for earlier in before]
    ready = [0] * len(nodes)
    free = dict.fromkeys(Unit, 0)
    candidates: dict[Unit, list[tuple[int, int]]] = {unit: [] for unit in Unit}
    for index, count in enumerate(waiting):
        if not count:
            candidates[nodes[index].instruction.unit].append((0, index))
    order: list[int] = []
    while len(order) < len(nodes):
        start, _, index = min(
            _first(candidates[unit], free[unit], nodes) for unit in Unit if candidates[unit]
        )
        unit = nodes[index].instruction.unit
        candidates[unit].remove((ready[index], index))
        busy, done = _cycles(nodes[index], config)
        free[unit] = start + busy
        order.append(index)
        for each in after[index]:
            ready[each] = max(ready[each], start + done + _TOKEN_CYCLES)
            waiting[each] -= 1
            if not waiting[each]:
                candidates[nodes[each].instruction.unit].append((ready[each], each))
    return tuple(order)


def _first(
    candidates: Sequence[tuple[int, int]], free: int, nodes: Sequence[Node]
) -> tuple[int, int, int]:
    """Return start, rank and index of a unit's next node."""
    return min((max(ready, free), _rank(nodes[index]), index) for ready, index in candidates)


def _rank(node: Node) -> int:
    match node.instruction:
        case Load(memory=Memory.WGT):
            return 1
        case _:
            return 0


def _predecessors(nodes: Sequence[Node]) -> list[set[int]]:
    """Return the earlier nodes that each node must follow.

    What lies within a tile that was written anew since is known to come before.
    """
    history: dict[Memory | str, list[Access]] = defaultdict(list)
    found: list[set[int]] = []
    for index, node in enumerate(nodes):
        mine = [(region, False) for region in node.reads]
        mine += [(region, True) for region in node.writes]
        found.append(
            {
                other
                for region, writes in mine
                for other, touched, written in history[region.space]
                if (writes or written) and region.overlaps(touched)
            }
        )
        for region, writes in mine:
            known = history[region.space]
            if writes:
                known = [each for each in known if not region.covers(each[1])]
            history[region.space] = [*known, (index, region, writes)]
    return found


def _cycles(node: Node, config: AccelConfig) -> tuple[int, int]:
    """Return for how long a node keeps its unit, and when its results are there."""
    latency = config.dram.latency_cycles
    match node.instruction:
        case Load() as load:
            beats = math.prod(load.size) * config.beats(load.memory) * config.beat_interval
            return beats, latency + beats
        case Store() as store:
            beats = math.prod(store.size) * config.beats(Memory.OUT) * config.beat_interval
            return beats, latency + beats
        case Gemm() as gemm:
            products = math.prod(gemm.extents)
            return products, products + gemm_latency(config)
        case Vector() as vector:
            passes = math.prod(vector.extents) * config.vector_passes + vector_latency(config)
            return passes, passes
        case _ as never:
            assert_never(never)
