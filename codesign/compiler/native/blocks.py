"""Blocks of a function that is being written, and evaluation without recursion."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, final

from codesign.ir.control.program import Block, End, Instruction, Value
from codesign.ir.relay.types import TensorType, Type

Task: TypeAlias = Generator["Task", Any, Any]
"""Evaluates one expression: yields what it waits for, is sent its value, returns its own."""


def drive(task: Task) -> Any:
    """Run a task and all that it waits for; return its value. Python's stack does not grow."""
    stack = [task]
    value: Any = None
    while True:
        try:
            stack.append(stack[-1].send(value))
            value = None
        except StopIteration as stop:
            stack.pop()
            value = stop.value
            if not stack:
                return value


@final
class OpenBlock:
    """A block whose end is not written yet."""

    def __init__(self, label: int, params: tuple[Value, ...] = ()) -> None:
        self.label = label
        self.params = params
        self.body: list[Instruction] = []
        self.end: End | None = None

    def closed(self) -> Block:
        """Return the block; it must have an end."""
        assert self.end is not None, f"block {self.label} has no end"
        return Block(self.label, self.params, tuple(self.body), self.end)


@final
class Writer:
    """Writes instructions into the current block of one function."""

    def __init__(self) -> None:
        self.blocks: list[OpenBlock] = []
        self.current = self.open()
        self._count = 0

    def open(self, params: tuple[Value, ...] = ()) -> OpenBlock:
        """Return a new block; it is not the current one."""
        block = OpenBlock(len(self.blocks), params)
        self.blocks.append(block)
        return block

    def value(self, stem: str, type_: Type | None = None, *, is_maybe: bool = False) -> Value:
        """Return a new value."""
        self._count += 1
        tensor = type_ if isinstance(type_, TensorType) else None
        return Value(f"{stem}{self._count}", tensor, is_maybe)

    def add(self, instruction: Instruction) -> None:
        """Write an instruction."""
        self.current.body.append(instruction)

    def finish(self, end: End) -> None:
        """Write the end of the current block."""
        assert self.current.end is None, f"block {self.current.label} ends twice"
        self.current.end = end
