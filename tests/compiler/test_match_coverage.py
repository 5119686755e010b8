"""Which matches leave a value out: against all values up to a depth, one by one."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from codesign.compiler.analysis.exhaustive import missing_pattern
from codesign.compiler.values import DataValue, Result, fit
from codesign.ir.relay.expr import (
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    Var,
    Wildcard,
)
from codesign.ir.relay.module import ConstructorDefinition, TypeDefinition
from codesign.ir.relay.types import TupleType, Type, TypeCall
from tests.support.relay_programs import INT

COLOUR, LIST = TypeCall("Colour"), TypeCall("Colours")
DATA = {
    "Colour": TypeDefinition(
        "Colour", (), tuple(ConstructorDefinition(name) for name in ("Red", "Green", "Blue"))
    ),
    "Colours": TypeDefinition(
        "Colours",
        (),
        (ConstructorDefinition("Add", (COLOUR, LIST)), ConstructorDefinition("Empty")),
    ),
    "Void": TypeDefinition("Void", (), ()),
    "Sealed": TypeDefinition("Sealed", (), (), is_extern=True),
}
DEPTH = 3
"""Patterns are at most so deep, so that values of this depth tell all of them apart."""


def values(type_: Type, depth: int) -> list[Result]:
    match type_:
        case TupleType(fields):
            return list(product(*(values(each, depth) for each in fields)))
        case TypeCall(name):
            return [
                DataValue(each.name, fields)
                for each in DATA[name].constructors
                if depth > 0 or not each.fields
                for fields in product(*(values(field, depth - 1) for field in each.fields))
            ]
        case _:
            return [np.asarray(1, np.int32)]


def patterns(type_: Type, depth: int) -> st.SearchStrategy[Pattern]:
    any_: st.SearchStrategy[Pattern] = st.just(Wildcard()) | st.builds(
        PatternVar, st.builds(Var, st.just("x"))
    )
    match type_:
        case TupleType(fields):
            parts = st.tuples(*(patterns(each, depth) for each in fields))
            return any_ | st.builds(PatternTuple, parts)
        case TypeCall(name) if depth > 0:
            made = [
                st.builds(
                    PatternConstructor,
                    st.just(each.name),
                    st.tuples(*(patterns(field, depth - 1) for field in each.fields)),
                )
                for each in DATA[name].constructors
            ]
            return st.one_of(any_, *made)
        case _:
            return any_


@given(st.data())
def test_coverage_is_that_of_all_values(data: st.DataObject) -> None:
    type_ = data.draw(st.sampled_from([COLOUR, LIST, TupleType((COLOUR, LIST)), INT]))
    rows = data.draw(st.lists(patterns(type_, DEPTH), max_size=5))
    known = values(type_, DEPTH)
    left_out = [value for value in known if all(fit(row, value) is None for row in rows)]
    assert (missing_pattern(tuple(rows), type_, DATA) is not None) == bool(left_out)


def test_the_missing_pattern_is_named() -> None:
    empty, red = PatternConstructor("Empty"), PatternConstructor("Red")
    rows = (empty, PatternConstructor("Add", (red, Wildcard())))
    assert missing_pattern(rows, LIST, DATA) == "Add(Green, _)"
    pair = TupleType((COLOUR,))
    assert missing_pattern((PatternTuple((red,)),), pair, DATA) == "(Green,)"


def test_a_type_without_values_needs_no_clause() -> None:
    assert missing_pattern((), TypeCall("Void"), DATA) is None
    assert missing_pattern((), TypeCall("Sealed"), DATA) == "_"
    assert missing_pattern((), INT, DATA) == "_"
