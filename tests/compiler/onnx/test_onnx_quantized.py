"""Quantized operators of ONNX files against onnxruntime and the cases of the ONNX project."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.case.test_case import TestCase

from codesign.diagnostics import CodesignError
from codesign.dtypes import Array
from tests.support.onnx_graphs import imported_outputs, model, onnxruntime_outputs

pytestmark = pytest.mark.needs_onnxruntime

PUBLIC = [
    "test_convinteger_without_padding",
    "test_convinteger_with_padding",
    "test_dequantizelinear",
    "test_dequantizelinear_axis",
    "test_dequantizelinear_uint16",
    "test_dequantizelinear_int16",
    "test_dequantizelinear_blocked",
    "test_dynamicquantizelinear",
    "test_dynamicquantizelinear_expanded",
    "test_dynamicquantizelinear_max_adjusted",
    "test_dynamicquantizelinear_max_adjusted_expanded",
    "test_dynamicquantizelinear_min_adjusted",
    "test_dynamicquantizelinear_min_adjusted_expanded",
    "test_matmulinteger",
    "test_qlinearconv",
    "test_qlinearmatmul_2D_int8_float16",
    "test_qlinearmatmul_2D_int8_float32",
    "test_qlinearmatmul_2D_uint8_float16",
    "test_qlinearmatmul_2D_uint8_float32",
    "test_qlinearmatmul_3D_int8_float16",
    "test_qlinearmatmul_3D_int8_float32",
    "test_qlinearmatmul_3D_uint8_float16",
    "test_qlinearmatmul_3D_uint8_float32",
    "test_quantizelinear",
    "test_quantizelinear_axis",
    "test_quantizelinear_uint16",
    "test_quantizelinear_int16",
    "test_quantizelinear_blocked_asymmetric",
    "test_quantizelinear_blocked_symmetric",
]
"""All cases of quantized operators but those of 4 and 2 bits and of floats of 8 and 4 bits."""


@cache
def _public() -> dict[str, TestCase]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # other operators' cases overflow
        return {case.name: case for case in collect_testcases(None)}


def _stored(proto: onnx.ModelProto, values: dict[str, Array], names: set[str]) -> onnx.ModelProto:
    """Return the model with some inputs as initializers."""
    made = onnx.ModelProto()
    made.CopyFrom(proto)
    # Opset 25 changed nothing of what these cases say.
    made.opset_import[0].version = min(made.opset_import[0].version, 23)
    fed = [each for each in made.graph.input if each.name not in names]
    del made.graph.input[:]
    made.graph.input.extend(fed)
    made.graph.initializer.extend(numpy_helper.from_array(values[name], name) for name in names)
    return made


@pytest.mark.parametrize("is_fed", [False, True], ids=["stored", "fed"])
@pytest.mark.parametrize("name", PUBLIC)
def test_public_case(name: str, is_fed: bool, tmp_path: Path) -> None:
    case = _public()[name]
    inputs, expected = case.data_sets[0]
    names = [each.name for each in case.model.graph.input]
    values = dict(zip(names, map(np.asarray, inputs), strict=True))
    must_be_known = "qlinear" in name or "convinteger" in name
    first = {names[0], names[3]} if "qlinearmatmul" in name else {names[0]}
    stored = (
        set() if is_fed and not must_be_known else set(names) - (first if is_fed else {names[0]})
    )
    found = imported_outputs(_stored(case.model, values, stored), values, tmp_path)
    for mine, theirs in zip(found, expected, strict=True):
        if isinstance(theirs, onnx.TensorProto):
            theirs = numpy_helper.to_array(theirs)
        np.testing.assert_array_equal(mine, theirs)
        assert mine.dtype == theirs.dtype


# ---- against onnxruntime, one node each


def _codes(dtype: str, *shape: int, seed: int = 0) -> Array:
    limits = np.iinfo(dtype)
    rng = np.random.default_rng((seed, *shape))
    return rng.integers(limits.min, limits.max + 1, shape).astype(dtype)


def _weights(*shape: int) -> Array:
    """Return int8 of 7 bits: onnxruntime saturates sums of two products with uint8 on AVX2."""
    return (_codes("int8", *shape) // 2).astype(np.int8)


def _scales(count: int, low: float, high: float, seed: int = 5) -> Array:
    return np.random.default_rng(seed).uniform(low, high, count).astype(np.float32)


def _one(value: float, dtype: str = "float32") -> Array:
    return np.array(value, dtype)


def _qlinear_conv(
    x: Array, w: Array, *, y_scale: float, data_zero: int, weight_zero: Array | None = None,
    y_type: str | None = None, bias: bool = True, w_scale: Array | None = None,
) -> dict[str, Array | None]:  # fmt: skip
    scales = _scales(len(w), 0.001, 0.02) if w_scale is None else w_scale
    zeros = np.zeros(scales.shape, w.dtype) if weight_zero is None else weight_zero
    kind = y_type or str(x.dtype)
    return {
        "x": x, "xs": _one(0.03), "xz": _one(data_zero, str(x.dtype)),
        "w": w, "ws": scales, "wz": zeros,
        "ys": _one(y_scale), "yz": _one(3, kind),
        "b": np.random.default_rng(1).integers(-9000, 9000, len(w)).astype(np.int32)
        if bias else None,
    }  # fmt: skip


CONVOLUTIONS: list[tuple[str, dict[str, Array | None], dict[str, Any]]] = [
    ("uint8", _qlinear_conv(_codes("uint8", 1, 5, 9, 8), _weights(7, 5, 3, 3),
     y_scale=0.2, data_zero=117), {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
    ("int8", _qlinear_conv(_codes("int8", 2, 4, 9, 8), _codes("int8", 6, 2, 3, 3),
     y_scale=0.11, data_zero=-9, bias=False), {"group": 2, "pads": [1, 1, 1, 1]}),
    ("depthwise", _qlinear_conv(_codes("uint8", 1, 8, 9, 9), _weights(8, 1, 3, 3),
     y_scale=0.05, data_zero=3), {"group": 8, "pads": [1, 1, 1, 1], "dilations": [2, 1]}),
    ("unsigned-weight", _qlinear_conv(_codes("uint8", 1, 3, 6, 6), _codes("uint8", 4, 3, 3, 3),
     y_scale=0.3, data_zero=200, weight_zero=np.array([100] * 4, np.uint8)), {}),
    ("one-weight-scale", _qlinear_conv(_codes("uint8", 1, 3, 6, 6), _codes("uint8", 4, 3, 1, 1),
     y_scale=0.02, data_zero=0, weight_zero=np.array([128], np.uint8),
     w_scale=np.array([0.004], np.float32)), {}),
    ("power-of-two", _qlinear_conv(_codes("uint8", 1, 6, 7, 7), _weights(5, 6, 3, 3),
     y_scale=0.03 * 2.0**3, data_zero=120, w_scale=np.full(5, 2.0**-6, np.float32)), {}),
    ("signal", _qlinear_conv(_codes("uint8", 1, 3, 12), _weights(4, 3, 4),
     y_scale=0.1, data_zero=99), {"pads": [2, 1]}),
]  # fmt: skip


def _check(
    folder: Path,
    operator: str,
    inputs: dict[str, Array | None],
    attributes: dict[str, Any],
    *,
    fed: tuple[str, ...] = ("x", "a"),
    domain: str = "",
    steps: int = 0,
) -> tuple[Array, ...]:
    """Compare with onnxruntime; results may differ by so many `steps` in at most 1 of 100."""
    names = [name if value is not None else "" for name, value in inputs.items()]
    node = helper.make_node(operator, names, ["y"], name="n", domain=domain, **attributes)
    stored = [name for name, value in inputs.items() if value is not None and name not in fed]
    proto = model([node], inputs, ["y"], stored=stored, opset=21)
    proto.ir_version = 10
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    found = imported_outputs(proto, inputs, folder)
    for mine, theirs in zip(found, onnxruntime_outputs(proto, inputs), strict=True):
        assert mine.dtype == theirs.dtype
        assert len(np.unique(theirs)) > 5
        if steps == 0:
            np.testing.assert_array_equal(mine, theirs)
            continue
        difference = np.abs(mine.astype(np.int64) - theirs.astype(np.int64))
        assert difference.max() <= steps
        assert np.count_nonzero(difference) <= max(1, difference.size // 100)
    return found


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=lambda case: case[0])
def test_qlinear_conv_equals_onnxruntime(case: tuple[str, Any, Any], tmp_path: Path) -> None:
    _, inputs, attributes = case
    _check(tmp_path, "QLinearConv", inputs, attributes)


@pytest.mark.parametrize("left", ["uint8", "int8"])
@pytest.mark.parametrize("right", ["int8", "uint8"])
@pytest.mark.parametrize("is_fed", [False, True])
def test_qlinear_matmul_equals_onnxruntime(
    left: str, right: str, is_fed: bool, tmp_path: Path
) -> None:
    if left == "int8" and right == "uint8":
        pytest.skip("onnxruntime has no such kernel")
    matrix = _weights(24, 10) if right == "int8" else _codes("uint8", 24, 10)
    inputs: dict[str, Array | None] = {
        "a": _codes(left, 2, 3, 24), "as": _one(0.02), "az": _one(60, left),
        "b": matrix, "bs": _one(0.007), "bz": _one(0 if right == "int8" else 131, right),
        "ys": _one(0.09), "yz": _one(65, left),
    }  # fmt: skip
    fed = ("a", "b") if is_fed else ("a",)
    _check(tmp_path, "QLinearMatMul", inputs, {}, fed=fed)


def test_qlinear_matmul_by_columns_equals_onnxruntime(tmp_path: Path) -> None:
    inputs: dict[str, Array | None] = {
        "a": _codes("uint8", 6, 24), "as": _one(0.02), "az": _one(7, "uint8"),
        "b": _weights(24, 10), "bs": _scales(10, 0.001, 0.01),
        "bz": np.zeros(10, np.int8), "ys": _one(0.04), "yz": _one(11, "uint8"),
    }  # fmt: skip
    _check(tmp_path, "QLinearMatMul", inputs, {})


@pytest.mark.parametrize("is_float", [False, True])
def test_qgemm_equals_onnxruntime(is_float: bool, tmp_path: Path) -> None:
    inputs: dict[str, Array | None] = {
        "a": _codes("uint8", 4, 30), "as": _one(0.02), "az": _one(7, "uint8"),
        "b": _weights(9, 30), "bs": _scales(9, 0.001, 0.01), "bz": np.zeros(9, np.int8),
        "c": np.arange(-4, 5, dtype=np.int32) * 999,
        "ys": None if is_float else _one(0.06), "yz": None if is_float else _one(90, "uint8"),
    }  # fmt: skip
    if is_float:
        del inputs["ys"], inputs["yz"]
    _check(tmp_path, "QGemm", inputs, {"transB": 1, "alpha": 0.75}, domain="com.microsoft")


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("operator", ["QLinearAdd", "QLinearMul"])
def test_binary_operators_equal_onnxruntime(operator: str, dtype: str, tmp_path: Path) -> None:
    inputs: dict[str, Array | None] = {
        "a": _codes(dtype, 1, 4, 20, 20), "as": _one(0.0213), "az": _one(7, dtype),
        "x": _codes(dtype, 1, 4, 20, 20, seed=1), "xs": _one(0.0171), "xz": _one(90, dtype),
        "ys": _one(0.0337), "yz": _one(3, dtype),
    }  # fmt: skip
    _check(tmp_path, operator, inputs, {}, domain="com.microsoft", steps=1)


@pytest.mark.parametrize("operator", ["QLinearSigmoid", "QLinearLeakyRelu"])
def test_activations_equal_onnxruntime(operator: str, tmp_path: Path) -> None:
    scale, zero = (1 / 256, 0) if operator == "QLinearSigmoid" else (0.04, 60)
    inputs: dict[str, Array | None] = {
        "x": np.arange(256, dtype=np.uint8), "xs": _one(0.05), "xz": _one(120, "uint8"),
        "ys": _one(scale), "yz": _one(zero, "uint8"),
    }  # fmt: skip
    _check(tmp_path, operator, inputs, {}, domain="com.microsoft")


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_averages_equal_onnxruntime(dtype: str, tmp_path: Path) -> None:
    inputs: dict[str, Array | None] = {
        "x": _codes(dtype, 2, 40, 7, 7), "xs": _one(0.05),
        "xz": _one(120 if dtype == "uint8" else 3, dtype),
        "ys": _one(0.011), "yz": _one(20, dtype),
    }  # fmt: skip
    _check(tmp_path, "QLinearGlobalAveragePool", inputs, {}, domain="com.microsoft", steps=1)
    window = {"kernel_shape": [3, 2], "strides": [2, 1]}
    _check(tmp_path, "QLinearAveragePool", inputs, window, domain="com.microsoft", steps=1)


def test_concat_equals_onnxruntime(tmp_path: Path) -> None:
    inputs: dict[str, Array | None] = {
        "ys": _one(0.04), "yz": _one(100, "uint8"),
        "a": _codes("uint8", 1, 3, 8), "as": _one(0.02), "az": _one(7, "uint8"),
        "x": _codes("uint8", 1, 2, 8), "xs": _one(0.07), "xz": _one(90, "uint8"),
    }  # fmt: skip
    _check(tmp_path, "QLinearConcat", inputs, {"axis": 1}, domain="com.microsoft")


def test_matmul_integer_to_float_equals_onnxruntime(tmp_path: Path) -> None:
    inputs: dict[str, Array | None] = {
        "a": _codes("uint8", 4, 30), "b": _weights(30, 9), "as": _one(0.02),
        "bs": _scales(9, 0.001, 0.01), "az": _one(7, "uint8"), "bz": np.zeros(9, np.int8),
        "c": _scales(9, -1, 1, 8),
    }  # fmt: skip
    _check(tmp_path, "MatMulIntegerToFloat", inputs, {}, domain="com.microsoft")


def test_what_must_be_known_is_named(tmp_path: Path) -> None:
    inputs = _qlinear_conv(
        _codes("uint8", 1, 3, 6, 6), _codes("int8", 4, 3, 3, 3), y_scale=0.1, data_zero=1
    )
    with pytest.raises(CodesignError, match="weight is computed at run time"):
        _check(tmp_path, "QLinearConv", inputs, {}, fed=("x", "w"))
    with pytest.raises(CodesignError, match="scale of the data"):
        _check(tmp_path, "QLinearConv", inputs, {}, fed=("x", "xs"))
