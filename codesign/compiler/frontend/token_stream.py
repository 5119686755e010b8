"""A cursor over the tokens of a Relay text; reads attribute values, which nest little."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf, nan
from typing import Final

from codesign.compiler.frontend.relay_lexer import Token, TokenKind
from codesign.diagnostics import CodesignError, Problem, Span, TextRange

_NESTING_LIMIT: Final = 64
"""How deeply types, patterns and attribute values may nest."""


def joined(first: Span, last: Span) -> Span:
    """Return the range from one token to another, or to the end of the first one's line."""
    if not isinstance(first, TextRange) or not isinstance(last, TextRange):
        return first
    same = first.line == last.line
    end = last.column_end if same else max(len(first.line_text) + 1, first.column_end)
    return TextRange(first.source, first.line, first.column, end, first.line_text)


_DIGITS_LIMIT: Final = 18
"""How many digits a length or an index may have."""


def mistake(
    what: str, span: Span | None, found: str = "", help_text: str | None = None
) -> CodesignError:
    """Return an error with its place in the text."""
    return CodesignError(Problem(what=what, found=found, span=span, help=help_text))


class TokenStream:
    """Takes tokens from the front; every refusal has the place of the token that is refused."""

    def __init__(self, tokens: tuple[Token, ...]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    @property
    def peek(self) -> Token:
        """The next token, which is not taken."""
        return self._tokens[self._at]

    def take(self) -> Token:
        token = self._tokens[self._at]
        self.skip(1)
        return token

    @property
    def place(self) -> int:
        """How many tokens are taken."""
        return self._at

    def since(self, start: Token) -> Span:
        """Return the range from a token to the last one that is taken."""
        return joined(start.span, self._tokens[max(self._at - 1, 0)].span)

    def seek(self, place: int) -> None:
        """Go to where `place` was this."""
        self._at = place

    def skip(self, count: int) -> None:
        self._at = min(self._at + count, len(self._tokens) - 1)

    def is_mark(self, *texts: str, ahead: int = 0) -> bool:
        token = self._tokens[min(self._at + ahead, len(self._tokens) - 1)]
        return token.kind is TokenKind.MARK and token.text in texts

    def is_word(self, text: str) -> bool:
        return self.peek.kind is TokenKind.WORD and self.peek.text == text

    def take_mark(self, text: str) -> bool:
        if not self.is_mark(text):
            return False
        self.skip(1)
        return True

    def take_word(self, text: str) -> bool:
        if not self.is_word(text):
            return False
        self.skip(1)
        return True

    def expect_mark(self, text: str) -> Token:
        if not self.is_mark(text):
            raise self.unexpected(repr(text))
        return self.take()

    def expect_word(self, text: str) -> Token:
        if not self.is_word(text):
            raise self.unexpected(repr(text))
        return self.take()

    def expect_kind(self, kind: TokenKind) -> Token:
        if self.peek.kind is not kind:
            raise self.unexpected(kind.value)
        return self.take()

    def whole_number(self) -> int:
        token = self.expect_kind(TokenKind.NUMBER)
        return self.index(token)

    def index(self, token: Token) -> int:
        """Return the whole number that a token of digits says."""
        if not token.text.isdigit() or len(token.text) > _DIGITS_LIMIT:
            raise self.unexpected("a whole number that fits 64 bits", token)
        return int(token.text)

    def unexpected(self, expected: str, token: Token | None = None) -> CodesignError:
        """Return the error that something else was expected where the token stands."""
        found = self.peek if token is None else token
        shown = found.kind.value if found.kind is TokenKind.END else repr(found.text)
        problem = Problem(what=f"expected {expected}", found=f"found {shown}", span=found.span)
        return CodesignError(problem)

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Read a part that nests by recursion; refuse text that nests too deeply."""
        self._depth += 1
        if self._depth > _NESTING_LIMIT:
            what = f"types, patterns and attributes nest at most {_NESTING_LIMIT} deep"
            raise mistake(what, self.peek.span)
        yield
        self._depth -= 1

    # --- attribute values -------------------------------------------------------------------------

    def attribute_value(self) -> object:
        with self.nested():
            return self._attribute_value()

    def _attribute_value(self) -> object:
        token = self.take()
        match token.kind:
            case TokenKind.STRING:
                return token.text
            case TokenKind.NUMBER:
                return self._number(token)
            case TokenKind.WORD if token.text in _WORDS:
                return _WORDS[token.text]
            case TokenKind.MARK if token.text == "-":
                return self._negated(token)
            case TokenKind.MARK if token.text == "[":
                return self._list()
            case TokenKind.MARK if token.text == "(":
                value = self.attribute_value()
                self.expect_mark(")")
                return value
            case _:
                raise self.unexpected("an attribute's value", token)

    def _negated(self, sign: Token) -> int | float:
        value = self.attribute_value()
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.unexpected("a number after the sign", sign)
        return -value

    def _list(self) -> list[object]:
        values: list[object] = []
        while not self.is_mark("]"):
            values.append(self.attribute_value())
            if not self.take_mark(","):
                break
        self.expect_mark("]")
        return values

    def _number(self, token: Token) -> int | float:
        digits = token.text.rstrip("f") if token.text.endswith("f") else token.text
        is_float = digits is not token.text or not digits.isdigit()
        try:
            return float(digits) if is_float else int(digits)
        except ValueError:
            raise self.unexpected("a number without a suffix", token) from None


_WORDS: Final = {
    "True": True,
    "False": False,
    "None": None,
    "nullptr": None,
    "inff": inf,
    "nan": nan,
}
"""Words that are values of attributes."""
