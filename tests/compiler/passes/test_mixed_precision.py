"""float16 in the interpreter, in compiled code, and where to-mixed-precision puts it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.interpreter import Interpreter
from codesign.compiler.pass_manager import PassContext, PassManager
from codesign.compiler.passes.to_mixed_precision import ALWAYS, FOLLOW, ToMixedPrecision
from codesign.compiler.pipelines import optimize
from codesign.dtypes import DType
from codesign.ir.relay.expr import Call, OpRef
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType
from codesign.ir.relay.visit import post_order
from codesign.ops.cast import CastAttrs
from codesign.ops.table import OPERATORS
from experiments.laws.program import random_program
from tests.support.cpu import native, reference, run_operator, run_tuple
from tests.support.operator_cases import CASES
from tests.support.random_networks import RandomNetwork

SUMS = [
    "nn.dense", "nn.matmul", "nn.batch_matmul", "nn.conv2d", "nn.conv2d_transpose", "sum", "mean",
    "nn.softmax", "nn.log_softmax", "nn.avg_pool2d", "nn.global_avg_pool2d", "collapse_sum_to",
]  # fmt: skip
MOVES = ["add", "divide", "maximum", "nn.relu", "where", "transpose", "nn.max_pool2d", "nn.pad"]


def _halves(name: str, seed: int) -> tuple[list[Any], Any]:
    case = CASES[name](np.random.default_rng(seed))
    arrays = [
        each.astype(np.float16) if isinstance(each, np.ndarray) and each.dtype.kind == "f" else each
        for each in case.args
    ]
    return arrays, case.attrs


@pytest.mark.parametrize("name", SUMS + MOVES)
@pytest.mark.parametrize("seed", range(3))
def test_compiled_halves_are_those_of_the_reference(name: str, seed: int) -> None:
    arrays, attrs = _halves(name, seed)
    found, wanted = run_operator(name, *arrays, attrs=attrs), reference(name, *arrays, attrs=attrs)
    assert found.dtype == wanted.dtype == np.float16
    if name in MOVES:
        np.testing.assert_array_equal(found, wanted)
    else:
        np.testing.assert_allclose(found, wanted, rtol=2**-10, atol=2**-12)


def test_joined_halves() -> None:
    arrays = [np.arange(6, dtype=np.float16).reshape(2, 3) for _ in range(2)]
    _, attrs = _halves("concatenate", 1)
    found = run_tuple("concatenate", *arrays, attrs=type(attrs)(axis=1))
    np.testing.assert_array_equal(found, np.concatenate(arrays, axis=1))


def test_a_long_sum_of_halves_counts_on() -> None:
    ones = np.ones((1, 4096), np.float16)
    for found in (run_operator("nn.dense", ones, ones), reference("nn.dense", ones, ones)):
        np.testing.assert_array_equal(found, [[4096]])  # in float16 it ends at 2048


@pytest.mark.parametrize("value", [65504.0, 65519.9, 65520.0, 1e-8, 6e-8, 5.96e-8, np.inf, -np.inf])
def test_rounding_to_half_is_ieee(value: float) -> None:
    x = np.array([value, -value, value * (1 + 2**-11)], np.float32)
    with np.errstate(over="ignore"):
        wanted = x.astype(np.float16)
    found = run_operator("cast", x, attrs=CastAttrs(dtype=DType.FLOAT16))
    np.testing.assert_array_equal(found, wanted)


def test_the_classes_are_of_our_operators_and_apart() -> None:
    assert OPERATORS.keys() >= ALWAYS | FOLLOW
    assert not ALWAYS & FOLLOW


def _lowered(module: Module) -> Module:
    return PassManager(verify=True).run(module, (ToMixedPrecision(),))


@given(seed=st.integers(0, 2**32 - 1))
def test_networks_are_near_and_their_products_are_halves(seed: int) -> None:
    net = RandomNetwork(seed)
    module = optimize(net.module, 2)
    made = _lowered(module)
    types = infer_types(made)
    for node in post_order(made.main.body):
        if isinstance(node, Call) and isinstance(node.callee, OpRef) and node.callee.name in ALWAYS:
            type_ = types[node]
            assert isinstance(type_, TensorType)
            assert type_.dtype is DType.FLOAT16
    assert types[made.main.body] == infer_types(module)[module.main.body]
    inputs = net.inputs()
    wanted = np.asarray(Interpreter(module).run(**inputs))
    found = np.asarray(Interpreter(made).run(**inputs))
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=0.05, atol=0.02 * np.abs(wanted).max())


@pytest.mark.parametrize("seed", [1, 5, 9])
def test_compiled_mixed_networks_agree_with_the_interpreter(seed: int) -> None:
    net = RandomNetwork(seed)
    made = _lowered(optimize(net.module, 2))
    inputs = net.inputs()
    wanted = np.asarray(Interpreter(made).run(**inputs))
    arrays = [inputs[param.name] for param in made.main.params]
    (found,) = native(made.main.body, made.main.params)(*arrays)
    np.testing.assert_allclose(found, wanted, rtol=0.02, atol=0.01 * np.abs(wanted).max())


@pytest.mark.parametrize("seed", range(8, 16))
def test_the_whole_language_keeps_its_types(seed: int) -> None:
    module = random_program(seed, 40).module
    made = _lowered(module)
    assert infer_types(made)[made.main.body] == infer_types(module)[module.main.body]
    assert ToMixedPrecision().run(made, PassContext()) is made
