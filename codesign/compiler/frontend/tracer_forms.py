"""Forms of traced functions that Python has no word for: `let`, data types, `match`.

>>> from codesign.compiler.frontend.tracer import function, trace
>>> def total(numbers):
...     return match(
...         numbers,
...         ("Cons(%head, %rest)", lambda head, rest: head + function("total")(rest)),
...         ("Nil", lambda: 0),
...     )
>>> traced = trace(total, "int32")
>>> traced.body.complete
True

Types of data types are given to `trace` as types, `TypeCall("List", (TensorType((), INT32),))`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import count

from codesign.compiler.frontend.relay_lexer import Token, TokenKind, lex
from codesign.compiler.frontend.relay_patterns import PatternReader
from codesign.compiler.frontend.relay_types import TypeReader
from codesign.compiler.frontend.token_stream import TokenStream
from codesign.compiler.frontend.tracer import Traceable, Traced, lifted, place
from codesign.ir.relay.expr import Call, Clause, Constructor, Let, Match, Var, pattern_variables


def let(value: Traceable, body: Callable[[Traced], Traceable], name: str = "bound") -> Traced:
    """Return `let %name = value; body(%name)`: the value is evaluated here, used or not."""
    here = place()
    var = Var(name, None, here)
    return Traced(Let(var, lifted(value), lifted(body(Traced(var))), here))


def construct(constructor: str, *fields: Traceable) -> Traced:
    """Return `Constructor(field, …)`, a value of a data type of the module or the prelude."""
    here = place()
    return Traced(Call(Constructor(constructor, here), tuple(map(lifted, fields)), None, here))


def match(
    value: Traceable, *clauses: tuple[str, Callable[..., Traceable]], complete: bool = True
) -> Traced:
    """Return `match (value) { pattern => body, … }`; `match?` where it is not `complete`.

    A pattern is Relay text; its body is called with the pattern's variables, from left to right.

    Raises
    ------
    CodesignError
        A pattern that is no Relay text.
    ValueError
        A body takes another number of variables than its pattern binds.
    """
    here = place()
    read = tuple(_clause(pattern, body) for pattern, body in clauses)
    return Traced(Match(lifted(value), read, complete, here))


def _clause(text: str, body: Callable[..., Traceable]) -> Clause:
    tokens = lex(text, "pattern").tokens
    stream = TokenStream(tokens)
    pattern = PatternReader(stream, TypeReader(stream), _names(tokens)).pattern()
    stream.expect_kind(TokenKind.END)
    variables = pattern_variables(pattern)
    wanted = body.__code__.co_argcount if hasattr(body, "__code__") else len(variables)
    if wanted != len(variables):
        raise ValueError(f"{text!r} binds {len(variables)} variables, its body takes {wanted}")
    return Clause(pattern, lifted(body(*map(Traced, variables))))


def _names(tokens: tuple[Token, ...]) -> Mapping[str, int]:
    """Return every word as a constructor: which of them exist, type inference tells."""
    words: Iterator[str] = (token.text for token in tokens if token.kind is TokenKind.WORD)
    return dict(zip(words, count(), strict=False))
