"""Expressions of Relay text.

    expr    := let %x: type = infix; expr | %0 = infix; expr | free_var %x: type; expr
             | infix; expr | infix
    infix   := call (op call)*              * / before + - before < <= > >= before == !=
    call    := atom ((expr, …, name=value, …) | .index)*
    atom    := literal | %x | %0 | @f | operator | Constructor | meta[…][…] | (expr, …) | { expr }
             | fn[A] (params) -> type { expr } | if (expr) { expr } else { expr }
             | match (expr) { pattern => expr, … } | match? (expr) { … }
             | ref(expr) | ref_read(expr) | ref_write(expr, expr)
    pattern := _ | %x: type | Constructor(pattern, …) | (pattern, …)

`%0 = …` names an expression and makes no node: its uses share it. A constructor without fields is
called where it stands. The parser is made of generators that a loop runs, so that no nesting of the
text exhausts Python's stack.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, final

import numpy as np

from codesign.compiler.frontend.relay_calls import (
    INFIX,
    named_operator,
    operator_call,
    project,
    reduce_infix,
)
from codesign.compiler.frontend.relay_constants import (
    metadata_constant,
    number_constant,
    signed_constant,
    special_constant,
)
from codesign.compiler.frontend.relay_lexer import Lexed, Token, TokenKind
from codesign.compiler.frontend.relay_patterns import PatternReader
from codesign.compiler.frontend.relay_types import TypeReader
from codesign.compiler.frontend.token_stream import TokenStream, mistake
from codesign.ir.relay.expr import (
    Call,
    Clause,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    OpRef,
    RefNew,
    RefRead,
    RefWrite,
    Tuple,
    Var,
    pattern_variables,
)
from codesign.ir.relay.literal import CONSTANTS

_Step: TypeAlias = Generator["_Step", Expr, Expr]
"""A part of the parser: yields the parts that it needs, is sent their results, returns its own."""

_NO_BEGINNING: Final = frozenset({"type", "extern", "free_var", "else", "def"})
"""Keywords that begin no expression."""


def _run(step: _Step) -> Expr:
    """Run a part of the parser and the parts that it needs, on an explicit stack."""
    stack, result = [step], None
    while True:
        try:
            needed = next(stack[-1]) if result is None else stack[-1].send(result)
        except StopIteration as stop:
            stack.pop()
            result = stop.value
            if not stack:
                return _as_expr(result)
        else:
            stack.append(needed)
            result = None


def _as_expr(value: object) -> Expr:
    assert isinstance(value, Expr), "every part of the parser returns an expression"
    return value


@final
@dataclass(frozen=True, slots=True)
class _Binding:
    """`let var = value` before the rest of a block; `name` is what the text calls it."""

    var: Var
    value: Expr
    start: Token


class ExpressionReader:
    """The scopes of one definition; the stream is shared with those after it.

    `arities` says how many fields each constructor has that the text may use.
    """

    def __init__(
        self, stream: TokenStream, types: TypeReader, lexed: Lexed, arities: Mapping[str, int]
    ) -> None:
        self._stream = stream
        self._types = types
        self._lexed = lexed
        self._arities = arities
        self._patterns = PatternReader(stream, types, arities)
        self._scope: dict[str, list[Expr]] = {}
        self._constants: dict[int, Constant] = {}
        self._values: dict[Expr, Expr] = {}

    def global_function(self, name: Token) -> Function:
        """Read what follows `def @name`."""
        self._types.begin_parameters()
        function = _run(self._function(name))
        assert isinstance(function, Function), "_function returns a function"
        return function

    def whole_expression(self) -> Expr:
        """Read an expression on its own."""
        return _run(self._expr())

    # --- blocks -----------------------------------------------------------------------------------

    def _expr(self) -> _Step:
        """Read bindings one after the other, then build their `let`s from the last to the first."""
        bindings: list[_Binding] = []
        names: list[str] = []
        while True:
            token = self._stream.peek
            if self._stream.take_word("let"):
                yield from self._let(token, bindings, names)
            elif token.kind is TokenKind.GRAPH and self._stream.is_mark("=", ahead=1):
                self._stream.skip(2)
                value = yield self._infix()
                self._bind(f"%{token.text}", value, names)
                self._stream.expect_mark(";")
            elif self._stream.take_word("free_var"):
                self._free_variable(names)
            else:
                body = yield self._infix()
                if not self._stream.take_mark(";"):
                    break
                bindings.append(_Binding(Var("_", None, token.span), body, token))
        for name in reversed(names):
            self._scope[name].pop()
        for binding in reversed(bindings):
            body = Let(binding.var, binding.value, body, binding.start.span)
        return body

    def _let(
        self, start: Token, bindings: list[_Binding], names: list[str]
    ) -> Generator[_Step, Expr, None]:
        var = self._patterns.variable()
        self._stream.expect_mark("=")
        is_function = self._stream.is_word("fn")
        if is_function:
            self._bind(var.name, var, names)
        value = self._values[var] = yield self._infix()
        if not is_function:
            self._bind(var.name, var, names)
        self._stream.expect_mark(";")
        bindings.append(_Binding(var, value, start))

    def _free_variable(self, names: list[str]) -> None:
        var = self._patterns.variable()
        self._bind(var.name, var, names)
        self._stream.expect_mark(";")

    def _bind(self, name: str, value: Expr, names: list[str]) -> None:
        self._scope.setdefault(name, []).append(value)
        names.append(name)

    def _bound(self, name: str, token: Token) -> Expr:
        values = self._scope.get(name)
        if not values:
            written = name if name.startswith("%") else f"%{name}"
            raise mistake(f"{written} is not defined here", token.span)
        return values[-1]

    # --- operators and calls ----------------------------------------------------------------------

    def _infix(self) -> _Step:
        start = self._stream.peek
        first = yield self._call()
        operands = [(first, self._stream.since(start))]
        signs: list[Token] = []
        while True:
            sign = self._stream.peek
            precedence = INFIX[sign.text][0] if self._stream.is_mark(*INFIX) else 0
            while signs and INFIX[signs[-1].text][0] >= precedence:
                reduce_infix(operands, signs.pop())
            if not precedence:
                return operands[0][0]
            signs.append(self._stream.take())
            start = self._stream.peek
            operand = yield self._call()
            operands.append((operand, self._stream.since(start)))

    def _call(self) -> _Step:
        start = self._stream.peek
        expr = yield self._atom()
        while True:
            if self._stream.peek.kind is TokenKind.FIELD:
                field = self._stream.index(self._stream.take())
                expr = project(expr, field, self._stream.since(start), self._values)
            elif self._stream.take_mark("("):
                expr = yield self._arguments(start, expr)
            else:
                return expr

    def _arguments(self, start: Token, callee: Expr) -> _Step:
        args: list[Expr] = []
        values: dict[str, object] = {}
        while not self._stream.is_mark(")"):
            if self._stream.peek.kind is TokenKind.WORD and self._stream.is_mark("=", ahead=1):
                name = self._stream.take()
                self._stream.skip(1)
                values[name.text] = self._stream.attribute_value()
            else:
                args.append((yield self._expr()))
            if not self._stream.take_mark(","):
                break
        self._stream.expect_mark(")")
        span = self._stream.since(start)
        if isinstance(callee, OpRef):
            return operator_call(callee, tuple(args), values, span)
        if values:
            raise mistake("only operators have attributes", span, f"found {next(iter(values))}")
        return Call(callee, tuple(args), None, span)

    # --- atoms ------------------------------------------------------------------------------------

    def _atom(self) -> _Step:
        token = self._stream.take()
        match token.kind:
            case TokenKind.LOCAL:
                return self._bound(token.text, token)
            case TokenKind.GRAPH:
                return self._bound(f"%{token.text}", token)
            case TokenKind.GLOBAL:
                return GlobalVar(token.text, token.span)
            case TokenKind.NUMBER:
                return number_constant(token, negative=False)
            case TokenKind.WORD:
                return (yield self._word(token))
            case TokenKind.MARK if token.text == "(":
                return (yield self._parenthesis(token))
            case TokenKind.MARK if token.text == "{":
                return (yield self._rest_of_block())
            case TokenKind.MARK if token.text == "-":
                return signed_constant(self._stream)
            case _:
                raise self._stream.unexpected("an expression", token)

    def _word(self, token: Token) -> _Step:
        match token.text:
            case "if":
                return (yield self._if(token))
            case "fn":
                return (yield self._function(token))
            case "True" | "False":
                return Constant(np.asarray(token.text == "True"), token.span)
            case "inff" | "nan":
                return special_constant(token, negative=False)
            case "meta":
                return self._meta(token)
            case "match":
                return (yield self._match(token))
            case "ref" | "ref_read" | "ref_write":
                return (yield self._reference(token))
            case word if word in _NO_BEGINNING:
                raise mistake(f"{word!r} begins no expression", token.span)
            case name if name in self._arities:
                return self._constructor(token)
            case name if name[0].isupper():
                raise self._patterns.unknown_constructor(token)
            case _:
                return named_operator(token)

    def _constructor(self, name: Token) -> Expr:
        constructor = Constructor(name.text, name.span)
        if self._arities[name.text] or self._stream.is_mark("("):
            return constructor
        return Call(constructor, (), None, name.span)

    def _reference(self, word: Token) -> _Step:
        self._stream.expect_mark("(")
        first = yield self._expr()
        second: Expr | None = None
        if word.text == "ref_write":
            self._stream.expect_mark(",")
            second = yield self._expr()
        self._stream.expect_mark(")")
        span = self._stream.since(word)
        if second is not None:
            return RefWrite(first, second, span)
        return RefNew(first, span) if word.text == "ref" else RefRead(first, span)

    # --- match ------------------------------------------------------------------------------------

    def _match(self, start: Token) -> _Step:
        complete = not self._stream.take_mark("?")
        value = yield self._in_parentheses()
        span = self._stream.since(start)
        self._stream.expect_mark("{")
        clauses: list[Clause] = []
        while not self._stream.is_mark("}"):
            pattern = self._patterns.pattern()
            self._stream.expect_mark("=>")
            names: list[str] = []
            for var in pattern_variables(pattern):
                self._bind(var.name, var, names)
            body = yield self._expr()
            for name in names:
                self._scope[name].pop()
            clauses.append(Clause(pattern, body))
            self._stream.take_mark(",")
        self._stream.expect_mark("}")
        return Match(value, tuple(clauses), complete, span)

    # --- literals, tuples, branches, functions ----------------------------------------------------

    def _parenthesis(self, start: Token) -> _Step:
        fields: list[Expr] = []
        while not self._stream.is_mark(")"):
            fields.append((yield self._expr()))
            if not self._stream.take_mark(","):
                if len(fields) == 1:
                    self._stream.expect_mark(")")
                    return fields[0]
                break
        self._stream.expect_mark(")")
        return Tuple(tuple(fields), self._stream.since(start))

    def _if(self, start: Token) -> _Step:
        condition = yield self._in_parentheses()
        span = self._stream.since(start)
        then = yield self._block()
        self._stream.expect_word("else")
        otherwise = yield self._block()
        return If(condition, then, otherwise, span)

    def _in_parentheses(self) -> _Step:
        self._stream.expect_mark("(")
        expr = yield self._expr()
        self._stream.expect_mark(")")
        return expr

    def _block(self) -> _Step:
        self._stream.expect_mark("{")
        return (yield self._rest_of_block())

    def _rest_of_block(self) -> _Step:
        expr = yield self._expr()
        self._stream.expect_mark("}")
        return expr

    def _function(self, start: Token) -> _Step:
        type_params = self._types.enter()
        params, attributes = self._patterns.parameters()
        self._types.end_parameters()
        result = self._types.type_() if self._stream.take_mark("->") else None
        names: list[str] = []
        for param in params:
            self._bind(param.name, param, names)
        body = yield self._block()
        for name in names:
            self._scope[name].pop()
        self._types.leave(type_params)
        return Function(params, body, result, attributes, type_params, start.span)

    def _meta(self, token: Token) -> Expr:
        self._stream.expect_mark("[")
        key = self._stream.expect_kind(TokenKind.WORD)
        self._stream.expect_mark("]")
        self._stream.expect_mark("[")
        index = self._stream.whole_number()
        self._stream.expect_mark("]")
        span = self._stream.since(token)
        if key.text != CONSTANTS:
            raise mistake(f"metadata of kind {key.text} is not read yet", key.span)
        if index not in self._constants:
            self._constants[index] = metadata_constant(self._lexed.metadata, index, span)
        return self._constants[index]
