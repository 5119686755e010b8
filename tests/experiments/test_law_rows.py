"""The rows that judge the language, with few programs."""

from __future__ import annotations

from collections import Counter

import pytest

from experiments.laws.native import judge_native
from experiments.laws.program import random_program
from experiments.rows.relay_laws import relay_laws, relay_native, relay_roundtrip


def test_native_code_answers_random_programs_and_leaves_nothing() -> None:
    runs = [judge_native(random_program(seed, 16)) for seed in range(6)]
    assert not any(run.live_objects for run in runs)
    assert not any(run.detail for run in runs)
    assert Counter(run.verdict.name for run in runs)["SAME"] >= 4


@pytest.mark.slow
def test_the_rows_count_what_fails() -> None:
    assert relay_laws(8).value == 0
    assert relay_native(8).value == 0
    assert relay_roundtrip().value == 0
