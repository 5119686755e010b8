"""Products and convolutions with weights that are computed, against their references."""

from __future__ import annotations

import numpy as np
import pytest

import codesign
from codesign.compiler.interpreter import Interpreter
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Attrs, Function, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.nn.conv2d_transpose import Conv2DTransposeAttrs
from codesign.ops.table import call
from host_runtime.session import Session


def _check(name: str, shapes: tuple[tuple[int, ...], ...], attrs: Attrs | None = None) -> None:
    rng = np.random.default_rng(3)
    params = tuple(Var(f"p{i}", TensorType(s, DType.FLOAT32)) for i, s in enumerate(shapes))
    module = Module({"main": Function(params, call(name, *params, attrs=attrs))})
    arrays: dict[str, Array] = {
        param.name: rng.standard_normal(shape).astype(np.float32)
        for param, shape in zip(params, shapes, strict=True)
    }
    found = Session(codesign.compile(module, target="cpu")).run(arrays)["output"]
    expected = np.asarray(Interpreter(module).run(**arrays))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "shapes",
    [((4, 6), (5, 6)), ((1, 6), (5, 6)), ((2, 3, 9), (17, 9)), ((7,), (3, 7)), ((8, 1), (1, 1))],
)
def test_dense(shapes: tuple[tuple[int, ...], ...]) -> None:
    _check("nn.dense", shapes)


CONVOLUTIONS = {
    "long rows": ((2, 3, 6, 9), (4, 3, 3, 3), Conv2DAttrs(padding=(1, 1, 1, 1))),
    "short rows": ((2, 3, 5, 5), (4, 3, 3, 3), Conv2DAttrs(padding=(1, 1, 1, 1))),
    "strides": ((2, 3, 9, 20), (4, 3, 2, 3), Conv2DAttrs(strides=(2, 2), padding=(0, 1, 2, 1))),
    "rows of strides": ((1, 3, 9, 20), (4, 3, 2, 3), Conv2DAttrs(strides=(2, 1))),
    "dilation": ((2, 3, 9, 12), (4, 3, 3, 2), Conv2DAttrs(dilation=(2, 3), padding=(2, 0, 1, 3))),
    "negative padding": ((2, 3, 9, 12), (4, 3, 3, 2), Conv2DAttrs(padding=(-1, 0, -2, 1))),
    "groups": ((2, 4, 5, 9), (6, 2, 3, 3), Conv2DAttrs(groups=2, padding=(1, 1, 1, 1))),
    "depthwise": ((2, 4, 5, 9), (4, 1, 3, 3), Conv2DAttrs(groups=4)),
    "a kernel as large as the image": (
        (3, 2, 8, 8),
        (5, 2, 8, 8),
        Conv2DAttrs(padding=(1, 1, 1, 1)),
    ),
    "one pixel": ((1, 1, 1, 1), (1, 1, 1, 1), Conv2DAttrs()),
    "no images": ((0, 3, 5, 5), (4, 3, 3, 3), Conv2DAttrs()),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_conv2d(name: str) -> None:
    data, weight, attrs = CONVOLUTIONS[name]
    _check("nn.conv2d", (data, weight), attrs)


TRANSPOSED = {
    "plain": ((2, 3, 4, 9), (3, 4, 3, 3), Conv2DTransposeAttrs(padding=(1, 1, 1, 1))),
    "strides": (
        (2, 3, 4, 5),
        (3, 4, 3, 2),
        Conv2DTransposeAttrs(strides=(2, 3), padding=(1, 0, 1, 0), output_padding=(1, 0)),
    ),
    "dilation": ((2, 3, 4, 5), (3, 4, 3, 2), Conv2DTransposeAttrs(dilation=(2, 3))),
    "groups": ((2, 4, 4, 5), (4, 3, 3, 2), Conv2DTransposeAttrs(groups=2)),
}


@pytest.mark.parametrize("name", TRANSPOSED)
def test_conv2d_transpose(name: str) -> None:
    data, weight, attrs = TRANSPOSED[name]
    _check("nn.conv2d_transpose", (data, weight), attrs)
