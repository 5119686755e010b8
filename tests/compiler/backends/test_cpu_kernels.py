"""The hand-blocked kernels: convolutions and products with constant weights, with what follows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from codesign.compiler.interpreter import Interpreter
from codesign.dtypes import Array
from codesign.ir.relay.expr import Attrs, Call, Constant, Expr, Function, OpRef
from codesign.ir.relay.module import Module
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.nn.pool2d import Pool2DAttrs
from codesign.ops.qnn.add import QAddAttrs
from codesign.ops.qnn.conv2d import QConv2DAttrs
from codesign.ops.qnn.dense import QDenseAttrs
from codesign.ops.qnn.multiply import QMultiplyAttrs
from codesign.ops.qnn.requantize import RequantizeAttrs
from codesign.ops.qnn.sum_pool2d import QSumPool2DAttrs
from codesign.ops.reshape import ReshapeAttrs
from tests.support.cpu import native, run, variables


def _op(name: str, *args: Expr, attrs: Attrs | None = None) -> Call:
    return Call(OpRef(name), args, attrs)


def _check(body: Expr, params: tuple, arrays: tuple[Array, ...]) -> None:
    (found,) = native(body, params)(*arrays)
    expected = Interpreter(Module({})).evaluate(Function(params, body), arrays)
    assert isinstance(expected, np.ndarray)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if expected.dtype.kind == "f":
        scale = max(float(np.abs(expected).max(initial=0)), 1.0)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=3e-6 * scale)
    else:
        np.testing.assert_array_equal(found, expected)


@dataclass(frozen=True, kw_only=True)
class Case:
    n: int = 1
    ic: int = 8
    oc: int = 8
    h: int = 9
    w: int = 11
    kernel: tuple[int, int] = (3, 3)
    strides: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (1, 1, 1, 1)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1

    @property
    def weight_shape(self) -> tuple[int, int, int, int]:
        return (self.oc, self.ic // self.groups, *self.kernel)

    @property
    def data_shape(self) -> tuple[int, int, int, int]:
        return (self.n, self.ic, self.h, self.w)


CASES = [
    Case(),
    Case(ic=3, oc=20, n=2),
    Case(ic=1, oc=1),
    Case(ic=17, oc=3, n=2),
    Case(ic=16, oc=40, kernel=(1, 1), padding=(0, 0, 0, 0)),
    Case(ic=24, oc=72, kernel=(1, 1), padding=(0, 0, 0, 0), h=7, w=7),
    Case(ic=9, oc=17, kernel=(1, 1), padding=(0, 0, 0, 0), strides=(2, 2)),
    Case(ic=16, oc=16, strides=(2, 2), padding=(0, 0, 1, 1), h=8, w=8),
    Case(ic=8, oc=16, kernel=(5, 3), padding=(2, 0, 1, 3)),
    Case(ic=8, oc=16, dilation=(2, 3), padding=(2, 3, 2, 3)),
    Case(ic=3, oc=16, kernel=(7, 7), padding=(3, 3, 3, 3), strides=(2, 2), h=23, w=25),
    Case(ic=32, oc=16, groups=2),
    Case(ic=12, oc=24, groups=3),
    Case(ic=16, oc=16, groups=16),
    Case(ic=19, oc=19, groups=19, strides=(2, 1), kernel=(5, 5), padding=(2, 2, 2, 2), n=2),
    Case(ic=8, oc=16, groups=8),
    Case(ic=24, oc=24, groups=24, dilation=(2, 2), padding=(2, 2, 2, 2)),
    Case(ic=8, oc=8, h=1, w=1),
    Case(ic=64, oc=8, h=5, w=31),
    Case(ic=8, oc=8, padding=(-1, 0, -1, -2)),
]


def _random(shape: tuple[int, ...], seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _bytes(shape: tuple[int, ...], seed: int) -> Array:
    return np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)


def _float_conv(case: Case, data: Expr, seed: int = 1) -> Expr:
    weight = Constant(_random(case.weight_shape, seed))
    attrs = Conv2DAttrs(
        strides=case.strides, padding=case.padding, dilation=case.dilation, groups=case.groups
    )
    return _op("nn.conv2d", data, weight, attrs=attrs)


def _quantized_conv(case: Case, data: Expr, zero_point: int, seed: int = 1) -> Expr:
    attrs = QConv2DAttrs(
        strides=case.strides,
        padding=case.padding,
        dilation=case.dilation,
        groups=case.groups,
        zero_point=zero_point,
    )
    return _op("qnn.conv2d", data, Constant(_bytes(case.weight_shape, seed)), attrs=attrs)


def _requantized(acc: Expr, channels: int, *, zero_point: int = -3, seed: int = 5) -> Expr:
    rng = np.random.default_rng(seed)
    bias = Constant(rng.integers(-5000, 5000, channels).astype(np.int32))
    multiplier = Constant(rng.integers(1 << 20, 1 << 23, channels).astype(np.int32))
    shift = Constant(rng.integers(30, 34, channels).astype(np.int32))
    attrs = RequantizeAttrs(zero_point=zero_point, minimum=-100)
    return _op("qnn.requantize", acc, bias, multiplier, shift, attrs=attrs)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_convolution_with_bias_and_activation(case: Case) -> None:
    (x,) = params = variables(_random(case.data_shape, 2))
    bias = Constant(_random((case.oc, 1, 1), 3))
    body = _op("nn.hard_swish", _op("add", _float_conv(case, x), bias))
    _check(body, params, (_random(case.data_shape, 2),))


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("zero_point", [0, 7])
def test_quantized_convolution_is_exact(case: Case, zero_point: int) -> None:
    data = _bytes(case.data_shape, 2)
    (x,) = params = variables(data)
    _check(_requantized(_quantized_conv(case, x, zero_point), case.oc), params, (data,))


@pytest.mark.parametrize("case", CASES[:6], ids=str)
def test_quantized_accumulators_are_exact(case: Case) -> None:
    data = _bytes(case.data_shape, 2)
    (x,) = params = variables(data)
    _check(_quantized_conv(case, x, -128), params, (data,))


def test_extreme_bytes_do_not_overflow() -> None:
    case = Case(ic=64, oc=8, h=4, w=4)
    data = np.full(case.data_shape, -128, np.int8)
    weight = Constant(np.full(case.weight_shape, -128, np.int8))
    (x,) = params = variables(data)
    attrs = QConv2DAttrs(padding=case.padding, zero_point=127)
    _check(_op("qnn.conv2d", x, weight, attrs=attrs), params, (data,))


def test_residual_network_stays_equal() -> None:
    case = Case(ic=16, oc=16, h=14, w=14)
    x_array = _random(case.data_shape, 1)
    (x,) = params = variables(x_array)
    first = _op("nn.relu", _float_conv(case, x, 2))
    second = _op("nn.relu", _op("add", _float_conv(case, first, 3), first))
    pooled = _op(
        "nn.max_pool2d",
        second,
        attrs=Pool2DAttrs(pool_size=(3, 3), strides=(2, 2), padding=(1, 1, 1, 1)),
    )
    gate = _op("sigmoid", _op("nn.global_avg_pool2d", pooled))
    body = _op("multiply", pooled, gate)
    _check(body, params, (x_array,))


def test_diamond_after_a_convolution_is_fused_right() -> None:
    case = Case(ic=8, oc=24, h=5, w=5)
    x_array = _random(case.data_shape, 1)
    (x,) = params = variables(x_array)
    y = _op("add", _float_conv(case, x), Constant(_random((24, 1, 1), 3)))
    z = _op("multiply", y, _op("sigmoid", _op("add", y, y)))
    _check(z, params, (x_array,))


def test_operand_of_another_shape_is_read_right() -> None:
    case = Case(ic=8, oc=12, h=6, w=6)
    arrays = (_random(case.data_shape, 1), _random((12, 1, 1), 2), _random((6,), 3))
    x, scale, row = params = variables(*arrays)
    body = _op("add", _op("multiply", _float_conv(case, x), scale), row)
    _check(body, params, arrays)


@pytest.mark.parametrize("rows", [1, 2, 7])
@pytest.mark.parametrize(("k", "m"), [(1, 1), (5, 3), (64, 10), (33, 64), (16, 17), (7, 130)])
def test_dense_with_bias(rows: int, k: int, m: int) -> None:
    arrays = (_random((rows, k), 1), _random((rows, m), 2))
    x, residual = params = variables(*arrays)
    product = _op("nn.dense", x, Constant(_random((m, k), 3)))
    body = _op("add", _op("nn.relu", _op("add", product, Constant(_random((m,), 4)))), residual)
    _check(body, params, arrays)


def test_matmul_with_constant_matrix() -> None:
    arrays = (_random((2, 3, 12), 1),)
    (x,) = params = variables(*arrays)
    body = _op("nn.gelu", _op("nn.matmul", x, Constant(_random((12, 20), 3))))
    _check(body, params, arrays)


@pytest.mark.parametrize(("rows", "k", "m"), [(1, 64, 10), (3, 9, 17), (5, 33, 64)])
def test_quantized_dense_is_exact(rows: int, k: int, m: int) -> None:
    data = _bytes((rows, k), 1)
    (x,) = params = variables(data)
    product = _op("qnn.dense", x, Constant(_bytes((m, k), 2)), attrs=QDenseAttrs(zero_point=5))
    _check(_requantized(product, m), params, (data,))


def test_quantized_network_is_exact() -> None:
    case = Case(ic=3, oc=20, h=12, w=12)
    data = _bytes(case.data_shape, 1)
    (x,) = params = variables(data)
    table = Constant(np.random.default_rng(9).permutation(np.arange(-128, 128)).astype(np.int8))
    first = _op("qnn.lookup", _requantized(_quantized_conv(case, x, 7), 20), table)
    wise = Case(ic=20, oc=20, groups=20)
    second = _requantized(_quantized_conv(wise, first, -3, 4), 20, seed=6)
    summed = _op(
        "qnn.add",
        first,
        second,
        attrs=QAddAttrs(
            lhs_zero_point=-3,
            rhs_zero_point=4,
            lhs_multiplier=12345,
            rhs_multiplier=-3210,
            shift=14,
            zero_point=2,
        ),
    )
    total = _op("qnn.sum_pool2d", summed, attrs=QSumPool2DAttrs(pool_size=(12, 12), zero_point=2))
    gate = _requantized(total, 20, seed=8)
    scaled = _op(
        "qnn.multiply",
        summed,
        gate,
        attrs=QMultiplyAttrs(
            lhs_zero_point=2,
            rhs_zero_point=-3,
            multiplier=7654321,
            shift=30,
            zero_point=-1,
            minimum=-90,
        ),
    )
    pooled = _op("nn.max_pool2d", scaled, attrs=Pool2DAttrs(pool_size=(2, 2), strides=(2, 2)))
    flat = _op("reshape", pooled, attrs=ReshapeAttrs(shape=(1, -1)))
    weight = Constant(_bytes((10, 720), 3))
    scores = _op("qnn.dense", flat, weight, attrs=QDenseAttrs(zero_point=-1))
    _check(_requantized(scores, 10, seed=10), params, (data,))


@pytest.mark.parametrize("shift", [0, 1, 20, 56])
def test_requantize_is_exact_for_any_accumulator(shift: int) -> None:
    rng = np.random.default_rng(shift)
    data = rng.integers(-(1 << 31), 1 << 31, (3, 4, 50)).astype(np.int32)
    bias, multiplier, shifts = (
        rng.integers(-(1 << 31), 1 << 31, 4).astype(np.int32),
        rng.integers(0, 1 << 23, 4).astype(np.int32),
        np.full(4, shift, np.int32),
    )
    x, b, m, s = params = variables(data, bias, multiplier, shifts)
    body = _op("qnn.requantize", x, b, m, s, attrs=RequantizeAttrs())
    _check(body, params, (data, bias, multiplier, shifts))


def test_ties_round_to_even() -> None:
    data = np.arange(-9, 10, dtype=np.int32).reshape(1, 1, 19)
    one = Constant(np.array([1], np.int32))
    found = run(
        lambda x: _op(
            "qnn.requantize", x, Constant(np.array([0], np.int32)), one, one,
            attrs=RequantizeAttrs(),
        ),
        data,
    )  # fmt: skip
    np.testing.assert_array_equal(found, np.rint(data / 2).astype(np.int8))


@pytest.mark.parametrize("shape", [(1, 8, 4, 8), (3, 85), (256,)])
def test_lookup_finds_every_byte(shape: tuple[int, ...]) -> None:
    table = np.random.default_rng(3).integers(-128, 128, 256).astype(np.int8)
    data = np.resize(np.arange(-128, 128), shape).astype(np.int8)
    found = run(lambda x: _op("qnn.lookup", x, Constant(table)), data)
    np.testing.assert_array_equal(found, table[data.astype(int) + 128])
