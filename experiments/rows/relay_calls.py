"""relay-call and relay-compile: what one call costs, and what it costs to have code to call."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Final

import numpy as np

from codesign.compiler.driver import compile as compile_module
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.diagnostics import CodesignError
from experiments.rows.measurement import CONSOLE, Measurement
from host_runtime.session import Session

ADD: Final = """#[version = "0.0.5"]
def @main(%x: Tensor[(16), float32], %y: Tensor[(16), float32]) { %x + %y }
"""

CALLS: Final = 200
BATCHES: Final = 500

PROBE: Final = """
import time
begin = time.process_time()
from experiments.models import tree_lstm
import codesign
import codesign.compiler.driver
imported = time.process_time()
module = getattr(tree_lstm, {name!r})(getattr(tree_lstm, {name!r} + "_weights")())
parsed = time.process_time()
codesign.compile(module, target="cpu")
print(imported - begin, parsed - imported, time.process_time() - parsed)
"""
PROCESSES: Final = 3


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


def relay_compile() -> Measurement:
    """Return the seconds from a TreeLSTM's text to native code in a fresh process: the slower one.

    CPU time counts, reading the text included, importing the compiler not; of three processes the
    median. The compiler has one thread, so on an idle machine this is the time one waits.
    """
    worst = 0.0
    for name in ("child_sum", "binary"):
        runs = sorted(_compile_times(name) for _ in range(PROCESSES))
        seconds, (imports, text, code) = runs[PROCESSES // 2]
        CONSOLE.print(
            f"{name}: {seconds:.2f} s, {text:.2f} s of it to read the text and {code:.2f} s to "
            f"compile; imports took {imports:.2f} s"
        )
        worst = max(worst, seconds)
    return Measurement(value=worst, unit="s", digits=2)


def _compile_times(name: str) -> tuple[float, tuple[float, ...]]:
    code = PROBE.format(name=name)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        raise CodesignError.of(f"{name} does not compile", found=done.stderr.strip()[-400:])
    imports, text, compiled = map(float, done.stdout.split())
    return text + compiled, (imports, text, compiled)
