"""A match as a decision tree: no constructor of a value is looked at twice on any way.

Clauses are tried in order; what a constructor tells about later clauses is used at once.

Source: Maranget, Compiling Pattern Matching to Good Decision Trees (2008), without its heuristics:
the first question of the first clause is asked first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, assert_never, final

from codesign.compiler.native.blocks import OpenBlock, Task, Writer
from codesign.compiler.native.module import ModuleWriter
from codesign.ir.control.program import Fail, GetField, Jump, Site, Switch, Value
from codesign.ir.relay.expr import (
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    Var,
    Wildcard,
)

_Place: TypeAlias = tuple[int, ...]
"""Where in the matched value: fields of fields."""


@final
@dataclass(frozen=True, slots=True)
class Leaf:
    """A clause that some way reaches: its first block and its variables."""

    clause: int
    block: OpenBlock
    bound: Mapping[Var, Value]


@final
@dataclass(frozen=True, slots=True)
class _Row:
    """What is still asked of a clause, and what its variables are so far."""

    clause: int
    asked: tuple[tuple[_Place, PatternConstructor], ...]
    bound: Mapping[Var, _Place]


@final
class Decision:
    """Writes the questions of one match; `bound` are the values that pattern variables get."""

    def __init__(
        self,
        writer: Writer,
        module: ModuleWriter,
        node: Match,
        bound: Mapping[Var, Value],
        fields: Mapping[Value, tuple[Value, ...]],
    ) -> None:
        self._writer = writer
        self._module = module
        self._node = node
        self._bound = bound
        self._fields = fields
        self._leaves: dict[int, Leaf] = {}
        self._sizes: dict[_Place, int] = {}

    def write(self, value: Value) -> Task:
        """Write the tree from the current block on; return the clauses that can be reached."""
        rows = [
            self._row(number, (((), clause.pattern),), (), {})
            for number, clause in enumerate(self._node.clauses)
        ]
        yield self._decide(rows, {(): value})
        return tuple(self._leaves.values())

    def _decide(self, rows: list[_Row], known: dict[_Place, Value]) -> Task:
        if not rows:
            site = Site("no clause of a match fits", span=self._node.span)
            self._writer.finish(Fail(self._module.site(site)))
            return
        first = rows[0]
        if not first.asked:
            self._reach(first, known)
            return
        place, pattern = first.asked[0]
        value = self._at(place, known)
        definition, _ = self._module.constructors[pattern.name]
        siblings = [each.name for each in definition.constructors]
        named = dict.fromkeys(
            each.name for row in rows for where, each in row.asked if where == place
        )
        if len(siblings) == 1:
            yield self._decide(self._known(rows, place, pattern.name), known)
            return
        blocks = {name: self._writer.open() for name in named}
        others = self._writer.open() if len(named) < len(siblings) else None
        cases = tuple((self._module.tags[name], block.label) for name, block in blocks.items())
        default = None if others is None else others.label
        self._writer.finish(Switch(value, cases, default))
        for name, block in blocks.items():
            self._writer.current = block
            yield self._decide(self._known(rows, place, name), dict(known))
        if others is not None:
            self._writer.current = others
            left = [row for row in rows if all(where != place for where, _ in row.asked)]
            yield self._decide(left, dict(known))

    def _reach(self, row: _Row, known: dict[_Place, Value]) -> None:
        if row.clause not in self._leaves:
            bound = {var: self._bound[var] for var in row.bound}
            block = self._writer.open(tuple(bound.values()))
            self._leaves[row.clause] = Leaf(row.clause, block, bound)
        leaf = self._leaves[row.clause]
        args = tuple(self._at(row.bound[var], known) for var in leaf.bound)
        self._writer.finish(Jump(leaf.block.label, args))

    def _at(self, place: _Place, known: dict[_Place, Value]) -> Value:
        for end in range(len(place) + 1):
            if place[:end] not in known:
                known[place[:end]] = self._field(known, place[: end - 1], place[end - 1])
        return known[place]

    def _field(self, known: dict[_Place, Value], place: _Place, index: int) -> Value:
        fields = self._fields.get(known[place])
        if fields is not None:
            return fields[index]
        result = self._writer.value("v")
        self._writer.add(GetField(result, known[place], index, self._sizes[place]))
        return result

    def _known(self, rows: list[_Row], place: _Place, name: str) -> list[_Row]:
        """Return the rows that can still fit where the constructor at a place is known."""
        _, definition = self._module.constructors[name]
        self._sizes[place] = len(definition.fields)
        kept = []
        for row in rows:
            asked = [each for where, each in row.asked if where == place]
            if asked and asked[0].name != name:
                continue
            patterns = tuple(
                ((*place, index), field)
                for each in asked
                for index, field in enumerate(each.fields)
            )
            rest = tuple(each for each in row.asked if each[0] != place)
            kept.append(self._row(row.clause, patterns, rest, row.bound))
        return kept

    def _row(
        self,
        clause: int,
        patterns: tuple[tuple[_Place, Pattern], ...],
        asked: tuple[tuple[_Place, PatternConstructor], ...],
        bound: Mapping[Var, _Place],
    ) -> _Row:
        """Return the row with patterns added: variables are bound, tuples taken apart."""
        questions = list(asked)
        variables = dict(bound)
        waiting = list(reversed(patterns))
        while waiting:
            place, pattern = waiting.pop()
            match pattern:
                case Wildcard():
                    pass
                case PatternVar(var):
                    variables[var] = place
                case PatternTuple(fields):
                    self._sizes[place] = len(fields)
                    waiting += reversed([((*place, i), each) for i, each in enumerate(fields)])
                case PatternConstructor():
                    questions.append((place, pattern))
                case _:
                    assert_never(pattern)
        return _Row(clause, tuple(questions), variables)
