"""Relay text as tokens, each with its place; the metadata table is read here too."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, final

from codesign.diagnostics import CodesignError, Problem, TextRange


class TokenKind(StrEnum):
    """What a token is; the value is what a message calls it."""

    LOCAL = "a variable"
    GRAPH = "a graph variable"
    GLOBAL = "a global variable"
    WORD = "a name"
    NUMBER = "a number"
    STRING = "a string"
    FIELD = "a field"
    MARK = "a sign"
    END = "the end of the text"


@final
@dataclass(frozen=True, slots=True)
class Token:
    """A piece of text; `text` leaves out `%`, `@`, quotes and the dot of a field."""

    kind: TokenKind
    text: str
    span: TextRange


@final
@dataclass(frozen=True, slots=True)
class Lexed:
    """The tokens, the version that the text states, and its metadata table, or None."""

    tokens: tuple[Token, ...]
    version: str | None
    metadata: dict[str, object] | None


_NAME: Final = r"[A-Za-z_]\w*"
_DOTTED: Final = rf"{_NAME}(?:\.{_NAME})*"
_PATTERNS: Final = (
    (TokenKind.LOCAL, rf"%({_DOTTED})"),
    (TokenKind.GRAPH, r"%(\d+)"),
    (TokenKind.GLOBAL, rf"@({_DOTTED})"),
    (TokenKind.WORD, rf"({_DOTTED})"),
    (TokenKind.NUMBER, r"(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?:[if]\d*)?)"),
    (TokenKind.STRING, r'"([^"\n]*)"'),
    (TokenKind.FIELD, r"\.(\d+)"),
    (TokenKind.MARK, r"(->|=>|==|!=|<=|>=|[-+*/<>=(){}\[\],;:?])"),
)
_TOKEN: Final = re.compile("|".join(pattern for _, pattern in _PATTERNS), re.ASCII)
_KINDS: Final = tuple(kind for kind, _ in _PATTERNS)
_BLANK: Final = re.compile(r"(?:[ \t\n]|\r\n|//[^\n]*)+")
_COMMENT_EDGE: Final = re.compile(r"/\*|\*/")
_VERSION: Final = re.compile(r'#\[version = "([^"\n]*)"\]')
_METADATA: Final = "#[metadata]"


def lex(text: str, source: str) -> Lexed:
    """Return the tokens of a text; `source` names it in messages.

    Raises
    ------
    CodesignError
        A character that begins no token, an unfinished comment, a metadata table that is no JSON.
    """
    return _Lexer(text, source).lex()


class _Lexer:
    def __init__(self, text: str, source: str) -> None:
        self._text = text
        self._source = source
        self._lines = text.split("\n")
        self._line = 1
        self._line_start = 0
        self._at = 0

    def lex(self) -> Lexed:
        tokens: list[Token] = []
        version: str | None = None
        self._skip_blanks()
        if (match := _VERSION.match(self._text, self._at)) is not None:
            version = match[1]
            self._advance(match.end())
            self._skip_blanks()
        while self._at < len(self._text):
            if self._text.startswith(_METADATA, self._at):
                tokens.append(Token(TokenKind.END, "", self._span(self._at + 1)))
                return Lexed(tuple(tokens), version, self._metadata())
            tokens.append(self._token())
            self._skip_blanks()
        tokens.append(Token(TokenKind.END, "", self._span(self._at + 1)))
        return Lexed(tuple(tokens), version, None)

    def _token(self) -> Token:
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            character = self._text[self._at]
            raise self._mistake(f"{character!r} begins nothing that Relay text knows")
        index = match.lastindex
        assert index is not None, "each pattern has one group"
        token = Token(_KINDS[index - 1], match[index], self._span(match.end()))
        self._advance(match.end())
        return token

    def _skip_blanks(self) -> None:
        while True:
            match = _BLANK.match(self._text, self._at)
            if match is not None:
                self._advance(match.end())
            elif self._text.startswith("/*", self._at):
                self._skip_comment()
            elif self._text.startswith("\r", self._at):
                raise self._mistake("a carriage return stands without a line feed")
            else:
                return

    def _skip_comment(self) -> None:
        depth, at = 0, self._at
        while True:
            edge = _COMMENT_EDGE.search(self._text, at)
            if edge is None:
                raise self._mistake("a comment is not closed", help_text="close it with */")
            at = edge.end()
            depth += 1 if edge[0] == "/*" else -1
            if depth == 0:
                self._advance(at)
                return

    def _metadata(self) -> dict[str, object]:
        try:
            table = json.loads(self._text[self._at + len(_METADATA) :])
        except ValueError as error:
            raise self._mistake("the metadata is no JSON", found=str(error)) from error
        if not isinstance(table, dict):
            raise self._mistake("the metadata is no table", found=f"found {type(table).__name__}")
        return table

    def _advance(self, end: int) -> None:
        newlines = self._text.count("\n", self._at, end)
        if newlines:
            self._line += newlines
            self._line_start = self._text.rindex("\n", self._at, end) + 1
        self._at = end

    def _span(self, end: int) -> TextRange:
        start = self._at - self._line_start + 1
        line = self._lines[self._line - 1].rstrip("\r")
        return TextRange(self._source, self._line, start, end - self._line_start + 1, line)

    def _mistake(self, what: str, found: str = "", help_text: str | None = None) -> CodesignError:
        span = self._span(self._at + 1)
        return CodesignError(Problem(what=what, found=found, span=span, help=help_text))
