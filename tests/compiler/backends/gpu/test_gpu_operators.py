"""Every operator on the GPU backend: executed in step, by real threads, and as PTX."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from codesign.compiler.backends.gpu.compile import named_kernels
from codesign.compiler.backends.gpu.device import DEFAULT, DEVICES, DeviceModel, device_named
from codesign.compiler.backends.gpu.nvptx import ptx
from codesign.diagnostics import CodesignError
from codesign.dtypes import DType
from codesign.ir.relay.expr import Var
from codesign.ir.relay.types import TensorType
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.table import call
from tests.support.gpu_battery import ON_GPU, cases, disagreement, on_gpu
from tests.support.gpu_threads import run_with_threads

_PLAIN = DEVICES["sm_70"]
"""A device without what only the executor in step knows of."""

_SMALL = replace(DEFAULT, multiprocessors=1, threads_per_multiprocessor=2)
"""A device so small that threads take several elements even of small tensors."""


@pytest.mark.parametrize("name", ON_GPU)
def test_an_operator_equals_its_reference_in_step(name: str) -> None:
    assert disagreement(name, 0) == ""
    assert disagreement(name, 1, device=_SMALL) == ""


@pytest.mark.slow
@pytest.mark.parametrize("device", [DEFAULT, _SMALL, _PLAIN], ids=["usual", "small", "plain"])
def test_operators_equal_their_references_in_more_cases(device: DeviceModel) -> None:
    wrong = {
        (name, seed): text
        for name, seed in cases(8)
        if (text := disagreement(name, seed, device=device))
    }
    assert wrong == {}


def test_operators_equal_their_references_on_real_threads() -> None:
    wrong = {
        (name, seed): text
        for name, seed in cases(1)
        if (text := disagreement(name, seed, run_with_threads, _PLAIN))
    }
    assert wrong == {}


def test_shared_memory_is_right_on_real_threads() -> None:
    rng = np.random.default_rng(0)
    image = rng.standard_normal((1, 8, 14, 14)).astype(np.float32)
    weight = rng.standard_normal((20, 8, 3, 3)).astype(np.float32)
    x, w = (
        Var(name, TensorType(array.shape, DType.FLOAT32))
        for name, array in (("x", image), ("w", weight))
    )
    body = call("nn.softmax", call("nn.conv2d", x, w, attrs=Conv2DAttrs(padding=(1, 1, 1, 1))))
    function = on_gpu(body, (x, w), _PLAIN)
    assert any(launch.kernel.shared for launch in function.program.launches)
    (in_step,) = function.run([image, weight])
    (threaded,) = function.run([image, weight], run_with_threads)
    padded = np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    sums = np.einsum("ncyxij,kcij->nkyx", windows, weight)
    powers = np.exp(sums - sums.max(axis=-1, keepdims=True))
    expected = powers / powers.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(in_step, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(threaded, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("architecture", list(DEVICES))
def test_ptx_is_of_the_oldest_version_that_suffices(architecture: str) -> None:
    x = Var("x", TensorType((70000, 8), DType.FLOAT32))
    device = device_named(architecture)
    kernels = named_kernels(on_gpu(call("exp", x), (x,), device).program)
    text = ptx(kernels, device)
    oldest = {"sm_70": "6.0", "sm_75": "6.3", "sm_80": "7.0", "sm_86": "7.1", "sm_89": "7.8"}
    assert (
        f".version {oldest.get(architecture, '7.8' if architecture == 'sm_90' else '8.0')}" in text
    )
    assert f".target {architecture}" in text


def test_an_unknown_architecture_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(CodesignError, match="sm_70, sm_75, sm_80"):
        device_named("sm_12")


@pytest.mark.parametrize("shape", [(70000, 8), (8, 70000), (2, 70000, 3)])
def test_no_dimension_meets_a_limit_of_the_grid(shape: tuple[int, ...]) -> None:
    x = Var("x", TensorType(shape, DType.FLOAT32))
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    (moved,) = on_gpu(call("negative", x), (x,)).run([values])
    np.testing.assert_array_equal(moved, -values)
