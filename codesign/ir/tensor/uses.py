"""Which axes an index runs over."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from codesign.ir.tensor.index import Axis, Clamp, Element, FloorDiv, Index, Modulo


def axes_of(indices: Iterable[Index]) -> tuple[Axis, ...]:
    """Return the axes that stand in any of the indices, each once."""
    found: dict[Axis, None] = {}
    pending = list(indices)
    while pending:
        for atom, _ in pending.pop().terms:
            match atom:
                case Axis():
                    found[atom] = None
                case FloorDiv() | Modulo() | Clamp():
                    pending.append(atom.value)
                case Element():
                    found.update(dict.fromkeys(atom.axes))
                case _:
                    assert_never(atom)
    return tuple(found)
