"""Index expressions: sums of axes with integer factors, kept simplified by their constructors.

    index := constant + factor * atom + …
    atom  := axis | index // d | index % d | min(max(index, low), high) | integer element

Division is floor division by a positive constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, assert_never, final

_FAR = 1 << 48


@final
@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """A loop's variable, from 0 to `extent - 1`; identity is the node."""

    name: str
    extent: int


@final
@dataclass(frozen=True, slots=True)
class FloorDiv:
    """`value // divisor`, where the division is not exact by construction."""

    value: Index
    divisor: int


@final
@dataclass(frozen=True, slots=True)
class Modulo:
    """`value % divisor`, in `0 .. divisor - 1`."""

    value: Index
    divisor: int


@final
@dataclass(frozen=True, slots=True)
class Clamp:
    """`min(max(value, low), high)`."""

    value: Index
    low: int
    high: int


@final
@dataclass(frozen=True, slots=True, eq=False)
class Element:
    """An integer that is computed: `expr` is a scalar expression of `compute` over `axes`."""

    expr: object
    axes: tuple[Axis, ...]


Atom: TypeAlias = Axis | FloorDiv | Modulo | Clamp | Element


@final
@dataclass(frozen=True, slots=True)
class Index:
    """`constant + sum of factor * atom`; each atom stands once and no factor is zero."""

    terms: tuple[tuple[Atom, int], ...] = ()
    constant: int = 0

    def __add__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            return Index(self.terms, self.constant + other)
        factors: dict[Atom, int] = dict(self.terms)
        for atom, factor in other.terms:
            factors[atom] = factors.get(atom, 0) + factor
        kept = tuple((atom, factor) for atom, factor in factors.items() if factor != 0)
        return Index(kept, self.constant + other.constant)

    def __mul__(self, factor: int) -> Index:
        if factor == 0:
            return Index()
        return Index(tuple((a, f * factor) for a, f in self.terms), self.constant * factor)

    def __sub__(self, other: Index | int) -> Index:
        return self + other * -1

    def __floordiv__(self, divisor: int) -> Index:
        quotient, rest = self._split(divisor)
        low, high = rest.bounds()
        if low >= 0 and high < divisor:
            return quotient
        return quotient + Index(((FloorDiv(rest, divisor), 1),))

    def __mod__(self, divisor: int) -> Index:
        _, rest = self._split(divisor)
        low, high = rest.bounds()
        if low >= 0 and high < divisor:
            return rest
        return Index(((Modulo(rest, divisor), 1),))

    def clamp(self, low: int, high: int) -> Index:
        """Return the index held to `low .. high`."""
        least, greatest = self.bounds()
        if low <= least and greatest <= high:
            return self
        if low == high:
            return Index((), low)
        return Index(((Clamp(self, low, high), 1),))

    def _split(self, divisor: int) -> tuple[Index, Index]:
        quotient = Index((), self.constant // divisor)
        rest = Index((), self.constant % divisor)
        for atom, factor in self.terms:
            if factor % divisor == 0:
                quotient += Index(((atom, factor // divisor),))
            else:
                rest += Index(((atom, factor),))
        return quotient, rest

    def bounds(self) -> tuple[int, int]:
        """Least and greatest value; wide where an element takes part."""
        low = high = self.constant
        for atom, factor in self.terms:
            least, greatest = _atom_bounds(atom)
            low += min(least * factor, greatest * factor)
            high += max(least * factor, greatest * factor)
        return low, high

    def factor(self, axis: Axis) -> int | None:
        """Return the factor of an axis; None where the axis stands inside another atom."""
        factor = 0
        for atom, each in self.terms:
            if atom is axis:
                factor = each
            elif _atom_uses(atom, axis):
                return None
        return factor

    def uses(self, axis: Axis) -> bool:
        """Whether the value depends on an axis."""
        return any(_atom_uses(atom, axis) for atom, _ in self.terms)


def at(axis: Axis) -> Index:
    """Return the index that is an axis itself."""
    return Index(((axis, 1),)) if axis.extent != 1 else Index()


def constant(value: int) -> Index:
    """Return a constant index."""
    return Index((), value)


def element(expr: object, axes: tuple[Axis, ...]) -> Index:
    """Return the index that a scalar expression computes; `axes` are all that it depends on."""
    return Index(((Element(expr, axes), 1),))


def flatten(index: tuple[Index, ...], shape: tuple[int, ...]) -> Index:
    """Return the row-major position of an index in a shape."""
    position = Index()
    for each, extent in zip(index, shape, strict=True):
        position = position * extent + each
    return position


def unflatten(position: Index, shape: tuple[int, ...]) -> tuple[Index, ...]:
    """Return the index of a row-major position in a shape."""
    index: list[Index] = []
    for extent in reversed(shape[1:]):
        index.append(position % extent)
        position = position // extent
    return (position, *reversed(index)) if shape else ()


def _atom_bounds(atom: Atom) -> tuple[int, int]:
    match atom:
        case Axis():
            return 0, max(atom.extent - 1, 0)
        case FloorDiv():
            low, high = atom.value.bounds()
            return low // atom.divisor, high // atom.divisor
        case Modulo():
            return 0, atom.divisor - 1
        case Clamp():
            return atom.low, atom.high
        case Element():
            return -_FAR, _FAR
        case _:
            assert_never(atom)


def _atom_uses(atom: Atom, axis: Axis) -> bool:
    match atom:
        case Axis():
            return atom is axis
        case FloorDiv() | Modulo() | Clamp():
            return atom.value.uses(axis)
        case Element():
            return axis in atom.axes
        case _:
            assert_never(atom)
