"""Transposed convolutions as interleaved convolutions, against the operator's own reference."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.accel.presets import preset
from codesign.compiler import driver
from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.quantization import quantize
from codesign.compiler.quantization.transposed import split_transposed
from codesign.dtypes import DType
from codesign.ir.relay.expr import Call, Constant, Expr, Function, OpRef, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType
from codesign.ir.relay.visit import post_order
from codesign.ops.nn.bias_add import BiasAddAttrs
from codesign.ops.nn.conv2d_transpose import Conv2DTransposeAttrs
from host_runtime.session import Session
from tests.support.regions import meaning


def _network(
    rng: np.random.Generator, kernel: tuple[int, int], attrs: Conv2DTransposeAttrs, after: str
) -> tuple[Var, Expr]:
    x = Var("x", TensorType((2, 3, 4, 5), DType.FLOAT32))
    weight = Constant(rng.normal(0, 0.3, (3, 6, *kernel)).astype(np.float32))
    body: Expr = Call(OpRef("nn.conv2d_transpose"), (x, weight), attrs)
    bias = Constant(rng.normal(0, 0.3, 6).astype(np.float32))
    body = Call(OpRef("nn.bias_add"), (body, bias), BiasAddAttrs(axis=1))
    return x, Call(OpRef(after), (body,))


def _operators(expr: Expr) -> list[str]:
    return [
        node.callee.name
        for node in post_order(expr)
        if isinstance(node, Call) and isinstance(node.callee, OpRef)
    ]


@pytest.mark.parametrize(
    ("kernel", "attrs", "parts"),
    [
        ((4, 4), Conv2DTransposeAttrs(strides=(2, 2), padding=(1, 1, 1, 1)), 4),
        ((2, 2), Conv2DTransposeAttrs(strides=(2, 2)), 4),
        (
            (3, 3),
            Conv2DTransposeAttrs(strides=(2, 2), padding=(1, 1, 1, 1), output_padding=(1, 1)),
            4,
        ),
        ((5, 4), Conv2DTransposeAttrs(strides=(1, 2), padding=(2, 1, 2, 1)), 2),
        ((6, 3), Conv2DTransposeAttrs(strides=(3, 1), padding=(1, 0, 2, 0)), 3),
        ((3, 3), Conv2DTransposeAttrs(padding=(1, 1, 1, 1)), 1),
    ],
)
def test_the_parts_together_are_the_transposed_convolution(
    kernel: tuple[int, int], attrs: Conv2DTransposeAttrs, parts: int
) -> None:
    rng = np.random.default_rng(sum(kernel) + parts)
    x, body = _network(rng, kernel, attrs, "tanh")
    split = split_transposed(Module({"main": Function((x,), body)})).main
    names = _operators(split.body)
    assert names.count("nn.conv2d") == names.count("tanh") == parts
    assert "nn.conv2d_transpose" not in names
    data = rng.normal(0, 1, (2, 3, 4, 5)).astype(np.float32)
    (want,) = meaning((body,), {x: data})
    (got,) = meaning((split.body,), {split.params[0]: data})
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("kernel", "attrs"),
    [
        (
            (1, 1),
            Conv2DTransposeAttrs(strides=(2, 2), output_padding=(1, 1)),
        ),  # places without taps
        ((3, 3), Conv2DTransposeAttrs(strides=(2, 2))),  # 9 rows of two remainders
        ((2, 2), Conv2DTransposeAttrs(strides=(2, 2), padding=(2, 2, 2, 2))),  # cuts data off
        ((2, 2), Conv2DTransposeAttrs(strides=(1, 1), dilation=(2, 2))),
    ],
)
def test_what_has_no_like_parts_stays(kernel: tuple[int, int], attrs: Conv2DTransposeAttrs) -> None:
    x, body = _network(np.random.default_rng(0), kernel, attrs, "nn.relu")
    module = Module({"main": Function((x,), body)})
    infer_types(module)
    assert _operators(split_transposed(module).main.body) == _operators(body)


def test_a_generator_runs_whole_on_the_accelerator() -> None:
    rng = np.random.default_rng(7)
    attrs = Conv2DTransposeAttrs(strides=(2, 2), padding=(1, 1, 1, 1))
    x, body = _network(rng, (4, 4), attrs, "nn.relu")
    weight = Constant(rng.normal(0, 0.2, (6, 3, 4, 4)).astype(np.float32))
    body = Call(OpRef("tanh"), (Call(OpRef("nn.conv2d_transpose"), (body, weight), attrs),))
    module = Module({"main": Function((x,), body)})
    samples = [{"x": rng.normal(0, 1, (2, 3, 4, 5)).astype(np.float32)} for _ in range(4)]
    quantized = quantize(module, samples)
    on_host = Session(driver.compile(quantized, target="cpu"))
    executable = driver.compile(quantized, target="accel", config=preset("tiny"))
    (step,) = executable.accel_steps
    assert [layer.operator for layer in step.kernel.layers] == ["qnn.conv2d"] * 8
    (got,) = Session(executable).run(samples[0]).values()
    (same,) = on_host.run(samples[0]).values()
    np.testing.assert_array_equal(got, same)
    (exact,) = meaning((body,), {x: samples[0]["x"]})
    np.testing.assert_allclose(got, exact, atol=0.06)
