"""Values of data types, as they cross between Python and compiled code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DataValue:
    """What a constructor made: its name and the fields, from left to right.

    A field is an array, a tuple of fields, or a `DataValue`; inside of the interpreter it is also
    what only programs make, functions and cells.
    """

    constructor: str
    fields: tuple[Any, ...] = ()

    def __repr__(self) -> str:
        return f"DataValue({self.constructor!r}, <{len(self.fields)} fields>)"
