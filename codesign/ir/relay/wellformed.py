"""wellformed: what every pass may rely on, checked.

A variable is bound once and used only where it is in scope; parameters are distinct; a global
variable names a function of the module; an operator stands only where it is called, and so does a
constructor without fields; constructors and data types are those of the module; a type parameter is
in scope where a type mentions it, and hides no other; a field's index is not negative. All mistakes
of a module are reported together.
"""

from __future__ import annotations

from dataclasses import dataclass

from codesign.diagnostics import CodesignError, Diagnostic, Problem, Span
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
    Pattern,
    PatternConstructor,
    PatternTuple,
    Project,
    Var,
    pattern_variables,
)
from codesign.ir.relay.kinds import data_type_mistakes, kind_mistakes
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import Type, TypeVar
from codesign.ir.relay.visit import children, free_variables


def check_module(module: Module) -> None:
    """Refuse a module that is not well-formed.

    Raises
    ------
    CodesignError
        All mistakes together.
    """
    check = _Check(module)
    check.mistakes.extend(data_type_mistakes(module))
    for function in module.functions.values():
        check.walk(function)
    if check.mistakes:
        raise CodesignError(*check.mistakes)


@dataclass(frozen=True, slots=True, eq=False)
class _Scope:
    """The variables and type parameters that are bound here; scopes compare by identity."""

    bound: tuple[Var, ...]
    type_params: tuple[TypeVar, ...] = ()


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
        self._type_params: set[TypeVar] = set()
        self._constructors = module.constructors()

    def walk(self, root: Expr) -> None:
        top = _Scope(())
        self._open.add(top)
        stack: list[tuple[Expr, _Scope] | _Scope | _Leave] = [(root, top)]
        while stack:
            match stack.pop():
                case _Leave(scope):
                    self._open.discard(scope)
                    self._visible.difference_update(scope.bound)
                    self._type_params.difference_update(scope.type_params)
                case _Scope() as scope:
                    self._open.add(scope)
                    self._visible.update(scope.bound)
                    self._enter_types(scope)
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
                inner = _Scope(params, _distinct(node.type_params))
                return [inner, (body, inner), _Leave(inner)]
            case Match(value, clauses):
                return [(value, scope), *(each for c in clauses for each in _clause(c))]
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
                self._check_type_params(node)
            case Match(clauses=clauses):
                for clause in clauses:
                    self._bind(pattern_variables(clause.pattern))
                    self._check_pattern(clause.pattern, node.span)
            case Constructor(name, span) if name not in self._constructors:
                self._report(f"no constructor is named {name}", span)
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
            if isinstance(value, Constructor) and self._is_nullary(value.name):
                self._report(f"constructor {value.name} has no fields: call it", value.span)

    def _is_nullary(self, constructor: str) -> bool:
        known = self._constructors.get(constructor)
        return known is not None and not known[1].fields

    def _bind(self, variables: tuple[Var, ...]) -> None:
        for var in variables:
            if var in self._bound:
                self._report(f"%{var.name} is bound twice", var.span)
            self._bound.add(var)

    def _enter_types(self, scope: _Scope) -> None:
        for var in scope.bound:
            self._check_type(var.annotation, (*self._type_params, *scope.type_params), var.span)
        self._type_params.update(scope.type_params)

    def _check_type_params(self, function: Function) -> None:
        for each in function.type_params:
            if each in self._type_params or function.type_params.count(each) > 1:
                self._report(f"type parameter {each.name} hides another", function.span)
        visible = (*self._type_params, *function.type_params)
        self._check_type(function.result_type, visible, function.span)

    def _check_type(
        self, type_: Type | None, visible: tuple[TypeVar, ...], span: Span | None
    ) -> None:
        if type_ is not None:
            self.mistakes.extend(kind_mistakes(type_, self._module.data_types, visible, span))

    def _check_pattern(self, pattern: Pattern, span: Span | None) -> None:
        if isinstance(pattern, PatternConstructor) and pattern.name not in self._constructors:
            self._report(f"no constructor is named {pattern.name}", pattern.span or span)
        if isinstance(pattern, PatternConstructor | PatternTuple):
            for field in pattern.fields:
                self._check_pattern(field, span)

    def _report(self, what: str, span: Span | None) -> None:
        self.mistakes.append(Problem(what=what, span=span))


def _distinct(type_params: tuple[TypeVar, ...]) -> tuple[TypeVar, ...]:
    return tuple(dict.fromkeys(type_params))


def _clause(clause: Clause) -> list[tuple[Expr, _Scope] | _Scope | _Leave]:
    inner = _Scope(pattern_variables(clause.pattern))
    return [inner, (clause.body, inner), _Leave(inner)]
