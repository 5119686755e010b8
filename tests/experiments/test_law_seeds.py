"""Random programs that a pass once broke: it keeps their answers, their types and itself."""

from __future__ import annotations

import pytest

from experiments.laws.passes import judge
from experiments.laws.program import random_program
from experiments.rows.relay_laws import size_of_seed

BROKEN = (
    *((seed, "partial-evaluate") for seed in (22, 37, 69, 78, 111, 118, 147, 157, 179)),
    (101, "to-graph-normal-form"),
    (113, "eliminate-dead-code"),
    (121, "to-a-normal-form"),
    (121, "to-cps"),
    (5281, "lambda-lift"),
    (5365, "lambda-lift"),
    (227, "fold-constant"),
    (5517, "fold-constant"),
    (364, "fuse-ops"),
    (1149, "expand-operators"),
    (1718, "canonicalize-cast"),
    (1985, "fold-constant"),
    (2278, "canonicalize-ops"),
    (2385, "lambda-lift"),
    (3144, "eliminate-dead-code"),
    (3792, "lambda-lift"),
    (3845, "eliminate-dead-code"),
)


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "name"), BROKEN)
def test_a_pass_keeps_a_program_that_it_broke(seed: int, name: str) -> None:
    assert judge(random_program(seed, size_of_seed(seed)), (name,)).breaches == ()
