"""Parallel branches that become one: constants side by side, and the answers stay."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.compiler.interpreter import Interpreter
from codesign.compiler.pass_manager import Pass, PassManager
from codesign.compiler.passes.combine_parallel_batch_matmul import CombineParallelBatchMatmul
from codesign.compiler.passes.combine_parallel_conv2d import CombineParallelConv2D
from codesign.compiler.passes.combine_parallel_dense import CombineParallelDense
from codesign.dtypes import DType
from codesign.ir.relay.expr import Call, Constant, Expr, Function, OpRef, Tuple, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType
from codesign.ir.relay.visit import post_order
from codesign.ops.clip import ClipAttrs
from codesign.ops.nn.bias_add import BiasAddAttrs
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.table import call


def _random(seed: int, *shape: int) -> Constant:
    return Constant(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def _names(module: Module) -> list[str]:
    return [
        node.callee.name
        for node in post_order(module.main.body)
        if isinstance(node, Call) and isinstance(node.callee, OpRef)
    ]


def _combined(each: Pass, shape: tuple[int, ...], branches: list[Expr], x: Var) -> Module:
    """Return the module after the pass; its answers are those before."""
    module = Module({"main": Function((x,), Tuple(tuple(branches)))})
    made = PassManager(verify=True).run(module, (each,))
    data = np.random.default_rng(9).standard_normal(shape).astype(np.float32)
    before, after = Interpreter(module).run(x=data), Interpreter(made).run(x=data)
    assert isinstance(before, tuple)
    assert isinstance(after, tuple)
    for found, wanted in zip(after, before, strict=True):
        np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-5, atol=1e-5)
    return made


def _image() -> tuple[tuple[int, ...], Var]:
    shape = (2, 3, 5, 5)
    return shape, Var("x", TensorType(shape, DType.FLOAT32))


def _conv(x: Var, seed: int, channels: int) -> Expr:
    return call(
        "nn.conv2d", x, _random(seed, channels, 3, 3, 3), attrs=Conv2DAttrs(padding=(1,) * 4)
    )


def test_biases_scales_and_slopes_stand_side_by_side() -> None:
    shape, x = _image()
    branches = []
    for seed, channels in enumerate((1, 4, 2)):
        y = call("nn.bias_add", _conv(x, seed, channels), _random(seed + 10, channels))
        y = call("multiply", _random(seed + 20, channels, 1, 1), y)
        y = call("nn.prelu", y, _random(seed + 30, channels))
        branches.append(call("clip", y, attrs=ClipAttrs(minimum=-1.0, maximum=2.0)))
    made = _combined(CombineParallelConv2D(), shape, branches, x)
    assert _names(made) == [
        *("nn.conv2d", "nn.bias_add", "multiply", "nn.prelu", "clip"),
        *["strided_slice"] * 3,
    ]


def test_one_number_for_some_channels_and_one_for_each_of_others() -> None:
    shape, x = _image()
    factors = (Constant(np.array(2.0, np.float32)), _random(5, 4, 1, 1), _random(6, 1, 1, 1))
    branches = [
        call("multiply", _conv(x, seed, 4 if seed == 1 else 2), factor)
        for seed, factor in enumerate(factors)
    ]
    made = _combined(CombineParallelConv2D(), shape, branches, x)
    assert _names(made)[:2] == ["nn.conv2d", "multiply"]


@pytest.mark.parametrize(
    "follower",
    [
        lambda y, seed: call("add", y, _random(seed, 1, 5)),  # other columns for each
        lambda y, seed: call("subtract", y, _random(9, 1)) if seed else
        call("subtract", _random(9, 1), y),
        lambda y, seed: call("nn.bias_add", y, _random(seed, 5), attrs=BiasAddAttrs(axis=3)),
        lambda y, seed: call("clip", y, attrs=ClipAttrs(minimum=0.0, maximum=float(seed))),
        lambda y, seed: call("transpose", y),
        lambda y, seed: call("multiply", y, y),
        lambda y, seed: call("nn.softmax", y),
    ],
)  # fmt: skip
def test_followers_that_do_not_fit_stay_apart(follower: object) -> None:
    shape, x = _image()
    assert callable(follower)
    branches = [follower(_conv(x, seed, 2), seed) for seed in range(3)]
    made = _combined(CombineParallelConv2D(), shape, branches, x)
    assert _names(made).count("nn.conv2d") == 1
    assert _names(made).count(branches[0].callee.name) == 3


def test_a_result_that_is_read_twice_ends_its_branch() -> None:
    shape, x = _image()
    branches = [call("nn.relu", _conv(x, seed, 2)) for seed in range(3)]
    made = _combined(CombineParallelConv2D(), shape, [*branches, branches[0].args[0]], x)
    assert _names(made).count("nn.relu") == 3


def test_how_many_branches_are_enough_can_be_said() -> None:
    shape, x = _image()
    branches = [_conv(x, seed, 2) for seed in range(2)]
    assert _names(_combined(CombineParallelConv2D(), shape, branches, x)).count("nn.conv2d") == 2
    made = _combined(CombineParallelConv2D(min_branches=2), shape, branches, x)
    assert _names(made).count("nn.conv2d") == 1


def test_convolutions_in_groups_stay() -> None:
    shape, x = _image()
    branches = [
        call("nn.conv2d", x, _random(seed, 3, 1, 3, 3), attrs=Conv2DAttrs(groups=3))
        for seed in range(3)
    ]
    assert _names(_combined(CombineParallelConv2D(), shape, branches, x)).count("nn.conv2d") == 3


@pytest.mark.parametrize("shape", [(2, 4), (4,), (2, 3, 4)])
def test_products_become_columns_or_a_batch(shape: tuple[int, ...]) -> None:
    x = Var("x", TensorType(shape, DType.FLOAT32))
    branches: list[Expr] = [
        call("add", call("nn.dense", x, _random(seed, 5, 4)), _random(seed + 9, 5))
        for seed in range(3)
    ]
    columns = _combined(CombineParallelDense(), shape, branches, x)
    assert _names(columns) == ["nn.dense", "add", *["strided_slice"] * 3]
    batch = _combined(CombineParallelDense(to_batch_matmul=True), shape, branches, x)
    assert _names(batch).count("nn.batch_matmul") == 1
    assert "nn.dense" not in _names(batch)


def test_weights_of_other_lengths_are_no_batch() -> None:
    x = Var("x", TensorType((2, 4), DType.FLOAT32))
    branches: list[Expr] = [call("nn.dense", x, _random(n, n, 4)) for n in (1, 2, 3)]
    made = _combined(CombineParallelDense(to_batch_matmul=True), (2, 4), branches, x)
    assert _names(made).count("nn.dense") == 3


def test_batches_become_columns() -> None:
    shape = (2, 3, 4)
    x = Var("x", TensorType(shape, DType.FLOAT32))
    branches: list[Expr] = [
        call("multiply", call("nn.batch_matmul", x, _random(n, 2, n, 4)), _random(n, 3, n))
        for n in (1, 2, 5)
    ]
    made = _combined(CombineParallelBatchMatmul(), shape, branches, x)
    assert _names(made) == ["nn.batch_matmul", "multiply", *["strided_slice"] * 3]
