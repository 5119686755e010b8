"""Calls of Relay text: what infix signs mean, and the attributes of operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from codesign.compiler.frontend.relay_dialect import field_of_result, in_our_words
from codesign.compiler.frontend.relay_lexer import Token
from codesign.compiler.frontend.token_stream import joined, mistake
from codesign.diagnostics import Span
from codesign.ir.relay.attrs_text import attrs_from_values
from codesign.ir.relay.expr import Attrs, Call, Expr, OpRef, Project
from codesign.ops.table import default_attrs, operator

INFIX: Final = {
    "*": (12, "multiply"),
    "/": (12, "divide"),
    "+": (10, "add"),
    "-": (10, "subtract"),
    "<": (8, "less"),
    "<=": (8, "less_equal"),
    ">": (8, "greater"),
    ">=": (8, "greater_equal"),
    "==": (7, "equal"),
    "!=": (7, "not_equal"),
}
"""Precedence and operator of each infix sign; all group to the left."""


def reduce_infix(operands: list[tuple[Expr, Span]], sign: Token) -> None:
    """Replace the last two operands by the call that the sign between them means.

    Each stands with its place: a variable's own span is where it is declared.
    """
    (right, last), (left, first) = operands.pop(), operands.pop()
    span = joined(first, last)
    call = Call(OpRef(INFIX[sign.text][1], sign.span), (left, right), None, span)
    operands.append((call, span))


def named_operator(name: Token) -> OpRef:
    """Return the operator of a name; refuse one that there is not."""
    operator(name.text, name.span)
    return OpRef(name.text, name.span)


def operator_call(
    callee: OpRef, args: tuple[Expr, ...], values: Mapping[str, object], span: Span
) -> Expr:
    """Return a call of an operator with attributes by name, in our words or in TVM's."""
    args, values = in_our_words(callee.name, args, values, span)
    return Call(callee, args, _attrs(callee, values, span), span)


def project(value: Expr, index: int, span: Span, bound: Mapping[Expr, Expr]) -> Expr:
    """Return a field of a tuple; of what gives several there, the one that is meant.

    `bound` says what variables are bound to.
    """
    whole = bound.get(value, value)
    found = field_of_result(whole, index)
    if found is None:
        return Project(value, index, span)
    return value if found is whole else found


def _attrs(callee: OpRef, values: Mapping[str, object], span: Span) -> Attrs | None:
    record = operator(callee.name, callee.span)
    if not values:
        return default_attrs(record)
    if record.attrs is None:
        raise mistake(f"{callee.name} has no attributes", span, f"found {next(iter(values))}")
    try:
        return attrs_from_values(record.attrs, values)
    except ValueError as error:
        raise mistake(f"{callee.name} has other attributes", span, str(error)) from error
