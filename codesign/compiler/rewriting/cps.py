"""Continuation-passing style: the conversion of programs in A-normal form."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias, final

from codesign.compiler.analysis.evaluation import is_primitive
from codesign.compiler.trampoline import run
from codesign.ir.relay.expr import (
    Call,
    Clause,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    OpRef,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    Var,
)
from codesign.ir.relay.module import Module, TypeDefinition
from codesign.ir.relay.rename import ATOMS, Names, type_parameter_names
from codesign.ir.relay.type_algebra import parts, substitute_type, with_parts
from codesign.ir.relay.types import FuncType, Type
from codesign.ir.relay.types import TypeVar as TypeParameter
from codesign.ir.relay.visit import children, post_order, with_children

CPS: Final = "CPS"
"""The attribute of functions whose last parameter is a continuation."""

Steps: TypeAlias = Generator[Any, Any, Any]
"""A computation that returns an expression; what a `yield` gives has no type."""


@final
class Conversion:
    """Converts the functions of one module; `answer` is what every continuation gives."""

    def __init__(self, module: Module, types: Mapping[Expr, Type], answer: Type) -> None:
        self._module = module
        self._types = types
        self._answer = self.type_of(answer, answer)
        self._main = GlobalVar(Names(module.functions).fresh("main_cps"))
        self._names = type_parameter_names(module)
        self._new: dict[Expr, Var] = {}
        self._calls = _with_calls(module)

    def result(self) -> Module:
        """Return the module whose functions take continuations; main calls what was main."""
        functions: dict[str, Function] = {}
        for name, function in self._module.functions.items():
            converted = run(self._function(function))
            functions[self._main.name if name == "main" else name] = converted
        main = self._module.main
        params = tuple(self._variable(each) for each in main.params)
        outside = tuple(replace(each) for each in params)
        given = Var("r", self._answer)
        end = Function((given,), given, self._answer)
        body = Call(self._main, (*outside, end), None, main.span)
        attributes = dict(main.attributes)
        functions = {"main": Function(outside, body, self._answer, attributes), **functions}
        data = {name: self._definition(each) for name, each in self._module.data_types.items()}
        return Module(functions, data)

    # --- types ------------------------------------------------------------------------------------

    def type_of(self, type_: Type, answer: Type | None = None) -> Type:
        """Return the type of a value in the new program: functions take continuations."""
        answer = self._answer if answer is None else answer
        new = tuple(self.type_of(each, answer) for each in parts(type_))
        if isinstance(type_, FuncType):
            continuation = FuncType((new[-1],), answer)
            return FuncType((*new[:-1], continuation), answer, type_.type_params)
        return with_parts(type_, new)

    def _definition(self, definition: TypeDefinition) -> TypeDefinition:
        constructors = tuple(
            replace(each, fields=tuple(map(self.type_of, each.fields)))
            for each in definition.constructors
        )
        return replace(definition, constructors=constructors)

    def _variable(self, var: Var) -> Var:
        if var not in self._new:
            self._new[var] = replace(var, annotation=self.type_of(self._types[var]))
        return self._new[var]

    # --- functions --------------------------------------------------------------------------------

    def _function(self, function: Function) -> Steps:
        type_ = self._types[function]
        assert isinstance(type_, FuncType), "a function has a function's type"
        continuation = Var("k", FuncType((self.type_of(type_.result),), self._answer))
        body = yield self._block(function.body, continuation)
        return replace(
            function,
            params=(*map(self._variable, function.params), continuation),
            body=body,
            result_type=self._answer,
            attributes={**function.attributes, CPS: 1},
        )

    def _block(self, expr: Expr, continuation: Expr) -> Steps:
        """Convert a block that hands its value to a continuation."""
        lets: list[Let] = []
        while isinstance(expr, Let):
            lets.append(expr)
            expr = expr.body
        result: Expr = yield self._last(expr, continuation)
        for let in reversed(lets):
            result = yield self._let(let, result)
        return result

    def _let(self, let: Let, rest: Expr) -> Steps:
        """Put a binding before what follows it, which is converted."""
        var = self._variable(let.var)
        if self._is_direct(let.value):
            value = yield self._direct(let.value)
            return Let(var, value, rest, let.span)
        following = Function((var,), rest, self._answer, span=let.span)
        if isinstance(let.value, Call):
            return (yield self._call(let.value, following))
        join = Var("join", self.type_of(FuncType((), self._types[let.var])))
        join = replace(join, annotation=FuncType((var.annotation or self._answer,), self._answer))
        body = yield self._last(let.value, join)
        return Let(join, following, body, let.span)

    def _last(self, expr: Expr, continuation: Expr) -> Steps:
        match expr:
            case If(condition, then, otherwise) if not self._is_direct(expr):
                condition_ = yield self._direct(condition)
                then_ = yield self._block(then, continuation)
                otherwise_ = yield self._block(otherwise, continuation)
                return If(condition_, then_, otherwise_, expr.span)
            case Match(value, clauses) if not self._is_direct(expr):
                value_ = yield self._direct(value)
                new = []
                for clause in clauses:
                    body = yield self._block(clause.body, continuation)
                    new.append(Clause(self._pattern(clause.pattern), body))
                return replace(expr, value=value_, clauses=tuple(new))
            case Call() if not self._is_direct(expr):
                return (yield self._call(expr, continuation))
            case _:
                pass
        value = yield self._direct(expr)
        if isinstance(expr, ATOMS) and not isinstance(expr, Constructor | GlobalVar):
            return Call(continuation, (value,), None, expr.span)
        var = Var("v", self.type_of(self._types[expr]))
        return Let(var, value, Call(continuation, (var,), None, expr.span), expr.span)

    def _call(self, call: Call, continuation: Expr) -> Steps:
        callee = call.callee
        target = self._main if isinstance(callee, GlobalVar) and callee.name == "main" else callee
        new = target if isinstance(target, GlobalVar) else (yield self._direct(target))
        args = []
        for each in call.args:
            args.append((yield self._direct(each)))  # noqa: PERF401  (a comprehension cannot wait)
        return Call(new, (*args, continuation), None, call.span)

    # --- what calls nothing -----------------------------------------------------------------------

    def _is_direct(self, expr: Expr) -> bool:
        """Return whether evaluating an expression calls no function."""
        return expr not in self._calls

    def _direct(self, expr: Expr) -> Steps:
        match expr:
            case Var():
                return self._variable(expr)
            case GlobalVar("main"):
                return self._main
            case Function() if not is_primitive(expr):
                return (yield self._function(expr))
            case Constructor():
                return self._constructor(expr)
            case Call(callee, args):
                known = isinstance(callee, OpRef | Constructor | Function)
                new = [callee if known else (yield self._direct(callee))]
                for each in args:
                    new.append((yield self._direct(each)))  # noqa: PERF401
                return with_children(expr, tuple(new))
            case Match(value, clauses):
                found = yield self._direct(value)
                made = []
                for clause in clauses:
                    body = yield self._direct(clause.body)
                    made.append(Clause(self._pattern(clause.pattern), body))
                return replace(expr, value=found, clauses=tuple(made))
            case Let():
                return (yield self._direct_lets(expr))
            case _:
                new = []
                for each in children(expr):
                    new.append((yield self._direct(each)))
                return with_children(expr, tuple(new)) if new else expr

    def _direct_lets(self, expr: Expr) -> Steps:
        lets: list[tuple[Let, Expr]] = []
        while isinstance(expr, Let):
            value = yield self._direct(expr.value)
            lets.append((expr, value))
            expr = expr.body
        result: Expr = yield self._direct(expr)
        for let, value in reversed(lets):
            result = Let(self._variable(let.var), value, result, let.span)
        return result

    def _constructor(self, constructor: Constructor) -> Expr:
        """Return a constructor that is a value as a function with a continuation."""
        type_ = self._types[constructor]
        assert isinstance(type_, FuncType), "a constructor has a function's type"
        fresh: dict[TypeParameter, Type] = {
            each: TypeParameter(self._names.fresh(each.name)) for each in type_.type_params
        }
        own = tuple(each for each in fresh.values() if isinstance(each, TypeParameter))
        types = [self.type_of(substitute_type(each, fresh)) for each in parts(type_)]
        params = tuple(Var(f"x{index}", each) for index, each in enumerate(types[:-1]))
        made, continuation = Var("v", types[-1]), Var("k", FuncType((types[-1],), self._answer))
        end = Call(continuation, (made,), None, constructor.span)
        body = Let(made, Call(constructor, params, None, constructor.span), end)
        return Function((*params, continuation), body, self._answer, {CPS: 1}, own)

    def _pattern(self, pattern: Pattern) -> Pattern:
        match pattern:
            case PatternVar(var):
                return PatternVar(self._variable(var))
            case PatternConstructor(fields=fields) | PatternTuple(fields):
                return replace(pattern, fields=tuple(map(self._pattern, fields)))
            case _:
                return pattern


def _with_calls(module: Module) -> set[Expr]:
    """Return the nodes whose evaluation calls functions, other than Primitive ones."""
    found: set[Expr] = set()
    for node in post_order(*module.functions.values()):
        if isinstance(node, Function):
            continue
        calls = isinstance(node, Call) and not _is_known(node.callee)
        if calls or any(each in found for each in children(node)):
            found.add(node)
    return found


def _is_known(callee: Expr) -> bool:
    if isinstance(callee, Function):
        return is_primitive(callee)
    return isinstance(callee, OpRef | Constructor)
