"""The measurements on a device: the battery of operators, a large product, and networks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from statistics import mean, median
from typing import Any, Final, final

import numpy as np

from codesign.compiler.backends.gpu.device import DeviceModel
from codesign.diagnostics import CodesignError
from codesign.dtypes import DType
from codesign.ir.relay.expr import Function, Var
from codesign.ir.relay.types import TensorType
from codesign.ops.table import OPERATORS, call
from experiments.gpu.compiled import Compiled, compiled
from experiments.gpu.networks import TIMED, TimedNetwork
from experiments.gpu.peer import Peer, timed
from experiments.gpu.progress import Progress
from host_runtime.gpu import GpuFunction
from tests.support.gpu_battery import ON_GPU, call_of, difference
from tests.support.operator_cases import CASES, reference

BATCHES: Final = (1, 64)
_RUNS: Final = 50
_COMPILE_S: Final = 60.0
"""Seconds that must be left for PyTorch to compile a network."""

Open = Callable[[Compiled], GpuFunction]
"""Loads a compiled function onto the device."""


@final
@dataclass(frozen=True)
class Bench:
    """A device that is measured: its model, how functions get there, PyTorch, and processes.

    `size` is 1; in rehearsals everything is so many times smaller.
    """

    device: DeviceModel
    open: Open
    torch: Any | None
    pool: Executor
    progress: Progress
    size: int = 1


def battery(bench: Bench, names: Sequence[str] = ON_GPU, seeds: int = 2) -> int:
    """Return how many operators give another answer on the device than their references."""
    waiting = [
        (name, seed, bench.pool.submit(_operator, name, seed, bench.device))
        for name in names
        for seed in range(seeds)
    ]
    wrong: dict[str, str] = {}
    for name, seed, future in waiting:
        text = _battery_case(bench, name, seed, future)
        if text:
            wrong.setdefault(name, text)
            bench.progress.add(f"battery {name}", {"wrong": text})
    bench.progress.add("battery", {"operators": len(names), "failures": len(wrong)})
    return len(wrong)


def _operator(name: str, seed: int, device: DeviceModel) -> Compiled:
    body, params, _ = call_of(name, CASES[name](np.random.default_rng(seed)))
    return compiled(Function(params, body), device, 0)


def _battery_case(bench: Bench, name: str, seed: int, future: Future[Compiled]) -> str:
    case = CASES[name](np.random.default_rng(seed))
    _, _, arrays = call_of(name, case)
    try:
        function = bench.open(future.result())
        found = function(*arrays)
        function.close()
    except CodesignError as error:
        return str(error)
    return difference(found, reference(OPERATORS[name], case))


def _product(size: int, kind: np.dtype[Any], device: DeviceModel) -> Compiled:
    shape = TensorType((size, size), DType.of(kind))
    x, y = Var("x", shape), Var("y", shape)
    return compiled(Function((x, y), call("nn.matmul", x, y)), device)


def matmul(bench: Bench, size: int = 4096) -> float | None:
    """Return our speed at a product of float16 in percent of PyTorch's; None without PyTorch."""
    extent, kind = size // bench.size, np.dtype(np.float16)
    made = bench.pool.submit(_product, extent, kind, bench.device).result()
    function = bench.open(made)
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((extent, extent)).astype(kind) for _ in range(2))
    (found,) = function(x, y)
    rows = slice(0, 16)
    exact = x[rows].astype(np.float32) @ y.astype(np.float32)
    error = float(np.abs(found[rows] - exact).max() / np.abs(exact).max())
    own = median(function.durations_ms(_RUNS))
    function.close()
    facts: dict[str, float | int | str] = {
        "ms": own,
        "TFLOP/s": 2 * extent**3 / own / 1e9,
        "error": error,
    }
    share = None
    if bench.torch is None:
        facts["PyTorch"] = "not there"
    else:
        left, right = (bench.torch.from_numpy(each).cuda() for each in (x, y))
        peer = timed(bench.torch, lambda: left @ right, _RUNS)
        share = 100 * peer / own
        facts |= {"PyTorch ms": peer, "percent": share}
    bench.progress.add(f"matmul {extent}", facts)
    if not error < 1e-2:
        raise CodesignError.of("the product on the device is wrong", found=f"error {error:.1e}")
    return share


def networks(
    bench: Bench,
    kind: np.dtype[Any],
    batches: Iterable[int] = BATCHES,
    chosen: Sequence[str] = tuple(TIMED),
) -> dict[int, float]:
    """Return by batch the mean of how many times as fast as PyTorch our networks are."""
    sized = [max(batch // bench.size, 1) for batch in batches]
    jobs = [(batch, TIMED[name]) for batch in sized for name in chosen]
    waiting = [
        bench.pool.submit(_network, network.name, batch, kind, bench.device, bench.size)
        for batch, network in jobs
    ]
    ratios: dict[int, list[float]] = {}
    for (batch, network), future in zip(jobs, waiting, strict=True):
        ratio = _timed(bench, network, batch, kind, future)
        if ratio is not None:
            ratios.setdefault(batch, []).append(ratio)
    return {batch: mean(found) for batch, found in ratios.items()}


def _network(
    name: str, batch: int, kind: np.dtype[Any], device: DeviceModel, size: int
) -> Compiled:
    return compiled(TIMED[name].function(batch, kind, size), device)


def _timed(
    bench: Bench, network: TimedNetwork, batch: int, kind: np.dtype[Any], future: Future[Compiled]
) -> float | None:
    """Time one network; return how many times as fast as PyTorch it is, if that is there."""
    label = f"{network.name} batch {batch} {kind}"
    function = bench.open(future.result())
    (found,) = function(network.input(batch, kind, bench.size))
    function.durations_ms(5)
    own = median(function.durations_ms(_RUNS))
    function.close()
    facts: dict[str, float | int | str] = {"ms": own}
    if bench.torch is None:
        bench.progress.add(label, facts | {"PyTorch": "not there"})
        return None
    peer = Peer(bench.torch, network, batch, kind)
    expected = peer.answer()
    facts["error"] = float(np.abs(found - expected).max() / np.abs(expected).max())
    eager = peer.median_ms(peer.eager, _RUNS)
    bench.progress.add(label, facts | {"eager ms": eager})
    best = eager
    if bench.progress.left_s > _COMPILE_S:
        best = min(best, peer.median_ms(peer.compiled(), _RUNS))
        facts["compiled ms"] = best
    ratio = best / own
    bench.progress.add(label, facts | {"eager ms": eager, "times as fast": ratio})
    return ratio
