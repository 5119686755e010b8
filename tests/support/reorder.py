"""Other orders in which the machine might run a program: what tokens and queues allow."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence

from codesign.accel.isa import Instruction, Unit


def greedy_order(
    instructions: Sequence[Instruction], priority: Sequence[Unit]
) -> tuple[Instruction, ...]:
    """Return the order that lets the first unit of `priority` run ahead as far as tokens allow.

    Each unit keeps its own order; an instruction comes behind the tokens that it waits for. Two
    instructions that no token orders change places under some priority.
    """
    queues = {unit: deque(i for i in instructions if i.unit is unit) for unit in Unit}
    tokens: Counter[tuple[Unit, Unit]] = Counter()
    order: list[Instruction] = []
    while len(order) < len(instructions):
        unit = next(unit for unit in priority if _can_start(queues[unit], tokens))
        instruction = queues[unit].popleft()
        tokens.subtract((giver, unit) for giver in instruction.wait)
        tokens.update((unit, taker) for taker in instruction.push)
        order.append(instruction)
    return tuple(order)


def _can_start(queue: deque[Instruction], tokens: Counter[tuple[Unit, Unit]]) -> bool:
    if not queue:
        return False
    return all(tokens[giver, queue[0].unit] > 0 for giver in queue[0].wait)
