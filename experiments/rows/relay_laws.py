"""relay-roundtrip, relay-laws, relay-native: the laws of the language, on random programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from typing import Final

from codesign.compiler.pipelines import LEVELS, PASSES
from codesign.ir.relay.module import Module
from experiments.laws.answers import Verdict
from experiments.laws.native import NativeRun, judge_native
from experiments.laws.passes import Judged, judge
from experiments.laws.program import random_program
from experiments.laws.round_trip import (
    attribute_count,
    constructs,
    operators,
    programs,
    survives,
)
from experiments.rows.measurement import CONSOLE, Measurement

PROGRAMS: Final = 5000
"""Random programs of relay-laws and relay-native."""

PRINTED: Final = 500
"""Random programs of relay-roundtrip."""

SIZES: Final = (8, 48)
"""The least and the greatest size of a program; seeds go through all in turn."""

CHUNK: Final = 10
"""Programs that a process judges at a time."""

STEP: Final = 100
"""Progress is shown after so many programs."""


def size_of_seed(seed: int) -> int:
    """Return how large the program of a seed is."""
    least, greatest = SIZES
    return least + seed % (greatest - least + 1)


def relay_roundtrip() -> Measurement:
    """Count the constructs and the operators with their attributes that text does not keep."""
    seen: Counter[str] = Counter()
    failing = [
        *_failing("constructs", constructs(), seen),
        *_failing("operators", operators(), seen),
        *_failing("programs", programs(PRINTED), seen),
    ]
    CONSOLE.print(
        f"{seen['constructs']} constructs, {seen['operators']} calls of operators with "
        f"{attribute_count()} attributes, {seen['programs']} random programs"
    )
    for name in failing:
        CONSOLE.print(f"lost in text: {name}", markup=False)
    return Measurement(value=len(failing), unit="constructs and operators that text loses")


def _failing(kind: str, modules: Iterable[tuple[str, Module]], seen: Counter[str]) -> list[str]:
    failing = []
    for name, module in modules:
        seen[kind] += 1
        if not survives(module):
            failing.append(name)
    return failing


def relay_laws(count: int = PROGRAMS) -> Measurement:
    """Count the programs of which a pass or a level changes the answer, the types or more."""
    verdicts: Counter[Verdict] = Counter()
    failing = 0
    with ProcessPoolExecutor() as pool:
        for seed, judged in enumerate(pool.map(_judged, range(count), chunksize=CHUNK)):
            verdicts.update(judged.verdicts.values())
            failing += bool(judged.breaches)
            for each in judged.breaches:
                _show(seed, f"{each.by}: {each.law} {each.detail}")
            if (seed + 1) % STEP == 0:
                CONSOLE.print(f"{seed + 1} programs, {failing} fail; {_spelled(verdicts)}")
    CONSOLE.print(
        f"{count} programs, {len(PASSES)} passes, {len(LEVELS)} levels: {_spelled(verdicts)}"
    )
    return Measurement(value=failing, unit="programs whose answer changes")


def _judged(seed: int) -> Judged:
    return judge(random_program(seed, size_of_seed(seed)))


def _show(seed: int, what: str) -> None:
    CONSOLE.print(f"seed {seed}, size {size_of_seed(seed)}: {what}", markup=False)


def relay_native(count: int = PROGRAMS) -> Measurement:
    """Count the programs that native code answers otherwise, and the objects that runs left."""
    verdicts: Counter[Verdict] = Counter()
    live = 0
    with ProcessPoolExecutor() as pool:
        for seed, run in enumerate(pool.map(_native, range(count), chunksize=CHUNK)):
            verdicts[run.verdict] += 1
            live += run.live_objects
            if run.verdict is Verdict.DIFFERENT or run.live_objects:
                _show(seed, f"{run.verdict.value}, {run.live_objects} left, {run.detail}")
            if (seed + 1) % STEP == 0:
                CONSOLE.print(f"{seed + 1} programs, {live} objects left; {_spelled(verdicts)}")
    CONSOLE.print(f"{count} programs, {live} objects left: {_spelled(verdicts)}")
    unit = f"programs answered otherwise, {live} live objects left"
    return Measurement(value=verdicts[Verdict.DIFFERENT], unit=unit)


def _native(seed: int) -> NativeRun:
    return judge_native(random_program(seed, size_of_seed(seed)))


def _spelled(verdicts: Counter[Verdict]) -> str:
    return ", ".join(f"{each.value} {verdicts[each]}" for each in Verdict)
