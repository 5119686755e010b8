"""Every importer against onnxruntime, on graphs of one node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codesign.compiler.frontend.onnx.table import IMPORTERS
from codesign.dtypes import Array
from tests.support.onnx_graphs import imported_outputs, node_model, onnxruntime_outputs

pytestmark = pytest.mark.needs_onnxruntime


def _f(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


def _i(*values: int) -> Array:
    return np.array(values, np.int64)


IMAGE = _f(2, 4, 9, 7)
POSITIVE = np.abs(_f(3, 4)) + np.float32(0.1)
MATRIX = _f(3, 4)
TIED = np.array([[-2.5, -1.5, -0.5, 0.5], [1.5, 2.5, 3.0, -3.2]], np.float32)

Case = tuple[str, str, dict[str, Array | None], dict[str, Any]]

CONVOLUTIONS: list[Case] = [
    ("plain", "Conv", {"x": IMAGE, "w": _f(5, 4, 3, 3), "b": _f(5)}, {}),
    ("pads", "Conv", {"x": IMAGE, "w": _f(5, 4, 3, 2)}, {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
    ("upper", "Conv", {"x": IMAGE, "w": _f(5, 4, 4, 4)}, {"auto_pad": "SAME_UPPER"}),
    ("lower", "Conv", {"x": IMAGE, "w": _f(5, 4, 4, 4)},
     {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    ("valid", "Conv", {"x": IMAGE, "w": _f(5, 4, 2, 2)}, {"auto_pad": "VALID"}),
    ("groups", "Conv", {"x": IMAGE, "w": _f(6, 2, 3, 3)}, {"group": 2, "dilations": [2, 1]}),
    ("depthwise", "Conv", {"x": IMAGE, "w": _f(8, 1, 3, 3)}, {"group": 4, "pads": [1, 1, 1, 1]}),
    ("signal", "Conv", {"x": _f(2, 3, 11), "w": _f(4, 3, 3), "b": _f(4)},
     {"pads": [1, 2], "strides": [2]}),
    ("transpose", "ConvTranspose", {"x": IMAGE, "w": _f(4, 3, 3, 3), "b": _f(3)},
     {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 0]}),
    ("transpose-groups", "ConvTranspose", {"x": IMAGE, "w": _f(4, 2, 2, 3)},
     {"group": 2, "strides": [1, 2]}),
    ("transpose-upper", "ConvTranspose", {"x": IMAGE, "w": _f(4, 2, 3, 3)},
     {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ("transpose-shape", "ConvTranspose", {"x": IMAGE, "w": _f(4, 2, 3, 3)},
     {"output_shape": [18, 14], "strides": [2, 2]}),
    ("transpose-signal", "ConvTranspose", {"x": _f(1, 3, 5), "w": _f(3, 2, 4)},
     {"strides": [2], "pads": [1, 1]}),
]  # fmt: skip

POOLS: list[Case] = [
    ("max", "MaxPool", {"x": IMAGE}, {"kernel_shape": [3, 2], "strides": [2, 2]}),
    ("max-pads", "MaxPool", {"x": IMAGE}, {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    ("max-ceil", "MaxPool", {"x": IMAGE},
     {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
    ("max-dilated", "MaxPool", {"x": IMAGE}, {"kernel_shape": [2, 2], "dilations": [2, 3]}),
    ("max-lower", "MaxPool", {"x": IMAGE}, {"kernel_shape": [2, 2], "auto_pad": "SAME_LOWER"}),
    ("max-signal", "MaxPool", {"x": _f(1, 2, 9)}, {"kernel_shape": [3], "strides": [2]}),
    ("avg", "AveragePool", {"x": IMAGE}, {"kernel_shape": [3, 2], "strides": [2, 1]}),
    ("avg-pads", "AveragePool", {"x": IMAGE},
     {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}),
    ("avg-include", "AveragePool", {"x": IMAGE},
     {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
    ("avg-ceil", "AveragePool", {"x": IMAGE},
     {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
    ("avg-upper", "AveragePool", {"x": IMAGE}, {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER"}),
    ("global", "GlobalAveragePool", {"x": IMAGE}, {}),
    ("global-signal", "GlobalAveragePool", {"x": _f(2, 3, 7)}, {}),
    ("global-max", "GlobalMaxPool", {"x": IMAGE}, {}),
]  # fmt: skip

ELEMENTWISE: list[Case] = [
    *((op, op, {"x": TIED}, {}) for op in (
        "Abs", "Ceil", "Erf", "Exp", "Floor", "HardSwish", "Identity", "Neg", "Relu", "Round",
        "Sigmoid", "Softplus", "Tanh", "Elu", "LeakyRelu", "HardSigmoid",
        "Asinh", "Atan", "Cos", "Cosh", "IsNaN", "Sign", "Sin", "Sinh", "Tan")),
    *((op, op, {"x": TIED / 4}, {}) for op in ("Acos", "Asin", "Atanh")),
    ("Acosh", "Acosh", {"x": POSITIVE + 1}, {}),
    ("Xor", "Xor", {"a": TIED > 0, "b": TIED > 1}, {}),
    *((op, op, {"x": POSITIVE}, {}) for op in ("Log", "Reciprocal", "Sqrt")),
    *((op, op, {"a": IMAGE, "b": _f(4, 1, 1)}, {}) for op in (
        "Add", "Sub", "Mul", "Div", "Max", "Min", "Equal", "Less", "Greater", "LessOrEqual",
        "GreaterOrEqual", "Sum", "Mean")),
    ("And", "And", {"a": TIED > 0, "b": TIED > 1}, {}),
    ("Or", "Or", {"a": TIED > 0, "b": TIED > 1}, {}),
    ("Not", "Not", {"a": TIED > 0}, {}),
    ("Pow", "Pow", {"a": POSITIVE, "b": np.array(2.5, np.float32)}, {}),
    ("Pow-int", "Pow", {"a": POSITIVE, "b": np.array(2, np.int64)}, {}),
    ("sum-of-three", "Sum", {"a": MATRIX, "b": MATRIX[:1], "c": MATRIX[:, :1]}, {}),
    ("LeakyRelu-alpha", "LeakyRelu", {"x": TIED}, {"alpha": 0.3}),
    ("HardSigmoid-alpha", "HardSigmoid", {"x": TIED}, {"alpha": 1 / 6, "beta": 0.5}),
    ("PRelu", "PRelu", {"x": IMAGE, "s": _f(4, 1, 1)}, {}),
    ("PRelu-scalar", "PRelu", {"x": MATRIX, "s": _f(1)}, {}),
    ("Where", "Where", {"c": TIED > 0, "a": TIED, "b": np.array(7, np.float32)}, {}),
    ("Cast", "Cast", {"x": TIED}, {"to": 7}),
    ("Cast-bool", "Cast", {"x": TIED}, {"to": 9}),
    ("Dropout", "Dropout", {"x": TIED}, {}),
    ("Div-int", "Div", {"a": _i(7, -7, 8), "b": _i(2, 2, -3)}, {}),
]  # fmt: skip

OTHERS: list[Case] = [
    ("Gemm", "Gemm", {"a": MATRIX, "b": _f(4, 5), "c": _f(5)}, {}),
    ("Gemm-transposed", "Gemm", {"a": MATRIX.T.copy(), "b": _f(5, 4), "c": _f(3, 1)},
     {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0}),
    ("Gemm-no-bias", "Gemm", {"a": MATRIX, "b": _f(4, 5)}, {}),
    ("MatMul", "MatMul", {"a": _f(2, 3, 4), "b": _f(2, 4, 5)}, {}),
    ("MatMul-broadcast", "MatMul", {"a": _f(2, 3, 4), "b": _f(4, 5)}, {}),
    ("Softmax", "Softmax", {"x": IMAGE}, {"axis": 1}),
    ("LogSoftmax", "LogSoftmax", {"x": MATRIX}, {}),
    ("LayerNormalization", "LayerNormalization", {"x": _f(2, 3, 8), "s": _f(8), "b": _f(8)}, {}),
    ("InstanceNormalization", "InstanceNormalization", {"x": IMAGE, "s": _f(4), "b": _f(4)}, {}),
    ("BatchNormalization", "BatchNormalization",
     {"x": IMAGE, "s": _f(4), "b": _f(4), "m": _f(4), "v": np.abs(_f(4, seed=1))},
     {"epsilon": 1e-3}),
    ("Flatten", "Flatten", {"x": IMAGE}, {"axis": -2}),
    ("Flatten-0", "Flatten", {"x": IMAGE}, {"axis": 0}),
    ("Transpose", "Transpose", {"x": IMAGE}, {"perm": [0, 2, 3, 1]}),
    ("Transpose-reversed", "Transpose", {"x": IMAGE}, {}),
    ("Concat", "Concat", {"a": IMAGE, "b": IMAGE[:, :1]}, {"axis": -3}),
    ("DepthToSpace", "DepthToSpace", {"x": IMAGE}, {"blocksize": 2}),
    ("DepthToSpace-CRD", "DepthToSpace", {"x": IMAGE}, {"blocksize": 2, "mode": "CRD"}),
    ("ArgMax", "ArgMax", {"x": TIED}, {"axis": -1, "keepdims": 0}),
    ("ReduceMean", "ReduceMean", {"x": IMAGE}, {"axes": [-1, 2]}),
    ("ReduceMean-all", "ReduceMean", {"x": IMAGE}, {"keepdims": 0}),
    ("ReduceMax", "ReduceMax", {"x": IMAGE}, {"axes": [1], "keepdims": 0}),
    ("ReduceMin", "ReduceMin", {"x": IMAGE}, {"axes": [1]}),
    ("ReduceProd", "ReduceProd", {"x": MATRIX}, {"axes": [0]}),
    ("ReduceL2", "ReduceL2", {"x": MATRIX}, {"axes": [1]}),
    ("Shape", "Shape", {"x": IMAGE}, {"start": 1, "end": -1}),
    ("Size", "Size", {"x": IMAGE}, {}),
]  # fmt: skip

WITH_CONSTANTS: list[tuple[str, str, dict[str, Array | None], dict[str, Any]]] = [
    ("Clip", "Clip", {"x": TIED, "lo": np.float32(-1).reshape(()), "hi": None}, {}),
    ("Clip-high", "Clip", {"x": TIED, "lo": None, "hi": np.array(1.5, np.float32)}, {}),
    ("Clip-both", "Clip",
     {"x": TIED, "lo": np.array(0, np.float32), "hi": np.array(2, np.float32)}, {}),
    ("Reshape", "Reshape", {"x": IMAGE, "shape": _i(0, -1, 3)}, {}),
    ("Squeeze", "Squeeze", {"x": _f(1, 3, 1), "axes": _i(-1)}, {}),
    ("Squeeze-all", "Squeeze", {"x": _f(1, 3, 1)}, {}),
    ("Unsqueeze", "Unsqueeze", {"x": MATRIX, "axes": _i(-1, 0)}, {}),
    ("Slice", "Slice",
     {"x": IMAGE, "s": _i(-5, 100), "e": _i(2**62, -100), "a": _i(2, -1), "t": _i(2, -2)}, {}),
    ("Slice-plain", "Slice", {"x": IMAGE, "s": _i(1), "e": _i(2)}, {}),
    ("Split", "Split", {"x": IMAGE, "sizes": _i(1, 3)}, {"axis": 1, "outputs": 2}),
    ("Split-equal", "Split", {"x": IMAGE}, {"axis": 1, "outputs": 2}),
    ("Expand", "Expand", {"x": _f(3, 1), "shape": _i(2, 1, 4)}, {}),
    ("Tile", "Tile", {"x": MATRIX, "repeats": _i(2, 3)}, {}),
    ("Pad", "Pad", {"x": MATRIX, "pads": _i(1, 0, 2, 3), "v": np.array(4, np.float32)}, {}),
    ("Pad-negative", "Pad", {"x": MATRIX, "pads": _i(0, -1, 1, 2)}, {}),
    ("Pad-edge", "Pad", {"x": MATRIX, "pads": _i(1, 1, 1, 1)}, {"mode": "edge"}),
    ("Pad-reflect", "Pad", {"x": MATRIX, "pads": _i(2, 3, 0, 1)}, {"mode": "reflect"}),
    ("Gather", "Gather", {"x": IMAGE, "i": np.array([[0, -1], [2, -3]])}, {"axis": 1}),
    ("GatherElements", "GatherElements",
     {"x": MATRIX, "i": np.array([[0, -1, 1, 2]])}, {"axis": 0}),
    ("GatherND", "GatherND", {"x": MATRIX, "i": np.array([[-1, -1], [0, -2]])}, {}),
    ("ReduceSum", "ReduceSum", {"x": IMAGE, "axes": _i(1, -1)}, {"keepdims": 0}),
    ("ReduceSum-none", "ReduceSum", {"x": IMAGE}, {"noop_with_empty_axes": 1}),
    ("ConstantOfShape", "ConstantOfShape", {"s": _i(2, 3)}, {}),
    ("Range", "Range", {"a": np.array(7), "b": np.array(-2), "c": np.array(-3)}, {}),
    ("Resize-nearest", "Resize",
     {"x": IMAGE, "roi": None, "scales": np.array([1, 1, 2, 3], np.float32)},
     {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}),
    ("Resize-default", "Resize",
     {"x": IMAGE, "roi": None, "scales": np.array([1, 1, 0.6, 1.7], np.float32)}, {}),
    ("Resize-sizes", "Resize", {"x": IMAGE, "roi": None, "scales": None, "sizes": _i(2, 4, 5, 11)},
     {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"}),
    ("Resize-linear", "Resize",
     {"x": IMAGE, "roi": None, "scales": np.array([1, 1, 1.5, 0.5], np.float32)},
     {"mode": "linear"}),
    ("Resize-corners", "Resize", {"x": IMAGE, "roi": None, "scales": None,
     "sizes": _i(2, 4, 5, 11)},
     {"mode": "linear", "coordinate_transformation_mode": "align_corners"}),
]  # fmt: skip


def _name(case: Case) -> str:
    return f"{case[1]}-{case[0]}"


def _check(
    folder: Path,
    operator: str,
    inputs: dict[str, Array | None],
    attributes: dict[str, Any],
    stored: tuple[str, ...],
    opset: int = 17,
) -> None:
    proto = node_model(operator, inputs, stored=stored, opset=opset, **attributes)
    found = imported_outputs(proto, inputs, folder)
    for mine, theirs in zip(found, onnxruntime_outputs(proto, inputs), strict=True):
        assert mine.shape == theirs.shape
        assert mine.dtype == theirs.dtype
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", [*CONVOLUTIONS, *POOLS, *ELEMENTWISE, *OTHERS], ids=_name)
def test_operator_equals_onnxruntime(case: Case, tmp_path: Path) -> None:
    _, operator, inputs, attributes = case
    _check(tmp_path, operator, inputs, attributes, ())


@pytest.mark.parametrize("case", [*CONVOLUTIONS, *OTHERS[:6]], ids=_name)
def test_stored_weights_equal_fed_ones(case: Case, tmp_path: Path) -> None:
    _, operator, inputs, attributes = case
    _check(tmp_path, operator, inputs, attributes, tuple(inputs)[1:])


@pytest.mark.parametrize("case", WITH_CONSTANTS, ids=_name)
def test_operator_with_known_arguments_equals_onnxruntime(case: Case, tmp_path: Path) -> None:
    _, operator, inputs, attributes = case
    stored = tuple(inputs) if operator in ("ConstantOfShape", "Range") else tuple(inputs)[1:]
    present = tuple(name for name in stored if inputs[name] is not None)
    _check(tmp_path, operator, inputs, attributes, present)


OLD: list[tuple[str, int, str, dict[str, Array | None], dict[str, Any]]] = [
    ("clip-attributes", 7, "Clip", {"x": TIED}, {"min": -1.0, "max": 1.0}),
    ("squeeze-attribute", 11, "Squeeze", {"x": _f(1, 3, 1)}, {"axes": [0]}),
    ("unsqueeze-attribute", 11, "Unsqueeze", {"x": MATRIX}, {"axes": [1]}),
    ("softmax-flattens", 11, "Softmax", {"x": IMAGE}, {"axis": 2}),
    ("slice-attributes", 9, "Slice", {"x": IMAGE}, {"starts": [1], "ends": [3], "axes": [2]}),
    ("pad-attributes", 10, "Pad", {"x": MATRIX}, {"pads": [0, 1, 1, 0], "value": 2.0}),
    ("split-attribute", 11, "Split", {"x": IMAGE}, {"split": [1, 3], "axis": 1, "outputs": 2}),
    ("reduce-sum-attribute", 11, "ReduceSum", {"x": IMAGE}, {"axes": [2]}),
    ("dropout-ratio", 11, "Dropout", {"x": TIED}, {"ratio": 0.9}),
    ("batchnorm-8", 8, "BatchNormalization",
     {"x": IMAGE, "s": _f(4), "b": _f(4), "m": _f(4), "v": np.abs(_f(4, seed=1))}, {}),
]  # fmt: skip


@pytest.mark.parametrize("case", OLD, ids=lambda case: case[0])
def test_old_opsets_mean_what_they_meant(
    case: tuple[str, int, str, dict[str, Array | None], dict[str, Any]], tmp_path: Path
) -> None:
    _, opset, operator, inputs, attributes = case
    _check(tmp_path, operator, inputs, attributes, (), opset)


NEW: list[tuple[str, int, str, dict[str, Array | None], dict[str, Any]]] = [
    ("gelu", 20, "Gelu", {"x": TIED}, {}),
    ("gelu-tanh", 20, "Gelu", {"x": TIED}, {"approximate": "tanh"}),
    ("reduce-mean-input", 18, "ReduceMean", {"x": IMAGE, "axes": _i(2, 3)}, {}),
    ("split-uneven", 18, "Split", {"x": IMAGE}, {"axis": 2, "num_outputs": 2, "outputs": 2}),
    ("pad-axes", 18, "Pad", {"x": MATRIX, "p": _i(1, 2), "v": None, "a": _i(-1)}, {}),
]


@pytest.mark.parametrize("case", NEW, ids=lambda case: case[0])
def test_new_opsets_mean_what_they_mean(
    case: tuple[str, int, str, dict[str, Array | None], dict[str, Any]], tmp_path: Path
) -> None:
    _, opset, operator, inputs, attributes = case
    stored = tuple(name for name in tuple(inputs)[1:] if inputs[name] is not None)
    _check(tmp_path, operator, inputs, attributes, stored, opset)


def test_every_importer_is_tested() -> None:
    tested = {case[1] for case in [*CONVOLUTIONS, *POOLS, *ELEMENTWISE, *OTHERS, *WITH_CONSTANTS]}
    tested |= {case[2] for case in [*OLD, *NEW]}
    quantized = {name for name in IMPORTERS if "Linear" in name or "Integer" in name}
    assert set(IMPORTERS) - tested - quantized == {"Constant", "Upsample"}
