"""Objects that die give their fields away and their memory to those that are made next.

    a = x.0; b = x.1; drop x; …; y = Cons(c, d)
becomes
    a, b, token = unpack x; …; y = Cons(c, d) in token

Source: Reinking, Xie, de Moura, Leijen, Perceus: Garbage Free Reference Counting with Reuse (2021),
sections 2.3 and 2.4.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, final

from codesign.ir.control.program import (
    Block,
    Discard,
    Drop,
    Function,
    GetField,
    Instruction,
    Jump,
    MakeClosure,
    MakeData,
    MakeTuple,
    Program,
    Unpack,
    Value,
)
from codesign.ir.control.uses import successors
from codesign.ir.executable.heap import LARGE, node_class

_DEPTH: Final = 16
"""Branches that a token is carried through at most."""


def reuse(program: Program) -> Program:
    """Return the program with objects unpacked where they die, and their memory used again."""
    return replace(program, functions=tuple(_Reuse(each).run() for each in program.functions))


@final
class _Reuse:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.bodies = {block.label: _unpacked(block) for block in function.blocks}
        self.ends = {block.label: block.end for block in function.blocks}

    def run(self) -> Function:
        for label, body in self.bodies.items():
            for each in tuple(body):
                if isinstance(each, Unpack) and node_class(each.size) != LARGE:
                    token = Value(f"{each.value.name}.memory")
                    place = body.index(each)
                    if self._spend(token, node_class(each.size), label, place + 1, _DEPTH):
                        body[place] = replace(each, token=token)
        blocks = tuple(
            replace(block, body=tuple(self.bodies[block.label])) for block in self.function.blocks
        )
        return replace(self.function, blocks=blocks)

    def _spend(self, token: Value, room: int, label: int, start: int, depth: int) -> bool:
        """Let something use a token on every way on which something can; free it on the others."""
        body = self.bodies[label]
        for place, each in enumerate(body[start:], start):
            if _room(each) == room:
                assert isinstance(each, MakeClosure | MakeTuple | MakeData), "these have room"
                body[place] = replace(each, reuse=token)
                return True
        end = self.ends[label]
        if isinstance(end, Jump) or depth == 0:
            return False
        ways = successors(end)
        spent = [self._spend(token, room, way, 0, depth - 1) for way in ways]
        if any(spent):
            for way, is_spent in zip(ways, spent, strict=True):
                if not is_spent:
                    self.bodies[way].insert(0, Discard(token))
        return any(spent)


def _room(instruction: Instruction) -> int:
    """Return the size class of what an instruction makes in new memory, or -1."""
    match instruction:
        case MakeTuple(_, [_, *_] as fields, None) | MakeData(_, _, [_, *_] as fields, None):
            return node_class(len(fields))
        case MakeClosure(_, _, fields, None):
            return node_class(len(fields))
        case _:
            return -1


def _unpacked(block: Block) -> list[Instruction]:
    """Return the block's instructions; reading fields of what is dropped then becomes one step."""
    body = list(block.body)
    place = 0
    while place < len(body):
        each = body[place]
        if isinstance(each, Drop):
            place += _unpack_before(body, place, each.value)
        place += 1
    return body


def _unpack_before(body: list[Instruction], place: int, value: Value) -> int:
    """Replace the drop at a place and the reads just before it; return by how much it moves."""
    first = place
    reads: list[GetField] = []
    while first > 0:
        before = body[first - 1]
        if not isinstance(before, GetField) or before.result is value:
            break
        first -= 1
        if before.value is value:
            reads.insert(0, before)
    indices = tuple(each.index for each in reads)
    if not reads or len(set(indices)) < len(indices):
        return 0
    start = next(at for at in range(first, place) if body[at] is reads[0])
    rest = [each for each in body[start:place] if each not in reads]
    results = tuple(each.result for each in reads)
    body[start : place + 1] = [Unpack(results, indices, value, reads[0].size), *rest]
    return start + len(rest) - place
