"""How far calls are followed: fuel, and for recursion an argument that shrinks.

A function that calls itself is followed while one of its arguments, always the same one, becomes
smaller: a list that is known has fewer elements, a number is nearer to zero.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import final

from codesign.compiler.analysis.boundaries import compares_lengths
from codesign.compiler.rewriting.partial.values import Partial, is_informative
from codesign.ir.relay.expr import Function


@final
@dataclass(frozen=True, slots=True)
class _Run:
    """A call that is being evaluated: how much is known of its arguments, and which one shrinks."""

    sizes: tuple[int, ...]
    shrinking: int | None


@final
class Limits:
    """Decides which calls of known functions are evaluated where they stand.

    `fuel` such calls in all, at most `unroll` of one function within each other. A function of
    `recursive` is followed only for an argument that can shrink; one of `plain`, a global function
    that gives tensors, only where more than names is known of its arguments.
    """

    def __init__(
        self,
        fuel: int,
        unroll: int,
        recursive: Collection[Function],
        plain: Collection[Function],
    ) -> None:
        self._fuel = fuel
        self._unroll = unroll
        self._recursive = recursive
        self._plain = plain
        self._runs: dict[Function, list[_Run]] = {}

    def allows(self, function: Function, args: tuple[Partial, ...]) -> bool:
        """Return whether a call is evaluated here; one that compares lengths is not."""
        if self._fuel <= 0 or len(args) != len(function.params) or compares_lengths(function):
            return False
        if function in self._plain and not any(map(is_informative, args)):
            return False
        runs = self._runs.get(function)
        if not runs:
            return function not in self._recursive or any(each.size for each in args)
        return len(runs) < self._unroll and self._shrinking(runs[-1], args) is not None

    @contextmanager
    def running(
        self, function: Function, args: tuple[Partial, ...] | None = None
    ) -> Iterator[None]:
        """Note a call while it is evaluated; without arguments the function is written down."""
        runs = self._runs.setdefault(function, [])
        if args is None:
            runs.append(_Run((0,) * len(function.params), None))
        else:
            self._fuel -= 1
            shrinking = self._shrinking(runs[-1], args) if runs else None
            runs.append(_Run(tuple(each.size for each in args), shrinking))
        try:
            yield
        finally:
            runs.pop()

    def _shrinking(self, last: _Run, args: tuple[Partial, ...]) -> int | None:
        smaller = [
            index
            for index, (arg, before) in enumerate(zip(args, last.sizes, strict=True))
            if arg.size < before
        ]
        if last.shrinking is not None:
            return last.shrinking if last.shrinking in smaller else None
        return smaller[0] if smaller else None
