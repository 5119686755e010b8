"""Constants of Relay text: numbers with their suffixes, and entries of the metadata table."""

from __future__ import annotations

from typing import Final

import numpy as np

from codesign.compiler.frontend.relay_lexer import Token, TokenKind
from codesign.compiler.frontend.token_stream import TokenStream, mistake
from codesign.compiler.frontend.tvm_metadata import is_tvm_table, tvm_constants
from codesign.diagnostics import Span
from codesign.dtypes import DType
from codesign.ir.relay.expr import Constant
from codesign.ir.relay.literal import CONSTANTS, SUFFIXES, from_metadata

_DIGITS_LIMIT: Final = 20
"""No integer of 64 bits has more digits."""


def number_constant(token: Token, *, negative: bool) -> Constant:
    """Return the scalar of a number; its suffix, or its size, says the element type."""
    digits, suffix = _splitnumber(token)
    text = f"-{digits}" if negative else digits
    is_float = suffix.startswith("f") or not digits.isdigit()
    if is_float and suffix.startswith("i"):
        raise mistake("an integer has a fraction or an exponent", token.span)
    dtype = SUFFIXES.get(suffix) or (DType.FLOAT32 if is_float else _fitting(text))
    if dtype.is_float:
        with np.errstate(over="ignore"):
            return Constant(np.asarray(np.float64(text)).astype(dtype.numpy), token.span)
    if len(digits) > _DIGITS_LIMIT or not dtype.minimum <= int(text) <= dtype.maximum:
        limits = f"{dtype} is from {dtype.minimum} to {dtype.maximum}"
        raise mistake(f"{text} does not fit its type", token.span, limits)
    return Constant(np.asarray(int(text), dtype.numpy), token.span)


def _fitting(text: str) -> DType:
    if len(text) > _DIGITS_LIMIT:
        return DType.INT64
    fits = DType.INT32.minimum <= int(text) <= DType.INT32.maximum
    return DType.INT32 if fits else DType.INT64


def _splitnumber(token: Token) -> tuple[str, str]:
    text = token.text
    at = next((i for i, character in enumerate(text) if character in "if"), len(text))
    digits, suffix = text[:at], text[at:]
    if suffix not in (*SUFFIXES, "", "f"):
        raise mistake(
            f"{suffix!r} is no suffix of a number",
            token.span,
            help_text=f"there is {', '.join(SUFFIXES)}",
        )
    return digits, suffix


def special_constant(token: Token, *, negative: bool) -> Constant:
    """Return the float32 scalar of `inff` or `nan`."""
    value = np.inf if token.text == "inff" else np.nan
    return Constant(np.asarray(-value if negative else value, np.float32), token.span)


def signed_constant(stream: TokenStream) -> Constant:
    """Read what follows a sign: more signs, then a number; each sign turns it around."""
    negative = True
    while stream.take_mark("-"):
        negative = not negative
    number = stream.take()
    if number.kind is TokenKind.NUMBER:
        return number_constant(number, negative=negative)
    if number.kind is TokenKind.WORD and number.text in ("inff", "nan"):
        return special_constant(number, negative=negative)
    raise stream.unexpected("a number after the sign", number)


def metadata_constant(table: dict[str, object] | None, index: int, span: Span) -> Constant:
    """Return an entry of the metadata table; the span is that of the reference to it."""
    if table is None:
        raise mistake(
            "the text has no metadata table",
            span,
            f"meta[{CONSTANTS}][{index}] refers to it",
            "print the module with its metadata, or append its #[metadata] section",
        )
    try:
        if is_tvm_table(table):
            return Constant(tvm_constants(table)[index], span)
        entries = table.get(CONSTANTS)
        known = entries if isinstance(entries, list) else []
        return Constant(from_metadata(known[index]), span)
    except IndexError:
        count = len(tvm_constants(table) if is_tvm_table(table) else known)
        found = f"it has {count} constants"
        raise mistake("the metadata table has no such entry", span, found) from None
    except ValueError as error:
        raise mistake("an entry of the metadata table is broken", span, str(error)) from error
