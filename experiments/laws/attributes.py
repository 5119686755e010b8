"""Every attribute of every operator at values other than its default, from the declarations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, replace
from enum import Enum
from math import inf, nan
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from codesign.diagnostics import InternalError
from codesign.ir.relay.attrs_text import value_text
from codesign.ir.relay.expr import Attrs
from codesign.ops.operator import Operator

_PLAIN: Mapping[type, tuple[object, ...]] = {
    bool: (False, True),
    int: (0, 1, -1, 7, 2**40, -(2**31)),
    float: (0.0, -0.0, 1.0, -2.5, 1e-45, 1e300, 0.1, inf, -inf, nan),
    str: ("NCHW4c", "a b.c", ""),
    NoneType: (None,),
}


def values_of(hint: Any) -> tuple[object, ...]:
    """Return several values of an attribute's declared type, edges among them.

    Raises
    ------
    InternalError
        An attribute is declared with a type that has no values here.
    """
    origin, options = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return tuple(value for option in options for value in values_of(option))
    if origin is Literal:
        return options
    if origin is tuple and options and options[-1] is Ellipsis:
        several = values_of(options[0])
        return ((), several[:1], several[:2], several)
    if origin is tuple:
        columns = [values_of(option) for option in options]
        longest = max(map(len, columns))
        return tuple(
            tuple(column[(row + place) % len(column)] for place, column in enumerate(columns))
            for row in range(longest)
        )
    if isinstance(hint, type) and issubclass(hint, Enum):
        return tuple(hint)
    if hint in _PLAIN:
        return _PLAIN[hint]
    raise InternalError(f"no values are known of attributes of type {hint}")


def _start(kind: type[Attrs]) -> Attrs:
    """Return the default attributes; one without a default gets the first value of its type."""
    hints = get_type_hints(kind)
    given = {
        field.name: values_of(hints[field.name])[0] for field in fields(kind) if _is_needed(field)
    }
    return kind(**given)


def _is_needed(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def variations(record: Operator) -> Iterator[tuple[str, Attrs | None]]:
    """Yield an operator's attributes: the default ones, then each attribute at other values.

    The first of each pair says which attribute differs; it is empty for the defaults.
    """
    if record.attrs is None:
        yield "", None
        return
    start, hints = _start(record.attrs), get_type_hints(record.attrs)
    yield "", start
    for field in fields(record.attrs):
        default = value_text(getattr(start, field.name))
        for value in values_of(hints[field.name]):
            if value_text(value) != default:
                yield field.name, replace(start, **{field.name: value})
