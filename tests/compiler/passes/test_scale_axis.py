"""Scales that go into weights through what is between: where they may, and where they must not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from codesign.compiler.interpreter import Interpreter
from codesign.compiler.pass_manager import Form, PassContext, PassManager
from codesign.compiler.passes.fold_scale_axis import FoldScaleAxis
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Call, Constant, Expr, Function, OpRef, Tuple, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType
from codesign.ir.relay.visit import post_order
from codesign.ops.nn.activations import LeakyReluAttrs
from codesign.ops.nn.bias_add import BiasAddAttrs
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.nn.pool2d import Pool2DAttrs
from codesign.ops.table import call

SHAPE = (2, 4, 6, 6)
POOL = Pool2DAttrs(pool_size=(3, 3), strides=(2, 2), padding=(1, 1, 1, 1))


def _random(seed: int, *shape: int) -> Constant:
    return Constant(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def _scale(seed: int, *, positive: bool = True) -> Constant:
    drawn = np.random.default_rng(seed).uniform(0.5, 2.0, (4, 1, 1)).astype(np.float32)
    signs = np.array([1, -1, 1, 1], np.float32).reshape(4, 1, 1)
    return Constant(drawn if positive else np.asarray(drawn * signs))


def _conv(x: Expr, seed: int, *, groups: int = 1) -> Call:
    attrs = Conv2DAttrs(padding=(1, 1, 1, 1), groups=groups)
    return call("nn.conv2d", x, _random(seed, 4, 4 // groups, 3, 3), attrs=attrs)


def _names(module: Module) -> list[str]:
    return [
        node.callee.name
        for node in post_order(module.main.body)
        if isinstance(node, Call) and isinstance(node.callee, OpRef)
    ]


def _folded(body: Expr, x: Var, shape: tuple[int, ...] = SHAPE) -> Module:
    """Return the module after the pass; its answer is that before, but for rounding."""
    module = Module({"main": Function((x,), body)})
    forms = frozenset({Form.TYPED, Form.INFERENCE})
    made = PassManager(verify=True).run(module, (FoldScaleAxis(),), forms)
    assert FoldScaleAxis().run(made, PassContext()) is made
    data = np.random.default_rng(5).standard_normal(shape).astype(np.float32)
    for found, wanted in zip(_flat(made, data), _flat(module, data), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    return made


def _flat(module: Module, data: Array) -> tuple[Array, ...]:
    value = Interpreter(module).run(x=data)
    return tuple(np.asarray(v) for v in (value if isinstance(value, tuple) else (value,)))


def _image() -> Var:
    return Var("x", TensorType(SHAPE, DType.FLOAT32))


BETWEEN: dict[str, Callable[[Expr], Expr]] = {
    "nn.relu": lambda y: call("nn.relu", y),
    "nn.leaky_relu": lambda y: call("nn.leaky_relu", y, attrs=LeakyReluAttrs(alpha=0.1)),
    "nn.prelu": lambda y: call("nn.prelu", y, _random(8, 4)),
    "nn.max_pool2d": lambda y: call("nn.max_pool2d", y, attrs=POOL),
    "nn.avg_pool2d": lambda y: call("nn.avg_pool2d", y, attrs=POOL),
    "nn.global_avg_pool2d": lambda y: call("nn.global_avg_pool2d", y),
    "nn.global_max_pool2d": lambda y: call("nn.global_max_pool2d", y),
}
ANY_SIGN = {"nn.avg_pool2d", "nn.global_avg_pool2d"}


@pytest.mark.parametrize("name", BETWEEN)
@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("positive", [True, False])
def test_back_to_the_weight(name: str, groups: int, positive: bool) -> None:
    x = _image()
    biased = call("nn.bias_add", _conv(x, 1, groups=groups), _random(2, 4))
    body = call("multiply", _scale(3, positive=positive), BETWEEN[name](biased))
    is_taken = positive or name in ANY_SIGN
    assert ("multiply" not in _names(_folded(body, x))) is is_taken


@pytest.mark.parametrize("name", BETWEEN)
@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("positive", [True, False])
def test_forward_to_the_weight(name: str, groups: int, positive: bool) -> None:
    x = _image()
    scaled = call("multiply", x, _scale(3, positive=positive))
    body = _conv(BETWEEN[name](scaled), 1, groups=groups)
    is_taken = positive or name in ANY_SIGN
    assert ("multiply" not in _names(_folded(body, x))) is is_taken


def test_both_sides_of_a_sum_take_the_scale() -> None:
    x = _image()
    sides = call("subtract", call("nn.relu", _conv(x, 1)), _conv(x, 2))
    body = call("divide", call("add", sides, _random(4, 1, 6)), _scale(3))
    assert "divide" not in _names(_folded(body, x))


def test_a_side_that_takes_none_keeps_the_product() -> None:
    x = _image()
    body = call("multiply", call("add", _conv(x, 1), x), _scale(3))
    assert "multiply" in _names(_folded(body, x))


def test_a_result_that_others_read_keeps_the_product() -> None:
    x = _image()
    relu = call("nn.relu", _conv(x, 1))
    body = Tuple((call("multiply", relu, _scale(3)), relu))
    assert "multiply" in _names(_folded(body, x))


def test_every_reader_takes_the_scale_or_none_does() -> None:
    x = _image()
    scaled = call("multiply", x, _scale(3))
    both = Tuple((_conv(call("nn.relu", scaled), 1), _conv(scaled, 2)))
    assert "multiply" not in _names(_folded(both, x))
    one = Tuple((_conv(call("nn.relu", scaled), 1), call("exp", scaled)))
    assert "multiply" in _names(_folded(one, x))


@pytest.mark.parametrize("value", [0.0, np.inf, np.nan, 1e38, -1.0])
def test_scales_that_a_weight_cannot_hold_stay(value: float) -> None:
    x = _image()
    relu = call("nn.relu", call("nn.bias_add", _conv(x, 1), Constant(np.full(4, 99, np.float32))))
    module = Module(
        {"main": Function((x,), call("multiply", relu, Constant(np.asarray(value, np.float32))))}
    )
    assert FoldScaleAxis().run(module, PassContext()) is module


def test_columns_are_no_channels() -> None:
    x = _image()
    body = call("multiply", call("nn.relu", _conv(x, 1)), _random(3, 1, 6))
    assert "multiply" in _names(_folded(body, x))


def test_products_of_matrices_take_columns() -> None:
    x = Var("x", TensorType((3, 5), DType.FLOAT32))
    first = call("nn.bias_add", call("nn.dense", x, _random(1, 4, 5)), _random(2, 4),
                 attrs=BiasAddAttrs(axis=-1))  # fmt: skip
    scale = Constant(np.array([1, 2, 0.5, 4], np.float32))
    body = call("nn.dense", call("multiply", call("nn.relu", first), scale), _random(3, 2, 4))
    assert "multiply" not in _names(_folded(body, x, (3, 5)))
    rows = Constant(np.array([[1], [2], [3]], np.float32))
    body = call("nn.dense", call("multiply", call("nn.relu", first), rows), _random(3, 2, 4))
    assert "multiply" in _names(_folded(body, x, (3, 5)))


def test_a_network_of_bits_is_scaled_exactly() -> None:
    x = _image()
    body: Expr = x
    for seed in range(4):
        body = call("nn.relu", call("nn.bias_add", _conv(body, seed), _random(seed + 9, 4)))
        body = call("multiply", body, Constant(np.exp2(np.arange(4) - seed).astype(np.float32)
                                               .reshape(4, 1, 1)))  # fmt: skip
    module = Module({"main": Function((x,), body)})
    made = FoldScaleAxis().run(module, PassContext())
    assert "multiply" not in _names(made)
    data = np.random.default_rng(5).standard_normal(SHAPE).astype(np.float32)
    np.testing.assert_allclose(_flat(made, data)[0], _flat(module, data)[0], rtol=1e-5, atol=1e-5)
