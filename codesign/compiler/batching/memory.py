"""What a plan's instances have given so far, and how the samples of the next group come together.

Most of what a group reads lies in rows of a few arrays: results of earlier groups, or words of a
sentence. They are copied array by array; what lies otherwise, one by one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, final

import numpy as np

from codesign.compiler.batching.cells import Instance, Read
from codesign.compiler.batching.trace import Field, Given, Made, Piece, Row, Symbol
from codesign.diagnostics import CodesignError, Problem
from codesign.dtypes import Array
from codesign.ir.executable.values import DataValue
from codesign.ir.relay.expr import Constant

Place: TypeAlias = tuple[Instance, int]
"""Which instance gives what a call gives, and which of its calls it is."""

Own: TypeAlias = tuple[int, int]
"""A call of a cell, and a field of what it gives."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Samples `places` of a group are rows of one array, `within` a range of each row.

    The array is what `group` has given, or the matrix that `matrix` reads.
    """

    group: int | None
    own: Own
    matrix: Symbol | None
    within: tuple[int, int] | None
    rows: Array
    places: Array


@final
@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One parameter of a group's cell: a sample for each instance."""

    reads: tuple[Read, ...]
    parts: tuple[Rows, ...]
    others: tuple[int, ...]


def column_of(reads: Sequence[Read], homes: Mapping[Made, Place], alone: Sequence[bool]) -> Column:
    """Return how samples come together; `alone` says which groups give single tensors."""
    found: dict[Any, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    matrices: dict[Any, Symbol] = {}
    others = []
    for place, read in enumerate(reads):
        symbol, within = read, None
        if isinstance(symbol, Symbol) and isinstance(symbol.source, Piece):
            piece = symbol.source
            if piece.axis == 0:
                symbol, within = piece.of, (piece.begin, piece.end)
        key = _key(symbol, homes, alone, matrices)
        if key is None:
            others.append(place)
            continue
        source, row = key
        rows, places = found[source, within]
        rows.append(row)
        places.append(place)
    parts = tuple(
        Rows(
            group=source[0],
            own=source[1],
            matrix=matrices.get(source),
            within=within,
            rows=np.array(rows),
            places=np.array(places),
        )
        for (source, within), (rows, places) in found.items()
    )
    return Column(tuple(reads), parts, tuple(others))


def _key(
    read: Read,
    homes: Mapping[Made, Place],
    alone: Sequence[bool],
    matrices: dict[Any, Symbol],
) -> tuple[Any, int] | None:
    """Return the array that a read is a row of, and which row; None where it is none."""
    if not isinstance(read, Symbol):
        return None
    match read.source:
        case Field(made=made, index=index):
            instance, call = homes[made]
            if alone[instance.group]:
                return None
            return (instance.group, (call, index)), instance.row
        case Row(of=Symbol(source=Given(run=run, name=name)) as of, index=row):
            key: Any = (None, (run, -1), name)
        case Row(of=Symbol(source=Field(made=made, index=index)) as of, index=row):
            instance, call = homes[made]
            if not alone[instance.group]:
                return None
            key = (None, (call, index), instance)
        case _:
            return None
    matrices[key] = of
    return key, row


@final
@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """What groups have given: for each, its results by call and field, a row for each instance."""

    inputs: tuple[Mapping[str, Any], ...]
    homes: Mapping[Made, Place]
    results: list[dict[Own, Array | list[Array]]] = field(default_factory=list)

    def samples(self, column: Column) -> Array:
        """Return a group's samples of one parameter."""
        blocks = [(part.places, self._block(part, column)) for part in column.parts]
        if len(blocks) == 1 and not column.others and np.all(np.diff(blocks[0][0]) == 1):
            return blocks[0][1]
        if not blocks:
            return np.stack([self.read(each) for each in column.reads])
        found = np.empty((len(column.reads), *blocks[0][1].shape[1:]), blocks[0][1].dtype)
        for places, block in blocks:
            found[places] = block
        for place in column.others:
            found[place] = self.read(column.reads[place])
        return found

    def _block(self, part: Rows, column: Column) -> Array:
        if part.group is None:
            assert part.matrix is not None, "rows are of a group or of a matrix"
            array = self.read(part.matrix)
            if part.rows.max() >= len(array) or part.rows.min() < -len(array):
                return np.stack([self.read(column.reads[place]) for place in part.places])
        else:
            array = np.asarray(self.results[part.group][part.own])
        if part.within is None:
            return np.asarray(array[part.rows])
        return np.asarray(array[part.rows, slice(*part.within)])

    def read(self, read: Read) -> Array:
        """Return what one instance reads.

        Raises
        ------
        CodesignError
            It is a row that is not there.
        """
        if not isinstance(read, Symbol):
            return read
        match read.source:
            case Given(run=run, name=name):
                return np.asarray(self.inputs[run][name])
            case Field(made=made, index=index):
                instance, call = self.homes[made]
                return np.asarray(self.results[instance.group][call, index][instance.row])
            case Row(of=of, index=index, span=span):
                rows = self.read(of)
                if not -len(rows) <= index < len(rows):
                    raise CodesignError(
                        Problem(
                            what="take reads outside the tensor",
                            found=f"index {index} of an axis of length {len(rows)}",
                            span=span,
                        )
                    )
                return np.asarray(rows[index])
            case Piece(of=of, axis=axis, begin=begin, end=end):
                return np.asarray(self.read(of)[(slice(None),) * axis + (slice(begin, end),)])

    def value(self, result: Any) -> Any:
        """Return a result of main with its symbols read."""
        match result:
            case Symbol():
                return self.read(result)
            case Constant(value=value):
                return value
            case tuple():
                return tuple(map(self.value, result))
            case DataValue(constructor, fields):
                return DataValue(constructor, tuple(map(self.value, fields)))
            case _:
                return result
