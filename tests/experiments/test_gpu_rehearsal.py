"""The one run on a device, rehearsed small: a driver of this machine's memory is the device."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.backends.gpu.compile import compile_gpu, named_kernels
from codesign.compiler.backends.gpu.device import DEVICES, DeviceModel
from codesign.compiler.backends.gpu.lower import lower
from codesign.compiler.interpreter import Interpreter
from codesign.compiler.lower.graph import graph_of
from codesign.ir.executable.gpu_kernel import GpuKernel
from codesign.ir.relay.expr import Expr, Function
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import Type
from codesign.ir.simt.kernel import SimtKernel
from experiments.gpu.__main__ import main
from experiments.gpu.compiled import Compiled, compiled
from experiments.gpu.measure import Bench, battery, matmul, networks
from experiments.gpu.networks import TIMED
from experiments.gpu.progress import Progress
from host_runtime.gpu import GpuFunction
from tests.support.fake_cuda import FakeDriver
from tests.support.gpu_battery import ON_GPU

_DEVICE = DEVICES["sm_90"]
_HALF = np.dtype(np.float16)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A device of this machine's memory, of which everything measured is a small part."""
    kernels: dict[str, Mapping[str, SimtKernel]] = {}

    def recorded(function: Function, types: Mapping[Expr, Type], device: DeviceModel) -> GpuKernel:
        kernel = compile_gpu(function, types, device)
        kernels[kernel.ptx] = named_kernels(lower(graph_of(function, types), device))
        return kernel

    def load(made: Compiled) -> GpuFunction:
        return GpuFunction(made.kernel, FakeDriver(kernels[made.kernel.ptx]))

    monkeypatch.setattr("experiments.gpu.compiled.compile_gpu", recorded)
    monkeypatch.setattr("experiments.gpu.measure._RUNS", 1)
    monkeypatch.setattr("experiments.gpu.compiled.shutil.which", lambda *_, **__: None)
    with ThreadPoolExecutor(1) as pool:
        progress = Progress(tmp_path / "results.json", 500.0)
        yield Bench(_DEVICE, load, None, pool, progress, size=8)


def test_operators_and_a_product_are_measured(bench: Bench, tmp_path: Path) -> None:
    assert battery(bench, ("nn.dense", "nn.softmax"), seeds=1) == 0
    assert matmul(bench, 512) is None
    known = json.loads((tmp_path / "results.json").read_text())
    assert known["battery"] == {"operators": 2, "failures": 0}
    assert known["matmul 64"]["PyTorch"] == "not there"
    assert known["matmul 64"]["error"] < 1e-3


def test_a_wrong_operator_is_counted(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.gpu.measure.difference", lambda *_: "differs")
    assert battery(bench, ("nn.relu",), seeds=2) == 1


def test_a_network_is_timed(bench: Bench, tmp_path: Path) -> None:
    assert networks(bench, _HALF, (16,), ("lstm",)) == {}  # nothing to compare with
    known = json.loads((tmp_path / "results.json").read_text())
    assert known["lstm batch 2 float16"]["ms"] > 0


@pytest.mark.slow
def test_the_whole_run_is_rehearsed(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every operator, the product, every network at both batches; only PyTorch is missing."""

    @contextmanager
    def opened(_results: Path, _limit_s: float) -> Iterator[Bench]:
        yield bench

    monkeypatch.setattr("experiments.gpu.__main__.opened", opened)
    assert main([]) == 1  # nothing to compare the product with
    known = json.loads((tmp_path / "results.json").read_text())
    assert known["battery"] == {"operators": len(ON_GPU), "failures": 0}
    timed = {f"{name} batch {batch} float16" for name in TIMED for batch in (1, 8)}
    assert set(known) == {"battery", "matmul 512", *timed}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(TIMED))
@pytest.mark.parametrize("kind", ["float16", "float32"])
def test_the_networks_are_what_their_relay_says(bench: Bench, name: str, kind: str) -> None:
    network, dtype, size = TIMED[name], np.dtype(kind), 8
    function = network.function(2, dtype, size)
    infer_types(Module({"main": function}))
    x = network.input(2, dtype, size)
    (found,) = bench.open(compiled(function, _DEVICE))(x)
    expected = Interpreter(Module({"main": function})).run(x=x)
    error = np.abs(found.astype(np.float64) - np.asarray(expected, np.float64)).max()
    assert error <= (2e-2 if kind == "float16" else 1e-4) * np.abs(expected).max()
