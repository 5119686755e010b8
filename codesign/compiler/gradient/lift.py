"""Lifts one global function for reverse mode: the rule for each kind of expression."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, final

from codesign.compiler.gradient.lifted_types import LiftedTypes
from codesign.compiler.gradient.rule import backward, has_float
from codesign.ir.relay.expr import (
    Call,
    Constant,
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
    RefNew,
    RefRead,
    RefWrite,
    Tuple,
    Var,
)
from codesign.ir.relay.module import Module
from codesign.ir.relay.type_algebra import substitute_type
from codesign.ir.relay.types import FuncType, RefType, TensorType, TupleType, Type, TypeVar
from codesign.ir.relay.visit import rewrite_pairs
from codesign.ops.operator import Forward
from codesign.ops.table import call

BACK_TYPE: Final = RefType(FuncType((), TupleType(())))
"""The cell that holds what runs backwards."""


def sequence(steps: Iterable[tuple[Var, Expr]], body: Expr) -> Expr:
    """Return nested lets: each step in the scope of those before it."""
    for var, value in reversed(tuple(steps)):
        body = Let(var, value, body)
    return body


@final
class Lift:
    """Lifts one global function of a module; `names` are those of lifted global functions."""

    def __init__(
        self,
        types: Mapping[Expr, Type],
        lifted: LiftedTypes,
        names: Mapping[str, str],
        module: Module,
    ) -> None:
        self._types = types
        self._lifted = lifted
        self._names = names
        self._module = module
        self._back = Var("back", BACK_TYPE)

    def global_function(self, function: Function) -> Function:
        """Return the function's twin: lifted, with the cell that runs backwards put first."""
        result = rewrite_pairs(function, self._rule)
        assert isinstance(result, Function), "a function stays one"
        return replace(result, params=(self._back, *result.params))

    def _rule(self, node: Expr, rebuilt: Expr) -> Expr:
        match node, rebuilt:
            case Var(), _:
                return self._variable(node)
            case GlobalVar(), _:
                return self._function_value(node)
            case Constant(), _:
                return _paired(node, self._types[node])
            case Constructor(name), _:
                return replace(node, name=self._lifted.constructors.get(name, name))
            case Call(OpRef()), Call():
                return self._operator(node, rebuilt)
            case Call(GlobalVar(name, span)), Call(_, args) if name in self._names:
                twin = GlobalVar(self._names[name], span)
                return replace(rebuilt, callee=twin, args=(self._back, *args))
            case Function(), Function():
                signature = self._types[node]
                assert isinstance(signature, FuncType), "a function has the type of a function"
                result = self._lifted.lift(signature.result)
                return replace(rebuilt, result_type=result, attributes={})
            case Match(), Match(_, clauses):
                twins = tuple(replace(c, pattern=self._pattern(c.pattern)) for c in clauses)
                return replace(rebuilt, clauses=twins)
            case _:
                return rebuilt

    def _variable(self, var: Var) -> Var:
        return Var(var.name, self._lifted.lift(self._types[var]), var.span)

    def _pattern(self, pattern: Pattern) -> Pattern:
        match pattern:
            case PatternConstructor(name, fields):
                twin = self._lifted.constructors.get(name, name)
                return replace(pattern, name=twin, fields=tuple(map(self._pattern, fields)))
            case PatternTuple(fields):
                return replace(pattern, fields=tuple(map(self._pattern, fields)))
            case _:
                return pattern

    def _function_value(self, node: GlobalVar) -> Expr:
        """Return the twin as a function of its own parameters: `%back` is bound here."""
        if node.name not in self._names:
            return node
        function = self._module.functions[node.name]
        signature = self._types[function]
        assert isinstance(signature, FuncType), "a function has the type of a function"
        renamed: dict[TypeVar, Type] = {
            each: TypeVar(f"{each.name}_{node.name}_value") for each in signature.type_params
        }
        fresh = tuple(each for each in renamed.values() if isinstance(each, TypeVar))
        params = tuple(
            Var(param.name, substitute_type(self._lifted.lift(type_), renamed))
            for param, type_ in zip(function.params, signature.params, strict=True)
        )
        body = Call(GlobalVar(self._names[node.name], node.span), (self._back, *params))
        result = substitute_type(self._lifted.lift(signature.result), renamed)
        return Function(params, body, result, type_params=fresh, span=node.span)

    # --- operators --------------------------------------------------------------------------------

    def _operator(self, node: Call, rebuilt: Call) -> Expr:
        """Return the call with its result paired with a cell, and its way back recorded."""
        result_type = self._types[node]
        arg_types = tuple(self._types[each] for each in node.args)
        steps: list[tuple[Var, Expr]] = []
        pairs = tuple(
            self._named(old, new, steps) for old, new in zip(node.args, rebuilt.args, strict=True)
        )
        primals = tuple(
            old if isinstance(old, Constant) else _primal(pair, type_)
            for old, pair, type_ in zip(node.args, pairs, arg_types, strict=True)
        )
        primal_call = replace(rebuilt, callee=node.callee, args=primals)
        if not has_float(result_type):
            return sequence(steps, primal_call)
        result = Var("y", result_type)
        pair = Var("pair", self._lifted.lift(result_type))
        steps += [(result, primal_call), (pair, _paired(result, result_type))]
        into = [
            has_float(type_) and not isinstance(old, Constant)
            for old, type_ in zip(node.args, arg_types, strict=True)
        ]
        if any(into):
            forward = Forward(
                attrs=node.attrs,
                args=primals,
                types=arg_types,
                result=result,
                result_type=result_type,
            )
            steps += self._record(
                node, forward, pair, [p if i else None for p, i in zip(pairs, into, strict=True)]
            )
        return sequence(steps, pair)

    def _named(self, old: Expr, new: Expr, steps: list[tuple[Var, Expr]]) -> Expr:
        """Return a variable for a lifted argument; a constant has no use for its pair."""
        if isinstance(old, Constant) or isinstance(new, Var):
            return new
        var = Var("x", self._lifted.lift(self._types[old]))
        steps.append((var, new))
        return var

    def _record(
        self, node: Call, forward: Forward, pair: Var, pairs: Sequence[Expr | None]
    ) -> list[tuple[Var, Expr]]:
        """Return the steps that put this call before all that is to run backwards."""
        adjoint, before = Var("adjoint", forward.result_type), Var("before")
        backwards = [(adjoint, _adjoint(pair, forward.result_type))]
        for arg, type_, each in zip(
            pairs, forward.types, backward(node, forward, adjoint), strict=True
        ):
            if arg is not None and each is not None:
                name = Var("more", type_)
                backwards.append((name, each))
                backwards += [(Var("_"), write) for write in _added(arg, type_, name)]
        if len(backwards) == 1:
            return []
        run = Function((), sequence(backwards, Call(before, ())), TupleType(()))
        return [
            (before, RefRead(self._back)),
            (Var("_"), RefWrite(self._back, run)),
        ]


def _paired(value: Expr, type_: Type) -> Expr:
    """Return tensors each with a new cell that holds zeros."""
    match type_:
        case TensorType(_, dtype) if dtype.is_float:
            return Tuple((value, RefNew(call("zeros_like", value))))
        case TupleType(fields):
            return Tuple(tuple(_paired(Project(value, i), each) for i, each in enumerate(fields)))
        case _:
            return value


def _primal(pair: Expr, type_: Type) -> Expr:
    """Return tensors without their cells."""
    match type_:
        case TensorType(_, dtype) if dtype.is_float:
            return Project(pair, 0)
        case TupleType(fields):
            return Tuple(tuple(_primal(Project(pair, i), each) for i, each in enumerate(fields)))
        case _:
            return pair


def _adjoint(pair: Expr, type_: Type) -> Expr:
    """Return what has flowed back into tensors so far."""
    match type_:
        case TensorType(_, dtype) if dtype.is_float:
            return RefRead(Project(pair, 1))
        case TupleType(fields):
            return Tuple(tuple(_adjoint(Project(pair, i), each) for i, each in enumerate(fields)))
        case _:
            return pair


def _added(pair: Expr, type_: Type, more: Expr) -> list[Expr]:
    """Return what adds adjoints to the cells of tensors."""
    match type_:
        case TensorType(_, dtype) if dtype.is_float:
            cell = Project(pair, 1)
            return [RefWrite(cell, call("add", RefRead(cell), more))]
        case TupleType(fields):
            return [
                write
                for i, each in enumerate(fields)
                for write in _added(Project(pair, i), each, Project(more, i))
            ]
        case _:
            return []
