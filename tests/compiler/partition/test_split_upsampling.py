"""Nearest upsampling as interleaved copies, against the operator's own reference."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.accel.presets import preset
from codesign.compiler import driver
from codesign.compiler.partition.upsampled import split_upsampling
from codesign.compiler.quantization import quantize
from codesign.dtypes import DType
from codesign.ir.relay.expr import Call, Constant, Expr, Function, OpRef, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType
from codesign.ir.relay.visit import post_order
from codesign.ops.image.resize2d import ResizeAttrs
from codesign.ops.nn.conv2d import Conv2DAttrs
from host_runtime.session import Session
from tests.support.regions import meaning

X = Var("x", TensorType((1, 8, 3, 5), DType.FLOAT32))
CODES = Var("codes", TensorType((1, 8, 3, 5), DType.INT8))


def _resized(data: Expr, attrs: ResizeAttrs) -> Call:
    return Call(OpRef("image.resize2d"), (data,), attrs)


def _copies(expr: Expr) -> int:
    operators = [node for node in post_order(expr) if isinstance(node, OpRef)]
    return sum(each.name == "nn.max_pool2d" for each in operators)


@pytest.mark.parametrize("coordinates", ["asymmetric", "half_pixel"])
@pytest.mark.parametrize(("size", "copies"), [((6, 10), 4), ((3, 10), 2), ((9, 5), 3)])
def test_the_copies_together_are_the_larger_image(
    size: tuple[int, int], copies: int, coordinates: str
) -> None:
    attrs = ResizeAttrs(
        size=size,
        method="nearest_neighbor",
        coordinate_transformation_mode=coordinates,
        rounding_method="floor" if coordinates == "asymmetric" else "round_prefer_floor",
    )
    body = _resized(CODES, attrs)
    split = split_upsampling(Module({"main": Function((CODES,), body)})).main
    assert _copies(split.body) == copies
    shape = CODES.annotation.static_shape
    data = np.random.default_rng(1).integers(-128, 128, shape).astype(np.int8)
    (got,) = meaning((split.body,), {CODES: data})
    np.testing.assert_array_equal(got, data.repeat(size[0] // 3, 2).repeat(size[1] // 5, 3))


@pytest.mark.parametrize(
    "attrs",
    [
        ResizeAttrs(size=(6, 12), method="nearest_neighbor"),
        ResizeAttrs(
            size=(6, 10),
            method="nearest_neighbor",
            coordinate_transformation_mode="asymmetric",
            rounding_method="ceil",
        ),
        ResizeAttrs(size=(3, 5), method="nearest_neighbor"),
    ],
    ids=["no whole factor", "another share for each", "no other size"],
)
def test_what_is_no_repetition_stays(attrs: ResizeAttrs) -> None:
    module = Module({"main": Function((CODES,), _resized(CODES, attrs))})
    assert _copies(split_upsampling(module).main.body) == 0


def test_what_is_no_code_stays() -> None:
    for method in ("nearest_neighbor", "linear"):
        attrs = ResizeAttrs(size=(6, 10), method=method)
        module = Module({"main": Function((X,), _resized(X, attrs))})
        assert _copies(split_upsampling(module).main.body) == 0


@pytest.mark.parametrize("name", ["tiny", "base"])
def test_a_decoder_runs_whole_on_the_accelerator(name: str) -> None:
    rng = np.random.default_rng(3)
    weights = [rng.normal(0, 0.2, (8, 8, 3, 3)).astype(np.float32) for _ in range(2)]
    pad = Conv2DAttrs(padding=(1, 1, 1, 1))
    first = Call(OpRef("nn.relu"), (Call(OpRef("nn.conv2d"), (X, Constant(weights[0])), pad),))
    larger = _resized(
        first,
        ResizeAttrs(
            size=(6, 10), method="nearest_neighbor", coordinate_transformation_mode="asymmetric"
        ),
    )
    body = Call(OpRef("nn.conv2d"), (larger, Constant(weights[1])), pad)
    module = Module({"main": Function((X,), body)})
    sample = {"x": rng.normal(0, 1, (1, 8, 3, 5)).astype(np.float32)}
    quantized = quantize(module, [sample])
    executable = driver.compile(quantized, target="accel", config=preset(name))
    (step,) = executable.accel_steps
    operators = [layer.operator for layer in step.kernel.layers]
    assert operators == ["qnn.conv2d", *["nn.max_pool2d"] * 4, "qnn.conv2d"]
    (got,) = Session(executable).run(sample).values()
    (same,) = Session(driver.compile(quantized, target="cpu")).run(sample).values()
    np.testing.assert_array_equal(got, same)
    (exact,) = meaning((body,), {X: sample["x"]})
    np.testing.assert_allclose(got, exact, atol=0.1 * np.abs(exact).max())
