"""Normalizations against means and deviations written out, and against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.interpreter import Interpreter
from codesign.compiler.pass_manager import PassManager
from codesign.compiler.passes.simplify_inference import SimplifyInference
from codesign.compiler.values import value_type
from codesign.diagnostics import CodesignError
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Attrs, Call, Function, OpRef, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import UNKNOWN, TensorType
from codesign.ir.relay.visit import post_order
from codesign.ops.nn.dropout import DropoutAttrs
from codesign.ops.nn.normalization import (
    GroupNormAttrs,
    InstanceNormAttrs,
    L2NormalizeAttrs,
    LayerNormAttrs,
)
from codesign.ops.table import OPERATORS, call
from tests.support.cpu import native
from tests.support.operator_cases import CASES

NAMES = ("nn.layer_norm", "nn.instance_norm", "nn.group_norm", "nn.l2_normalize")


def _random(*shape: int) -> Array:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def test_instance_norm_is_group_norm_of_single_channels() -> None:
    data, gamma, beta = _random(2, 4, 3, 5), _random(4), _random(4)
    found = OPERATORS["nn.instance_norm"].reference(data, gamma, beta, InstanceNormAttrs())
    grouped = OPERATORS["nn.group_norm"].reference(data, gamma, beta, GroupNormAttrs(num_groups=4))
    np.testing.assert_array_equal(found, grouped)
    for n, c in np.ndindex(2, 4):
        image = data[n, c].astype(np.float64)
        normal = (image - image.mean()) / np.sqrt(image.var() + 1e-5)
        np.testing.assert_allclose(np.asarray(found)[n, c], normal * gamma[c] + beta[c], rtol=1e-5)


def test_group_norm_takes_statistics_of_each_group() -> None:
    data, gamma, beta = _random(1, 6, 4), np.ones(6, np.float32), np.zeros(6, np.float32)
    attrs = GroupNormAttrs(num_groups=2, epsilon=0.0)
    found = np.asarray(OPERATORS["nn.group_norm"].reference(data, gamma, beta, attrs))
    for half in (found[:, :3], found[:, 3:]):
        assert abs(half.mean()) < 1e-6
        np.testing.assert_allclose(half.std(), 1, rtol=1e-5)


def test_layer_norm_against_onnxruntime() -> None:
    ort = pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    data, gamma, beta = _random(2, 3, 8), _random(8), _random(8)
    node = onnx.helper.make_node("LayerNormalization", ["x", "g", "b"], ["y"], epsilon=1e-3)
    info = [
        onnx.helper.make_tensor_value_info(name, 1, list(each.shape))
        for name, each in (("x", data), ("g", gamma), ("b", beta), ("y", data))
    ]
    graph = onnx.helper.make_graph([node], "g", info[:3], info[3:])
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9
    )
    (wanted,) = ort.InferenceSession(model.SerializeToString()).run(
        None, {"x": data, "g": gamma, "b": beta}
    )
    attrs = LayerNormAttrs(epsilon=1e-3)
    found = OPERATORS["nn.layer_norm"].reference(data, gamma, beta, attrs)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_a_short_vector_is_held_by_epsilon() -> None:
    data = np.array([3.0, 4.0], np.float32)
    whole = OPERATORS["nn.l2_normalize"].reference(data, L2NormalizeAttrs(epsilon=1e-6))
    np.testing.assert_allclose(whole, [0.6, 0.8], rtol=1e-6)
    held = OPERATORS["nn.l2_normalize"].reference(data, L2NormalizeAttrs(epsilon=100.0))
    np.testing.assert_allclose(held, [0.3, 0.4], rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(4))
def test_simplified_and_compiled_they_stay(name: str, seed: int) -> None:
    case = CASES[name](np.random.default_rng(seed))
    arrays: list[Any] = list(case.args)
    params = tuple(Var(f"x{i}", value_type(each)) for i, each in enumerate(arrays))
    module = Module({"main": Function(params, call(name, *params, attrs=case.attrs))})
    made = PassManager(verify=True).run(module, (SimplifyInference(),))
    nodes = [n for n in post_order(made.main.body) if isinstance(n, Call)]
    assert not any(isinstance(n.callee, OpRef) and n.callee.name == name for n in nodes)
    wanted = np.asarray(Interpreter(module).evaluate(module.main, arrays))
    found = np.asarray(Interpreter(made).evaluate(made.main, arrays))
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)
    (compiled,) = native(made.main.body, made.main.params)(*arrays)
    np.testing.assert_allclose(compiled, wanted, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_batch_is_simplified_too(name: str) -> None:
    case = CASES[name](np.random.default_rng(1))
    arrays: list[Any] = list(case.args)
    first = TensorType((UNKNOWN, *arrays[0].shape[1:]), DType.FLOAT32)
    types = [first, *(value_type(each) for each in arrays[1:])]
    params = tuple(Var(f"x{i}", each) for i, each in enumerate(types))
    module = Module({"main": Function(params, call(name, *params, attrs=case.attrs))})
    made = PassManager(verify=True).run(module, (SimplifyInference(),))
    wanted = np.asarray(Interpreter(module).evaluate(module.main, arrays))
    found = np.asarray(Interpreter(made).evaluate(made.main, arrays))
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(
    ("name", "attrs", "message"),
    [
        ("nn.group_norm", GroupNormAttrs(num_groups=3), "3 groups of 4 channels"),
        ("nn.group_norm", GroupNormAttrs(num_groups=2, axis=0), "not the first axis"),
        ("nn.instance_norm", InstanceNormAttrs(axis=-3), "not the first axis"),
        ("nn.layer_norm", LayerNormAttrs(axis=3), "an axis that does not exist"),
        ("nn.layer_norm", LayerNormAttrs(axis=2), "a gamma of another shape"),
    ],
)
def test_mistakes_are_named(name: str, attrs: Attrs, message: str) -> None:
    types = [TensorType(shape, DType.FLOAT32) for shape in ((4, 4, 3), (4,), (4,))]
    params = tuple(Var(f"x{i}", each) for i, each in enumerate(types))
    module = Module({"main": Function(params, call(name, *params, attrs=attrs))})
    with pytest.raises(CodesignError, match=message):
        infer_types(module)


def test_a_share_to_drop_is_less_than_one() -> None:
    x = Var("x", TensorType((2,), DType.FLOAT32))
    body = call("nn.dropout", x, attrs=DropoutAttrs(rate=1.0))
    with pytest.raises(CodesignError, match="drops a share of 0 up to less than 1"):
        infer_types(Module({"main": Function((x,), body)}))
