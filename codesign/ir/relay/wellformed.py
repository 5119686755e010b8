"""wellformed: what every pass may rely on, checked.

A variable is bound once and used only where it is in scope; parameters are distinct; a global
variable names a function of the module; an operator stands only where it is called; a field's index
is not negative. All mistakes of a module are reported together.
"""

from __future__ import annotations

from dataclasses import dataclass

from codesign.diagnostics import CodesignError, Diagnostic, Problem, Span
from codesign.ir.relay.expr import Call, Expr, Function, GlobalVar, Let, OpRef, Project, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.visit import children, free_variables


def check_module(module: Module) -> None:
    """Refuse a module that is not well-formed.

    Raises
    ------
    CodesignError
        All mistakes together.
    """
    check = _Check(module)
    for function in module.functions.values():
        check.walk(function)
    if check.mistakes:
        raise CodesignError(*check.mistakes)


@dataclass(frozen=True, slots=True, eq=False)
class _Scope:
    """The variables that are bound here; scopes compare by identity."""

    bound: tuple[Var, ...]


@dataclass(frozen=True, slots=True)
class _Leave:
    """A mark on the stack: the scope ends."""

    scope: _Scope


class _Check:
    def __init__(self, module: Module) -> None:
        self.mistakes: list[Diagnostic] = []
        self._module = module
        self._first: dict[Expr, _Scope] = {}
        self._bound: set[Var] = set()
        self._visible: set[Var] = set()
        self._open: set[_Scope] = set()

    def walk(self, root: Expr) -> None:
        top = _Scope(())
        self._open.add(top)
        stack: list[tuple[Expr, _Scope] | _Scope | _Leave] = [(root, top)]
        while stack:
            match stack.pop():
                case _Leave(scope):
                    self._open.discard(scope)
                    self._visible.difference_update(scope.bound)
                case _Scope() as scope:
                    self._open.add(scope)
                    self._visible.update(scope.bound)
                case (node, scope):
                    stack.extend(reversed(self._visit(node, scope)))
        self._open.discard(top)

    def _visit(self, node: Expr, scope: _Scope) -> list[tuple[Expr, _Scope] | _Scope | _Leave]:
        if isinstance(node, Var):
            if node not in self._visible:
                self._report(f"%{node.name} is used outside its scope", node.span)
            return []
        if node in self._first:
            self._revisit(node)
            return []
        self._first[node] = scope
        self._check_node(node)
        match node:
            case Let(var, value, body):
                inner = _Scope((var,))
                if isinstance(value, Function):
                    return [inner, (value, inner), (body, inner), _Leave(inner)]
                return [(value, scope), inner, (body, inner), _Leave(inner)]
            case Function(params, body):
                inner = _Scope(params)
                return [inner, (body, inner), _Leave(inner)]
            case _:
                return [(each, scope) for each in children(node) if not isinstance(each, OpRef)]

    def _revisit(self, node: Expr) -> None:
        """Check a shared node where its first place is not around this one."""
        if self._first[node] in self._open:
            return
        for var in free_variables(node):
            if var not in self._visible:
                self._report(f"%{var.name} is used outside its scope", node.span or var.span)

    def _check_node(self, node: Expr) -> None:
        match node:
            case Let(var=var):
                self._bind((var,))
            case Function(params=params):
                self._bind(params)
            case GlobalVar(name, span) if name not in self._module.functions:
                self._report(f"no function is named @{name}", span)
            case Project(index=index, span=span) if index < 0:
                self._report(f"a tuple has no field {index}", span)
            case Call(args=args):
                self._refuse_operators(args)
            case _:
                pass
        if not isinstance(node, Call):
            self._refuse_operators(children(node))

    def _refuse_operators(self, values: tuple[Expr, ...]) -> None:
        for value in values:
            if isinstance(value, OpRef):
                self._report(f"operator {value.name} is used as a value", value.span)

    def _bind(self, variables: tuple[Var, ...]) -> None:
        for var in variables:
            if var in self._bound:
                self._report(f"%{var.name} is bound twice", var.span)
            self._bound.add(var)

    def _report(self, what: str, span: Span | None) -> None:
        self.mistakes.append(Problem(what=what, span=span))
