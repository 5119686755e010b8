"""Which rows no other row beats in everything."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.sweep.row import Row


def front(rows: Sequence[Row], columns: tuple[str, ...]) -> list[Row]:
    """Return the rows that are on the Pareto front of columns of which less is better.

    Rows with a missing value are not on it; of rows that are equal in all columns, all are.
    """
    complete = [row for row in rows if all(getattr(row, name) is not None for name in columns)]
    points = [tuple(getattr(row, name) for name in columns) for row in complete]
    return [
        row
        for row, point in zip(complete, points, strict=True)
        if not any(_beats(other, point) for other in points)
    ]


def _beats(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))
