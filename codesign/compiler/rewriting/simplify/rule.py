"""A rule, and how rules are applied until none fits any more.

A rule looks at a call and what is below it, which is simplified already. What it makes must have
the type of what it replaces, or it is left alone: a constant that widens a shape is not dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, final

import numpy as np

from codesign.compiler.analysis.facts import Facts
from codesign.compiler.rewriting.dataflow_pattern import Bindings, Operation, match, operation_names
from codesign.dtypes import Array
from codesign.ir.relay.expr import Attrs, Call, Constant, Expr, OpRef
from codesign.ir.relay.types import Type
from codesign.ir.relay.visit import children, post_order, rewrite_pairs, with_children

_MOST_STEPS: Final = 1000


@final
@dataclass(frozen=True, slots=True)
class Found:
    """Where a pattern fits: the call, what its names stand for, and what is known."""

    root: Call
    bindings: Bindings
    facts: Facts

    def __getitem__(self, name: str) -> Expr:
        """Return what a name of the pattern stands for."""
        return self.bindings[name]

    def call(self, name: str, *args: Expr, attrs: Attrs | None = None) -> Call:
        """Return a call of an operator at the place of the root."""
        return Call(OpRef(name, self.root.span), args, attrs, self.root.span)

    def constant(self, value: Array) -> Constant:
        """Return a constant at the place of the root."""
        return Constant(value, self.root.span)

    def scalar(self, value: float, like: Expr) -> Constant:
        """Return a scalar of an expression's element type."""
        dtype = self.facts.dtype(like)
        assert dtype is not None, "a scalar is like a tensor"
        return self.constant(np.asarray(value, dtype.numpy))


Make: TypeAlias = Callable[[Found], Expr | None]
"""What takes the place of the root, None where the rule does not hold here."""


@final
@dataclass(frozen=True, slots=True)
class Rule:
    """What `make` says replaces what the pattern finds, for the reason that `law` states.

    A rule that is not `exact` changes how floating-point numbers are rounded.
    """

    law: str
    pattern: Operation
    make: Make
    exact: bool = True


Rules: TypeAlias = Mapping[str, tuple[Rule, ...]]


def by_operator(rules: Iterable[Rule]) -> Rules:
    """Return the rules for each operator, in the order given."""
    found: dict[str, tuple[Rule, ...]] = {}
    for rule in rules:
        for name in rule.pattern.names:
            found[name] = (*found.get(name, ()), rule)
    return found


def simplified(body: Expr, types: Mapping[Expr, Type], rules: Rules) -> Expr:
    """Return an expression in which no rule fits any more."""
    return _Simplifier(types, rules).run(body)


@final
class _Simplifier:
    def __init__(self, types: Mapping[Expr, Type], rules: Rules) -> None:
        self.facts = Facts(types)
        self.rules = rules
        self.settled: set[Expr] = set()

    def run(self, body: Expr) -> Expr:
        return rewrite_pairs(body, self._visit)

    def _visit(self, original: Expr, rebuilt: Expr) -> Expr:
        self.facts.replaced(original, rebuilt)
        new = self._settle(rebuilt)
        self.facts.replaced(original, new)
        return new

    def _settle(self, expr: Expr) -> Expr:
        for _ in range(_MOST_STEPS):
            new = self._step(expr)
            if new is None:
                self.settled.add(expr)
                return expr
            expr = self._settle_below(new)
        raise AssertionError(f"rules for {expr} do not end")

    def _step(self, expr: Expr) -> Expr | None:
        if not isinstance(expr, Call) or not isinstance(expr.callee, OpRef):
            return None
        for rule in self.rules.get(expr.callee.name, ()):
            bindings = match(rule.pattern, expr)
            if bindings is None:
                continue
            new = rule.make(Found(expr, bindings, self.facts))
            if new is not None and self._is_sound(rule, expr, new, bindings):
                return new
        return None

    def _is_sound(self, rule: Rule, old: Expr, new: Expr, bindings: Bindings) -> bool:
        """Return whether the type stays, and what has to do with cells happens in its order."""
        wanted = self.facts.type_of(old)
        if wanted is None or self.facts.type_of(new) != wanted:
            return False
        if self.facts.is_inert(old):
            return True
        matched = operation_names(rule.pattern)
        leaves = frozenset(each for name, each in bindings.items() if name not in matched)
        return self.facts.acts(old, leaves) == self.facts.acts(new, leaves)

    def _settle_below(self, new: Expr) -> Expr:
        """Return what a rule made with all that it made below settled."""
        made: dict[Expr, Expr] = {}
        for node in post_order(new, below=self._unsettled):
            if node is new or node in self.settled:
                continue
            rebuilt = self._with(node, made)
            made[node] = self._settle(rebuilt)
        return new if new in self.settled else self._with(new, made)

    def _unsettled(self, node: Expr) -> tuple[Expr, ...]:
        return () if node in self.settled else children(node)

    def _with(self, node: Expr, made: Mapping[Expr, Expr]) -> Expr:
        return with_children(node, tuple(made.get(each, each) for each in children(node)))
