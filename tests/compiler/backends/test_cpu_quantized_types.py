"""Sums of 16 bits and operands of 16 bits on the CPU, to the bit as NumPy's integers have them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest

from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Attrs, Call, Constant, Expr, OpRef
from codesign.ops.qnn.add import QAddAttrs
from codesign.ops.qnn.conv2d import QConv2DAttrs
from codesign.ops.qnn.dense import QDenseAttrs
from codesign.ops.qnn.multiply import QMultiplyAttrs
from codesign.ops.qnn.requantize import RequantizeAttrs
from codesign.ops.qnn.sum_pool2d import QSumPool2DAttrs
from tests.support.cpu import native, variables


def _op(name: str, *args: Expr, attrs: Attrs | None = None) -> Call:
    return Call(OpRef(name), args, attrs)


def _ints(dtype: DType, *shape: int, seed: int = 0, most: int | None = None) -> Array:
    rng = np.random.default_rng((seed, *shape))
    low, high = (dtype.minimum, dtype.maximum) if most is None else (-most, most)
    return rng.integers(low, high + 1, shape).astype(dtype.numpy)


def _native(body: Expr, params: tuple, *arrays: Array) -> Array:
    (found,) = native(body, params)(*arrays)
    return found


@dataclass(frozen=True)
class Layer:
    """A convolution; `data` and `weight` are (bits, greatest magnitude)."""

    ic: int
    oc: int
    groups: int = 1
    size: int = 3
    pad: int = 1
    stride: int = 1
    plane: tuple[int, int] = (6, 7)


LAYERS = [
    Layer(16, 24),
    Layer(3, 20),
    Layer(1, 5),
    Layer(17, 33),
    Layer(40, 16, size=1, pad=0),
    Layer(32, 48, groups=2),
    Layer(19, 19, groups=19, stride=2),
    Layer(32, 32, groups=32, size=5, pad=2),
    Layer(12, 24, groups=12),
    Layer(8, 8, size=6, pad=0, plane=(6, 6)),
]


def _by_numpy(data: Array, weight: Array, layer: Layer, zero_point: int, bits: int) -> Array:
    """Sum by sum in int64, then the low bits."""
    centred = data.astype(np.int64) - zero_point
    padded = np.pad(centred, ((0, 0), (0, 0), (layer.pad,) * 2, (layer.pad,) * 2))
    rows = (padded.shape[2] - layer.size) // layer.stride + 1
    columns = (padded.shape[3] - layer.size) // layer.stride + 1
    result = np.zeros((1, layer.oc, rows, columns), np.int64)
    inputs, outputs = layer.ic // layer.groups, layer.oc // layer.groups
    for o, y, x in product(range(layer.oc), range(rows), range(columns)):
        first = o // outputs * inputs
        top, left = y * layer.stride, x * layer.stride
        window = padded[0, first : first + inputs, top : top + layer.size, left : left + layer.size]
        result[0, o, y, x] = (window * weight[o].astype(np.int64)).sum()
    low = result & ((1 << bits) - 1)
    return np.where(low >= 1 << (bits - 1), low - (1 << bits), low)


def _convolution(layer: Layer, data: DType, weight: Array, sums: DType, zero_point: int) -> Array:
    values = _ints(data, 1, layer.ic, *layer.plane)
    attrs = QConv2DAttrs(
        strides=(layer.stride,) * 2,
        padding=(layer.pad,) * 4,
        groups=layer.groups,
        zero_point=zero_point,
        dtype=sums,
    )
    (x,) = params = variables(values)
    found = _native(_op("qnn.conv2d", x, Constant(weight), attrs=attrs), params, values)
    assert found.dtype == sums.numpy
    np.testing.assert_array_equal(found, _by_numpy(values, weight, layer, zero_point, sums.bits))
    return found


@pytest.mark.parametrize("layer", LAYERS, ids=str)
@pytest.mark.parametrize("zero_point", [0, -37])
@pytest.mark.parametrize("most", [64, 128])
def test_sums_of_16_bits_wrap(layer: Layer, zero_point: int, most: int) -> None:
    # Weights of up to 64 take products of pairs in 16 bits, greater ones need another way.
    low = np.int8(-128) if most == 128 else np.int8(-64)
    weight = _ints(DType.INT8, layer.oc, layer.ic // layer.groups, layer.size, layer.size)
    weight = weight.clip(low, -1 - low)
    weight[0] = low
    found = _convolution(layer, DType.INT8, weight, DType.INT16, zero_point)
    assert found.size > 0


@pytest.mark.parametrize("layer", LAYERS, ids=str)
@pytest.mark.parametrize(("data", "zero_point"), [(DType.INT16, 0), (DType.INT16, -300),
                                                  (DType.INT8, 5)])  # fmt: skip
def test_operands_of_16_bits_give_sums_modulo_32(
    layer: Layer, data: DType, zero_point: int
) -> None:
    weight = _ints(DType.INT16, layer.oc, layer.ic // layer.groups, layer.size, layer.size)
    weight[0] = -32768
    _convolution(layer, data, weight, DType.INT32, zero_point)


@pytest.mark.parametrize(("rows", "inner", "outputs"), [(1, 9, 5), (3, 64, 40), (2, 33, 17)])
@pytest.mark.parametrize("sums", [DType.INT16, DType.INT32])
def test_products_of_rows(rows: int, inner: int, outputs: int, sums: DType) -> None:
    kind = DType.INT8 if sums is DType.INT16 else DType.INT16
    data, weight = _ints(kind, rows, inner), _ints(kind, outputs, inner, seed=1)
    if sums is DType.INT16:
        weight = weight.clip(-64, 64).astype(np.int8)
    (x,) = params = variables(data)
    attrs = QDenseAttrs(zero_point=11, dtype=sums)
    found = _native(_op("qnn.dense", x, Constant(weight), attrs=attrs), params, data)
    exact = (data.astype(np.int64) - 11) @ weight.T.astype(np.int64)
    np.testing.assert_array_equal(found, exact.astype(sums.numpy))


def test_wide_sums_are_requantized_exactly() -> None:
    acc = _ints(DType.INT32, 2, 3, 5, 5)
    acc[0, :, 0] = [-(2**31), 2**31 - 1, 0, 1, -1]
    bias = np.array([2**31 - 1, -(2**31), 12345], np.int32)
    multiplier = np.array([(1 << 20) - 1, 1 << 19, 777_777], np.int32)
    shift = np.array([36, 35, 34], np.int32)
    attrs = RequantizeAttrs(zero_point=3, minimum=-32768, maximum=32767, dtype=DType.INT16)
    (x,) = params = variables(acc)
    body = _op("qnn.requantize", x, *(Constant(each) for each in (bias, multiplier, shift)),
               attrs=attrs)  # fmt: skip
    found = _native(body, params, acc)
    wanted = [
        max(-32768, min(32767, _half_even((int(v) + int(bias[c])) * int(multiplier[c]),
                                          int(shift[c])) + 3))
        for (_, c, _, _), v in np.ndenumerate(acc)
    ]  # fmt: skip
    np.testing.assert_array_equal(found.reshape(-1), wanted)


def _half_even(value: int, shift: int) -> int:
    quotient, rest = divmod(value, 1 << shift)
    half = 1 << (shift - 1)
    return quotient + (rest > half or (rest == half and quotient % 2 == 1))


def test_sums_and_products_of_int16_are_exact() -> None:
    lhs, rhs = _ints(DType.INT16, 1, 4, 6, 6), _ints(DType.INT16, 1, 4, 6, 6, seed=1)
    params = variables(lhs, rhs)
    limits = {"minimum": -32768, "maximum": 32767}
    added = QAddAttrs(
        lhs_zero_point=-5, rhs_zero_point=9, lhs_multiplier=32767, rhs_multiplier=-12345,
        shift=15, zero_point=4, **limits,
    )  # fmt: skip
    found = _native(_op("qnn.add", *params, attrs=added), params, lhs, rhs)
    for place, value in np.ndenumerate(found):
        exact = (int(lhs[place]) + 5) * 32767 + (int(rhs[place]) - 9) * -12345
        assert value == max(-32768, min(32767, _half_even(exact, 15) + 4))
    product_attrs = QMultiplyAttrs(
        lhs_zero_point=0, rhs_zero_point=7, multiplier=500_001, shift=34, zero_point=0, **limits
    )
    found = _native(_op("qnn.multiply", *params, attrs=product_attrs), params, lhs, rhs)
    for place, value in np.ndenumerate(found):
        exact = int(lhs[place]) * (int(rhs[place]) - 7) * 500_001
        assert value == max(-32768, min(32767, _half_even(exact, 34)))


def test_window_sums_of_int16() -> None:
    data = _ints(DType.INT16, 1, 18, 6, 6)
    attrs = QSumPool2DAttrs(pool_size=(3, 3), strides=(3, 3), zero_point=-4)
    (x,) = params = variables(data)
    found = _native(_op("qnn.sum_pool2d", x, attrs=attrs), params, data)
    wanted = (data.astype(np.int64) + 4).reshape(1, 18, 2, 3, 2, 3).sum(axis=(3, 5))
    np.testing.assert_array_equal(found, wanted)
