"""Relay text, format 0.0.5, to modules and expressions.

module := #[version = "0.0.5"] item* #[metadata] {…}
item   := def @f[A, …](params) -> type { expr }
        | type Name[A, …] { Constructor(type, …), … } | extern type Name[A, …]
"""

from __future__ import annotations

from typing import Final, final

from codesign.compiler.frontend.relay_expressions import ExpressionReader
from codesign.compiler.frontend.relay_imports import with_imports
from codesign.compiler.frontend.relay_lexer import Lexed, TokenKind, lex
from codesign.compiler.frontend.relay_types import TypeReader, data_type_places
from codesign.compiler.frontend.token_stream import TokenStream, mistake
from codesign.diagnostics import CodesignError
from codesign.ir.relay.expr import Expr, Function
from codesign.ir.relay.kinds import data_type_mistakes
from codesign.ir.relay.module import Module, TypeDefinition

_VERSION: Final = "0.0.5"
_EMPTY: Final = Module({})


def parse_module(text: str, source: str = "<text>", *, imports: Module = _EMPTY) -> Module:
    """Return the module of a text; `source` names the text in messages.

    The text may use what is in `imports`; what it uses becomes a part of the module.

    Raises
    ------
    CodesignError
        The first mistake, with its place; of data types all mistakes together.
    """
    lexed = lex(text, source)
    reader = _ModuleReader(lexed, imports)
    if lexed.version != _VERSION:
        found = "none" if lexed.version is None else repr(lexed.version)
        what = "a module begins with its version"
        advice = f'write #[version = "{_VERSION}"] first'
        raise mistake(
            what, reader.stream.peek.span, f"found {found}, expected {_VERSION!r}", advice
        )
    return with_imports(reader.module(), imports)


def parse_expr(text: str, source: str = "<text>", *, imports: Module = _EMPTY) -> Expr:
    """Return the expression of a text; free variables are declared by `free_var %x: type;`.

    The text may use the constructors and data types of `imports`.

    Raises
    ------
    CodesignError
        The first mistake, with its place.
    """
    reader = _ModuleReader(lex(text, source), imports)
    expr = reader.expressions().whole_expression()
    if reader.stream.peek.kind is not TokenKind.END:
        raise reader.stream.unexpected("the end of the expression")
    return expr


@final
class _ModuleReader:
    """Reads the data types of a text first: functions may use those that come after them."""

    def __init__(self, lexed: Lexed, imports: Module) -> None:
        self.stream = TokenStream(lexed.tokens)
        self._lexed = lexed
        places = data_type_places(lexed.tokens)
        self._types = TypeReader(self.stream, {*imports.data_types, *places.values()})
        self._data_types: dict[str, TypeDefinition] = {}
        self._ends: dict[int, int] = {}
        for place in places:
            self._read_data_type(place)
        self.stream.seek(0)
        known = Module({}, {**imports.data_types, **self._data_types})
        mistakes = tuple(data_type_mistakes(known))
        if mistakes:
            raise CodesignError(*mistakes)
        self._arities = {name: len(each.fields) for name, (_, each) in known.constructors().items()}

    def _read_data_type(self, place: int) -> None:
        self.stream.seek(place)
        definition = self._types.definition()
        if definition.name in self._data_types:
            raise mistake(f"{definition.name} is defined twice", definition.span)
        self._data_types[definition.name] = definition
        self._ends[place] = self.stream.place

    def expressions(self) -> ExpressionReader:
        return ExpressionReader(self.stream, self._types, self._lexed, self._arities)

    def module(self) -> Module:
        functions: dict[str, Function] = {}
        while self.stream.peek.kind is not TokenKind.END:
            if self.stream.place in self._ends:
                self.stream.seek(self._ends[self.stream.place])
                continue
            word = self.stream.take()
            if word.kind is not TokenKind.WORD or word.text != "def":
                what = "a module is made of definitions"
                raise mistake(what, word.span, help_text="write def @main")
            name = self.stream.expect_kind(TokenKind.GLOBAL)
            if name.text in functions:
                raise mistake(f"@{name.text} is defined twice", name.span)
            functions[name.text] = self.expressions().global_function(name)
        return Module(functions, self._data_types)
