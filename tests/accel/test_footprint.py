"""Footprints against plain enumeration of loop nests."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from codesign.accel.config import AccelConfig, Memory
from codesign.accel.footprint import dram_footprint, footprint, reach, visits_once
from codesign.accel.isa import Load, Store, Sync, Unit


def _places(base: int, extents: tuple[int, ...], strides: tuple[int, ...]) -> list[int]:
    return [
        base + sum(c * s for c, s in zip(counters, strides, strict=True))
        for counters in itertools.product(*map(range, extents))
    ]


@pytest.mark.parametrize("seed", range(60))
def test_reach_is_the_greatest_place_and_visits_once_never_lies(seed: int) -> None:
    rng = np.random.default_rng(seed)
    extents = tuple(int(v) for v in rng.integers(1, 5, 4))
    strides = tuple(int(v) for v in rng.choice([0, 1, 2, 3, 4, 8, 16, 20], 4))
    width = int(rng.integers(1, 4))
    places = _places(7, extents, strides)
    assert reach(7, extents, strides) == max(places)
    covered = [place + offset for place in places for offset in range(width)]
    if visits_once(extents, strides, width):
        assert len(set(covered)) == len(covered)


def test_visits_once_knows_row_major_and_transposed_boxes() -> None:
    assert visits_once((2, 3, 4), (12, 4, 1))
    assert visits_once((2, 3, 4), (4, 8, 1))
    assert not visits_once((2, 3, 4), (4, 4, 1))
    assert not visits_once((1, 2, 4), (0, 7, 2), width=2)


def test_boxes_cover_the_bytes_that_a_hand_count_gives() -> None:
    """Base: 8-byte beats, 2 beats to an inp or out tile. Last tile: beat 10 + 40 + 2*9 + 3*2."""
    box = {"segment": 2, "address": 10, "size": (2, 3, 4), "stride": (40, 9)}
    load = Load(memory=Memory.INP, sram=5, pad=(1, 0, 2, 1), **box)  # type: ignore[arg-type]
    place = dram_footprint(load, AccelConfig())
    assert place is not None
    assert (place.segment, place.first, place.end, place.written) == (2, 80, (74 + 2) * 8, False)
    (tiles,) = footprint(load)
    assert (tiles.memory, tiles.first, tiles.end) == (Memory.INP, 5, 5 + 2 * 4 * 7)
    store = Store(sram=5, **box)  # type: ignore[arg-type]
    written = dram_footprint(store, AccelConfig())
    assert written is not None
    assert (written.end, written.written) == (76 * 8, True)


def test_sync_touches_nothing() -> None:
    sync = Sync(unit=Unit.LOAD)
    assert footprint(sync) == ()
    assert dram_footprint(sync, AccelConfig()) is None
