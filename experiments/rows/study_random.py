"""study-random and study-monotone: random layers on random configurations.

A case of `study-random` is right where the result equals NumPy bit for bit, or where the layer is
refused with its name, the memory, the bytes needed and present, and the smallest that works.
A case of `study-monotone` is one layer on a configuration and on one with more of a single thing:
twice a memory, twice the bandwidth, or half the latency. It is wrong where the program chosen for
more takes more cycles. Both are compiled with one tuning, the lesser first, as a sweep does: what
was best for less is among what is tried for more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from codesign.accel.config import AccelConfig
from codesign.compiler.backends.accel.search import Tuning
from codesign.diagnostics import CodesignError
from codesign.ir.relay.expr import Expr, Var
from codesign.sim.cycle import program_cycles
from experiments.rows.measurement import CONSOLE, Measurement
from tests.support.random_layers import Verdict, judged
from tests.support.regions import Maker, kernel_of

RANDOM_LAYERS: Final = 1200
MONOTONE_CASES: Final = 240
REPORT_EVERY: Final = 100

_MEMORIES: Final = ("inp", "wgt", "vec", "acc", "out", "param")


def study_random(count: int = RANDOM_LAYERS) -> Measurement:
    """Count the random layers that are neither equal to NumPy nor refused with the facts."""
    verdicts: Counter[Verdict] = Counter()
    for seed in range(count):
        verdict, message = judged(seed, Tuning(program_cycles))
        verdicts[verdict] += 1
        if verdict is Verdict.WRONG:
            CONSOLE.print(f"seed {seed}: {message}", markup=False)
        if (seed + 1) % REPORT_EVERY == 0:
            CONSOLE.print(f"{seed + 1} of {count} layers")
    for verdict, found in verdicts.items():
        CONSOLE.print(f"{found:6} {verdict}")
    return Measurement(value=verdicts[Verdict.WRONG], unit="wrong layers")


def study_monotone(count: int = MONOTONE_CASES) -> Measurement:
    """Count the cases in which more bandwidth or memory makes the chosen program slower."""
    slower = 0
    for case, (title, less, more) in enumerate(_cases(count), start=1):
        if more > less:
            slower += 1
            CONSOLE.print(f"{title}: {less:,} cycles became {more:,}")
        if case % REPORT_EVERY == 0:
            CONSOLE.print(f"{case} of {count} cases")
    return Measurement(value=slower, unit="slower cases")


def _cases(count: int) -> Iterator[tuple[str, int, int]]:
    """Yield `count` cases: a title, cycles with less and cycles with more."""
    found = seed = 0
    while found < count:
        rng = np.random.default_rng((seed, 5))
        seed += 1
        config = _config(rng)
        params, body = _layer(rng)
        for knob, more in _grown(config):
            try:
                tuning = Tuning(program_cycles)
                less_cycles = _cycles(params, body, config, tuning)
            except CodesignError:
                break  # what does not fit the lesser has no time to compare with
            yield f"seed {seed - 1}, {knob}", less_cycles, _cycles(params, body, more, tuning)
            found += 1
            if found == count:
                return


def _config(rng: np.random.Generator) -> AccelConfig:
    def power(low: int, high: int) -> int:
        return 1 << int(rng.integers(low, high + 1))

    block = power(2, 4)
    config = AccelConfig(
        block_in=block,
        block_out=block,
        vector_lanes=block,
        inp_depth=power(7, 11),
        wgt_depth=power(6, 10),
        vec_depth=power(7, 11),
        acc_depth=power(7, 11),
        out_depth=power(7, 11),
        param_depth=power(5, 9),
        bus_bits=min(64, 8 * block),
    )
    timing = {"latency_cycles": power(0, 6), "bytes_per_cycle": config.bus_bytes // power(0, 2)}
    return config.with_dram(**timing).check()


def _layer(rng: np.random.Generator) -> tuple[tuple[Var, ...], Expr]:
    maker = Maker(rng)
    channels, outputs = (int(each) for each in rng.integers(16, 100, 2))
    side, kernel = int(rng.integers(7, 29)), int(rng.choice([1, 3]))
    x = maker.var((1, channels, side, side))
    pad, stride = (kernel // 2,) * 4, int(rng.integers(1, 3))
    match int(rng.integers(4)):
        case 0:
            weight = (channels, 1, kernel, kernel)
            return (x,), maker.conv(
                x, weight, groups=channels, padding=pad, strides=(stride, stride)
            )
        case 1:
            return (x,), maker.max_pool(x, pool_size=(2, 2), strides=(2, 2))
        case _:
            weight = (outputs, channels, kernel, kernel)
            return (x,), maker.conv(x, weight, padding=pad, strides=(stride, stride))


def _grown(config: AccelConfig) -> Iterator[tuple[str, AccelConfig]]:
    """Yield configurations with more of one thing."""
    for memory in _MEMORIES:
        depth = getattr(config, f"{memory}_depth")
        yield (
            f"{memory}_depth {depth} to {2 * depth}",
            replace(config, **{f"{memory}_depth": 2 * depth}),
        )
    bandwidth, latency = config.dram.bytes_per_cycle, config.dram.latency_cycles
    if bandwidth < config.bus_bytes:
        faster = config.with_dram(bytes_per_cycle=2 * bandwidth)
        yield f"bandwidth {bandwidth} to {2 * bandwidth} byte/cycle", faster
    if latency > 1:
        yield f"latency {latency} to {latency // 2}", config.with_dram(latency_cycles=latency // 2)


def _cycles(params: tuple[Var, ...], body: Expr, config: AccelConfig, tuning: Tuning) -> int:
    return program_cycles(kernel_of(params, body, config, tuning).program, config)
