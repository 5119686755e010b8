"""An operator's type where lengths are not known, from its relation at lengths that are.

Many relations compute with lengths: `(height + padding - kernel) / stride + 1`. Where a length is
`?` they are asked about many; what all accepted answers have in common is known, everything else
is `?`. Where no length is accepted, the reason is told.

    nn.max_pool2d(Tensor[(1, 8, ?, 6), …], pool_size=[2, 2])    Tensor[(1, 8, ?, 5), …]

Lengths that are tried are small ones, large ones, and those around every number that the
arguments' types and the attributes mention, so that a least or greatest length is noticed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from itertools import combinations
from random import Random
from typing import Final, TypeAlias, final

from codesign.diagnostics import CodesignError
from codesign.ir.relay.expr import Call
from codesign.ir.relay.type_algebra import parts, with_parts
from codesign.ir.relay.types import UNKNOWN, Dim, Length, TensorType, TupleType, Type
from codesign.ops.operator import Operator

_SMALL: Final = 13
_LARGE: Final = (64, 256, 1009, 1_000_003)
_RANDOM: Final = 300
_BASES: Final = 3
"""Accepted lengths around which others are tried."""


def result_type(record: Operator, call: Call, types: tuple[Type, ...]) -> Type:
    """Return the type of a call of an operator; lengths of its arguments may be unknown.

    A length of the result that is always that of a name, `n`, has the name too.

    Raises
    ------
    CodesignError
        The operator refuses the arguments, whatever the lengths are; or the number of axes of its
        result depends on a length.
    """
    slots = tuple(slot for each in types for slot in _slots(each))
    if not slots:
        return record.relation(call, types)
    refused: CodesignError | None = None
    plain: Type | None = None
    try:
        plain = record.relation(call, types)
    except CodesignError as error:
        refused = error
    if plain is not None and not any(isinstance(slot, Length) for slot in slots):
        return plain
    return _Trial(record, call, types, slots).result(plain, refused)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Nameless:
    """A length that is written `?`: each may be another."""


_Slot: TypeAlias = Length | _Nameless
"""An unknown length; the same name is the same length."""


def _slots(type_: Type) -> Iterator[_Slot]:
    """Yield the unknown lengths of a type from left to right."""
    if isinstance(type_, TensorType):
        names = type_.lengths or (None,) * len(type_.shape)
        for dim, name in zip(type_.shape, names, strict=True):
            if dim is UNKNOWN:
                yield name or _Nameless()
    for each in parts(type_):
        yield from _slots(each)


_Lengths: TypeAlias = tuple[int, ...]
"""One length for each that is unknown."""

_Answers: TypeAlias = Sequence[tuple[Mapping[_Slot, int], Type]]
"""Lengths that were accepted, and the type that the result has then."""


@final
@dataclass(frozen=True, slots=True)
class _Trial:
    """One call and its unknown lengths, wherever they stand."""

    record: Operator
    call: Call
    types: tuple[Type, ...]
    slots: tuple[_Slot, ...]

    def result(self, plain: Type | None, refused: CodesignError | None) -> Type:
        """Return what accepted lengths agree on; else what the relation itself says of `?`."""
        unknown = tuple(dict.fromkeys(self.slots))
        asked: dict[_Lengths, Type | CodesignError] = {}
        for lengths in self._starts(len(unknown)):
            self._ask(unknown, lengths, asked)
        accepted = [each for each, answer in asked.items() if not isinstance(answer, CodesignError)]
        for lengths in (*accepted[:_BASES], *accepted[-1:]):
            for moved in self._moved(lengths):
                self._ask(unknown, moved, asked)
        answers = [
            (dict(zip(unknown, lengths, strict=True)), answer)
            for lengths, answer in asked.items()
            if not isinstance(answer, CodesignError)
        ]
        common = _common(answers) if answers else None
        if common is not None:
            return common
        if plain is not None:
            return plain
        reasons = [each for each in asked.values() if isinstance(each, CodesignError)]
        is_one = not answers and len(set(map(str, reasons))) == 1
        raise reasons[0] if is_one or refused is None else refused

    def _ask(
        self,
        unknown: tuple[_Slot, ...],
        lengths: _Lengths,
        asked: dict[_Lengths, Type | CodesignError],
    ) -> None:
        if lengths in asked:
            return
        values = dict(zip(unknown, lengths, strict=True))
        numbers = iter([values[slot] for slot in self.slots])
        types = tuple(_filled(each, numbers) for each in self.types)
        try:
            asked[lengths] = self.record.relation(self.call, types)
        except CodesignError as error:
            asked[lengths] = error

    def _starts(self, unknown: int) -> Iterator[_Lengths]:
        """Yield lengths for all unknown ones: equal ones, then small ones at random."""
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


def _common(answers: _Answers) -> Type | None:
    """Return what types have in common; None where they have other numbers of axes or fields."""
    first = answers[0][1]
    if isinstance(first, TensorType):
        tensors = [each for _, each in answers if isinstance(each, TensorType)]
        if len({(len(each.shape), each.dtype) for each in tensors}) > 1:
            return None
        columns = zip(*(each.shape for each in tensors), strict=True)
        agreed = [_agreed(answers, column) for column in columns]
        names = tuple(each if isinstance(each, Length) else None for each in agreed)
        dims = tuple(UNKNOWN if isinstance(each, Length) else each for each in agreed)
        return TensorType(dims, first.dtype, names if any(names) else ())
    if len({len(parts(each)) for _, each in answers}) > 1:
        return None
    whole = [
        _common([(lengths, parts(each)[index]) for lengths, each in answers])
        for index in range(len(parts(first)))
    ]
    known = tuple(each for each in whole if each is not None)
    return TupleType(known) if len(known) == len(whole) else None


def _agreed(answers: _Answers, dims: Sequence[Dim]) -> Dim | Length:
    """Return the one length, the one name that always has this length, or `?`."""
    if len(set(dims)) == 1:
        return dims[0]
    for slot in answers[0][0]:
        if isinstance(slot, Length) and all(
            lengths[slot] == dim for (lengths, _), dim in zip(answers, dims, strict=True)
        ):
            return slot
    return UNKNOWN


def _with(lengths: _Lengths, changed: Mapping[int, int]) -> _Lengths:
    return tuple(changed.get(index, each) for index, each in enumerate(lengths))


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
