"""eliminate-dead-code: drop bindings, cells and functions that nothing uses.

    let %unused = exp(%x); let %r = ref(%x); ref_write(%r, %x); nn.relu(%x)
becomes
    nn.relu(%x)

A binding goes where its variable is not used and its value writes no cell that others may see. A
cell that is only written goes with what is written to it. Reads and writes that stay keep their
order. An error of a value that is not needed goes with the value.

Laws: the answer is the same bit for bit, so are the types; a second run changes nothing. Time is
linear in the nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, final

from codesign.compiler.analysis.annotate import keeping_types, without_unreached
from codesign.compiler.analysis.effects import ORDERED, Effect, Effects
from codesign.compiler.pass_manager import Form, PassContext
from codesign.ir.relay.expr import Expr, Function, Let, Match, RefNew, RefWrite, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.visit import children, post_order, rewrite_pairs


@final
@dataclass(frozen=True, slots=True)
class EliminateDeadCode:
    """Drop lets whose value is not needed, then functions that main does not reach."""

    name: ClassVar[str] = "eliminate-dead-code"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module without what is unused."""
        return keeping_types(module, _without_dead_code)


def _without_dead_code(module: Module) -> Module:
    live = without_unreached(module)
    while (cleaned := _cleaned(live)) is not live:  # a function may have lost its writes
        live = without_unreached(cleaned)
    return live


def _cleaned(module: Module) -> Module:
    effects = Effects(module)
    functions: dict[str, Function] = {}
    for name, function in module.functions.items():
        if not any(isinstance(node, Let) for node in post_order(function)):
            functions[name] = function
            continue
        needed = _Needed(function, effects.of_all(function))
        rewritten = rewrite_pairs(function, needed.rule)
        assert isinstance(rewritten, Function), "a function stays one"
        functions[name] = rewritten
    if all(functions[name] is old for name, old in module.functions.items()):
        return module
    return module.with_functions(functions)


@final
class _Needed:
    """Which nodes of a function are needed, found from its body on.

    The value of a `let` waits until its variable is needed, a write until its cell is.
    """

    def __init__(self, function: Function, effects: Mapping[Expr, Effect]) -> None:
        self._effects = effects
        self._needed: set[Expr] = set()
        self._values: dict[Expr, Expr] = {}
        self._writes: dict[Expr, list[Expr]] = {}
        self._pending: list[Expr] = [function]
        self._cells = {
            node.var
            for node in post_order(function)
            if isinstance(node, Let) and isinstance(node.value, RefNew)
        }
        self._follow()
        while self._keep_early_reads():
            self._follow()

    def rule(self, original: Expr, rebuilt: Expr) -> Expr:
        """Return a `let` that is needed; of another one the body."""
        if not isinstance(original, Let) or original.var in self._needed:
            return rebuilt
        assert isinstance(rebuilt, Let), "a let is rebuilt as one"
        must_stay = self._effects[original.value] & ORDERED and original.value in self._needed
        return rebuilt if must_stay else rebuilt.body

    def _follow(self) -> None:
        while self._pending:
            node = self._pending.pop()
            if node not in self._needed:
                self._needed.add(node)
                self._visit(node)

    def _visit(self, node: Expr) -> None:
        match node:
            case Let():
                self._visit_let(node)
            case Var():
                self._pending += self._writes.pop(node, ())
                if node in self._values:
                    self._pending.append(self._values.pop(node))
            case Function(body=body):
                self._pending.append(body)
            case Match(value, clauses):
                self._pending += (value, *(each.body for each in clauses))
            case _:
                self._pending += children(node)

    def _visit_let(self, let: Let) -> None:
        self._pending.append(let.body)
        if let.var in self._needed:
            self._pending.append(let.value)
            return
        self._values[let.var] = let.value
        if not self._effects[let.value] & Effect.WRITES:
            return
        cell = self._only_written(let.value)
        if cell is None or cell in self._needed:
            self._pending.append(let.value)
        else:
            self._writes.setdefault(cell, []).append(let.value)

    def _only_written(self, value: Expr) -> Var | None:
        """Return the cell of this function to which a write, which does nothing else, goes."""
        match value:
            case RefWrite(Var() as cell, written) if cell in self._cells:
                return None if self._effects[written] & Effect.WRITES else cell
            case _:
                return None

    def _keep_early_reads(self) -> bool:
        """Keep lets of reads that others share: they would be read later, after writes."""
        for value in self._values.values():
            if value not in self._needed and self._effects[value] & Effect.READS:
                inside = post_order(value, below=self._reading)
                if any(each in self._needed and self._effects[each] & ORDERED for each in inside):
                    self._pending.append(value)
        return bool(self._pending)

    def _reading(self, node: Expr) -> Iterator[Expr]:
        if not isinstance(node, Function):
            yield from (each for each in children(node) if self._effects[each] & ORDERED)
