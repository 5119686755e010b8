"""What evaluating an expression may do beside giving a value.

Reading and writing cells keep their order and their number. A new cell is another one each time.
What may fail (an operator that refuses values, a partial match, a call that may not end) may be
left out where its value is not needed, but never be evaluated where it was not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Flag
from typing import Final, final

from codesign.compiler.analysis.boundaries import is_gradual
from codesign.compiler.analysis.call_order import callees_first
from codesign.ir.relay.expr import (
    Call,
    Clause,
    Constant,
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
    is_circular: bool = False
    """Whether a function was called before it was known what its calls may do."""

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
        self._known: set[str] = set()
        self._is_circular = False
        names = {function: name for name, function in module.functions.items()}
        order = callees_first(module)
        changed = True
        while changed:
            changed = False
            for function in order:
                name = names[function]
                found = self.of_all(function)[function.body] | self._checked()
                changed |= self._is_circular and found != self._globals[name]
                self._globals[name] = found
                self._known.add(name)

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
        self._judge(nodes, found, calls)
        if calls.is_circular:  # now calls of a function in itself are known
            self._judge(nodes, found, calls)
        return found

    def _judge(self, nodes: Sequence[Expr], found: dict[Expr, Effect], calls: _Calls) -> None:
        for node in nodes:
            found[node] = self._effect(node, found, calls)
            if isinstance(node, Function):
                calls.latent[node] = found[node.body] | self._checked()

    def _checked(self) -> Effect:
        """Return what binding a variable with an annotation may do."""
        return Effect.FAILS if self._is_gradual else Effect.NONE

    def _effect(self, node: Expr, known: Mapping[Expr, Effect], calls: _Calls) -> Effect:
        if isinstance(node, Function):
            return Effect.NONE
        effect = self._own(node, calls)
        for each in children(node):
            below = known[each]
            if below is not effect and below is not Effect.NONE:  # a sum of flags takes long
                effect |= below
        return effect

    def _own(self, node: Expr, calls: _Calls) -> Effect:
        match node:
            case Var() | Constant() | OpRef():
                return Effect.NONE
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
                self._is_circular |= name not in self._known
                return self.latent(name)
            case Function():
                calls.is_circular |= callee not in calls.latent
                return calls.latent.get(callee, Effect.FAILS)
            case _:
                return ANYTHING


def _is_annotated(clause: Clause) -> bool:
    return any(var.annotation is not None for var in pattern_variables(clause.pattern))
