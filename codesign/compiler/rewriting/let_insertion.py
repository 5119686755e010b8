"""Writes a function anew with chosen nodes bound by `let`, each in the block where it is evaluated.

The passes to A-normal form and to basic-block normal form choose differently and share this. What
was evaluated once is evaluated once, in the same order; nothing is evaluated that was not, but what
can neither fail nor do anything.

A node whose first use may be in one of several blocks, and which may fail or do something, becomes
a function that computes it when it is first called, and keeps the value in a cell:

    let %first = fn () { node };
    let %kept = ref(%first);
    let %force = fn () {
      let %compute = ref_read(%kept);
      let %value = %compute();
      let %constant = fn () { %value };
      ref_write(%kept, %constant);
      %value
    };
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import TypeAlias, final

from codesign.compiler.analysis.boundaries import boundary_variables
from codesign.compiler.analysis.effects import Effects
from codesign.compiler.analysis.evaluation import (
    ITSELF,
    Bind,
    Block,
    Evaluation,
    Finish,
    Use,
    is_atom,
    unshare_functions,
)
from codesign.ir.relay.expr import (
    Call,
    Clause,
    Expr,
    Function,
    If,
    Let,
    Match,
    RefNew,
    RefRead,
    RefWrite,
    Var,
)
from codesign.ir.relay.module import Module
from codesign.ir.relay.visit import children, free_variables, with_children

Choice: TypeAlias = Callable[[Evaluation], Collection[Expr]]
"""Says which nodes of a function are bound by a `let`."""


def insert_lets(module: Module, is_done: Callable[[Evaluation], bool], choose: Choice) -> Module:
    """Return the module with every function rewritten that is not done yet."""
    separate = unshare_functions(module)
    effects, boundaries = Effects(separate), boundary_variables(separate)
    functions: dict[str, Function] = {}
    for name, function in separate.functions.items():
        evaluation = Evaluation.of(function, effects.of_all(function))
        functions[name] = (
            function
            if is_done(evaluation)
            else bind_nodes(evaluation, choose(evaluation), boundaries)
        )
    if all(functions[name] is old for name, old in module.functions.items()):
        return module
    return module.with_functions(functions)


def bind_nodes(
    evaluation: Evaluation, bound: Collection[Expr], boundaries: Collection[Var]
) -> Function:
    """Return the function with these nodes let-bound; those that are delayed always are.

    The value of a `let` stays that of its variable, whether chosen or not; but of variables of
    `boundaries` other lengths are known than of their values.
    """
    return _Writer(evaluation, bound, boundaries).function()


@final
@dataclass(slots=True, eq=False)
class _Lines:
    """The bindings of a block so far."""

    lines: list[tuple[Var, Expr]] = field(default_factory=list)
    forced: dict[Expr, Expr] = field(default_factory=dict)
    """The values of delayed nodes that are known in this block."""

    def around(self, result: Expr) -> Expr:
        for var, value in reversed(self.lines):
            result = Let(var, value, result, value.span)
        return result


@final
class _Writer:
    def __init__(
        self, evaluation: Evaluation, bound: Collection[Expr], boundaries: Collection[Var]
    ) -> None:
        self._evaluation = evaluation
        self._bound = bound
        self._values: dict[Expr, Expr] = {}
        self._lines: dict[Block, _Lines] = {}
        self._force: dict[Expr, Var] = {}
        self._let_values = _let_values(evaluation, boundaries)
        self._pinned = _variables_of_kernels(evaluation)
        self._count = 0

    def function(self) -> Function:
        for event in self._evaluation.events:
            match event:
                case Finish(node):
                    self._finish(node)
                case Bind(let):
                    self._bind(let)
                case Use(node=node) if node in self._force:
                    self._demand(event)
                case _:
                    pass
        result = self._values[self._evaluation.function]
        assert isinstance(result, Function), "a function stays one"
        return result

    def _in(self, block: Block) -> _Lines:
        return self._lines.setdefault(block, _Lines())

    def _fresh(self, stem: str) -> Var:
        self._count += 1
        return Var(f"{stem}{self._count}")

    def _emit(self, block: Block, value: Expr, stem: str = "v") -> Var:
        var = self._fresh(stem)
        self._in(block).lines.append((var, value))
        return var

    # --- what a node becomes ----------------------------------------------------------------------

    def _finish(self, node: Expr) -> None:
        made = self._rebuilt(node)
        if node in self._evaluation.delayed:
            self._delay(node, made)
        elif node in self._bound and node not in self._let_values and not is_atom(made):
            self._values[node] = self._emit(self._evaluation.place[node], made)
        else:
            self._values[node] = made

    def _rebuilt(self, node: Expr) -> Expr:
        match node:
            case Let(body=body):
                return self._value(body, self._evaluation.place[node])
            case Function(params):
                return with_children(node, (*params, self._way(node, 0, node.body)))
            case If(condition, then, otherwise):
                ways = (self._way(node, 0, then), self._way(node, 1, otherwise))
                return with_children(node, (self._operand(node, condition), *ways))
            case Match(value, clauses):
                new = tuple(
                    clause if clause.body is body else Clause(clause.pattern, body)
                    for index, clause in enumerate(clauses)
                    for body in (self._way(node, index, clause.body),)
                )
                value_ = self._operand(node, value)
                same = value_ is value and all(a is b for a, b in zip(new, clauses, strict=True))
                return node if same else replace(node, value=value_, clauses=new)
            case _:
                return with_children(node, tuple(self._operand(node, c) for c in children(node)))

    def _operand(self, user: Expr, node: Expr) -> Expr:
        return self._value(node, self._evaluation.place[user])

    def _way(self, user: Expr, way: int, node: Expr) -> Expr:
        block = self._evaluation.blocks[user][way]
        return self._in(block).around(self._value(node, block))

    def _value(self, node: Expr, block: Block) -> Expr:
        if node in self._force:
            known = self._known(node, block)
            assert known is not None, "a delayed node is demanded before it is used"
            return known
        return self._values.get(node, node)

    def _bind(self, let: Let) -> None:
        block = self._evaluation.place[let]
        value = self._value(let.value, block)
        if is_atom(value) and let.var.annotation is None and let.var not in self._pinned:
            self._values[let.var] = value
            return
        self._in(block).lines.append((let.var, value))
        if self._let_values.get(let.value) is let:
            self._values[let.value] = let.var

    # --- delayed nodes ----------------------------------------------------------------------------

    def _delay(self, node: Expr, made: Expr) -> None:
        evaluation = self._evaluation
        home = evaluation.home[node]
        first = self._emit(
            home, Function((), self._in(evaluation.place[node]).around(made)), "first"
        )
        kept = self._emit(home, RefNew(first), "kept")
        force, value = _Lines(), self._fresh("value")
        compute, constant = self._fresh("compute"), self._fresh("constant")
        force.lines = [
            (compute, RefRead(kept)),
            (value, Call(compute, (), None, node.span)),
            (constant, Function((), value)),
            (self._fresh("_"), RefWrite(kept, constant)),
        ]
        self._force[node] = self._emit(home, Function((), force.around(value)), "force")

    def _demand(self, use: Use) -> None:
        block = self._evaluation.block_of(use)
        if self._known(use.node, block) is None:
            call = Call(self._force[use.node], (), None, use.node.span)
            self._in(block).forced[use.node] = self._emit(block, call)

    def _known(self, node: Expr, block: Block | None) -> Expr | None:
        home = self._evaluation.home[node]
        while block is not None:
            found = self._in(block).forced.get(node)
            if found is not None or block is home:
                return found
            block = block.outer
        return None


def _variables_of_kernels(evaluation: Evaluation) -> set[Var]:
    """Return the variables that Primitive functions mention, which nothing looks into."""
    kernels = [each for each in evaluation.start if isinstance(each, Function) and is_atom(each)]
    return {var for each in kernels for var in free_variables(each)}


def _let_values(evaluation: Evaluation, boundaries: Collection[Var]) -> dict[Expr, Let]:
    """Return the nodes that are bound by the `let` whose value they are, and nowhere before."""
    found: dict[Expr, Let] = {}
    for node, uses in evaluation.uses.items():
        first = uses[0]
        if not isinstance(first.user, Let) or first.way != ITSELF or first.user.value is not node:
            continue
        if first.user.var in boundaries and len(uses) > 1:
            continue
        if evaluation.home[node] is evaluation.place[first.user] and node not in evaluation.delayed:
            found[node] = first.user
    return found
