"""Results that leave as sums: placement says why, and every level gives the same bits."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.accel.presets import preset
from codesign.compiler.driver import compile as compile_network
from codesign.compiler.interpreter import Interpreter
from codesign.compiler.quantization import QuantizationConfig, quantize
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Constant, Expr, Function, Tuple, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.reshape import ReshapeAttrs
from codesign.ops.table import call
from host_runtime.device import open_device
from host_runtime.session import Session

SHAPE = (1, 3, 9, 9)


def _weight(*shape: int) -> Constant:
    return Constant(np.random.default_rng(shape).standard_normal(shape).astype(np.float32))


def _image(seed: int) -> dict[str, Array]:
    return {"x": np.random.default_rng(seed).standard_normal(SHAPE).astype(np.float32)}


@pytest.fixture(scope="module")
def quantized() -> Module:
    """Return a network with two results: classes, and a map of a convolution."""
    x = Var("x", TensorType(SHAPE, DType.FLOAT32))
    body: Expr = call("nn.conv2d", x, _weight(8, 3, 3, 3), attrs=Conv2DAttrs(strides=(2, 2)))
    body = call("nn.relu", call("nn.bias_add", body, _weight(8)))
    plane = call("nn.conv2d", body, _weight(5, 8, 1, 1))
    pooled = call("nn.global_avg_pool2d", body)
    flat = call("reshape", pooled, attrs=ReshapeAttrs(shape=(1, 8)))
    classes = call("nn.bias_add", call("nn.dense", flat, _weight(70, 8)), _weight(70))
    module = Module({"main": Function((x,), Tuple((classes, plane)))})
    config = QuantizationConfig(float_results=True)
    return quantize(module, [_image(seed) for seed in range(4)], config=config).module


@pytest.mark.parametrize("name", ["tiny", "base"])
def test_host_simulators_and_numpy_give_the_same_bits(quantized: Module, name: str) -> None:
    config = preset(name)
    accelerated = compile_network(quantized, target="accel", config=config)
    host = Session(compile_network(quantized, target="cpu"))
    devices = [Session(accelerated), Session(accelerated, open_device("cycle", config))]
    for seed in (10, 11):
        expected = Interpreter(quantized).run(**_image(seed))
        assert isinstance(expected, tuple)
        for session in (host, *devices):
            found = session.run(_image(seed))
            np.testing.assert_array_equal(found["output0"], expected[0])
            np.testing.assert_array_equal(found["output1"], expected[1])


def test_results_run_on_the_host_with_the_reason_and_the_rest_on_the_accelerator(
    quantized: Module,
) -> None:
    executable = compile_network(quantized, target="accel", config=preset("base"))
    reasons = {
        (each.operator, each.unit): each.reason
        for each in executable.placements
        if each.operator in ("qnn.conv2d", "qnn.dense", "qnn.sum_pool2d")
    }
    sums = "its sums leave in 32 bits, without a qnn.requantize of their own"
    assert reasons[("qnn.dense", "host")] == sums
    assert reasons[("qnn.conv2d", "host")] == sums
    assert reasons[("qnn.conv2d", "gemm")] == ""
    assert reasons[("qnn.sum_pool2d", "vector")] == ""


def test_more_classes_than_codes_stay_apart(quantized: Module) -> None:
    classes = Session(compile_network(quantized, target="cpu")).run(_image(20))["output0"]
    assert len(np.unique(classes)) == 70
