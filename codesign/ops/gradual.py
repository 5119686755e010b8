"""An operator's type where lengths are not known, from its relation at lengths that are.

Many relations compute with lengths: `(height + padding - kernel) / stride + 1`. Where a length is
`?` they are asked about many; what all accepted answers have in common is known, everything else
is `?`. Where no length is accepted, the reason is told.

    nn.max_pool2d(Tensor[(1, 8, ?, 6), …], pool_size=[2, 2])    Tensor[(1, 8, ?, 5), …]

Lengths that are tried are small ones, large ones, and those around every number that the
arguments' types and the attributes mention, so that a least or greatest length is noticed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from itertools import combinations
from random import Random
from typing import Final, TypeAlias, final

from codesign.diagnostics import CodesignError
from codesign.ir.relay.expr import Call
from codesign.ir.relay.type_algebra import parts, with_parts
from codesign.ir.relay.types import UNKNOWN, Dim, TensorType, TupleType, Type
from codesign.ops.operator import Operator

_SMALL: Final = 13
_LARGE: Final = (64, 256, 1009, 1_000_003)
_RANDOM: Final = 300
_BASES: Final = 3
"""Accepted lengths around which others are tried."""

_Lengths: TypeAlias = tuple[int, ...]


def result_type(record: Operator, call: Call, types: tuple[Type, ...]) -> Type:
    """Return the type of a call of an operator; lengths of its arguments may be unknown.

    Raises
    ------
    CodesignError
        The operator refuses the arguments, whatever the lengths are; or the number of axes of its
        result depends on a length.
    """
    if not any(map(_is_open, types)):
        return record.relation(call, types)
    try:
        return record.relation(call, types)
    except CodesignError as error:
        return _Trial(record, call, types).result(error)


def _is_open(type_: Type) -> bool:
    if isinstance(type_, TensorType):
        return UNKNOWN in type_.shape
    return any(map(_is_open, parts(type_)))


@final
@dataclass(frozen=True, slots=True)
class _Trial:
    """One call, whose unknown lengths are numbered from left to right."""

    record: Operator
    call: Call
    types: tuple[Type, ...]

    def result(self, refused: CodesignError) -> Type:
        """Return what accepted lengths agree on; raise a refusal where none is accepted."""
        asked: dict[_Lengths, Type | CodesignError] = {}
        for lengths in self._starts():
            self._ask(lengths, asked)
        accepted = [each for each, answer in asked.items() if not isinstance(answer, CodesignError)]
        for lengths in (*accepted[:_BASES], *accepted[-1:]):
            for moved in self._moved(lengths):
                self._ask(moved, asked)
        found = [each for each in asked.values() if not isinstance(each, CodesignError)]
        if not found:
            told = {str(each) for each in asked.values()}
            raise next(iter(_refusals(asked.values()))) if len(told) == 1 else refused
        common = _common(found)
        if common is None:
            raise refused
        return common

    def _ask(self, lengths: _Lengths, asked: dict[_Lengths, Type | CodesignError]) -> None:
        if lengths in asked:
            return
        numbers = iter(lengths)
        types = tuple(_filled(each, numbers) for each in self.types)
        try:
            asked[lengths] = self.record.relation(self.call, types)
        except CodesignError as error:
            asked[lengths] = error

    def _starts(self) -> Iterator[_Lengths]:
        """Yield lengths for all unknown ones: equal ones, then small ones at random."""
        unknown = sum(map(_open_count, self.types))
        for length in self._pool():
            yield (length,) * unknown
        random = Random(unknown)
        for _ in range(_RANDOM if unknown > 1 else 0):
            yield tuple(random.randrange(1, _SMALL) for _ in range(unknown))

    def _moved(self, lengths: _Lengths) -> Iterator[_Lengths]:
        """Yield lengths of which one is any other, or two are as many times as long."""
        if len(lengths) == 1:
            return
        for index in range(len(lengths)):
            for length in self._pool():
                yield _with(lengths, {index: length})
        for first, second in combinations(range(len(lengths)), 2):
            for factor in (2, 3):
                scaled = {each: lengths[each] * factor for each in (first, second)}
                yield _with(lengths, scaled)

    def _pool(self) -> list[int]:
        named = {*_numbers(self.call.attrs)}
        for type_ in self.types:
            named.update(_known_lengths(type_))
        around = {abs(each) + step for each in named for step in (-1, 0, 1)}
        return sorted({*range(_SMALL), *_LARGE, *(each for each in around if each >= 0)})


def _common(found: Sequence[Type]) -> Type | None:
    """Return what types have in common; None where they have other numbers of axes or fields."""
    first = found[0]
    if isinstance(first, TensorType):
        tensors = [each for each in found if isinstance(each, TensorType)]
        if len({(len(each.shape), each.dtype) for each in tensors}) > 1:
            return None
        columns = zip(*(each.shape for each in tensors), strict=True)
        return TensorType(tuple(map(_agreed, columns)), first.dtype)
    if len({len(parts(each)) for each in found}) > 1:
        return None
    whole = [_common(each) for each in zip(*map(parts, found), strict=True)]
    known = tuple(each for each in whole if each is not None)
    return TupleType(known) if len(known) == len(whole) else None


def _with(lengths: _Lengths, changed: Mapping[int, int]) -> _Lengths:
    return tuple(changed.get(index, each) for index, each in enumerate(lengths))


def _refusals(answers: Iterable[Type | CodesignError]) -> Iterator[CodesignError]:
    yield from (each for each in answers if isinstance(each, CodesignError))


def _open_count(type_: Type) -> int:
    if isinstance(type_, TensorType):
        return type_.shape.count(UNKNOWN)
    return sum(map(_open_count, parts(type_)))


def _filled(type_: Type, numbers: Iterator[int]) -> Type:
    if isinstance(type_, TensorType):
        shape = tuple(next(numbers) if dim is UNKNOWN else dim for dim in type_.shape)
        return TensorType(shape, type_.dtype)
    return with_parts(type_, tuple(_filled(each, numbers) for each in parts(type_)))


def _known_lengths(type_: Type) -> Iterator[int]:
    if isinstance(type_, TensorType):
        yield from (dim for dim in type_.shape if isinstance(dim, int))
    for each in parts(type_):
        yield from _known_lengths(each)


def _numbers(value: object) -> Iterator[int]:
    """Yield every integer in attributes."""
    if isinstance(value, int) and not isinstance(value, bool):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _numbers(each)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from _numbers(getattr(value, field.name))


def _agreed(dims: Sequence[Dim]) -> Dim:
    return dims[0] if len(set(dims)) == 1 else UNKNOWN
