"""Measures networks in every scheme: accuracy on labelled inputs, time on the CPU."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from codesign.compiler import driver
from codesign.compiler.pipelines import optimize
from codesign.compiler.quantization import RangeMethod, Scheme, quantize
from codesign.dtypes import Array
from codesign.ir.executable.executable import Executable
from experiments.road.build import compiled_evaluator
from experiments.road.devices import Say
from experiments.road.subject import Subject, subject
from experiments.study.schemes.point import FP32, Network, Outcome, Plan, Setting
from host_runtime.session import Session

ROUNDS: Final = 100
"""Each scheme runs so many times, all in turns; the least time counts."""


def measure_network(plan: Plan, network: Network, say: Say) -> Iterator[Outcome]:
    """Return the points of a network."""
    judged = subject(network.name, samples=network.samples)
    judged = replace(judged, calibration=judged.calibration[: network.calibration])
    settings = list(plan.settings(network))
    timed: dict[Setting, Session] = {}
    answers: dict[Setting, Array] = {}
    for setting in settings:
        say(f"{setting.network} {setting.scheme} {setting.ranges} {_scales(setting)}")
        session = Session(_executable(judged, network, setting))
        answers[setting] = _answers(session, judged)
        if setting.ranges == RangeMethod.MSE and not setting.power_of_two:
            timed[setting] = session
    times = times_ms(timed, judged)
    exact = next(answers[each] for each in settings if each.scheme == FP32)
    for setting in settings:
        yield _outcome(setting, judged, exact, answers[setting], times.get(setting))


def times_ms(sessions: Mapping[Setting, Session], judged: Subject) -> dict[Setting, float]:
    """Return the least time of a sample in each session, all of them in turns."""
    inputs = judged.evaluation[0]
    best = dict.fromkeys(sessions, float("inf"))
    for _ in range(ROUNDS):
        for setting, session in sessions.items():
            start = time.perf_counter()
            session.run(inputs)
            best[setting] = min(best[setting], (time.perf_counter() - start) * 1e3)
    return best


def _executable(judged: Subject, network: Network, setting: Setting) -> Executable:
    if setting.scheme == FP32:
        return driver.compile(judged.model)
    config = replace(
        judged.quantization,
        scheme=Scheme(setting.scheme),
        method=RangeMethod(setting.ranges),
        power_of_two=setting.power_of_two,
        compensate=network.compensate,
    )
    module = optimize(judged.model.module)
    return driver.compile(
        quantize(module, judged.calibration, evaluate=compiled_evaluator, config=config)
    )


def _answers(session: Session, judged: Subject) -> Array:
    rows = [next(iter(session.run(inputs).values())).reshape(-1) for inputs in judged.evaluation]
    return np.stack(rows).astype(np.float64)


def _outcome(
    setting: Setting, judged: Subject, exact: Array, found: Array, time_ms: float | None
) -> Outcome:
    chosen = found.argmax(axis=1)
    right = None
    if judged.labels is not None and judged.is_trained:
        right = 100 * float(np.mean(chosen == np.array(judged.labels)))
    noise = float(np.square(found - exact).sum())
    return Outcome(
        network=setting.network,
        scheme=setting.scheme,
        ranges=setting.ranges,
        power_of_two=setting.power_of_two,
        samples=len(found),
        right_top1_percent=right,
        same_top1_percent=100 * float(np.mean(chosen == exact.argmax(axis=1))),
        sqnr_db=10 * float(np.log10(np.square(exact).sum() / noise)) if noise else None,
        time_ms=time_ms,
    )


def _scales(setting: Setting) -> str:
    return "scales of powers of two" if setting.power_of_two else ""
