"""Attention in integers: products of two tensors, host, interpreter and accelerator alike."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.accel.presets import preset
from codesign.compiler import driver
from codesign.compiler.interpreter import Interpreter
from codesign.compiler.pipelines import optimize
from codesign.compiler.quantization import QuantizationConfig, Scheme, quantize
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Call, Constant, Expr, Function, OpRef, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType
from codesign.ir.relay.visit import post_order
from codesign.ops.axis import AxisAttrs
from codesign.ops.nn.batch_matmul import BatchMatmulAttrs
from codesign.ops.reshape import ReshapeAttrs
from codesign.ops.table import call
from codesign.ops.transpose import TransposeAttrs
from host_runtime.session import Session

ROWS, HEADS, WIDE = 10, 2, 12


def _attention(rng: np.random.Generator) -> Module:
    """Return a block of two heads over 10 rows of 24 numbers, with a residual and a product."""
    width = HEADS * WIDE
    x = Var("x", TensorType((1, ROWS, width), DType.FLOAT32))

    def product(data: Expr, outputs: int) -> Expr:
        weight = rng.standard_normal((outputs, width)) / np.sqrt(width)
        return call("nn.dense", data, Constant(weight.astype(np.float32)))

    def heads(data: Expr, *axes: int) -> Expr:
        apart = call("reshape", data, attrs=ReshapeAttrs(shape=(1, ROWS, HEADS, WIDE)))
        return call("transpose", apart, attrs=TransposeAttrs(axes=axes))

    query, key = heads(product(x, width), 0, 2, 1, 3), heads(product(x, width), 0, 2, 3, 1)
    scores = call("nn.matmul", query, key)
    shares = call("nn.softmax", scores, attrs=AxisAttrs(axis=-1))
    mixed = call("nn.matmul", shares, heads(product(x, width), 0, 2, 1, 3))
    turned = call("transpose", mixed, attrs=TransposeAttrs(axes=(0, 2, 1, 3)))
    joined = call("reshape", turned, attrs=ReshapeAttrs(shape=(1, ROWS, width)))
    summed = call("add", product(joined, width), product(x, width))
    return Module({"main": Function((x,), product(call("nn.relu", summed), width))})


def _samples(rng: np.random.Generator, count: int) -> list[dict[str, Array]]:
    return [
        {"x": rng.standard_normal((1, ROWS, HEADS * WIDE)).astype(np.float32)} for _ in range(count)
    ]


def _operators(module: Module) -> list[str]:
    return [
        node.callee.name
        for node in post_order(module.main)
        if isinstance(node, Call) and isinstance(node.callee, OpRef)
    ]


def test_attention_agrees_on_host_and_accelerator_and_is_near_fp32() -> None:
    rng = np.random.default_rng(3)
    module = optimize(_attention(rng))
    quantized = quantize(module, _samples(rng, 8))
    assert _operators(quantized.module).count("qnn.matmul") == 2
    on_cpu = Session(driver.compile(quantized))
    on_chip = Session(driver.compile(quantized, target="accel", config=preset("base")))
    units = {
        (each.operator, each.unit)
        for each in on_chip.executable.placements
        if each.operator in ("qnn.matmul", "qnn.dense", "qnn.add")
    }
    assert units == {("qnn.matmul", "gemm"), ("qnn.dense", "gemm"), ("qnn.add", "vector")}
    for sample in _samples(rng, 3):
        (found,), (again,) = on_cpu.run(sample).values(), on_chip.run(sample).values()
        meant = Interpreter(quantized.module).run(**sample)
        np.testing.assert_array_equal(found, meant)
        np.testing.assert_array_equal(again, meant)
        exact = np.asarray(Interpreter(module).run(**sample))
        assert np.linalg.norm(found - exact) < 0.06 * np.linalg.norm(exact)


@pytest.mark.parametrize("swapped", [(False, False), (False, True), (True, False), (True, True)])
def test_batches_of_products_lie_as_they_say(swapped: tuple[bool, bool]) -> None:
    rng = np.random.default_rng(2)
    shapes = [(3, 4, 5) if a else (3, 5, 4) for a in (swapped[0], not swapped[1])]
    x, y = (
        Var(name, TensorType(shape, DType.FLOAT32))
        for name, shape in zip("xy", shapes, strict=True)
    )
    attrs = BatchMatmulAttrs(transpose_a=swapped[0], transpose_b=swapped[1])
    body = call("nn.batch_matmul", x, y, attrs=attrs)
    samples = [
        {
            name: rng.standard_normal(shape).astype(np.float32)
            for name, shape in zip("xy", shapes, strict=True)
        }
        for _ in range(4)
    ]
    quantized = quantize(optimize(Module({"main": Function((x, y), body)})), samples)
    assert "qnn.matmul" in _operators(quantized.module)
    left, right = (
        np.swapaxes(samples[0][name], 1, 2) if turned else samples[0][name]
        for name, turned in zip("xy", swapped, strict=True)
    )
    found = Interpreter(quantized.module).run(**samples[0])
    np.testing.assert_allclose(found, left @ right, atol=0.15)


def test_both_operands_of_a_product_have_zero_point_0() -> None:
    rng = np.random.default_rng(4)
    quantized = quantize(optimize(_attention(rng)), _samples(rng, 4))
    products = [
        node
        for node in post_order(quantized.module.main)
        if isinstance(node, Call) and node.callee == OpRef("qnn.matmul", node.callee.span)
    ]
    for product in products:
        for source in product.args:
            made = source
            while made.callee.name in ("transpose", "reshape"):
                made = made.args[0]
            assert made.attrs.zero_point == 0


@pytest.mark.parametrize("scheme", ["8/16", "16/32"])
def test_narrow_sums_leave_products_of_two_tensors_in_floating_point(scheme: str) -> None:
    rng = np.random.default_rng(5)
    config = QuantizationConfig(scheme=Scheme(scheme))
    quantized = quantize(optimize(_attention(rng)), _samples(rng, 4), config=config)
    assert "qnn.matmul" not in _operators(quantized.module)
    reasons = {layer.reason for layer in quantized.report.floating}
    assert "sums of products of such codes do not fit the scheme's accumulators" in reasons
