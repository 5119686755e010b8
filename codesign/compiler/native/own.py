"""Ownership: where a value is owned once more, and where once less.

Everything is dropped right after its last use on each way, or given away there. Source: Reinking,
Xie, de Moura, Leijen, Perceus: Garbage Free Reference Counting with Reuse (2021).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

from codesign.compiler.native.simplify import blocks_backward
from codesign.ir.control.program import (
    Block,
    Drop,
    Dup,
    End,
    Function,
    FunctionValue,
    Instruction,
    Jump,
    Literal,
    MakeData,
    MakeTuple,
    Null,
    Program,
    Region,
    Value,
)
from codesign.ir.control.uses import (
    borrowed,
    end_borrowed,
    end_given,
    given,
    results,
    successors,
)


def own(program: Program) -> Program:
    """Return the program with `Dup` and `Drop`; every object is owned exactly as often as held."""
    return replace(program, functions=tuple(_Owner(each).run() for each in program.functions))


@final
@dataclass(slots=True)
class _Owned:
    """A block's instructions from the last to the first, and what is alive where it begins."""

    body: list[Instruction]
    alive: dict[Value, None]


@final
class _Owner:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.free = _without_owner(function)
        self.done: dict[int, _Owned] = {}

    def run(self) -> Function:
        for block in blocks_backward(self.function):
            self.done[block.label] = self._block(block)
        entry = self.done[self.function.blocks[0].label]
        own = () if self.function.self is None else (self.function.self,)
        self._drop_unused((*own, *self.function.params), entry)
        blocks = tuple(
            replace(block, body=tuple(reversed(self.done[block.label].body)))
            for block in self.function.blocks
            if block.label in self.done
        )
        return replace(self.function, blocks=blocks)

    def _drop_unused(self, values: tuple[Value, ...], block: _Owned) -> None:
        block.body += [
            Drop(value) for value in values if value not in self.free and value not in block.alive
        ]

    def _block(self, block: Block) -> _Owned:
        owned = _Owned([], self._after(block.end))
        self._end(block.end, owned)
        for instruction in reversed(block.body):
            self._instruction(instruction, owned)
        self._drop_unused(block.params, owned)
        for param in block.params:
            owned.alive.pop(param, None)
        return owned

    def _after(self, end: End) -> dict[Value, None]:
        """Return what is alive behind a block; what only one way needs, the others drop."""
        if isinstance(end, Jump):
            return dict(self.done[end.target].alive)
        ways = [self.done[label] for label in successors(end)]
        alive: dict[Value, None] = {}
        for way in ways:
            alive.update(way.alive)
        alive.update(dict.fromkeys(v for v in end_borrowed(end) if v not in self.free))
        for way in ways:
            self._drop_unused(tuple(alive), way)
        return alive

    def _end(self, end: End, owned: _Owned) -> None:
        self._give(end_given(end), owned)

    def _give(self, values: tuple[Value, ...], owned: _Owned) -> None:
        """Own a value once more for each time that it is given away and still needed."""
        for value in values:
            if value in self.free:
                continue
            if value in owned.alive:
                owned.body.append(Dup(value))
            owned.alive[value] = None

    def _instruction(self, instruction: Instruction, owned: _Owned) -> None:
        for result in results(instruction):
            if result not in self.free and result not in owned.alive:
                owned.body.append(Drop(result))
            owned.alive.pop(result, None)
        last = [
            value
            for value in borrowed(instruction)
            if value not in owned.alive and value not in self.free
        ]
        owned.alive.update(dict.fromkeys(last))
        if isinstance(instruction, Region):
            owned.body.append(replace(instruction, dying=frozenset(last)))
        else:
            owned.body += [Drop(value) for value in last]
            owned.body.append(instruction)
        self._give(given(instruction), owned)


def _without_owner(function: Function) -> set[Value]:
    """Return the values that are no counted objects: those that exist once, null, flags."""
    free: set[Value] = set()
    for block in function.blocks:
        for each in block.body:
            match each:
                case Literal(result) | Null(result) | FunctionValue(result):
                    free.add(result)
                case MakeTuple(result, ()) | MakeData(result, _, ()):
                    free.add(result)
                case Region(flags=flags):
                    free |= flags
                case _:
                    pass
    return free
