"""Passes that write one thing one way keep every bit; those that may not say how far they go."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.compiler.interpreter import Interpreter
from codesign.compiler.pass_manager import PassContext, PassManager
from codesign.compiler.passes.div_to_mul import DivToMul
from codesign.compiler.passes.fold_explicit_padding import FoldExplicitPadding
from codesign.compiler.pipelines import PASSES, optimize
from codesign.dtypes import DType
from codesign.ir.relay.equal import is_equal_module
from codesign.ir.relay.expr import Call, Constant, Function, OpRef, Tuple, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType
from codesign.ir.relay.visit import post_order
from codesign.ops.cast import CastAttrs
from codesign.ops.nn.pad import PadAttrs
from codesign.ops.nn.pool2d import Pool2DAttrs
from codesign.ops.table import call
from experiments.laws.passes import judge
from experiments.laws.program import random_program
from tests.support.layer_cases import pool

NAMES = (
    *("canonicalize-ops", "canonicalize-cast", "div-to-mul", "remove-standalone-reshapes"),
    *("fold-explicit-padding", "simplify-inference"),
)


@pytest.mark.parametrize("seed", range(100, 106))
def test_the_whole_language_keeps_its_answers(seed: int) -> None:
    assert not judge(random_program(seed, 40), NAMES).breaches


def test_casts_behind_casts_are_unshared_at_once() -> None:
    x = Var("x", TensorType((3,), DType.INT8))
    single = call("cast", x, attrs=CastAttrs(dtype=DType.FLOAT32))
    double = call("cast", single, attrs=CastAttrs(dtype=DType.FLOAT64))
    body = Tuple((call("exp", double), call("sqrt", double)))
    made = PASSES["canonicalize-cast"]().run(Module({"main": Function((x,), body)}), PassContext())
    casts = [node for node in post_order(made.main.body) if getattr(node, "attrs", None)]
    assert len(casts) == 4
    assert is_equal_module(PASSES["canonicalize-cast"]().run(made, PassContext()), made)


@pytest.mark.parametrize("exponent", [-149, -127, -126, -3, 0, 5, 126, 127])
def test_a_power_of_two_is_divided_by_exactly(exponent: int) -> None:
    x = Var("x", TensorType((4000,), DType.FLOAT32))
    divisor = Constant(np.asarray(np.ldexp(np.float32(-1), exponent), np.float32))
    module = Module({"main": Function((x,), call("divide", x, divisor))})
    made = DivToMul().run(module, PassContext())
    assert (made is module) is (exponent < -127)  # 2 ** 128 is no float32
    bits = np.random.default_rng(0).integers(0, 2**32, 4000, np.uint32).view(np.float32)
    wanted, found = (np.asarray(Interpreter(each).run(x=bits)) for each in (module, made))
    np.testing.assert_array_equal(found, wanted)


def test_other_divisors_are_one_unit_beside_where_that_is_allowed() -> None:
    x = Var("x", TensorType((4000,), DType.FLOAT32))
    module = Module(
        {"main": Function((x,), call("divide", x, Constant(np.asarray(3, np.float32))))}
    )
    made = PassManager(verify=True).run(module, (DivToMul(approximate=True),))
    values = np.random.default_rng(0).standard_normal(4000).astype(np.float32)
    wanted, found = (np.asarray(Interpreter(each).run(x=values)) for each in (module, made))
    assert np.any(found != wanted)
    np.testing.assert_array_max_ulp(found, wanted, maxulp=1)


@pytest.mark.parametrize("name", ["nn.max_pool2d", "nn.avg_pool2d"])
@pytest.mark.parametrize("seed", range(16))
def test_pools_of_padded_images_keep_every_bit(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    attrs: Pool2DAttrs = pool(rng)
    widths = rng.integers(0, 2, 4)
    value = -np.inf if name == "nn.max_pool2d" else 0.0
    pads = PadAttrs(
        pad_width=(
            (0, 0),
            (0, 0),
            (int(widths[0]), int(widths[1])),
            (int(widths[2]), int(widths[3])),
        ),
        value=value,
    )
    x = Var("x", TensorType((1, 2, 8, 9), DType.FLOAT32))
    module = Module(
        {"main": Function((x,), call(name, call("nn.pad", x, attrs=pads), attrs=attrs))}
    )
    made = PassManager(verify=True).run(module, (FoldExplicitPadding(),))
    data = rng.standard_normal((1, 2, 8, 9)).astype(np.float32)
    wanted, found = (np.asarray(Interpreter(each).run(x=data)) for each in (module, made))
    np.testing.assert_array_equal(found, wanted)


def test_a_long_chain_of_reshapes_is_joined_once() -> None:
    chain = "%x"
    for index in range(60):
        chain = f"nn.relu(reshape({chain}, shape=[{'6' if index % 2 else '3, 2'}]))"
    text = f'#[version = "0.0.5"]\ndef @main(%x: Tensor[(2, 3), float32]) {{ {chain} }}'
    made = PASSES["remove-standalone-reshapes"]().run(parse_module(text), PassContext())
    names = [
        node.callee.name
        for node in post_order(made.main.body)
        if isinstance(node, Call) and isinstance(node.callee, OpRef)
    ]
    assert names.count("reshape") <= 2
    assert names.count("nn.relu") == 60


UNKNOWN_TEXTS = [
    "nn.layer_norm(nn.dropout(%x), %g, %g)",
    "mean(reshape(%x, shape=[-1, 2, 3, 1]), axis=[2, 3])",
    "nn.global_avg_pool2d(nn.relu(nn.bias_add(reshape(%x, shape=[1, 2, -1, 3]), %h))) * 2f",
    "nn.dense(multiply(nn.relu(nn.dense(%x, %w)), 2f), %w)",
    "concatenate((%x + 0f, negative(negative(%x))), axis=0) / 4f",
    "reshape(nn.relu(reshape(%x, shape=[-1])), shape=[-1, 6])",
]


@pytest.mark.parametrize("text", UNKNOWN_TEXTS)
@pytest.mark.parametrize("level", range(5))
def test_every_level_takes_lengths_that_are_not_known(text: str, level: int) -> None:
    module = parse_module(f"""#[version = "0.0.5"]
def @main(%x: Tensor[(?, 6), float32], %g: Tensor[(6), float32], %h: Tensor[(2), float32],
          %w: Tensor[(6, 6), float32]) {{ {text} }}
""")
    rng = np.random.default_rng(4)
    inputs = {
        "x": rng.standard_normal((4, 6)).astype(np.float32),
        "g": rng.standard_normal(6).astype(np.float32),
        "h": rng.standard_normal(2).astype(np.float32),
        "w": rng.standard_normal((6, 6)).astype(np.float32),
    }
    made = optimize(module, level, verify=True)
    wanted, found = (np.asarray(Interpreter(each).run(**inputs)) for each in (module, made))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", sorted(set(PASSES) - {"defunctionalize"}))
def test_every_pass_takes_lengths_that_are_not_known(name: str) -> None:
    text = f"({', '.join(UNKNOWN_TEXTS)})"
    module = parse_module(f"""#[version = "0.0.5"]
def @main(%x: Tensor[(?, 6), float32], %g: Tensor[(6), float32], %h: Tensor[(2), float32],
          %w: Tensor[(6, 6), float32]) {{ {text} }}
""")
    infer_types(PASSES[name]().run(module, PassContext()))
