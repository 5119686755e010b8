"""Types and data type definitions of Relay text, with the names that are in scope."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from codesign.compiler.frontend.relay_lexer import Token, TokenKind
from codesign.compiler.frontend.token_stream import TokenStream, mistake
from codesign.dtypes import DType
from codesign.ir.relay.module import ConstructorDefinition, TypeDefinition
from codesign.ir.relay.types import (
    UNKNOWN,
    Dim,
    FuncType,
    Hole,
    Length,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
)
from codesign.ops.table import OPERATORS

_RESERVED: Final = frozenset({"Tensor", "fn", "ref", "_", *DType})
"""Names of types that no data type may have."""

_KEYWORDS: Final = frozenset(
    {
        *("let", "fn", "def", "if", "else", "type", "match", "extern", "free_var"),
        *("ref", "ref_read", "ref_write", "meta", "_", "True", "False", "inff", "nan"),
    }
)


class TypeReader:
    """Reads types; `data_types` are the names that the whole text declares."""

    def __init__(self, stream: TokenStream, data_types: Iterable[str] = ()) -> None:
        self._stream = stream
        self._data_types = frozenset(data_types)
        self._scope: dict[str, list[TypeVar]] = {}
        self._lengths: dict[str, Length] = {}
        self._names_lengths = False

    def begin_parameters(self) -> None:
        """Let the types that follow, those of a global function's parameters, name lengths."""
        self._lengths, self._names_lengths = {}, True

    def end_parameters(self) -> None:
        """Let the types that follow mention the lengths that are named, and no others."""
        self._names_lengths = False

    # --- type parameters --------------------------------------------------------------------------

    def enter(self) -> tuple[TypeVar, ...]:
        """Read `[A, B]` where it stands, and bring the names into scope until `leave`.

        A name that would hide another becomes one that does not.
        """
        if not self._stream.take_mark("["):
            return ()
        found: list[TypeVar] = []
        while not self._stream.is_mark("]"):
            name = self._stream.expect_kind(TokenKind.WORD)
            if name.text in [each.name for each in found]:
                raise mistake(f"type parameter {name.text} is named twice", name.span)
            found.append(TypeVar(name.text))
            if not self._stream.take_mark(","):
                break
        self._stream.expect_mark("]")
        return tuple(self._declare(each.name) for each in found)

    def leave(self, type_params: tuple[TypeVar, ...]) -> None:
        """End the scope of what `enter` gave."""
        for each in type_params:
            next(known for known in self._scope.values() if known and known[-1] == each).pop()

    def _declare(self, name: str) -> TypeVar:
        taken = {each.name for known in self._scope.values() for each in known}
        fresh, number = name, 0
        while fresh in taken:
            number += 1
            fresh = f"{name}_{number}"
        self._scope.setdefault(name, []).append(TypeVar(fresh))
        return TypeVar(fresh)

    # --- types ------------------------------------------------------------------------------------

    def type_(self) -> Type:
        """Read a type."""
        with self._stream.nested():
            return self._type()

    def _type(self) -> Type:
        token = self._stream.take()
        if token.kind is TokenKind.MARK and token.text == "(":
            return TupleType(self._types(")"))
        if token.kind is not TokenKind.WORD:
            raise self._stream.unexpected("a type", token)
        match token.text:
            case "Tensor":
                return self._tensor()
            case "fn":
                return self._function()
            case "ref":
                self._stream.expect_mark("(")
                value = self.type_()
                self._stream.expect_mark(")")
                return RefType(value)
            case "_":
                return Hole()
            case name if self._scope.get(name):
                return self._scope[name][-1]
            case name if name in self._data_types:
                return TypeCall(name, self._types("]") if self._stream.take_mark("[") else ())
            case name if name in set(DType):
                return TensorType((), DType(name))
            case _:
                raise self._unknown(token)

    def _unknown(self, token: Token) -> Exception:
        visible = [name for name, bound in self._scope.items() if bound]
        known = [*visible, *self._data_types, *DType, "Tensor"]
        close = get_close_matches(token.text, known)
        advice = f"there is {' and '.join(close)}" if close else None
        return mistake(f"no type is named {token.text!r}", token.span, help_text=advice)

    def _function(self) -> FuncType:
        type_params = self.enter()
        self._stream.expect_mark("(")
        params = self._types(")")
        self._stream.expect_mark("->")
        result = self.type_()
        self.leave(type_params)
        return FuncType(params, result, type_params)

    def _types(self, end: str) -> tuple[Type, ...]:
        found: list[Type] = []
        while not self._stream.is_mark(end):
            found.append(self.type_())
            if not self._stream.take_mark(","):
                break
        self._stream.expect_mark(end)
        return tuple(found)

    def _tensor(self) -> TensorType:
        self._stream.expect_mark("[")
        self._stream.expect_mark("(")
        dims: list[Dim] = []
        names: list[Length | None] = []
        while not self._stream.is_mark(")"):
            names.append(self._length())
            is_known = names[-1] is None and not self._stream.take_mark("?")
            dims.append(self._stream.whole_number() if is_known else UNKNOWN)
            if not self._stream.take_mark(","):
                break
        self._stream.expect_mark(")")
        self._stream.expect_mark(",")
        dtype = _dtype(self._stream.expect_kind(TokenKind.WORD))
        self._stream.expect_mark("]")
        return TensorType(tuple(dims), dtype, tuple(names) if any(names) else ())

    def _length(self) -> Length | None:
        """Read a length's name where one stands."""
        token = self._stream.peek
        if token.kind is not TokenKind.WORD:
            return None
        self._stream.take()
        if token.text not in self._lengths and not self._names_lengths:
            advice = "the parameters of a global function name lengths: %x: Tensor[(n, 3), float32]"
            raise mistake(f"no length is named {token.text!r}", token.span, help_text=advice)
        return self._lengths.setdefault(token.text, Length(token.text))

    # --- data types -------------------------------------------------------------------------------

    def definition(self) -> TypeDefinition:
        """Read `type Name[A] { Constructor(type, …), … }` or `extern type Name[A]`."""
        is_extern = self._stream.take_word("extern")
        self._stream.expect_word("type")
        name = self._stream.expect_kind(TokenKind.WORD)
        if name.text in _RESERVED:
            raise mistake(f"{name.text} is the name of another type", name.span)
        type_params = self.enter()
        if is_extern and self._stream.is_mark("{"):
            raise mistake("an extern type has no constructors", self._stream.peek.span)
        constructors = () if is_extern else self._constructors()
        self.leave(type_params)
        return TypeDefinition(name.text, type_params, constructors, is_extern, name.span)

    def _constructors(self) -> tuple[ConstructorDefinition, ...]:
        self._stream.expect_mark("{")
        found: list[ConstructorDefinition] = []
        while not self._stream.is_mark("}"):
            name = self._stream.expect_kind(TokenKind.WORD)
            if name.text in (*_KEYWORDS, *OPERATORS):
                kind = "a keyword" if name.text in _KEYWORDS else "an operator"
                what = f"no constructor may be named {name.text}"
                raise mistake(what, name.span, f"it is {kind}")
            fields = self._types(")") if self._stream.take_mark("(") else ()
            found.append(ConstructorDefinition(name.text, fields, name.span))
            self._stream.take_mark(",")
        self._stream.expect_mark("}")
        return tuple(found)


def _dtype(token: Token) -> DType:
    if token.text not in set(DType):
        raise mistake(
            f"no element type is named {token.text!r}",
            token.span,
            help_text=f"there is {', '.join(DType)}",
        )
    return DType(token.text)


def data_type_places(tokens: tuple[Token, ...]) -> dict[int, str]:
    """Return where data types are defined in a text, and their names.

    A place is the index of the definition's first token, `type` or `extern`.
    """
    found: dict[int, str] = {}
    depth = 0
    for index, token in enumerate(tokens[:-1]):
        if token.kind is TokenKind.MARK and token.text in "{}":
            depth += 1 if token.text == "{" else -1
        if depth == 0 and token.kind is TokenKind.WORD and token.text == "type":
            is_extern = index > 0 and tokens[index - 1].text == "extern"
            found[index - 1 if is_extern else index] = tokens[index + 1].text
    return found
