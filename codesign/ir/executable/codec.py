"""Frozen dataclasses to JSON values and back, by their type hints; everything else is refused."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from codesign.diagnostics import CodesignError
from codesign.ir.relay.types import UNKNOWN


def encode(value: object) -> Any:
    """Return the JSON value of a dataclass, tuple, enum member, number, text or None."""
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: encode(getattr(value, each.name)) for each in fields(value)}
    match value:
        case tuple():
            return [encode(each) for each in value]
        case Enum():
            return value.value
        case bool() | int() | str() | None:
            return value
        case _:
            raise TypeError(f"a {type(value).__name__} has no JSON form here")


def decode(kind: Any, value: object, where: str) -> Any:
    """Return the value of type `kind` that `encode` made `value` from.

    Raises
    ------
    CodesignError
        A missing or unknown member, or a value of another type; `where` is its path.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _decode_union(arguments, value, where)
    if origin is tuple:
        return _decode_tuple(arguments, value, where)
    if is_dataclass(kind) and isinstance(kind, type):
        return _decode_dataclass(kind, value, where)
    if isinstance(kind, type) and issubclass(kind, Enum):
        try:
            return kind(value)
        except ValueError:
            raise _wrong(where, value, f"one of {[each.value for each in kind]}") from None
    if type(value) is not kind:
        raise _wrong(where, value, getattr(kind, "__name__", str(kind)))
    return value


def _decode_union(arguments: tuple[Any, ...], value: object, where: str) -> Any:
    """Decode one of several types; dataclasses are told apart by the names of their fields."""
    if value is None and NoneType in arguments:
        return None
    if value == UNKNOWN.value and _unknown() in arguments:
        return UNKNOWN
    rest = [each for each in arguments if each is not NoneType and each is not _unknown()]
    if len(rest) > 1:
        rest = [each for each in rest if isinstance(value, dict) and set(value) == _names(each)]
        if not rest:
            raise _wrong(where, value, "an object of a known kind")
    return decode(rest[0], value, where)


def _names(kind: type) -> set[str]:
    return {each.name for each in fields(kind)} if is_dataclass(kind) else set()


def _decode_tuple(arguments: tuple[Any, ...], value: object, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise _wrong(where, value, "a list")
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        kinds: tuple[Any, ...] = (arguments[0],) * len(value)
    else:
        kinds = arguments
    if len(kinds) != len(value):
        raise _wrong(where, value, f"a list of {len(kinds)}")
    return tuple(
        decode(kind, each, f"{where}[{index}]")
        for index, (kind, each) in enumerate(zip(kinds, value, strict=True))
    )


def _decode_dataclass(kind: type, value: object, where: str) -> Any:
    names = [each.name for each in fields(kind)]
    if not isinstance(value, dict) or set(value) != set(names):
        raise _wrong(where, value, f"an object of {', '.join(names)}")
    hints = get_type_hints(kind)
    return kind(**{name: decode(hints[name], value[name], f"{where}.{name}") for name in names})


def _unknown() -> type:
    return type(UNKNOWN)


def _wrong(where: str, value: object, expected: str) -> CodesignError:
    text = repr(value)
    shown = text if len(text) <= 60 else f"{text[:57]}..."
    return CodesignError.of(f"{where} is malformed", found=f"found {shown}, expected {expected}")
