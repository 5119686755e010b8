"""Modules with mistakes in types: each is told as a `CodesignError`, and all are told together."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.frontend.prelude import prelude
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.compiler.pipelines import optimize
from codesign.diagnostics import CodesignError
from codesign.ir.relay.wellformed import check_module
from experiments.laws.answers import answer
from experiments.laws.draw import Draw
from experiments.laws.ill_typed import MUTATIONS, Mutation, mutated
from experiments.laws.program import random_program

SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=60)
@given(seed=SEEDS, mutate=st.sampled_from(MUTATIONS))
def test_a_module_that_was_made_wrong_is_refused_or_runs(seed: int, mutate: Mutation) -> None:
    program = random_program(seed % 200, 20)
    module = mutated(program.module, mutate, Draw(seed))
    try:
        check_module(module)
        infer_types(module)
        optimize(module, 1)
    except CodesignError:
        return
    if [p.annotation for p in module.main.params] == [
        p.annotation for p in program.module.main.params
    ]:
        answer(module, program.args)


MISTAKES = {
    "dtype": ("(%x: int32) { add(%x, 1f) }", "takes one element type"),
    "shape": ("(%x: Tensor[(2,), int8]) { add(%x, meta[relay.Constant][0]) }", "do not broadcast"),
    "arity of an operator": ("(%x: int32) { add(%x) }", "another number of arguments"),
    "arity of a function": ("(%x: int32) { fn (%y: int32) { %y }(%x, %x) }", "arguments"),
    "no function": ("(%x: int32) { %x(1) }", "no function"),
    "field": ("(%x: (int32,)) { %x.4 }", "field"),
    "field of a tensor": ("(%x: int32) { %x.0 }", "tuple"),
    "constructor": ("(%x: int32) { Cons(%x, %x) }", "arguments"),
    "pattern": ("(%x: int32) { match (%x) { Cons(_, _) => 1, _ => 2 } }", "makes no such value"),
    "coverage": ("(%x: List[int32]) { match (%x) { Nil => 2 } }", "cover"),
    "condition": ("(%x: int32) { if (%x) { 1 } else { 2 } }", "condition"),
    "branches": ("(%x: bool) { if (%x) { 1 } else { 2f } }", "branches"),
    "cell": ("(%x: ref(int32)) { ref_write(%x, 1f) }", "cell"),
    "result": ("(%x: int32) -> float32 { %x }", "result"),
    "let": ("(%x: int32) { let %y: float32 = %x; %y }", "another type"),
    "argument": ("(%x: int32) { @length(%x) }", "arguments"),
}
METADATA = '#[metadata] {"relay.Constant": [{"dtype": "int8", "shape": [3], "data": "AAAA"}]}'


def _told(*names: str) -> CodesignError:
    functions = [f"def @f{index} {MISTAKES[name][0]}\n" for index, name in enumerate(names)]
    text = f'#[version = "0.0.5"]\n{"".join(functions)}def @main() {{ 1 }}\n{METADATA}'
    with pytest.raises(CodesignError) as caught:
        infer_types(parse_module(text, "wrong.relay", imports=prelude()))
    return caught.value


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_once_with_its_place(name: str) -> None:
    error = _told(name)
    assert len(error.diagnostics) == 1, str(error)
    assert MISTAKES[name][1] in str(error)
    assert "wrong.relay:2:" in str(error)


def test_mistakes_of_a_module_are_told_together() -> None:
    names = [name for name in MISTAKES if name != "coverage"]
    for pair in list(combinations(names, 2))[::5]:
        assert len(_told(*pair).diagnostics) == 2, pair
    assert len(_told(*names).diagnostics) == len(names)
