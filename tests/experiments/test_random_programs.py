"""Random programs are what they promise: legal, finite, reproducible, and rich."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codesign.compiler.analysis.infer_types import infer_types
from codesign.ir.relay.equal import is_equal_module
from codesign.ir.relay.expr import Call, Expr, OpRef
from codesign.ir.relay.visit import post_order
from codesign.ir.relay.wellformed import check_module
from experiments.laws.answers import Refused, answer, is_same
from experiments.laws.program import Program, random_program

SEEDS = st.integers(0, 2**32 - 1)


def _nodes(program: Program) -> list[Expr]:
    return [node for each in program.module.functions.values() for node in post_order(each)]


@given(seed=SEEDS)
def test_a_random_program_is_legal_and_answers(seed: int) -> None:
    program = random_program(seed)
    check_module(program.module)
    infer_types(program.module)
    assert not isinstance(answer(program.module, program.args), Refused)


@pytest.mark.parametrize("seed", [3, 44])
def test_equal_seeds_give_equal_programs(seed: int) -> None:
    first, second = random_program(seed), random_program(seed)
    assert is_equal_module(first.module, second.module)
    answers = [answer(each.module, each.args) for each in (first, second)]
    assert is_same(*answers)
    assert not is_equal_module(first.module, random_program(seed + 1).module)


def test_every_construct_and_most_operators_occur() -> None:
    nodes = [node for seed in range(40) for node in _nodes(random_program(seed))]
    kinds = Counter(type(node).__name__ for node in nodes)
    constructs = (
        *("Var", "GlobalVar", "Constant", "OpRef", "Constructor", "Call", "Let", "If", "Tuple"),
        *("Project", "Function", "Match", "RefNew", "RefRead", "RefWrite"),
    )
    assert all(kinds[name] >= 15 for name in constructs), kinds
    operators = {
        n.callee.name for n in nodes if isinstance(n, Call) and isinstance(n.callee, OpRef)
    }
    assert len(operators) > 50
