"""Launches side by side: all orders that a graph allows agree, and every edge is needed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.backends.gpu.compile import compile_gpu, named_kernels
from codesign.compiler.backends.gpu.device import DEFAULT
from codesign.compiler.backends.gpu.lower import lower
from codesign.compiler.driver import compile as compile_network
from codesign.compiler.lower.graph import graph_of
from codesign.diagnostics import CodesignError
from codesign.dtypes import Array, DType
from codesign.ir.executable.archive import load, save
from codesign.ir.executable.executable import GpuStep
from codesign.ir.executable.gpu_kernel import GpuKernel
from codesign.ir.relay.expr import Constant, Function, Tuple, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType
from codesign.ir.simt.kernel import SimtKernel
from codesign.ops.axis import AxisAttrs
from codesign.ops.table import call
from host_runtime.gpu import GpuFunction
from tests.support.fake_cuda import FakeDriver
from tests.support.fake_graph import FakeGraph

_RNG = np.random.default_rng(0)
_WIDE = [_RNG.standard_normal((48, 24)).astype(np.float32) for _ in range(5)]
_NARROW = [_RNG.standard_normal((8, 48)).astype(np.float32) for _ in range(5)]


def _function() -> Function:
    """Five branches of two products side by side, and their concatenation."""
    x = Var("x", TensorType((16, 24), DType.FLOAT32))
    branches = []
    for wide, narrow in zip(_WIDE, _NARROW, strict=True):
        hidden = call("nn.relu", call("nn.dense", x, Constant(wide)))
        branches.append(call("nn.dense", hidden, Constant(narrow)))
    whole = call("concatenate", Tuple(tuple(branches)), attrs=AxisAttrs(axis=1))
    return Function((x,), call("nn.softmax", whole))


def _expected(x: Array) -> Array:
    hidden = [np.maximum(x @ wide.T, 0) for wide in _WIDE]
    parts = [each @ narrow.T for each, narrow in zip(hidden, _NARROW, strict=True)]
    whole = np.concatenate(parts, axis=1)
    powers = np.exp(whole - whole.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


@pytest.fixture(params=["side by side", "in little memory"])
def compiled(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> tuple[GpuKernel, dict[str, SimtKernel]]:
    """The network planned for branches side by side, and where they must share memory."""
    if request.param == "in little memory":
        monkeypatch.setattr("codesign.compiler.backends.gpu.compile._CHEAP_BYTES", 0)
    function = _function()
    types = infer_types(Module({"main": function}))
    kernel = compile_gpu(function, types)
    begin = [launch for launch in kernel.launches if not launch.after]
    assert len(begin) == (1 if request.param == "in little memory" else len(_WIDE))
    return kernel, named_kernels(lower(graph_of(function, types), DEFAULT))


def test_every_order_that_the_graph_allows_gives_the_same(
    compiled: tuple[GpuKernel, dict[str, SimtKernel]],
) -> None:
    kernel, kernels = compiled
    x = _RNG.standard_normal((16, 24)).astype(np.float32)
    results = []
    for seed in range(3):
        driver = FakeDriver(kernels, seed=seed)
        function = GpuFunction(kernel, driver)
        results += [function(x)[0] for _ in range(2)]
        function.close()
        assert driver.graphs == []
    np.testing.assert_allclose(results[0], _expected(x), rtol=1e-3)
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])


def test_every_edge_is_needed_and_its_absence_found(
    compiled: tuple[GpuKernel, dict[str, SimtKernel]],
) -> None:
    """Planted: each edge is left out in turn."""
    kernel, kernels = compiled
    edges = [
        (number, each) for number, launch in enumerate(kernel.launches) for each in launch.after
    ]
    assert len(edges) >= len(_WIDE) * 3
    for number, missing in edges:
        launch = kernel.launches[number]
        rest = tuple(each for each in launch.after if each != missing)
        faulty = (*kernel.launches[:number], replace(launch, after=rest))
        faulty += kernel.launches[number + 1 :]
        with pytest.raises(AssertionError, match="nothing orders them"):
            GpuFunction(replace(kernel, launches=faulty), FakeDriver(kernels))


def test_a_wrong_order_changes_the_answer(
    compiled: tuple[GpuKernel, dict[str, SimtKernel]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: no edges at all, and nobody who looks for them."""
    kernel, kernels = compiled
    monkeypatch.setattr(FakeGraph, "check", lambda _: None)
    loose = tuple(replace(launch, after=()) for launch in kernel.launches)
    function = GpuFunction(replace(kernel, launches=loose), FakeDriver(kernels))
    x = _RNG.standard_normal((16, 24)).astype(np.float32)
    assert not np.allclose(function(x)[0], _expected(x), rtol=1e-3)


def test_the_order_is_saved_with_the_network(tmp_path: Path) -> None:
    path = tmp_path / "network.codesign"
    executable = compile_network(Module({"main": _function()}), target="gpu")
    save(executable, path)
    (before,), (step,) = executable.steps, load(path).steps
    assert isinstance(before, GpuStep)
    assert isinstance(step, GpuStep)
    orders = [launch.after for launch in step.kernel.launches]
    assert orders == [launch.after for launch in before.kernel.launches]
    assert orders[-1] == tuple(range(len(orders) - 1 - len(_WIDE), len(orders) - 1))


@pytest.mark.parametrize("followed", [-1, 1, 7])
def test_a_launch_that_follows_no_earlier_one_is_refused(tmp_path: Path, followed: int) -> None:
    path = tmp_path / "network.codesign"
    executable = compile_network(Module({"main": _function()}), target="gpu")
    (step,) = executable.steps
    assert isinstance(step, GpuStep)
    first, second, *rest = step.kernel.launches
    launches = (first, replace(second, after=(followed,)), *rest)
    wrong = replace(step, kernel=replace(step.kernel, launches=launches))
    save(replace(executable, steps=(wrong,)), path)
    with pytest.raises(CodesignError, match="follows launches that are not before it"):
        load(path)


@pytest.mark.parametrize("shape", [(), (0, 3)])
def test_scalars_and_functions_without_launches_run(shape: tuple[int, ...]) -> None:
    """Inputs without dimensions stay so, and what has no element needs no kernel."""
    x = Var("x", TensorType(shape, DType.FLOAT32))
    function = Function((x,), call("exp", x))
    types = infer_types(Module({"main": function}))
    kernels = named_kernels(lower(graph_of(function, types), DEFAULT))
    array = np.full(shape, 2, np.float32)
    (found,) = GpuFunction(compile_gpu(function, types), FakeDriver(kernels))(array)
    assert found.shape == shape
    np.testing.assert_allclose(found, np.exp(array), rtol=1e-5)
