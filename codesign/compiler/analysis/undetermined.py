"""What inference leaves open: parameters, results and expressions whose type nothing determines.

What follows from an open type is not reported again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import final

from codesign.compiler.analysis.call_order import callees
from codesign.compiler.analysis.type_constraints import Constraint, Field, Relation
from codesign.compiler.analysis.unify import Unifier
from codesign.diagnostics import Diagnostic, Problem
from codesign.ir.relay.expr import Expr, Function, OpRef, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.type_algebra import free_type_variables
from codesign.ir.relay.types import FuncType, Type, type_text
from codesign.ir.relay.visit import post_order


@final
class Undetermined:
    """Looks for open types after everything that could be solved is solved."""

    def __init__(
        self,
        module: Module,
        unifier: Unifier[Constraint],
        types: Mapping[Expr, Type],
        constraints: Iterable[Constraint],
    ) -> None:
        self._module = module
        self._names = {function: name for name, function in module.functions.items()}
        self._unifier = unifier
        self._types = types
        self._waiting = [
            each for each in constraints if isinstance(each, Relation | Field) and not each.is_done
        ]

    def mistakes(self, roots: tuple[Expr, ...]) -> Iterator[Diagnostic]:
        """Yield a mistake for each open type under the roots, causes before what follows."""
        nodes = [
            node
            for node in post_order(*roots)
            if node in self._types and not isinstance(node, OpRef)
        ]
        functions = [node for node in nodes if isinstance(node, Function)]
        for function in functions:
            for param in function.params:
                if self._is_open(self._types[param]):
                    yield self._parameter(param)
        for function in functions:
            signature = self._types[function]
            if isinstance(signature, FuncType) and self._is_open(signature.result):
                yield self._result(function, signature.result)
        for node in nodes:
            if self._is_open(self._types[node]):
                yield self._expression(node)
        yield from self._leaks(nodes)

    def _is_open(self, type_: Type) -> bool:
        return not self._unifier.is_poisoned(type_) and bool(self._unifier.open_holes(type_))

    def _settle(self, type_: Type) -> None:
        """Poison what has been reported and what waits for it."""
        self._unifier.poison(type_)
        changed = True
        while changed:
            ready = [e for e in self._waiting if any(map(self._unifier.is_poisoned, e.waits_for()))]
            self._waiting = [each for each in self._waiting if each not in ready]
            for each in ready:
                self._unifier.poison(each.result)
            changed = bool(ready)

    def _parameter(self, param: Var) -> Diagnostic:
        shown = self._shown(self._types[param])
        self._settle(self._types[param])
        return Problem(
            what=f"parameter %{param.name} has no type",
            found="" if shown == "_" else f"found {shown}",
            span=param.span,
            help=f"write %{param.name}: Tensor[(…), float32]",
        )

    def _result(self, function: Function, result: Type) -> Diagnostic:
        shown = self._shown(result)
        self._settle(result)
        name = self._names.get(function)
        written = "a function" if name is None else f"@{name}"
        calls_itself = name is not None and self._is_recursive(name)
        return Problem(
            what=f"{written} {'calls itself and ' if calls_itself else ''}has no result type",
            found="" if shown == "_" else f"found {shown}",
            span=function.span,
            help="annotate its parameters and its result: fn (…) -> Tensor[(…), float32]",
        )

    def _expression(self, node: Expr) -> Diagnostic:
        shown = self._shown(self._types[node])
        self._settle(self._types[node])
        return Problem(
            what="nothing determines the type of an expression",
            found=f"found {shown}",
            span=node.span,
            help=f"annotate it: let %x: {shown.replace('_', '…')} = …",
        )

    def _is_recursive(self, name: str) -> bool:
        reached, pending = set[str](), callees(self._module, name)
        while pending:
            each = pending.pop()
            if each not in reached:
                reached.add(each)
                pending += callees(self._module, each)
        return name in reached

    def _shown(self, type_: Type) -> str:
        return type_text(self._unifier.resolve(type_))

    def _leaks(self, nodes: Sequence[Expr]) -> Iterator[Diagnostic]:
        """Yield a mistake where a type parameter is part of a type outside its function."""
        if not any(isinstance(node, Function) and node.type_params for node in nodes):
            return
        for name, function in self._module.functions.items():
            inside = list(post_order(function))
            known = {p for node in inside if isinstance(node, Function) for p in node.type_params}
            for node in inside:
                type_ = self._types.get(node)
                free = set() if type_ is None else free_type_variables(self._unifier.resolve(type_))
                if free - known:
                    yield Problem(
                        what=f"@{name} mentions a type parameter of another function",
                        found=f"found {self._shown(self._types[node])}",
                        span=node.span,
                        help="annotate the parameters and the result of both functions",
                    )
                    return
