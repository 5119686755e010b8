"""Both ways from Python into a kernel take the same arrays and refuse the same ones."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.backends.llvm.cpu import compile_cpu
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.ir.executable.cpu_kernel import CpuKernel
from host_runtime import cpu
from host_runtime.array_call import is_available
from host_runtime.cpu import CpuFunction

TEXT = """#[version = "0.0.5"]
def @main(%x: Tensor[(2, 3), float32], %n: int32) { (take(%x, %n, axis=0), %x + %x) }
"""


@pytest.fixture(scope="module")
def kernel() -> CpuKernel:
    module = parse_module(TEXT)
    return compile_cpu(module.main, infer_types(module))


@pytest.fixture(params=["native", "ctypes"])
def function(
    kernel: CpuKernel, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> CpuFunction:
    if request.param == "ctypes":
        monkeypatch.setattr(cpu, "is_available", lambda: False)
    elif not is_available():
        pytest.skip("this NumPy's arrays lie otherwise in memory")
    return CpuFunction(kernel)


X = np.arange(6, dtype=np.float32).reshape(2, 3)
N = np.asarray(1, np.int32)


def test_this_numpy_is_read_natively() -> None:
    assert is_available()


def test_right_arrays_are_taken(function: CpuFunction) -> None:
    outputs = function.attempt((X, N))
    assert outputs is not None
    np.testing.assert_array_equal(outputs[0], X[1])
    np.testing.assert_array_equal(outputs[1], X + X)


class Subclass(np.ndarray):
    pass


@pytest.mark.parametrize(
    "unfit",
    [
        X.astype(np.float64),
        X.astype(X.dtype.newbyteorder()),
        X[:1],
        X.T,
        X.reshape(1, 2, 3),
        np.zeros((2, 6), np.float32)[:, ::2],
        np.asfortranarray(X),
        X.view(Subclass),
        X.tolist(),
        None,
        1.5,
    ],
    ids=lambda value: f"{type(value).__name__}-{getattr(value, 'dtype', '')}-{np.shape(value)}",
)
def test_other_arguments_are_left_to_the_caller(function: CpuFunction, unfit: object) -> None:
    assert function.attempt((unfit, N)) is None


def test_arguments_and_results_are_not_kept(function: CpuFunction) -> None:
    x = X.copy()
    before = sys.getrefcount(x)
    for _ in range(5):
        outputs = function(x, N)
        assert function.attempt((x, X)) is None
    assert sys.getrefcount(x) == before
    assert sys.getrefcount(outputs) == 2
