"""What evaluating an expression may do beside giving a value.

Reading and writing cells keep their order and their number. A new cell is another one each time.
What may fail (an operator that refuses values, a partial match, a call that may not end) may be
left out where its value is not needed, but never be evaluated where it was not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Flag
from typing import Final, final

from codesign.compiler.analysis.boundaries import is_gradual
from codesign.compiler.analysis.call_order import callees_first
from codesign.ir.relay.expr import (
    Call,
    Clause,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    Let,
    Match,
    OpRef,
    RefNew,
    RefRead,
    RefWrite,
    Var,
    pattern_variables,
)
from codesign.ir.relay.module import Module
from codesign.ir.relay.visit import children, post_order
from codesign.ops.table import OPERATORS


class Effect(Flag):
    """What an evaluation may do; flags are joined by `|`."""

    NONE = 0
    ALLOCATES = 1
    """Makes a new cell."""
    FAILS = 2
    """May refuse its values, or not end."""
    READS = 4
    """Reads a cell."""
    WRITES = 8
    """Writes a cell."""


ORDERED: Final = Effect.READS | Effect.WRITES
"""Effects that keep their order among each other."""

ANYTHING: Final = Effect.ALLOCATES | Effect.FAILS | ORDERED
"""What a function may do of which nothing is known."""

_REFUSING: Final = frozenset(
    {"divide", "take", "gather_nd", "gather_elements", "one_hot", "qnn.requantize"}
    | {name for name, record in OPERATORS.items() if record.refuses}
)
"""Operators that refuse some values of the right type; `dyn.…` do too."""


@final
@dataclass(slots=True)
class _Calls:
    """What variables are bound to, and what calls of functions may do, so far."""

    values: Mapping[Var, Expr]
    latent: dict[Expr, Effect] = field(default_factory=dict)

    def function(self, callee: Expr) -> Expr:
        """Return what is called, behind its names."""
        while True:
            match callee:
                case Var() if callee in self.values:
                    callee = self.values[callee]
                case Let(body=body):
                    callee = body
                case _:
                    return callee


@final
class Effects:
    """Effects of the expressions of one module."""

    def __init__(self, module: Module) -> None:
        self._is_gradual = is_gradual(module)
        # A call of what is not known yet goes round in a circle: it may not end.
        self._globals = dict.fromkeys(module.functions, Effect.FAILS)
        names = {function: name for name, function in module.functions.items()}
        order = callees_first(module)
        changed = True
        while changed:
            changed = False
            for function in order:
                found = self.of_all(function)[function.body] | self._checked()
                changed |= found != self._globals[names[function]]
                self._globals[names[function]] = found

    def latent(self, name: str) -> Effect:
        """Return what a call of a global function may do."""
        return self._globals.get(name, ANYTHING)

    def of_all(self, *roots: Expr) -> Mapping[Expr, Effect]:
        """Return for every node under the roots what evaluating it, operands included, may do.

        Making a function does nothing; what its body may do counts where it is called.
        """
        nodes = list(post_order(*roots))
        calls = _Calls({node.var: node.value for node in nodes if isinstance(node, Let)})
        found: dict[Expr, Effect] = {}
        for _ in range(2):  # the second time calls of a function in itself are known
            for node in nodes:
                found[node] = self._effect(node, found, calls)
                if isinstance(node, Function):
                    calls.latent[node] = found[node.body] | self._checked()
        return found

    def _checked(self) -> Effect:
        """Return what binding a variable with an annotation may do."""
        return Effect.FAILS if self._is_gradual else Effect.NONE

    def _effect(self, node: Expr, known: Mapping[Expr, Effect], calls: _Calls) -> Effect:
        if isinstance(node, Function):
            return Effect.NONE
        effect = self._own(node, calls)
        for each in children(node):
            effect |= known[each]
        return effect

    def _own(self, node: Expr, calls: _Calls) -> Effect:
        match node:
            case Call(callee):
                return self._call(calls.function(callee), calls)
            case RefNew():
                return Effect.ALLOCATES
            case RefRead():
                return Effect.READS
            case RefWrite():
                return Effect.WRITES
            case Match(complete=False):
                return Effect.FAILS
            case Match(clauses=clauses) if any(map(_is_annotated, clauses)):
                return self._checked()
            case Let(Var(annotation=annotation)) if annotation is not None:
                return self._checked()
            case _:
                return Effect.NONE

    def _call(self, callee: Expr, calls: _Calls) -> Effect:
        match callee:
            case OpRef(name):
                refuses = name in _REFUSING or name.startswith("dyn.")
                return Effect.FAILS if refuses else self._checked()
            case Constructor():
                return Effect.NONE
            case GlobalVar(name):
                return self.latent(name)
            case Function():
                return calls.latent.get(callee, Effect.FAILS)  # it is called in itself
            case _:
                return ANYTHING


def _is_annotated(clause: Clause) -> bool:
    return any(var.annotation is not None for var in pattern_variables(clause.pattern))
