"""How products of few rows are cut into tiles."""

from __future__ import annotations

import pytest

from codesign.compiler.schedule.tiles import Reduction, choose_tile

LATENCY_CYCLES = 4
"""A sum waits so long for itself; one multiply-add on 32 bytes of weights starts each cycle."""


@pytest.mark.parametrize("vectors", [4, 8, 19, 24, 32, 57, 75, 94, 96, 128])
@pytest.mark.parametrize("steps", [128, 150, 256, 300])
def test_a_single_row_hides_the_latency_of_its_sums(vectors: int, steps: int) -> None:
    tile = choose_tile(1, vectors, 16, Reduction(steps, False, 32))
    assert tile.pixels == 1
    assert tile.vectors >= LATENCY_CYCLES
