"""Lengths with names: a union-find over those that a use of a function chooses.

    def @f(%x: Tensor[(n, 4), float32]) -> Tensor[(n, 2), float32]

In @f itself n stands for itself: it is no number and no other name. A call chooses n: what flows
into the first parameter tells it, and with it the length of the result. `?` tells nothing, and
fits.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias, final

from codesign.ir.relay.type_algebra import map_lengths
from codesign.ir.relay.types import UNKNOWN, Dim, Length, TensorType, Type

_Value: TypeAlias = "Dim | Length"
"""A number, `?`, or a name that nothing is known of."""


@final
class Lengths:
    """What is known about names; `declared` are those that stand for themselves."""

    def __init__(self) -> None:
        self.declared: set[Length] = set()
        self._open: set[Length] = set()
        self._chosen: dict[Length, _Value] = {}

    def instance(self, type_: Type, own: Collection[Length]) -> Type:
        """Return the type with new names, to be chosen, in the place of a function's own."""
        fresh = {each: Length(each.name) for each in own}
        self._open.update(fresh.values())
        return map_lengths(type_, lambda name: fresh.get(name, name))

    def is_closed(self, type_: TensorType) -> bool:
        """Return whether the type mentions no name that is, or was, to be chosen."""
        return not any(each in self._open for each in type_.lengths)

    def resolve(self, type_: TensorType) -> TensorType:
        """Return the type with what is known; a name that was not chosen is `?`."""
        found = map_lengths(type_, lambda name: self._known(self._value(name)))
        assert isinstance(found, TensorType), "names are replaced in a tensor's type"
        return found

    def _known(self, value: _Value) -> _Value:
        return UNKNOWN if isinstance(value, Length) and value in self._open else value

    def flow(self, found: TensorType, expected: TensorType) -> bool:
        """Let lengths meet, axis by axis; return whether they may be equal."""
        if not any(found.lengths) and not any(expected.lengths):
            return True
        return all(
            self._meet(self._at(found, axis), self._at(expected, axis))
            for axis in range(len(found.shape))
        )

    def _at(self, type_: TensorType, axis: int) -> _Value:
        name = type_.lengths[axis] if type_.lengths else None
        return type_.shape[axis] if name is None else self._value(name)

    def _value(self, name: Length) -> _Value:
        found: _Value = name
        while isinstance(found, Length) and found in self._chosen:
            found = self._chosen[found]
        if isinstance(found, Length) and found not in self._open and found not in self.declared:
            return UNKNOWN
        return found

    def _meet(self, left: _Value, right: _Value) -> bool:
        if left == right or UNKNOWN in (left, right):
            return True
        for name, value in ((left, right), (right, left)):
            if isinstance(name, Length) and name in self._open:
                self._chosen[name] = value
                return True
        return False
