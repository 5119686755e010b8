"""Relay from Python functions: run once on traced values, they leave the expression behind.

>>> def network(x, w):
...     hidden = op("nn.relu", op("nn.dense", x, w))
...     return hidden * 2.0, branch(True, lambda: hidden, lambda: x)
>>> function = trace(network, "Tensor[(1, 4), float32]", "Tensor[(4, 4), float32]")
>>> [param.name for param in function.params]
['x', 'w']

A value that Python uses twice is one node. Numbers become constants of the element type that the
text gives them: int32, float32, bool. A traced value knows the line of Python that made it.
"""

from __future__ import annotations

import inspect
import linecache
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeAlias, final

import numpy as np

from codesign.compiler.frontend.relay_calls import operator_call
from codesign.compiler.frontend.relay_lexer import TokenKind, lex
from codesign.compiler.frontend.relay_types import TypeReader
from codesign.compiler.frontend.token_stream import TokenStream
from codesign.diagnostics import TextRange
from codesign.dtypes import Array
from codesign.ir.relay.expr import (
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    OpRef,
    Project,
    Tuple,
    Var,
)
from codesign.ir.relay.types import Type

Traceable: TypeAlias = "Traced | Expr | Array | bool | int | float | tuple[Traceable, ...]"
"""What may stand where a traced value is expected."""

_FOLDER: Final = str(Path(__file__).parent)
"""Frames of this folder are the tracer's."""


@final
class Traced:
    """A value while a function is traced; Python's operators make calls of ours."""

    def __init__(self, expr: Expr) -> None:
        self.expr = expr

    def __add__(self, other: Traceable) -> Traced:
        return op("add", self, other)

    def __radd__(self, other: Traceable) -> Traced:
        return op("add", other, self)

    def __sub__(self, other: Traceable) -> Traced:
        return op("subtract", self, other)

    def __rsub__(self, other: Traceable) -> Traced:
        return op("subtract", other, self)

    def __mul__(self, other: Traceable) -> Traced:
        return op("multiply", self, other)

    def __rmul__(self, other: Traceable) -> Traced:
        return op("multiply", other, self)

    def __truediv__(self, other: Traceable) -> Traced:
        return op("divide", self, other)

    def __neg__(self) -> Traced:
        return op("negative", self)

    def __lt__(self, other: Traceable) -> Traced:
        return op("less", self, other)

    def __le__(self, other: Traceable) -> Traced:
        return op("less_equal", self, other)

    def __gt__(self, other: Traceable) -> Traced:
        return op("greater", self, other)

    def __ge__(self, other: Traceable) -> Traced:
        return op("greater_equal", self, other)

    def equals(self, other: Traceable) -> Traced:
        """Return whether elements are equal; `==` tells Python objects apart, as always."""
        return op("equal", self, other)

    def __getitem__(self, index: int) -> Traced:
        return Traced(Project(self.expr, index, place()))

    def __call__(self, *args: Traceable) -> Traced:
        return Traced(Call(self.expr, tuple(map(lifted, args)), None, place()))

    def __bool__(self) -> bool:
        raise TypeError("a traced value has no truth yet: use branch(condition, then, otherwise)")

    def __iter__(self) -> None:
        raise TypeError("a traced value has no length yet: take its fields by their index")


def op(name: str, *args: Traceable, **attributes: object) -> Traced:
    """Return a call of an operator; attributes are named as in Relay text.

    Raises
    ------
    CodesignError
        No operator has this name, or it has other attributes.
    """
    values: Mapping[str, object] = {
        key: list(value) if isinstance(value, tuple) else value for key, value in attributes.items()
    }
    here = place()
    return Traced(operator_call(OpRef(name, here), tuple(map(lifted, args)), values, here))


def branch(
    condition: Traceable, then: Callable[[], Traceable], otherwise: Callable[[], Traceable]
) -> Traced:
    """Return `if (condition) { then() } else { otherwise() }`; both are traced, one will run."""
    here = place()
    return Traced(If(lifted(condition), lifted(then()), lifted(otherwise()), here))


def function(name: str) -> Traced:
    """Return the module's function of this name, which may be defined later."""
    return Traced(GlobalVar(name, place()))


def lifted(value: Traceable) -> Expr:
    """Return a value as an expression.

    Raises
    ------
    TypeError
        There is no such value in Relay.
    """
    match value:
        case Traced():
            return value.expr
        case tuple():
            return Tuple(tuple(map(lifted, value)), place())
        case bool():
            return Constant(np.asarray(value), place())
        case int():
            return Constant(np.asarray(value, np.int32), place())
        case float():
            return Constant(np.asarray(value, np.float32), place())
        case np.ndarray() | np.generic():
            return Constant(np.asarray(value), place())
        case Function() | Constant() | Var() | Call() | Tuple() | Project() | If() | GlobalVar():
            return value
        case _:
            raise TypeError(f"Relay has no value for {type(value).__name__}")


def trace(python: Callable[..., Traceable], *types: Type | str) -> Function:
    """Return the Relay function that a Python function computes; types are of its parameters.

    Raises
    ------
    CodesignError
        A type that is no Relay text, or a mistake of an operator's attributes.
    ValueError
        There is not one type for each parameter.
    """
    names = list(inspect.signature(python).parameters)
    if len(names) != len(types):
        raise ValueError(f"{python.__name__} takes {len(names)} values, not {len(types)}")
    here = place()
    params = tuple(Var(name, _type(each), here) for name, each in zip(names, types, strict=True))
    body = lifted(python(*map(Traced, params)))
    return Function(params, body, span=here)


def _type(written: Type | str) -> Type:
    if not isinstance(written, str):
        return written
    stream = TokenStream(lex(written, "type").tokens)
    found = TypeReader(stream).type_()
    stream.expect_kind(TokenKind.END)
    return found


def place() -> TextRange:
    """Return the line of Python that is running, outside the files of the tracer."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_FOLDER) and frame.f_back is not None:
        frame = frame.f_back
    source, line = frame.f_code.co_filename, frame.f_lineno
    text = linecache.getline(source, line).rstrip("\n")
    start = len(text) - len(text.lstrip()) + 1
    return TextRange(source, line, start, max(len(text), start) + 1, text)
