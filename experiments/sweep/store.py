"""Rows in one DuckDB file: a point is written whole or not at all, and outlives its run."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from dataclasses import astuple, fields
from pathlib import Path
from types import TracebackType
from typing import Any, Final, final, get_args, get_type_hints

import duckdb

from codesign.diagnostics import CodesignError
from experiments.sweep.measure import Measured
from experiments.sweep.row import LayerCost, Row

_SQL: Final = {int: "BIGINT", float: "DOUBLE", str: "VARCHAR"}


@final
class Store:
    """The table `points`, a row to each; its `layers`; and when each was written, `arrivals`.

    Raises
    ------
    CodesignError
        The file is no database of sweeps, or another process has it open.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._database = duckdb.connect(str(path))
            self._database.execute(f"CREATE TABLE IF NOT EXISTS points ({_columns(Row)})")
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS layers "
                f"(point VARCHAR, place BIGINT, {_columns(LayerCost)})"
            )
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS arrivals (point VARCHAR, written TIMESTAMP)"
            )
            found = [name for name, *_ in self._database.execute("DESCRIBE points").fetchall()]
        except duckdb.Error as error:
            raise CodesignError.of(
                f"cannot use {str(path)!r} as a table of results",
                found=str(error).splitlines()[0],
                help="another sweep may be writing to it; choose another --out",
            ) from None
        if found != [each.name for each in fields(Row)]:
            raise CodesignError.of(
                f"{str(path)!r} holds results of another version", help="choose another --out"
            )

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._database.close()

    def known(self) -> frozenset[str]:
        """Return the identities of the points that have a row."""
        return frozenset(
            point for (point,) in self._database.execute("SELECT point FROM points").fetchall()
        )

    def add(self, measured: Measured) -> None:
        """Write a point's row and layers in one transaction."""
        self._database.begin()
        self._insert("points", [astuple(measured.row)])
        self._insert(
            "layers",
            [
                (measured.row.point, place, *astuple(layer))
                for place, layer in enumerate(measured.layers)
            ],
        )
        self._database.execute(
            "INSERT INTO arrivals VALUES (?, epoch_ms(?))",
            [measured.row.point, int(time.time() * 1000)],
        )
        self._database.commit()

    def times(self) -> list[float]:
        """Return when each point was written, in seconds since the epoch."""
        found = self._database.execute("SELECT epoch(written) FROM arrivals").fetchall()
        return [float(each) for (each,) in found]

    def rows(self) -> list[Row]:
        """Return all rows, in the order of their points."""
        found = self._database.execute("SELECT * FROM points ORDER BY point").fetchall()
        return [Row(**dict(zip(_names(Row), row, strict=True))) for row in found]

    def layers(self, point: str) -> list[LayerCost]:
        """Return a point's layers in the order of execution."""
        found = self._database.execute(
            "SELECT * EXCLUDE (point, place) FROM layers WHERE point = ? ORDER BY place", [point]
        ).fetchall()
        return [LayerCost(**dict(zip(_names(LayerCost), row, strict=True))) for row in found]

    def export(self, path: Path, wanted: Collection[str] | None = None) -> None:
        """Write the points as Parquet: all, or those of some identities."""
        name = str(path).replace("'", "''")
        chosen = list(self.known() if wanted is None else wanted)
        self._database.execute(
            "CREATE OR REPLACE TEMP TABLE exported AS "
            "SELECT * FROM points WHERE point IN (SELECT unnest(?)) ORDER BY point",
            [chosen],
        )
        self._database.execute(f"COPY exported TO '{name}' (FORMAT parquet, COMPRESSION zstd)")

    def _insert(self, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
        for row in rows:
            places = ", ".join("?" * len(row))
            self._database.execute(f"INSERT INTO {table} VALUES ({places})", list(row))


def rows_of_file(path: Path) -> list[Row]:
    """Return the rows of a Parquet file that `Store.export` wrote, in the order of their points.

    Raises
    ------
    CodesignError
        The file cannot be read, or has other columns.
    """
    try:
        with duckdb.connect() as database:
            query = database.execute("SELECT * FROM read_parquet(?) ORDER BY point", [str(path)])
            names = [each[0] for each in query.description or ()]
            found = query.fetchall()
    except duckdb.Error as error:
        raise CodesignError.of(
            f"cannot read {str(path)!r}", found=str(error).splitlines()[0]
        ) from None
    if tuple(names) != _names(Row):
        raise CodesignError.of(f"{str(path)!r} holds results of another version")
    return [Row(**dict(zip(names, row, strict=True))) for row in found]


def _names(record: type[Row | LayerCost]) -> tuple[str, ...]:
    return tuple(each.name for each in fields(record))


def _columns(record: type[Row | LayerCost]) -> str:
    hints = get_type_hints(record)
    return ", ".join(f"{name} {_SQL[_plain(hints[name])]}" for name in _names(record))


def _plain(hint: Any) -> type:
    kinds = [each for each in get_args(hint) if each is not type(None)] or [hint]
    kind: type = kinds[0]
    return kind
