"""Text of one LLVM function, written front to back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import final


@final
@dataclass(slots=True)
class Carried:
    """Values that a loop hands from one turn to the next: set `next` in the body."""

    current: list[str]
    next: list[str]


@final
class FunctionText:
    """Instructions, labels and fresh names of a function that is being written."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.block = "entry"
        self.declarations: set[str] = set()
        self.extents: dict[int, str] = {}
        """Extents that stand for numbers which are known at run time only, and where these are."""
        self._count = 0

    def fresh(self) -> str:
        """Return a name that stands nowhere else in the function."""
        self._count += 1
        return f"v{self._count}"

    def op(self, instruction: str) -> str:
        """Write an instruction with a result and return the result's name."""
        name = f"%{self.fresh()}"
        self.lines.append(f"  {name} = {instruction}")
        return name

    def do(self, instruction: str) -> None:
        """Write an instruction without a result."""
        self.lines.append(f"  {instruction}")

    def label(self, name: str) -> None:
        """Begin a basic block."""
        self.lines.append(f"{name}:")
        self.block = name

    def call(self, result: str, name: str, *args: tuple[str, str]) -> str:
        """Write a call of a declared function: `args` are pairs of type and value."""
        types = ", ".join(kind for kind, _ in args)
        self.declarations.add(f"declare {result} @{name}({types})")
        values = ", ".join(f"{kind} {value}" for kind, value in args)
        return self.op(f"call {result} @{name}({values})")

    @contextmanager
    def loop(
        self, extent: int, carried: tuple[tuple[str, str], ...] = (), *, step: int = 1
    ) -> Iterator[tuple[str, Carried]]:
        """Write a loop of i64 from 0 while below `extent` > 0; the context yields its index.

        `carried` are pairs of type and initial value; after the context `Carried.current` holds
        the last values. A loop of one turn is no loop.
        """
        state = Carried([value for _, value in carried], [value for _, value in carried])
        if extent in self.extents:
            with self._open_loop(self.extents[extent], carried, state, step) as index:
                yield index, state
            return
        if extent <= step:
            yield "0", state
            state.current = state.next
            return
        before, head, after = self.block, self.fresh(), self.fresh()
        self.do(f"br label %{head}")
        self.label(head)
        index, following = f"%{self.fresh()}", f"%{self.fresh()}"
        place = len(self.lines)
        names = [f"%{self.fresh()}" for _ in carried]
        state.current = list(names)
        state.next = list(names)
        yield index, state
        latch = self.block
        phis = [f"  {index} = phi i64 [ 0, %{before} ], [ {following}, %{latch} ]"]
        phis += [
            f"  {name} = phi {kind} [ {initial}, %{before} ], [ {last}, %{latch} ]"
            for name, (kind, initial), last in zip(names, carried, state.next, strict=True)
        ]
        self.lines[place:place] = phis
        self.do(f"{following} = add nuw nsw i64 {index}, {step}")
        again = self.op(f"icmp ult i64 {following}, {extent}")
        self.do(f"br i1 {again}, label %{head}, label %{after}")
        self.label(after)
        state.current = state.next

    @contextmanager
    def _open_loop(
        self, bound: str, carried: tuple[tuple[str, str], ...], state: Carried, step: int
    ) -> Iterator[str]:
        """Write a loop that may have no turn at all."""
        before, head, turn, after = self.block, self.fresh(), self.fresh(), self.fresh()
        self.do(f"br label %{head}")
        self.label(head)
        index, following = f"%{self.fresh()}", f"%{self.fresh()}"
        place = len(self.lines)
        names = [f"%{self.fresh()}" for _ in carried]
        again = self.op(f"icmp ult i64 {index}, {bound}")
        self.do(f"br i1 {again}, label %{turn}, label %{after}")
        self.label(turn)
        state.current = list(names)
        state.next = list(names)
        yield index
        latch = self.block
        phis = [f"  {index} = phi i64 [ 0, %{before} ], [ {following}, %{latch} ]"]
        phis += [
            f"  {name} = phi {kind} [ {initial}, %{before} ], [ {last}, %{latch} ]"
            for name, (kind, initial), last in zip(names, carried, state.next, strict=True)
        ]
        self.lines[place:place] = phis
        self.do(f"{following} = add nuw nsw i64 {index}, {step}")
        self.do(f"br label %{head}")
        self.label(after)
        state.current = list(names)

    def choose(
        self, condition: str, kind: str, then: Callable[[], str], otherwise: Callable[[], str]
    ) -> str:
        """Write `then() if condition else otherwise()` with branches; return the value."""
        yes, no, join = self.fresh(), self.fresh(), self.fresh()
        self.do(f"br i1 {condition}, label %{yes}, label %{no}")
        self.label(yes)
        first, first_block = then(), self.block
        if self.block == yes:
            first_block = yes
        self.do(f"br label %{join}")
        self.label(no)
        second = otherwise()
        second_block = self.block
        self.do(f"br label %{join}")
        self.label(join)
        return self.op(f"phi {kind} [ {first}, %{first_block} ], [ {second}, %{second_block} ]")
