"""relay-call and relay-compile: what one call costs, and what it costs to have code to call."""

from __future__ import annotations

import time
from typing import Final

import numpy as np

from codesign.compiler.driver import compile as compile_module
from codesign.compiler.frontend.relay_parser import parse_module
from experiments.rows.measurement import Measurement
from host_runtime.session import Session

ADD: Final = """#[version = "0.0.5"]
def @main(%x: Tensor[(16), float32], %y: Tensor[(16), float32]) { %x + %y }
"""

CALLS: Final = 200
BATCHES: Final = 500


def relay_call() -> Measurement:
    """Return the time of one `Session.run` of a module with one operator, in microseconds.

    The whole call counts as overhead: sixteen sums take nanoseconds. It is the best of many short
    batches, so that other processes on the machine do not count.
    """
    session = Session(compile_module(parse_module(ADD), target="cpu"))
    x, y = (np.random.default_rng(seed).standard_normal(16).astype(np.float32) for seed in (0, 1))
    inputs = {"x": x, "y": y}
    np.testing.assert_array_equal(session.run(inputs)["output"], x + y)
    best = min(_batch(session, inputs) for _ in range(BATCHES))
    return Measurement(value=1e6 * best, unit="us", digits=2)


def _batch(session: Session, inputs: dict[str, np.ndarray]) -> float:
    run = session.run
    started = time.perf_counter()
    for _ in range(CALLS):
        run(inputs)
    return (time.perf_counter() - started) / CALLS
