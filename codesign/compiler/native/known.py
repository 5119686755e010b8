"""What is known on the way that is being written: values of nodes, how often they are needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

from codesign.ir.control.program import Value
from codesign.ir.relay import expr as relay
from codesign.ir.relay.expr import Expr

_FREE: Final = (relay.Var, relay.Constant, relay.GlobalVar, relay.Constructor)
"""Nodes that cost nothing to name again."""


@final
class Known:
    """Values of nodes of one function; what a way of a branch adds can be taken back.

    `uses` says how many places of the function's body need a node.
    """

    def __init__(self, uses: Mapping[Expr, int]) -> None:
        self._uses = uses
        self._values: dict[Expr, Value] = {}
        self._trail: list[tuple[Expr, Value | None]] = []
        self._demands: dict[Expr, int] = {}
        self._demanded: list[Expr] = []

    def __contains__(self, node: Expr) -> bool:
        return node in self._values

    def value(self, node: Expr) -> Value | None:
        """Return the value of a node on this way; it may be null where the value says so."""
        return self._values.get(node)

    def demand(self, node: Expr) -> None:
        """Note that a place needs a node."""
        self._demands[node] = self._demands.get(node, 0) + 1
        self._demanded.append(node)

    def remember(self, node: Expr, value: Value) -> None:
        """Note the value of a node."""
        self._trail.append((node, self._values.get(node)))
        self._values[node] = value

    def mark(self) -> tuple[int, int]:
        """Return the place to which `roll_back` can return."""
        return len(self._trail), len(self._demanded)

    def roll_back(self, mark: tuple[int, int]) -> dict[Expr, Value]:
        """Forget what was noted since `mark`; return values that other ways may need once more."""
        gained: dict[Expr, Value] = {}
        while len(self._trail) > mark[0]:
            node, before = self._trail.pop()
            value = self._values.pop(node)
            is_free = isinstance(node, _FREE)
            if not is_free and self._demands.get(node, 0) < self._uses.get(node, 0):
                gained.setdefault(node, value)
            if before is not None:
                self._values[node] = before
        while len(self._demanded) > mark[1]:
            self._demands[self._demanded.pop()] -= 1
        return gained
