"""Whether a program's tokens balance, never deadlock and never overflow their counters.

A program is legal where it can run serially, one instruction at a time in program order, and every
wait then finds its token. Such a program never deadlocks on the machine either: fetch hands out
instructions in program order, so the first unfinished one always is at the head of its queue, and
all tokens that it waits for have been given.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import Final

from codesign.accel.config import AccelConfig
from codesign.accel.isa import TOKEN_BITS, Instruction, Unit

TOKENS_MAX: Final = (1 << TOKEN_BITS) - 1
"""Tokens that can wait in one direction of one pair."""


def broken_rules(
    instructions: Sequence[Instruction], config: AccelConfig
) -> Iterator[tuple[int | None, str]]:
    """Yield every broken rule with the index of the instruction; None where it is the program's.

    The bound on waiting tokens is what can wait at worst: the receiver may lag behind program order
    by the instructions that its queue holds.
    """
    waiting: Counter[tuple[Unit, Unit]] = Counter()
    queues = {unit: deque[Instruction](maxlen=config.queue_depth) for unit in Unit}
    for index, instruction in enumerate(instructions):
        unit = instruction.unit
        for giver in sorted(instruction.wait):
            if waiting[giver, unit] == 0:
                yield index, f"waits for a token of {giver.name.lower()} that nothing before gives"
            else:
                waiting[giver, unit] -= 1
        for taker in sorted(instruction.push):
            waiting[unit, taker] += 1
            lag = sum(unit in late.wait for late in queues[taker])
            if waiting[unit, taker] + lag > TOKENS_MAX:
                yield index, f"may be the {TOKENS_MAX + 1}th token that waits at {_name(taker)}"
        queues[unit].append(instruction)
    for (giver, taker), count in sorted(waiting.items()):
        if count:
            yield None, f"{count} tokens of {_name(giver)} for {_name(taker)} are never taken"


def _name(unit: Unit) -> str:
    return unit.name.lower()
