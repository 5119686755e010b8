"""A trained network, natively, beside onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.backends.llvm.cpu import compile_cpu
from codesign.compiler.frontend.onnx import load_onnx
from codesign.compiler.pipelines import optimize
from host_runtime.cpu import CpuFunction

DIGITS = Path(__file__).parents[3] / "experiments/networks/digits/digits.onnx"


@pytest.mark.needs_onnxruntime
def test_digits_network_agrees_with_onnxruntime() -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(str(DIGITS), providers=["CPUExecutionProvider"])
    model = load_onnx(DIGITS)
    images = np.random.default_rng(0).random((20, *model.inputs[0][1].static_shape))
    for module in (model.module, optimize(model.module)):
        native = CpuFunction(compile_cpu(module.main, infer_types(module)))
        for image in images.astype(np.float32):
            (found,) = native(image)
            (expected,) = session.run(None, {model.inputs[0][0]: image})
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_digits_network_compiles_for_wider_vectors() -> None:
    """Code for a processor with 512-bit vectors is made, if not run, wherever the tests run."""
    module = optimize(load_onnx(DIGITS).module)
    features = "+avx2,+fma,+avx512f,+avx512bw,+avx512vl,+avx512dq"
    kernel = compile_cpu(module.main, infer_types(module), cpu="skylake-avx512", features=features)
    assert len(kernel.object_code) > 1000
