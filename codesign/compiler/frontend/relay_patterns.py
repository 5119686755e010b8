"""What binds in Relay text: variables with their types, parameters, and patterns."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import final

from codesign.compiler.frontend.relay_lexer import Token, TokenKind
from codesign.compiler.frontend.relay_types import TypeReader
from codesign.compiler.frontend.token_stream import TokenStream, mistake
from codesign.diagnostics import CodesignError
from codesign.ir.relay.expr import (
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    Var,
    Wildcard,
)


@final
class PatternReader:
    """Reads patterns; `arities` are the constructors that the text may use."""

    def __init__(self, stream: TokenStream, types: TypeReader, arities: Mapping[str, int]) -> None:
        self._stream = stream
        self._types = types
        self._arities = arities

    def variable(self) -> Var:
        """Read `%x` or `%x: type`."""
        name = self._stream.expect_kind(TokenKind.LOCAL)
        annotation = self._types.type_() if self._stream.take_mark(":") else None
        return Var(name.text, annotation, name.span)

    def parameters(self) -> tuple[tuple[Var, ...], dict[str, int | str]]:
        """Read `(%x: type, …, Attribute=1, …)`: the parameters and attributes of a function."""
        params: list[Var] = []
        attributes: dict[str, int | str] = {}
        self._stream.expect_mark("(")
        while not self._stream.is_mark(")"):
            if self._stream.peek.kind is TokenKind.LOCAL:
                params.append(self.variable())
                self._refuse_virtual_device()
            else:
                self._attribute(attributes)
            if not self._stream.take_mark(","):
                break
        self._stream.expect_mark(")")
        return tuple(params), attributes

    def _refuse_virtual_device(self) -> None:
        if self._stream.is_mark("{"):
            raise mistake("virtual devices are not read", self._stream.peek.span)

    def _attribute(self, attributes: dict[str, int | str]) -> None:
        name = self._stream.expect_kind(TokenKind.WORD)
        self._stream.expect_mark("=")
        value = self._stream.attribute_value()
        if not isinstance(value, int | str):
            raise mistake("a function's attribute is a whole number or a string", name.span)
        attributes[name.text] = value

    def pattern(self) -> Pattern:
        """Read a pattern; its variables are bound by whoever reads the clause's body."""
        with self._stream.nested():
            token = self._stream.peek
            if token.kind is TokenKind.LOCAL:
                return PatternVar(self.variable())
            self._stream.skip(1)
            if token.kind is TokenKind.MARK and token.text == "(":
                return PatternTuple(self._patterns())
            if token.kind is not TokenKind.WORD:
                raise self._stream.unexpected("a pattern", token)
            if token.text == "_":
                return Wildcard()
            if token.text not in self._arities:
                raise self.unknown_constructor(token)
            fields = self._patterns() if self._stream.take_mark("(") else ()
            return PatternConstructor(token.text, fields, token.span)

    def _patterns(self) -> tuple[Pattern, ...]:
        found: list[Pattern] = []
        while not self._stream.is_mark(")"):
            found.append(self.pattern())
            if not self._stream.take_mark(","):
                break
        self._stream.expect_mark(")")
        return tuple(found)

    def unknown_constructor(self, name: Token) -> CodesignError:
        """Return the error that no constructor has this name."""
        close = get_close_matches(name.text, self._arities)
        advice = f"there is {' and '.join(close)}" if close else None
        what = f"no constructor is named {name.text!r}"
        return mistake(what, name.span, help_text=advice)
