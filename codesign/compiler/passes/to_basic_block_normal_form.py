"""to-basic-block-normal-form: bind by a `let` what several blocks use.

    %0 = exp(%x);
    if (%c) { nn.relu(%0) } else { %0 }
becomes
    let %v1 = exp(%x);
    if (%c) { nn.relu(%v1) } else { %v1 }

Blocks are bodies of functions, branches of `if` and clauses of `match`. What only one block uses is
shared as a node still. A value that reads or writes cells takes with it what does so before it in
its block, so that the order stays.

Laws: the answer is the same bit for bit, so are the types; what is in this form is left alone.

Source: Relay's ToBasicBlockNormalForm.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import ClassVar, final

from codesign.compiler.analysis.effects import ORDERED
from codesign.compiler.analysis.evaluation import Bind, Block, Evaluation, Finish
from codesign.compiler.pass_manager import Form, PassContext
from codesign.compiler.rewriting.let_insertion import insert_lets
from codesign.ir.relay.expr import Expr, Let
from codesign.ir.relay.module import Module


@final
@dataclass(frozen=True, slots=True)
class ToBasicBlockNormalForm:
    """Bind values that cross from one block into another."""

    name: ClassVar[str] = "to-basic-block-normal-form"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED, Form.BASIC_BLOCK})

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module in basic-block normal form."""
        return insert_lets(module, _is_done, _choose)


def _is_done(evaluation: Evaluation) -> bool:
    return not any(map(evaluation.is_spread, evaluation.uses))


def _choose(evaluation: Evaluation) -> Collection[Expr]:
    return _Choice(evaluation).bound()


@final
@dataclass(slots=True, eq=False)
class _Choice:
    """Which nodes are bound; `waiting` are those of a block that keep an order and are not yet."""

    evaluation: Evaluation
    chosen: set[Expr] = field(default_factory=set)
    waiting: dict[Block, list[tuple[int, Expr]]] = field(default_factory=dict)

    def bound(self) -> Collection[Expr]:
        evaluation = self.evaluation
        for position, event in enumerate(evaluation.events):
            match event:
                case Bind(let):
                    self._bind(let.value, evaluation.place[let])
                case Finish(Let() as let):
                    if evaluation.is_spread(let):
                        self.chosen.add(let)
                case Finish(node) if node in evaluation.uses:
                    if evaluation.is_spread(node):
                        self.chosen.add(node)
                        self._bind(node, evaluation.place[node])
                    elif evaluation.effects[node] & ORDERED:
                        waiting = self.waiting.setdefault(evaluation.place[node], [])
                        waiting.append((position, node))
                case _:
                    pass
        return self.chosen

    def _bind(self, node: Expr, block: Block) -> None:
        """Bind what keeps an order and was evaluated before what this node needs."""
        if not self.evaluation.effects.get(node) or not self.evaluation.effects[node] & ORDERED:
            return
        start = self.evaluation.start[node]
        for position, each in self.waiting.pop(block, ()):
            if position < start:
                self.chosen.add(each)
