"""Points of a study as a CSV table: one dataclass a line, its fields the columns."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import asdict, fields
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, get_args, get_type_hints

_Point = TypeVar("_Point")


def write_points(path: Path, points: Iterable[Any], kind: type) -> None:
    """Write points of a dataclass; None is an empty field, a float has five digits."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        names = [field.name for field in fields(kind)]
        writer = csv.DictWriter(stream, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _text(v) for name, v in asdict(each).items()} for each in points)


def read_points(path: Path, kind: type[_Point]) -> list[_Point]:
    """Return the points of a table as `write_points` wrote it."""
    hints = get_type_hints(kind)
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    return [kind(**{name: _value(hints[name], text) for name, text in row.items()}) for row in rows]


def _text(value: object) -> str:
    match value:
        case None:
            return ""
        case float():
            return f"{value:.5g}"
        case _:
            return str(value)


def _value(hint: Any, text: str) -> object:
    kinds = get_args(hint) or (hint,)
    if not text and NoneType in kinds:
        return None
    kind = kinds[0]
    return text == "True" if kind is bool else kind(text)
