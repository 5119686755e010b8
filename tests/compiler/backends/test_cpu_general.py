"""The general path: every operator equals its NumPy reference."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Attrs
from codesign.ops.axis import AxisAttrs
from codesign.ops.broadcast_to import BroadcastToAttrs
from codesign.ops.cast import CastAttrs
from codesign.ops.clip import ClipAttrs
from codesign.ops.image.resize2d import ResizeAttrs
from codesign.ops.nn.activations import HardSigmoidAttrs, LeakyReluAttrs
from codesign.ops.nn.batch_norm import BatchNormAttrs
from codesign.ops.nn.bias_add import BiasAddAttrs
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.nn.conv2d_transpose import Conv2DTransposeAttrs
from codesign.ops.nn.pad import PadAttrs
from codesign.ops.nn.pool2d import Pool2DAttrs
from codesign.ops.reduce import ArgReduceAttrs, ReduceAttrs
from codesign.ops.reshape import ReshapeAttrs
from codesign.ops.strided_slice import StridedSliceAttrs
from codesign.ops.transpose import TransposeAttrs
from tests.support.cpu import reference, run_operator, run_tuple

SHAPES = [(), (1,), (7,), (3, 5), (2, 3, 17), (2, 3, 4, 9), (0, 4)]


def _agree(found: Array, expected: Array, rtol: float = 2e-6, atol: float = 1e-6) -> None:
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)
    else:
        np.testing.assert_array_equal(found, expected)


def _random(shape: tuple[int, ...], seed: int, dtype: str = "float32") -> Array:
    rng = np.random.default_rng(seed)
    if dtype.startswith("float"):
        return np.asarray(rng.standard_normal(shape) * 3).astype(dtype)
    if dtype == "bool":
        return np.asarray(rng.integers(0, 2, shape)).astype(bool)
    limits = np.iinfo(dtype)
    low, high = max(limits.min, -1000), min(limits.max, 1000)
    return np.asarray(rng.integers(low, high, shape, endpoint=True)).astype(dtype)


UNARY = [
    "negative", "abs", "exp", "sqrt", "rsqrt", "log", "erf", "tanh", "sigmoid", "ceil", "floor",
    "round", "nn.relu", "nn.hard_swish", "nn.gelu", "nn.silu", "copy",
]  # fmt: skip
BINARY = ["add", "subtract", "multiply", "divide", "maximum", "minimum"]
COMPARISONS = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]


@pytest.mark.parametrize("name", UNARY)
def test_unary_operator_equals_its_reference(name: str) -> None:
    x = _random((5, 41), 1)
    if name in ("sqrt", "rsqrt", "log"):
        x = np.abs(x) + np.float32(1e-3)
    _agree(run_operator(name, x), reference(name, x))


@pytest.mark.parametrize("shape", SHAPES)
def test_every_rank_and_size_works(shape: tuple[int, ...]) -> None:
    x = _random(shape, 2)
    _agree(run_operator("nn.relu", x), reference("nn.relu", x))


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "erf", "sigmoid"])
def test_functions_are_accurate_over_their_whole_range(name: str) -> None:
    x = np.linspace(-110, 110, 20001, dtype=np.float32)
    if name == "log":
        x = np.geomspace(1e-45, 3e38, 20001, dtype=np.float32)
    found, expected = run_operator(name, x), reference(name, x)
    with np.errstate(over="ignore", invalid="ignore"):
        error = np.abs(found.astype(np.float64) - expected)
        unit = np.spacing(np.abs(expected)).astype(np.float64)
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(found[~finite], expected[~finite])
    assert np.all(error[finite] <= 8 * unit[finite] + 1e-44)


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "erf", "sigmoid", "nn.relu", "sqrt"])
def test_special_values_behave_as_in_numpy(name: str) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-42, -1e-42, 3e38, -3e38], np.float32)
    found, expected = run_operator(name, x), reference(name, x)
    np.testing.assert_allclose(found, expected, rtol=3e-6, atol=1e-43)


@pytest.mark.parametrize("name", BINARY + COMPARISONS)
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((4, 9), (4, 9)),
        ((4, 9), (9,)),
        ((4, 1), (1, 9)),
        ((2, 3, 8), ()),
        ((3, 1, 1), (2, 1, 5, 5)),
    ],
)
def test_binary_operator_broadcasts(
    name: str, left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    lhs, rhs = _random(left, 3), _random(right, 4)
    _agree(run_operator(name, lhs, rhs), reference(name, lhs, rhs))


@pytest.mark.parametrize("name", BINARY + COMPARISONS)
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "float64"])
def test_binary_operator_takes_other_types(name: str, dtype: str) -> None:
    lhs, rhs = _random((3, 19), 5, dtype), _random((3, 19), 6, dtype)
    rhs = np.where(rhs == 0, np.ones_like(rhs), rhs)
    _agree(run_operator(name, lhs, rhs), reference(name, lhs, rhs))


@pytest.mark.parametrize(
    "name", ["bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"]
)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_bits_are_those_of_numpy(name: str, dtype: str) -> None:
    lhs, rhs = _random((3, 19), 5, dtype), _random((19,), 6, dtype)
    _agree(run_operator(name, lhs, rhs), reference(name, lhs, rhs))
    _agree(run_operator("bitwise_not", lhs), reference("bitwise_not", lhs))


def test_truths_differ() -> None:
    lhs, rhs = _random((7, 1), 5, "bool"), _random((19,), 6, "bool")
    _agree(run_operator("logical_xor", lhs, rhs), reference("logical_xor", lhs, rhs))
    _agree(run_operator("bitwise_not", lhs), reference("bitwise_not", lhs))


def test_power_equals_its_reference() -> None:
    lhs, rhs = np.abs(_random((4, 9), 7)) + np.float32(0.1), _random((9,), 8)
    _agree(run_operator("power", lhs, rhs), reference("power", lhs, rhs))


def test_maximum_keeps_nan() -> None:
    lhs = np.array([np.nan, 1, 2], np.float32)
    rhs = np.array([0, np.nan, 3], np.float32)
    _agree(run_operator("maximum", lhs, rhs), reference("maximum", lhs, rhs))


@pytest.mark.parametrize(
    "source", ["bool", "int8", "int32", "int64", "uint8", "float32", "float64"]
)
@pytest.mark.parametrize(
    "result", ["bool", "int8", "int32", "int64", "uint8", "float32", "float64"]
)
def test_cast_equals_its_reference(source: str, result: str) -> None:
    x = _random((3, 11), 9, source)
    attrs = CastAttrs(dtype=DType(result))
    _agree(run_operator("cast", x, attrs=attrs), reference("cast", x, attrs=attrs))


def test_cast_saturates_and_maps_nan_to_zero() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 300, -300, 1e20, 0.9, -0.9], np.float32)
    for result in (DType.INT8, DType.INT32, DType.UINT8):
        attrs = CastAttrs(dtype=result)
        _agree(run_operator("cast", x, attrs=attrs), reference("cast", x, attrs=attrs))


CASES: list[tuple[str, tuple[Array, ...], Attrs | None]] = [
    ("nn.hard_sigmoid", (_random((3, 9), 1),), HardSigmoidAttrs(alpha=0.3, beta=0.4)),
    ("nn.leaky_relu", (_random((3, 9), 1),), LeakyReluAttrs(alpha=0.1)),
    ("nn.prelu", (_random((2, 3, 4, 5), 1), _random((3,), 2)), None),
    ("clip", (_random((3, 9), 1),), ClipAttrs(minimum=-1, maximum=2)),
    ("clip", (_random((3, 9), 1, "int32"),), ClipAttrs(minimum=-7.5, maximum=2.5)),
    ("nn.bias_add", (_random((2, 3, 5), 1), _random((3,), 2)), BiasAddAttrs(axis=1)),
    ("nn.bias_add", (_random((2, 3, 5), 1), _random((5,), 2)), BiasAddAttrs(axis=-1)),
    ("logical_not", (_random((3, 9), 1, "bool"),), None),
    ("logical_and", (_random((3, 9), 1, "bool"), _random((3, 9), 2, "bool")), None),
    ("where", (_random((3, 1), 1, "bool"), _random((3, 9), 2), _random((9,), 3)), None),
    ("reshape", (_random((2, 3, 4), 1),), ReshapeAttrs(shape=(4, -1))),
    ("transpose", (_random((2, 3, 4), 1),), TransposeAttrs(axes=(2, 0, 1))),
    ("transpose", (_random((2, 3, 4, 5), 1),), TransposeAttrs()),
    ("broadcast_to", (_random((3, 1), 1),), BroadcastToAttrs(shape=(2, 3, 4))),
    (
        "strided_slice",
        (_random((7, 9), 1),),
        StridedSliceAttrs(begin=(1, 8), end=(6, 0), strides=(2, -3)),
    ),
    ("strided_slice", (_random((7, 9), 1),), StridedSliceAttrs(begin=(2,), end=(5,), axes=(1,))),
    ("nn.pad", (_random((3, 5), 1),), PadAttrs(pad_width=((1, 2), (0, 3)), value=2.5)),
    ("nn.pad", (_random((3, 5), 1),), PadAttrs(pad_width=((-1, 2), (1, -2)))),
    ("nn.pad", (_random((3, 5), 1),), PadAttrs(pad_width=((2, 1), (4, 3)), mode="reflect")),
    ("nn.pad", (_random((3, 5), 1),), PadAttrs(pad_width=((2, 1), (0, 3)), mode="edge")),
    ("take", (_random((5, 6), 1), np.array([[0, -1], [4, 2]])), AxisAttrs(axis=0)),
    ("take", (_random((5, 6), 1), np.array([0, -1, 3])), AxisAttrs(axis=1)),
    ("take", (_random((5, 6), 1), np.array(2, dtype=np.int32)), AxisAttrs(axis=1)),
    ("gather_elements", (_random((5, 6), 1), np.array([[0, -1], [4, 2]])), AxisAttrs(axis=0)),
    ("gather_nd", (_random((5, 6, 3), 1), np.array([[0, -1], [4, 2]])), None),
    ("sum", (_random((3, 4, 5), 1),), ReduceAttrs(axis=(1,))),
    ("sum", (_random((3, 4, 5), 1),), ReduceAttrs()),
    ("sum", (_random((3, 0, 5), 1),), ReduceAttrs(axis=(1,))),
    ("sum", (_random((70, 70), 1),), ReduceAttrs()),
    ("mean", (_random((3, 4, 17), 1),), ReduceAttrs(axis=(-1, 0), keepdims=True)),
    ("max", (_random((3, 4, 5), 1),), ReduceAttrs(axis=(2,), keepdims=True)),
    ("min", (_random((3, 4, 5), 1, "int32"),), ReduceAttrs(axis=(0, 1))),
    ("prod", (_random((3, 4), 1),), ReduceAttrs(axis=(1,))),
    ("argmax", (_random((3, 40), 1),), ArgReduceAttrs(axis=1)),
    (
        "argmax",
        (np.array([[1, 5, 5, 2]], np.float32),),
        ArgReduceAttrs(axis=-1, select_last_index=True, keepdims=True),
    ),
    ("nn.softmax", (_random((3, 20), 1),), AxisAttrs(axis=-1)),
    ("nn.softmax", (_random((3, 20, 2), 1),), AxisAttrs(axis=1)),
    ("nn.log_softmax", (_random((3, 20), 1),), AxisAttrs(axis=-1)),
    (
        "nn.batch_norm",
        (
            _random((2, 3, 4, 5), 1),
            _random((3,), 2),
            _random((3,), 3),
            _random((3,), 4),
            np.abs(_random((3,), 5)),
        ),
        BatchNormAttrs(),
    ),
    ("nn.dense", (_random((2, 5, 7), 1), _random((9, 7), 2)), None),
    ("nn.matmul", (_random((2, 1, 3, 7), 1), _random((4, 7, 9), 2)), None),
    ("nn.global_avg_pool2d", (_random((2, 3, 4, 5), 1),), None),
    ("nn.global_max_pool2d", (_random((2, 3, 4, 5), 1),), None),
    (
        "nn.max_pool2d",
        (_random((2, 3, 7, 8), 1),),
        Pool2DAttrs(pool_size=(3, 2), strides=(2, 1), padding=(1, 0, 1, 1)),
    ),
    (
        "nn.max_pool2d",
        (_random((1, 2, 7, 8), 1, "int8"),),
        Pool2DAttrs(pool_size=(2, 2), dilation=(2, 1), ceil_mode=True),
    ),
    (
        "nn.avg_pool2d",
        (_random((2, 3, 7, 8), 1),),
        Pool2DAttrs(pool_size=(3, 3), strides=(2, 2), padding=(1, 1, 1, 1)),
    ),
    (
        "nn.avg_pool2d",
        (_random((2, 3, 7, 8), 1),),
        Pool2DAttrs(
            pool_size=(3, 3),
            strides=(2, 2),
            padding=(1, 1, 1, 1),
            ceil_mode=True,
            count_include_pad=True,
        ),
    ),
    (
        "nn.conv2d",
        (_random((2, 4, 6, 7), 1), _random((6, 2, 3, 3), 2)),
        Conv2DAttrs(padding=(1, 0, 1, 2), strides=(2, 1), groups=2),
    ),
    (
        "nn.conv2d_transpose",
        (_random((1, 4, 5, 6), 1), _random((4, 3, 3, 3), 2)),
        Conv2DTransposeAttrs(strides=(2, 2), padding=(1, 1, 1, 1), output_padding=(1, 1)),
    ),
    (
        "nn.conv2d_transpose",
        (_random((1, 4, 5, 6), 1), _random((4, 3, 2, 2), 2)),
        Conv2DTransposeAttrs(strides=(2, 1), groups=2, dilation=(1, 2)),
    ),
    (
        "image.resize2d",
        (_random((1, 2, 4, 5), 1),),
        ResizeAttrs(
            size=(8, 7),
            method="nearest_neighbor",
            coordinate_transformation_mode="asymmetric",
            rounding_method="floor",
        ),
    ),
    ("image.resize2d", (_random((1, 2, 4, 5), 1),), ResizeAttrs(size=(9, 7))),
]


@pytest.mark.parametrize(
    ("name", "arrays", "attrs"), CASES, ids=[f"{i}-{case[0]}" for i, case in enumerate(CASES)]
)
def test_operator_equals_its_reference(
    name: str, arrays: tuple[Array, ...], attrs: Attrs | None
) -> None:
    found = run_operator(name, *arrays, attrs=attrs)
    _agree(found, reference(name, *arrays, attrs=attrs), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concatenate_equals_numpy(axis: int) -> None:
    shapes = {0: [(2, 3, 4), (1, 3, 4)], 1: [(2, 1, 4), (2, 5, 4)], -1: [(2, 3, 1), (2, 3, 9)]}
    arrays = [_random(shape, 1) for shape in shapes[axis]]
    found = run_tuple("concatenate", *arrays, attrs=AxisAttrs(axis=axis))
    _agree(found, np.concatenate(arrays, axis=axis))


INTEGERS = [np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("name", ["negative", "abs", "sign", "copy", "bitwise_not", "nn.relu"])
def test_operators_of_one_integer_wrap_as_numpy_does(name: str, dtype: np.dtype) -> None:
    limits = np.iinfo(dtype)
    x = np.array([limits.min, limits.max, 0, 1, 7, limits.max // 2 + 1, limits.max - 6], dtype)
    found = run_operator(name, x)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, reference(name, x))
