"""Patterns of expressions: what a rule or a fusion looks for.

pattern := any | constant | operator(pattern, …) | pattern.i | pattern "|" pattern | pattern where …

`add`, `multiply` and their like are matched in both orders. A name that stands twice must find the
same node twice, or constants that are equal bit for bit.

Examples
--------
>>> x, y = Tuple(()), Tuple(())
>>> square = op("multiply", any_("a"), any_("a"))
>>> match(square, Call(OpRef("multiply"), (x, x)))["a"] is x
True
>>> match(square, Call(OpRef("multiply"), (x, y))) is None
True
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never, final

from codesign.ir.relay.expr import Attrs, Call, Constant, Expr, OpRef, Project

Condition: TypeAlias = Callable[[Expr], bool]
Bindings: TypeAlias = Mapping[str, Expr]

COMMUTATIVE: Final = frozenset(
    {
        *("add", "multiply", "maximum", "minimum", "logical_and", "logical_or"),
        *("equal", "not_equal"),
    }
)
"""Operators whose two operands may change places."""


class _Combinable:
    __slots__ = ()

    def __or__(self, other: Pattern) -> Either:
        """Return the pattern that finds what either finds, this one first."""
        return Either((self, other))  # type: ignore[arg-type]  # every subclass is a Pattern

    def where(self, condition: Condition) -> Where:
        """Return the pattern with a condition on the node that it finds."""
        return Where(self, condition)  # type: ignore[arg-type]  # every subclass is a Pattern


@final
@dataclass(frozen=True, slots=True)
class Anything(_Combinable):
    """Finds any expression, under a name where it has one."""

    name: str = ""


@final
@dataclass(frozen=True, slots=True)
class Known(_Combinable):
    """Finds a constant."""

    name: str = ""


@final
@dataclass(frozen=True, slots=True)
class Operation(_Combinable):
    """Finds a call of one of some operators; `attrs` is a condition on its attributes."""

    names: frozenset[str]
    args: tuple[Pattern, ...]
    attrs: Callable[[Attrs], bool] | None = None
    name: str = ""


@final
@dataclass(frozen=True, slots=True)
class Field(_Combinable):
    """Finds a field of a tuple."""

    value: Pattern
    index: int


@final
@dataclass(frozen=True, slots=True)
class Either(_Combinable):
    """Finds what one of its patterns finds; they are tried in order."""

    options: tuple[Pattern, ...]


@final
@dataclass(frozen=True, slots=True)
class Where(_Combinable):
    """Finds what its pattern finds where a condition holds of the node."""

    pattern: Pattern
    condition: Condition


Pattern: TypeAlias = Anything | Known | Operation | Field | Either | Where


def any_(name: str = "") -> Anything:
    """Return the pattern of any expression."""
    return Anything(name)


def constant(name: str = "") -> Known:
    """Return the pattern of a constant."""
    return Known(name)


def op(
    names: str, *args: Pattern, attrs: Callable[[Attrs], bool] | None = None, name: str = ""
) -> Operation:
    """Return the pattern of a call; `names` are operators separated by spaces."""
    return Operation(frozenset(names.split()), args, attrs, name)


def match(pattern: Pattern, expr: Expr) -> Bindings | None:
    """Return what the names of a pattern stand for in an expression, None where it does not fit."""
    return next(_matches(pattern, expr, {}), None)


def operation_names(pattern: Pattern) -> frozenset[str]:
    """Return the names in a pattern that stand for calls which it looks into."""
    match pattern:
        case Anything() | Known():
            return frozenset()
        case Operation(_, args, _, name):
            own = frozenset({name}) if name else frozenset[str]()
            return own.union(*map(operation_names, args))
        case Field(value):
            return operation_names(value)
        case Either(options):
            return frozenset[str]().union(*map(operation_names, options))
        case Where(inner):
            return operation_names(inner)
        case _:
            assert_never(pattern)


def _matches(pattern: Pattern, expr: Expr, bound: Bindings) -> Iterator[Bindings]:
    match pattern:
        case Anything(name):
            yield from _named(name, expr, bound)
        case Known(name):
            if isinstance(expr, Constant):
                yield from _named(name, expr, bound)
        case Operation():
            yield from _calls(pattern, expr, bound)
        case Field(value, index):
            if isinstance(expr, Project) and expr.index == index:
                yield from _matches(value, expr.value, bound)
        case Either(options):
            for option in options:
                yield from _matches(option, expr, bound)
        case Where(inner, condition):
            if condition(expr):
                yield from _matches(inner, expr, bound)
        case _:
            assert_never(pattern)


def _named(name: str, expr: Expr, bound: Bindings) -> Iterator[Bindings]:
    known = bound.get(name)
    if not name:
        yield bound
    elif known is None:
        yield {**bound, name: expr}
    elif known is expr or _is_same_constant(known, expr):
        yield bound


def _calls(pattern: Operation, expr: Expr, bound: Bindings) -> Iterator[Bindings]:
    match expr:
        case Call(OpRef(name), args, attrs) if name in pattern.names:
            if len(args) != len(pattern.args):
                return
            if pattern.attrs is not None and (attrs is None or not pattern.attrs(attrs)):
                return
            for found in _named(pattern.name, expr, bound):
                yield from _arguments(pattern.args, args, found)
                if name in COMMUTATIVE:
                    yield from _arguments(pattern.args, args[::-1], found)
        case _:
            return


def _arguments(
    patterns: tuple[Pattern, ...], args: tuple[Expr, ...], bound: Bindings
) -> Iterator[Bindings]:
    if not patterns:
        yield bound
        return
    for found in _matches(patterns[0], args[0], bound):
        yield from _arguments(patterns[1:], args[1:], found)


def _is_same_constant(left: Expr, right: Expr) -> bool:
    match left, right:
        case Constant(a), Constant(b):
            return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        case _:
            return False
