"""A factor of a product as tensor cores take it: its narrow type, and how it can be copied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, final

from codesign.dtypes import DType
from codesign.ir.simt.kernel import Conditions
from codesign.ir.tensor.compute import Apply, Convert, Expr, Fn, Guarded, Literal, Load
from codesign.ir.tensor.index import Axis, Index
from codesign.ir.tensor.layout import Buffer
from codesign.ir.tensor.substitute import Substitution
from codesign.ir.tensor.uses import axes_of

COPIED_BYTES: Final = (16, 8, 4)
"""What one asynchronous copy can take."""


def narrowed(expr: Expr, dtype: DType) -> Expr | None:
    """Return a factor in the type that it has before it is widened, if this is the type."""
    if expr.dtype is dtype:
        return expr
    match expr:
        case Convert(value, _) if value.dtype is dtype:
            return value
        case Apply(Fn.SUBTRACT, (value, Literal(0)), _):
            return narrowed(value, dtype)
        case Guarded(conditions, body, Literal(0)):
            inner = narrowed(body, dtype)
            return None if inner is None else Guarded(conditions, inner, Literal(0, dtype))
        case _:
            return None


@final
@dataclass(frozen=True, slots=True, eq=False)
class Copied:
    """A factor that is read as it lies: `elements` neighbours along `axis` at once."""

    buffer: Buffer
    index: tuple[Index, ...]
    conditions: Conditions
    elements: int
    axis: Axis

    def one_by_one(self) -> Copied:
        """Return the same copies, of one element each."""
        return replace(self, elements=1)

    def at(
        self, axes: Mapping[Axis, Index], inside: Conditions
    ) -> tuple[tuple[Index, ...], Conditions]:
        """Return index and conditions at a place; `inside` is to hold too."""
        chosen = Substitution(axes, {})
        moved = tuple((chosen.index(index), low, high) for index, low, high in self.conditions)
        needed = tuple(
            (index, low, high)
            for index, low, high in (*moved, *inside)
            if index.bounds()[0] < low or index.bounds()[1] >= high
        )
        return tuple(map(chosen.index, self.index)), needed


def copied(factor: Expr, groups: tuple[tuple[Axis, ...], ...]) -> Copied | None:
    """Return how asynchronous copies take a factor, None where they cannot.

    `groups` are axes that run together, the last of each fastest; only along such a last one can
    neighbours be taken.
    """
    match factor:
        case Load(buffer, index):
            conditions: Conditions = ()
        case Guarded(conditions, Load(buffer, index), Literal(0)):
            pass
        case _:
            return None
    address = buffer.address(index)
    wide = [tuple(axis for axis in group if axis.extent > 1) for group in groups]
    fastest = [group[-1] for group in wide if group and address.factor(group[-1]) == 1]
    tested = set(axes_of(each for each, _, _ in conditions))
    size = factor.dtype.size_bytes
    for size_bytes in COPIED_BYTES:
        elements = size_bytes // size
        for axis in fastest:
            if elements == 1 or (axis not in tested and _is_aligned(address, axis, elements)):
                return Copied(buffer, index, conditions, elements, axis)
    if size == COPIED_BYTES[-1]:
        anything = next(axis for group in wide for axis in group) if any(wide) else Axis("none", 1)
        return Copied(buffer, index, conditions, 1, fastest[0] if fastest else anything)
    return None


def _is_aligned(address: Index, axis: Axis, elements: int) -> bool:
    others = all(factor % elements == 0 for atom, factor in address.terms if atom is not axis)
    return others and axis.extent % elements == 0 and address.constant % elements == 0
