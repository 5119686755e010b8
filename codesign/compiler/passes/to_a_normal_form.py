"""to-a-normal-form: bind every value by a `let`, in the order of evaluation.

    add(nn.relu(%x), exp(%x))
becomes
    let %v1 = nn.relu(%x); let %v2 = exp(%x); add(%v1, %v2)

Operands are atoms: variables, constants, global functions, constructors. The last value of a block
(a function's body, a branch, a clause) stays where it is, so that a call in tail position is one
still. A shared node is bound once, in the innermost block around its uses.

Laws: the answer is the same bit for bit, so are the types; what is in this form is left alone. Time
is linear in the nodes; sharing is never expanded.

Source: Flanagan et al., "The Essence of Compiling with Continuations" (1993); Relay's
ToANormalForm.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, final

from codesign.compiler.analysis.evaluation import Evaluation, Finish, is_atom
from codesign.compiler.let_insertion import insert_lets
from codesign.compiler.pass_manager import Form, PassContext
from codesign.ir.relay.expr import Expr, Function, If, Let, Match
from codesign.ir.relay.module import Module
from codesign.ir.relay.visit import children


@final
@dataclass(frozen=True, slots=True)
class ToANormalForm:
    """Bind every value that is no atom and not the last of its block."""

    name: ClassVar[str] = "to-a-normal-form"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED, Form.A_NORMAL, Form.BASIC_BLOCK})

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module in A-normal form."""
        return insert_lets(module, _is_done, _choose)


def _is_done(evaluation: Evaluation) -> bool:
    return all(_is_normal(node, evaluation) for node in _nodes(evaluation))


def _nodes(evaluation: Evaluation) -> list[Expr]:
    return [event.node for event in evaluation.events if isinstance(event, Finish)]


def _is_normal(node: Expr, evaluation: Evaluation) -> bool:
    if len(evaluation.uses.get(node, ())) > 1:
        return False
    match node:
        case Function():
            return True
        case Let(value=value):
            return not isinstance(value, Let)
        case If(condition):
            return is_atom(condition)
        case Match(value):
            return is_atom(value)
        case _:
            return all(map(is_atom, children(node)))


def _choose(evaluation: Evaluation) -> Collection[Expr]:
    last: set[Expr] = set()
    bound: set[Expr] = set()
    for node in reversed(_nodes(evaluation)):
        if node is evaluation.function:
            continue
        if _is_last(node, evaluation, last):
            last.add(node)
        elif not isinstance(node, Let):
            bound.add(node)
    return bound


def _is_last(node: Expr, evaluation: Evaluation, last: set[Expr]) -> bool:
    """Return whether a node's value is that of its block, and needed by nothing else."""
    if len(evaluation.uses[node]) > 1:
        return False
    (use,) = evaluation.uses[node]
    if isinstance(use.user, Let):
        return use.user in last and node is use.user.body
    return isinstance(use.user, Function) or (use.way >= 0)
