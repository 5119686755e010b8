"""A campaign: many random programs on many configurations, the RTL against both simulators.

Workers build and run side by side. Libraries are kept by what they are made of, so a campaign that
was interrupted builds only what is missing when it runs again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from typing import Final, TypeAlias

import numpy as np

from codesign.accel.config import AccelConfig
from codesign.accel.presets import BASE, BATCH4, BATCH16, EDGE, TINY
from codesign.diagnostics import CodesignError
from hardware.verilate import build_simulator
from tests.support.cosim import CACHE, MEMORIES, compare
from tests.support.programs import random_config, random_program

Say: TypeAlias = Callable[[str], None]

MEMORIES_OF_A_CAMPAIGN: Final = ("ideal", "latency 60", "latency 60, quarter bandwidth")

SMALL: Final = AccelConfig(
    block_in=4,
    block_out=4,
    inp_depth=16,
    wgt_depth=16,
    vec_depth=16,
    acc_depth=16,
    out_depth=16,
    param_depth=8,
    lut_depth=256,
    vector_lanes=4,
    queue_depth=4,
)

LEAST: Final = AccelConfig(
    block_in=1,
    block_out=1,
    inp_bits=4,
    wgt_bits=2,
    acc_bits=16,
    inp_depth=2,
    wgt_depth=2,
    vec_depth=2,
    acc_depth=2,
    out_depth=2,
    param_depth=2,
    lut_depth=2,
    acc_banks=1,
    vector_lanes=1,
    bus_bits=32,
    burst_beats=1,
    outstanding=1,
    queue_depth=2,
    has_lut=False,
    has_multiplier=False,
)
"""Every knob at its least value."""


def _shallow(config: AccelConfig) -> AccelConfig:
    """Return the configuration with memories that a short program fills and reads again."""
    return replace(
        config,
        inp_depth=64,
        wgt_depth=32,
        vec_depth=64,
        acc_depth=64,
        out_depth=64,
        param_depth=16,
        lut_depth=512,
    )


CORNERS: Final = {
    "least": LEAST,
    "least, 8 bits": replace(LEAST, inp_bits=8, wgt_bits=8, acc_bits=32, has_multiplier=True),
    "1x1x1 of 16 bits": replace(SMALL, block_in=1, block_out=1, vector_lanes=1, inp_bits=16),
    "1x64x64": replace(
        SMALL, block_in=64, block_out=64, vector_lanes=64, bus_bits=512, burst_beats=64
    ),
    "1x64x1": replace(SMALL, block_in=64, block_out=1, vector_lanes=1, address_bits=40),
    "32x1x2": replace(SMALL, batch=32, block_in=1, block_out=2, vector_lanes=8, acc_banks=4),
    "16x2x4, 4-bit, saturating": replace(
        SMALL, batch=16, block_in=2, inp_bits=4, wgt_bits=4, acc_bits=16, vector_lanes=16
    ),
    "2-tile memories": replace(
        SMALL, inp_depth=2, wgt_depth=2, vec_depth=2, acc_depth=2, out_depth=2, param_depth=2
    ),
    "16-bit, 2-bit weights": replace(SMALL, inp_bits=16, wgt_bits=2, bus_bits=256),
    "deep queues": replace(SMALL, queue_depth=64, outstanding=32, burst_beats=256),
    "tiny": TINY,
    "edge, shallow": _shallow(EDGE),
    "base, shallow": _shallow(BASE),
    "batch4, shallow": _shallow(BATCH4),
    "batch16, shallow": _shallow(BATCH16),
}
"""Configurations at the edges of what is legal, and presets, by name."""


@dataclass(frozen=True, kw_only=True)
class Tally:
    """What a campaign found.

    `differing_programs` differ in memory under one of the memories at least; `distance` sums the
    differences of cycles and counters.
    """

    configurations: int = 0
    programs: int = 0
    runs: int = 0
    cycles: int = 0
    differing_programs: int = 0
    distance: int = 0
    sentences: tuple[str, ...] = ()

    def plus(self, other: Tally) -> Tally:
        """Return both together."""
        return Tally(
            configurations=self.configurations + other.configurations,
            programs=self.programs + other.programs,
            runs=self.runs + other.runs,
            cycles=self.cycles + other.cycles,
            differing_programs=self.differing_programs + other.differing_programs,
            distance=self.distance + other.distance,
            sentences=self.sentences + other.sentences,
        )


def configurations(count: int, seed: int) -> Iterator[tuple[str, AccelConfig]]:
    """Yield the corners and then random configurations: `count` in all, all different."""
    seen: set[str] = set()
    for name, config in list(CORNERS.items())[:count]:
        seen.add(config.digest)
        yield name, config
    number = 0
    while len(seen) < count:
        config = random_config(np.random.default_rng((seed, number)))
        if config.digest not in seen:
            seen.add(config.digest)
            yield f"random {seed}/{number}", config
        number += 1


def campaign(
    chosen: Sequence[tuple[str, AccelConfig]], programs: int, seed: int, say: Say, workers: int = 2
) -> Tally:
    """Run `programs` random programs on each configuration; say what each configuration gave."""
    total = Tally()
    trial = partial(_trial, programs=programs, seed=seed)
    with ProcessPoolExecutor(workers, mp_context=get_context("fork")) as pool:
        names = {pool.submit(trial, each): each[0] for each in chosen}
        for done, finished in enumerate(as_completed(names), start=1):
            name, tally = names[finished], finished.result()
            total = total.plus(tally)
            say(
                f"{done}/{len(chosen)} {name}: {tally.programs} programs, {tally.cycles} cycles, "
                f"{tally.differing_programs} differ, counters {tally.distance} off"
            )
            for sentence in tally.sentences:
                say(f"  {sentence}")
    return total


def _trial(named: tuple[str, AccelConfig], programs: int, seed: int) -> Tally:
    name, config = named
    try:
        library = build_simulator(config.check(), CACHE)
    except CodesignError as error:
        return Tally(
            configurations=1,
            programs=programs,
            differing_programs=programs,
            distance=programs,
            sentences=(f"{name} cannot be built: {error}",),
        )
    total = Tally(configurations=1)
    for index in range(programs):
        rng = np.random.default_rng((seed, int(config.digest[:8], 16), index))
        program, dram, bases = random_program(rng, config)
        differs, distance, cycles, sentences = False, 0, 0, []
        for memory in MEMORIES_OF_A_CAMPAIGN:
            found = compare(program, dram, bases, MEMORIES[memory](config), library)
            differs |= found.values_differ
            distance += found.distance
            cycles += found.cycles
            sentences += [f"program {index}, {memory}: {e}" for e in found.differences]
        total = total.plus(
            Tally(
                programs=1,
                runs=len(MEMORIES_OF_A_CAMPAIGN),
                cycles=cycles,
                differing_programs=int(differs),
                distance=distance,
                sentences=tuple(sentences),
            )
        )
    return total
