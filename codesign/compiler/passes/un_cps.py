"""un-cps: direct style again, from the continuation-passing style of to-cps.

    def @double(%x: int32, %k: fn (int32) -> int32, CPS=1) { let %v = add(%x, %x); %k(%v) }
    def @main_cps(%n: int32, %k: fn (int32) -> int32, CPS=1) {
      @double(%n, fn (%r: int32) { let %v = add(%r, 1); %k(%v) })
    }
    def @main(%n: int32) { @main_cps(%n, fn (%r: int32) { %r }) }
becomes
    def @double(%x: int32) { add(%x, %x) }
    def @main(%n: int32) { let %r = @double(%n); add(%r, 1) }

Functions marked `CPS` lose their continuation: what they handed to it they give back, and what a
call handed on to a function literal is bound by a `let`. A function whose continuation is used in
another way is refused.

Laws: the answer is the same bit for bit, so is main's type; a second run changes nothing.

Source: Danvy and Lawall, "Back to Direct Style II" (1992); Relay's UnCPS.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias, final

from codesign.compiler.analysis.evaluation import is_primitive
from codesign.compiler.pass_manager import Form, PassContext
from codesign.compiler.rewriting.cps import CPS
from codesign.compiler.trampoline import run
from codesign.diagnostics import CodesignError, Problem
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
from codesign.ir.relay.type_algebra import parts, with_parts
from codesign.ir.relay.types import FuncType, Type
from codesign.ir.relay.visit import children, post_order, with_children

Steps: TypeAlias = Generator[Any, Any, Any]
"""A computation that returns an expression; what a `yield` gives has no type."""


@final
@dataclass(frozen=True, slots=True)
class UnCPS:
    """Take the continuations from functions that have them."""

    name: ClassVar[str] = "un-cps"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module in direct style.

        Raises
        ------
        CodesignError
            A continuation is used otherwise than in the style of to-cps.
        """
        if not any(CPS in each.attributes for each in module.functions.values()):
            return module
        back = _Back()
        functions = {name: run(back.function(each)) for name, each in module.functions.items()}
        data = {name: _definition(each) for name, each in module.data_types.items()}
        return Module(_with_one_main(functions), data)


def _definition(definition: TypeDefinition) -> TypeDefinition:
    constructors = tuple(
        replace(each, fields=tuple(map(_direct_type, each.fields)))
        for each in definition.constructors
    )
    return replace(definition, constructors=constructors)


def _direct_type(type_: Type) -> Type:
    """Return the type that a value of the converted program had before."""
    if isinstance(type_, FuncType):
        *params, continuation = type_.params
        if not isinstance(continuation, FuncType) or len(continuation.params) != 1:
            raise CodesignError.of("un-cps meets the type of a function without a continuation")
        new = tuple(map(_direct_type, params))
        return FuncType(new, _direct_type(continuation.params[0]), type_.type_params)
    return with_parts(type_, tuple(map(_direct_type, parts(type_))))


def _with_one_main(functions: dict[str, Function]) -> dict[str, Function]:
    """Return the functions with main in the place of the one that it only hands on to."""
    main = functions["main"]
    match main.body:
        case Call(GlobalVar(name), args) if args == main.params and name in functions:
            inner = functions[name]
        case _:
            return functions
    others = {key: each for key, each in functions.items() if key not in ("main", name)}
    for node in post_order(inner, *others.values()):
        if isinstance(node, GlobalVar) and node.name == name:
            return functions
    return {"main": replace(inner, attributes=main.attributes), **others}


def _is_continuation(expr: Expr) -> bool:
    return isinstance(expr, Function) and not is_primitive(expr) and CPS not in expr.attributes


@final
class _Back:
    def __init__(self) -> None:
        self._new: dict[Expr, Var] = {}

    def function(self, function: Function) -> Steps:
        """Return a function without its continuation."""
        params, end = function.params, None
        result = function.result_type
        attributes = {key: v for key, v in function.attributes.items() if key != CPS}
        if CPS in function.attributes:
            *params_, end = function.params
            params = tuple(params_)
            result = _given(end)
        body = yield self._block(function.body, end)
        return replace(
            function,
            params=tuple(map(self._variable, params)),
            body=body,
            result_type=None if result is None else _direct_type(result),
            attributes=attributes,
        )

    def _variable(self, var: Var) -> Var:
        if var not in self._new:
            annotation = None if var.annotation is None else _direct_type(var.annotation)
            self._new[var] = replace(var, annotation=annotation)
        return self._new[var]

    def _block(self, expr: Expr, end: Expr | None) -> Steps:
        """Return what a block hands to its end; without one it is what the block gives."""
        lets: list[tuple[Var, Expr]] = []
        while True:
            match expr:
                case Let(var, Function() as following, rest) if _is_continuation(following):
                    value = yield self._block(rest, var)
                    lets.append((_only(following), value))
                    expr = following.body
                case Let(var, value, rest):
                    made = yield self._direct(value)
                    lets.append((var, made))
                    expr = rest
                case Call(_, (*args, Function() as following)) if _is_continuation(following):
                    made = yield self._call(expr, tuple(args))
                    lets.append((_only(following), made))
                    expr = following.body
                case _:
                    break
        result = yield self._last(expr, end)
        if lets and result is self._new.get(lets[-1][0]):
            result = lets.pop()[1]  # what is bound last is the result itself
        for var, value in reversed(lets):
            result = Let(self._variable(var), value, result, var.span)
        return result

    def _last(self, expr: Expr, end: Expr | None) -> Steps:
        match expr:
            case Call(callee, (given,)) if callee is end and end is not None:
                return (yield self._direct(given))
            case Call(_, (*args, given)) if given is end and end is not None:
                return (yield self._call(expr, tuple(args)))
            case If(condition, then, otherwise) if end is not None:
                new = []
                for each in (then, otherwise):
                    new.append((yield self._block(each, end)))  # noqa: PERF401
                return If((yield self._direct(condition)), new[0], new[1], expr.span)
            case Match(value, clauses) if end is not None:
                made = []
                for clause in clauses:
                    body = yield self._block(clause.body, end)
                    made.append(Clause(self._pattern(clause.pattern), body))
                return replace(expr, value=(yield self._direct(value)), clauses=tuple(made))
            case _ if end is None:
                return (yield self._direct(expr))
            case _:
                raise _refusal(expr)

    def _call(self, call: Expr, args: tuple[Expr, ...]) -> Steps:
        assert isinstance(call, Call), "a call is made from one"
        new = [(yield self._direct(call.callee))]
        for each in args:
            new.append((yield self._direct(each)))  # noqa: PERF401
        return replace(call, callee=new[0], args=tuple(new[1:]))

    def _direct(self, expr: Expr) -> Steps:
        match expr:
            case Var():
                return self._variable(expr)
            case Function() if not is_primitive(expr):
                if CPS not in expr.attributes:
                    raise _refusal(expr)
                return (yield self.function(expr))
            case Call(callee) if not isinstance(callee, OpRef | Constructor | Function):
                raise _refusal(expr)
            case Let():
                return (yield self._block(expr, None))
            case Match(value, clauses):
                made = []
                for clause in clauses:
                    body = yield self._direct(clause.body)
                    made.append(Clause(self._pattern(clause.pattern), body))
                return replace(expr, value=(yield self._direct(value)), clauses=tuple(made))
            case _:
                new = []
                for each in children(expr):
                    new.append((yield self._direct(each)))  # noqa: PERF401
                return with_children(expr, tuple(new)) if new else expr

    def _pattern(self, pattern: Pattern) -> Pattern:
        match pattern:
            case PatternVar(var):
                return PatternVar(self._variable(var))
            case PatternConstructor(fields=fields) | PatternTuple(fields):
                return replace(pattern, fields=tuple(map(self._pattern, fields)))
            case _:
                return pattern


def _given(continuation: Var) -> Type | None:
    """Return the type of what a continuation takes."""
    match continuation.annotation:
        case FuncType((given,), _):
            return given
        case _:
            return None


def _only(continuation: Function) -> Var:
    if len(continuation.params) != 1:
        raise _refusal(continuation)
    return continuation.params[0]


def _refusal(expr: Expr) -> CodesignError:
    return CodesignError(
        Problem(
            what="un-cps meets what is not in continuation-passing style",
            span=expr.span,
            help="it takes what to-cps makes",
        )
    )
