"""Attributes of calls in Relay text, for every attribute class alike.

A field prints as `name=value`; `metadata={"text": …}` of the field gives another name. Values are
`1`, `0.5`, `inff`, `nan`, `True`, `"text"`, `None` and lists `[1, 2]`; a tuple prints as a list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from enum import Enum
from math import isinf, isnan
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from codesign.ir.relay.expr import Attrs


def attrs_text(attrs: Attrs) -> list[str]:
    """Return every attribute as `name=value`, in the order of declaration."""
    return [
        f"{_text_name(field)}={value_text(getattr(attrs, field.name))}" for field in fields(attrs)
    ]


def value_text(value: object) -> str:
    """Return an attribute's value in Relay text."""
    match value:
        case None:
            return "None"
        case bool() | int():
            return str(value)
        case float():
            return _float_text(value)
        case str():
            return f'"{value}"'
        case tuple():
            return f"[{', '.join(map(value_text, value))}]"
        case _:
            raise TypeError(f"an attribute must be a number, text or tuple, not {value!r}")


def _float_text(value: float) -> str:
    if isnan(value):
        return "nan"
    if isinf(value):
        return "inff" if value > 0 else "-inff"
    return repr(value)


def attrs_from_values(kind: type[Attrs], values: Mapping[str, object]) -> Attrs:
    """Return attributes of a kind from values by their names in Relay text.

    Raises
    ------
    ValueError
        A name that is unknown or missing, or a value of another type.
    """
    by_name = {_text_name(field): field for field in fields(kind)}
    unknown = [name for name in values if name not in by_name]
    if unknown:
        raise ValueError(f"there is no attribute {unknown[0]!r}, there is {', '.join(by_name)}")
    missing = [
        name for name, field in by_name.items() if name not in values and _is_required(field)
    ]
    if missing:
        raise ValueError(f"attribute {missing[0]!r} is missing")
    hints = get_type_hints(kind)
    return kind(
        **{
            by_name[name].name: _converted(name, hints[by_name[name].name], value)
            for name, value in values.items()
        }
    )


def _text_name(field: Field[Any]) -> str:
    return str(field.metadata.get("text", field.name))


def _is_required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _converted(name: str, hint: Any, value: object) -> object:
    origin, options = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _first_that_fits(name, options, value)
    if origin is Literal and value in options:
        return value
    if origin is tuple and isinstance(value, list):
        return _tuple(name, options, value)
    if isinstance(hint, type) and _is_plain(hint, value):
        return hint(value) if value is not None else None
    raise ValueError(f"attribute {name!r} is {value!r}, expected {_spelled(hint)}")


def _is_plain(hint: type, value: object) -> bool:
    """Return whether the value is of a type without parts, or of one that becomes it."""
    if issubclass(hint, Enum):
        return isinstance(value, str) and value in {member.value for member in hint}
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is hint


def _tuple(name: str, options: tuple[Any, ...], value: list[object]) -> tuple[object, ...]:
    if options[-1] is Ellipsis:
        return tuple(_converted(name, options[0], each) for each in value)
    if len(options) != len(value):
        raise ValueError(f"attribute {name!r} has {len(value)} values, expected {len(options)}")
    return tuple(_converted(name, hint, each) for hint, each in zip(options, value, strict=True))


def _first_that_fits(name: str, options: tuple[Any, ...], value: object) -> object:
    for option in options:
        try:
            return _converted(name, option, value)
        except ValueError:
            continue
    expected = " or ".join(map(_spelled, options))
    raise ValueError(f"attribute {name!r} is {value!r}, expected {expected}")


def _spelled(hint: Any) -> str:
    if hint is NoneType:
        return "None"
    if get_origin(hint) is Literal:
        return " or ".join(map(repr, get_args(hint)))
    return hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint)
