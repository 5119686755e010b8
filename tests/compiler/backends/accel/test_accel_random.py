"""Random layers on random legal configurations: equal to NumPy, or refused with the numbers."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from codesign.compiler.backends.accel.search import Tuning
from codesign.sim.cycle import program_cycles
from tests.support.random_layers import Verdict, judged

SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS)
@example(573_413)  # loads that could run more than 255 tiles ahead
@example(1_239_784_555)  # one row of weights, unrolled by the host, in strides of three
def test_random_layer_is_equal_or_refused(seed: int) -> None:
    _try(seed)


@pytest.mark.parametrize("seed", [105, 868])
def test_groups_whose_results_are_one_column_keep_their_own_inputs(seed: int) -> None:
    verdict, message = judged(seed, Tuning(program_cycles))
    assert verdict is Verdict.EQUAL, message


@pytest.mark.slow
@settings(max_examples=1000, deadline=None)
@given(seed=SEEDS)
def test_a_thousand_random_layers_are_equal_or_refused(seed: int) -> None:
    _try(seed)


def _try(seed: int) -> None:
    verdict, message = judged(seed, Tuning(program_cycles) if seed % 2 else None)
    assert verdict is not Verdict.WRONG, message
