"""The GPU runtime against a driver of this machine's memory: every call, copy and launch."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.backends.gpu.compile import compile_gpu, named_kernels
from codesign.compiler.backends.gpu.device import DEFAULT
from codesign.compiler.backends.gpu.lower import lower
from codesign.compiler.backends.gpu.program import GpuProgram
from codesign.compiler.driver import compile as compile_network
from codesign.compiler.lower.graph import graph_of
from codesign.diagnostics import CodesignError
from codesign.dtypes import DType
from codesign.ir.executable.archive import load, save
from codesign.ir.executable.executable import CpuStep, GpuStep
from codesign.ir.executable.gpu_kernel import GpuKernel
from codesign.ir.relay.expr import Constant, Function, If, Tuple, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import UNKNOWN, TensorType
from codesign.ir.simt.kernel import SimtKernel
from codesign.ops.table import call
from host_runtime.cuda import devices
from host_runtime.gpu import GpuFunction
from host_runtime.session import Session
from tests.support.fake_cuda import FakeDriver

RNG = np.random.default_rng(0)
WEIGHT = RNG.standard_normal((24, 40)).astype(np.float32)


def _function() -> Function:
    """Two outputs, a constant, values in between, and an index that may be wrong."""
    x = Var("x", TensorType((9, 40), DType.FLOAT32))
    place = Var("place", TensorType((2,), DType.INT64))
    hidden = call("nn.relu", call("nn.dense", x, Constant(WEIGHT)))
    return Function((x, place), Tuple((call("nn.softmax", hidden), call("take", x, place))))


def _compiled() -> tuple[GpuKernel, dict[str, SimtKernel]]:
    function = _function()
    types = infer_types(Module({"main": function}))
    return compile_gpu(function, types), named_kernels(lower(graph_of(function, types), DEFAULT))


def test_a_network_runs_by_the_drivers_calls() -> None:
    kernel, kernels = _compiled()
    driver = FakeDriver(kernels)
    function = GpuFunction(kernel, driver)
    for seed in range(2):
        x = np.random.default_rng(seed).standard_normal((9, 40)).astype(np.float32)
        place = np.array([3, -1])
        soft, taken = function(x, place)
        hidden = np.maximum(x @ WEIGHT.T, 0)
        powers = np.exp(hidden - hidden.max(axis=-1, keepdims=True))
        np.testing.assert_allclose(soft, powers / powers.sum(-1, keepdims=True), rtol=1e-4)
        np.testing.assert_array_equal(taken, x[:, place])
    function.close()
    assert driver.memory == {}


def test_only_inputs_and_outputs_are_copied() -> None:
    kernel, kernels = _compiled()
    driver = FakeDriver(kernels)
    function = GpuFunction(kernel, driver)
    driver.calls.clear()
    function(np.zeros((9, 40), np.float32), np.array([0, 1]))
    inputs, outputs = ["cuMemcpyHtoDAsync"] * 2, ["cuMemcpyDtoHAsync"] * 3  # one is a check
    assert driver.calls == [*inputs, "cuGraphLaunch", *outputs, "cuStreamSynchronize"]


def test_runs_are_timed_by_events_without_copies() -> None:
    kernel, kernels = _compiled()
    driver = FakeDriver(kernels)
    function = GpuFunction(kernel, driver)
    driver.calls.clear()
    assert function.durations_ms(3) == [1.0, 1.0, 1.0]
    assert driver.calls == ["cuGraphLaunch"] * 3 + ["cuStreamSynchronize"]


def _large() -> tuple[GpuKernel, dict[str, SimtKernel]]:
    """A product whose tiles need more shared memory than a kernel may name itself."""
    x = Var("x", TensorType((512, 64), DType.FLOAT32))
    weight = Constant(RNG.standard_normal((3000, 64)).astype(np.float32))
    function = Function((x,), call("nn.dense", x, weight))
    types = infer_types(Module({"main": function}))
    kernels = named_kernels(lower(graph_of(function, types), DEFAULT))
    return compile_gpu(function, types), kernels


def test_shared_memory_beyond_48_kib_is_asked_for() -> None:
    kernel, kernels = _large()
    (launch,) = kernel.launches
    assert launch.shared_bytes > 48 * 1024
    driver = FakeDriver(kernels)
    GpuFunction(kernel, driver)
    assert list(driver.allowed.values()) == [launch.shared_bytes]
    with pytest.raises(CodesignError, match="allows 65536 bytes"):
        GpuFunction(kernel, FakeDriver(kernels, shared_bytes=64 * 1024))


def test_mistakes_of_a_call_are_named() -> None:
    kernel, kernels = _compiled()
    function = GpuFunction(kernel, FakeDriver(kernels))
    x = np.zeros((9, 40), np.float32)
    with pytest.raises(CodesignError, match="takes 2 inputs"):
        function(x)
    with pytest.raises(CodesignError, match=r"found float64\(9, 40\)"):
        function(x.astype(np.float64), np.array([0, 1]))
    with pytest.raises(CodesignError, match="take reads outside"):
        function(x, np.array([0, 1000]))


def test_a_device_that_cannot_run_the_kernel_is_refused() -> None:
    kernel, kernels = _compiled()
    with pytest.raises(CodesignError, match="newer GPU"):
        GpuFunction(kernel, FakeDriver(kernels, capability=(7, 0)))
    with pytest.raises(CodesignError, match="sees no device"):
        GpuFunction(kernel, FakeDriver(kernels, count=0))
    with pytest.raises(CodesignError, match="out of memory"):
        GpuFunction(kernel, FakeDriver(kernels, limit_bytes=100))


def test_devices_are_listed_with_their_architectures() -> None:
    found = devices(FakeDriver({}, count=2, capability=(8, 6)))
    assert [(each.name, each.architecture) for each in found] == [
        ("fake 0", "sm_86"),
        ("fake 1", "sm_86"),
    ]


def test_an_executable_for_a_gpu_is_saved_and_loaded(tmp_path: Path) -> None:
    executable = compile_network(Module({"main": _function()}), target="gpu", architecture="sm_90")
    path = tmp_path / "network.codesign"
    save(executable, path)
    (step,) = load(path).steps
    (before,) = executable.steps
    assert isinstance(step, GpuStep)
    assert isinstance(before, GpuStep)
    assert step.kernel == before.kernel
    assert ".target sm_90" in step.kernel.ptx


def test_host_and_gpu_share_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """The softmax stays on the host; what is before and after it runs on the GPU."""
    x = Var("x", TensorType((9, 40), DType.FLOAT32))
    soft = call("nn.softmax", call("nn.dense", x, Constant(WEIGHT)))
    module = Module({"main": Function((x,), call("nn.relu", call("multiply", soft, soft)))})
    kernels: list[dict[str, SimtKernel]] = []

    def recorded(program: GpuProgram) -> dict[str, SimtKernel]:
        kernels.append(named_kernels(program))
        return kernels[-1]

    monkeypatch.setattr("codesign.compiler.backends.gpu.compile.named_kernels", recorded)
    executable = compile_network(module, target="gpu", on_host=("nn.softmax",))
    assert [type(step) for step in executable.steps] == [GpuStep, CpuStep, GpuStep]
    assert {each.operator: each.unit for each in executable.placements} == {
        "nn.dense": "gpu",
        "nn.softmax": "host",
        "multiply": "gpu",
        "nn.relu": "gpu",
    }
    drivers = [FakeDriver(each) for each in kernels]
    waiting = iter(drivers)
    monkeypatch.setattr("host_runtime.gpu.open_driver", lambda: next(waiting))
    values = RNG.standard_normal((9, 40)).astype(np.float32)
    (found,) = Session(executable).run({"x": values}).values()
    powers = np.exp(values @ WEIGHT.T - (values @ WEIGHT.T).max(axis=-1, keepdims=True))
    shares = powers / powers.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(found, shares * shares, rtol=1e-4)
    for driver in drivers:  # tensors cross where a step begins and ends, and nowhere else
        assert driver.calls.count("cuGraphLaunch") == 1
        assert driver.calls.count("cuMemcpyDtoHAsync") == 1


def test_operators_that_stay_on_the_host_are_called() -> None:
    with pytest.raises(CodesignError, match=r"calls no nn\.conv2d"):
        compile_network(Module({"main": _function()}), target="gpu", on_host=("nn.conv2d",))


def test_what_a_gpu_cannot_run_is_named() -> None:
    x = Var("image", TensorType((UNKNOWN, 8), DType.FLOAT32))
    with pytest.raises(CodesignError, match="input 'image' has unknown ones"):
        compile_network(Module({"main": Function((x,), call("exp", x))}), target="gpu")
    flag = Var("flag", TensorType((), DType.BOOL))
    y = Var("y", TensorType((3,), DType.FLOAT32))
    branch = Function((flag, y), If(flag, call("exp", y), y))
    with pytest.raises(CodesignError, match="without control flow"):
        compile_network(Module({"main": branch}), target="gpu")
    with pytest.raises(CodesignError, match="known are float32, tf32, bf16"):
        compile_network(Module({"main": _function()}), target="gpu", precision="float8")


def test_without_a_gpu_only_running_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    executable = compile_network(Module({"main": _function()}), target="gpu")
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", None)
    with pytest.raises(CodesignError, match="no GPU can be used"):
        Session(executable)
