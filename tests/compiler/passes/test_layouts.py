"""Layers in layouts: the operators, the passes on networks, compiled code, gradients."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.gradient import gradient
from codesign.compiler.interpreter import Interpreter
from codesign.compiler.pass_manager import Pass, PassContext, PassManager
from codesign.compiler.passes.alter_op_layout import AlterOpLayout
from codesign.compiler.passes.convert_layout import ConvertLayout
from codesign.compiler.passes.fold_constant import FoldConstant
from codesign.compiler.pipelines import optimize
from codesign.compiler.values import value_type
from codesign.diagnostics import CodesignError
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Call, Constant, Expr, Function, OpRef, Tuple, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import UNKNOWN, TensorType
from codesign.ir.relay.visit import post_order
from codesign.ops.axis import AxisAttrs
from codesign.ops.layout import Layout
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.nn.pad import PadAttrs
from codesign.ops.nn.pool2d import Pool2DAttrs
from codesign.ops.strided_slice import StridedSliceAttrs
from codesign.ops.table import OPERATORS, call
from codesign.ops.transpose import TransposeAttrs
from experiments.laws.passes import judge
from experiments.laws.program import random_program
from tests.support.cpu import reference, run_operator
from tests.support.layer_cases import LAYOUT_CASES
from tests.support.random_networks import RandomNetwork

PASSES: list[Pass] = [
    ConvertLayout(),
    ConvertLayout(conv2d="HWCN", kernel="OHWI", pool2d=""),
    ConvertLayout(conv2d="NCHW4c", kernel="OIHW4i4o", pool2d="NCHW4c"),
    AlterOpLayout(block=4),
]


def _names(module: Module) -> list[str]:
    return [
        node.callee.name
        for node in post_order(module.main.body)
        if isinstance(node, Call) and isinstance(node.callee, OpRef)
    ]


@pytest.mark.parametrize("name", LAYOUT_CASES)
@pytest.mark.parametrize("seed", range(12))
def test_a_layer_in_a_layout_is_the_plain_one_moved(name: str, seed: int) -> None:
    case = LAYOUT_CASES[name](np.random.default_rng(seed))
    attrs: Any = case.attrs
    arrays: list[Any] = list(case.args)
    params = tuple(Var(f"x{i}", value_type(each)) for i, each in enumerate(arrays))
    module = Module({"main": Function(params, call(name, *params, attrs=attrs))})
    found = np.asarray(Interpreter(module).evaluate(module.main, arrays))
    assert value_type(found) == infer_types(module)[module.main.body]
    layouts = [attrs.data_layout, attrs.kernel_layout] if name == "nn.conv2d" else [attrs.layout]
    plain = [
        Layout.of(layout).to_plain(tuple(axes), each)
        for layout, axes, each in zip(layouts, ("NCHW", "OIHW"), arrays, strict=False)
    ]
    bare = (
        replace(attrs, data_layout="NCHW", kernel_layout="OIHW")
        if name == "nn.conv2d"
        else replace(attrs, layout="NCHW")
    )
    wanted = np.asarray(OPERATORS[name].reference(*plain, bare))
    np.testing.assert_array_equal(Layout.of(layouts[0]).to_plain(tuple("NCHW"), found), wanted)


@pytest.mark.parametrize("name", LAYOUT_CASES)
@pytest.mark.parametrize("seed", range(4))
def test_compiled_it_equals_its_reference(name: str, seed: int) -> None:
    case = LAYOUT_CASES[name](np.random.default_rng(seed))
    arrays: list[Any] = list(case.args)
    found = run_operator(name, *arrays, attrs=case.attrs)
    wanted = reference(name, *arrays, attrs=case.attrs)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("data", "attrs", "message"),
    [
        ((1, 4, 6, 6), Conv2DAttrs(data_layout="NCH"), "has no such layout"),
        ((1, 4, 6, 6), Conv2DAttrs(data_layout="NCHW4c"), "takes data of rank 5"),
        ((1, 1, 6, 6, 4), Conv2DAttrs(data_layout="NCHW2c"), "takes blocks of their length"),
        ((1, 1, 6, 6, 4), Conv2DAttrs(data_layout="NCHW4c"), "axis C has length 6, its block 4"),
    ],
)
def test_layouts_that_do_not_fit_are_refused(
    data: tuple[int, ...], attrs: Conv2DAttrs, message: str
) -> None:
    x = Var("x", TensorType(data, DType.FLOAT32))
    weight = Constant(np.zeros((6, 4, 1, 1), np.float32))
    with pytest.raises(CodesignError, match=message):
        infer_types(Module({"main": Function((x,), call("nn.conv2d", x, weight, attrs=attrs))}))


@given(seed=st.integers(0, 2**32 - 1), which=st.sampled_from(range(len(PASSES))))
def test_networks_keep_their_answers(seed: int, which: int) -> None:
    net = RandomNetwork(seed)
    module = optimize(net.module, 1)
    made = PassManager(verify=True).run(module, (PASSES[which],))
    inputs = net.inputs()
    wanted = np.asarray(Interpreter(module).run(**inputs))
    found = np.asarray(Interpreter(made).run(**inputs))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5 * np.abs(wanted).max())
    assert PASSES[which].run(made, PassContext()) is made


@given(seed=st.integers(0, 2**32 - 1))
def test_there_and_back_is_the_plain_network(seed: int) -> None:
    net = RandomNetwork(seed)
    there = ConvertLayout().run(optimize(net.module, 1), PassContext())
    inputs = net.inputs()
    back = optimize(there, 2, verify=True)
    attrs = [node.attrs for node in post_order(back.main.body) if isinstance(node, Call)]
    assert all(a.is_plain for a in attrs if isinstance(a, Conv2DAttrs | Pool2DAttrs))
    wanted = np.asarray(Interpreter(there).run(**inputs))
    found = np.asarray(Interpreter(back).run(**inputs))
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4 * np.abs(wanted).max())


@pytest.mark.parametrize("seed", range(16, 22))
def test_the_whole_language_keeps_its_answers(seed: int) -> None:
    assert not judge(random_program(seed, 40), ("convert-layout", "alter-op-layout")).breaches


@pytest.mark.parametrize("level", range(5))
def test_an_unknown_batch_becomes_plain_too(level: int) -> None:
    x = Var("x", TensorType((UNKNOWN, 6, 6, 4), DType.FLOAT32))
    weight = _random(1, 3, 3, 4, 5)
    attrs = Conv2DAttrs(data_layout="NHWC", kernel_layout="HWIO")
    pool = Pool2DAttrs(pool_size=(2, 2), layout="NHWC")
    body = call("nn.max_pool2d", call("nn.conv2d", x, weight, attrs=attrs), attrs=pool)
    module = Module({"main": Function((x,), body)})
    made = optimize(module, level, verify=True)
    found = [node.attrs for node in post_order(made.main.body) if isinstance(node, Call)]
    assert all(a.is_plain for a in found if isinstance(a, Conv2DAttrs | Pool2DAttrs))
    data = np.random.default_rng(5).standard_normal((2, 6, 6, 4)).astype(np.float32)
    wanted, given = (np.asarray(Interpreter(each).run(x=data)) for each in (module, made))
    np.testing.assert_allclose(given, wanted, rtol=1e-4, atol=1e-5)


def _random(seed: int, *shape: int) -> Constant:
    return Constant(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def _conv(x: Expr, seed: int, channels: int = 4) -> Expr:
    return call(
        "nn.conv2d", x, _random(seed, channels, 4, 3, 3), attrs=Conv2DAttrs(padding=(1,) * 4)
    )


FOLLOWERS: dict[str, Any] = {
    "row of channels": lambda y: call("multiply", y, _random(1, 4, 1, 1)),
    "columns": lambda y: call("add", _random(1, 6), y),
    "image": lambda y: call("where", call("greater", y, _random(2, 6, 1)), y, _random(1, 4, 6, 6)),
    "number": lambda y: call("maximum", y, Constant(np.ones((1, 1), np.float32))),
    "global average": lambda y: call("nn.global_avg_pool2d", y),
    "global greatest": lambda y: call("nn.global_max_pool2d", y),
    "softmax": lambda y: call("nn.log_softmax", y, attrs=AxisAttrs(axis=-3)),
    "pad": lambda y: call(
        "nn.pad", y, attrs=PadAttrs(pad_width=((0, 0), (1, 0), (2, 0), (0, 3)))),
    "slice": lambda y: call(
        "strided_slice", y, attrs=StridedSliceAttrs(begin=(0, 1), end=(1, 3), axes=(0, -3))),
    "join": lambda y: call("concatenate", Tuple((y, call("nn.relu", y))), attrs=AxisAttrs(axis=2)),
}  # fmt: skip


@pytest.mark.parametrize("kind", FOLLOWERS)
def test_what_follows_moves_no_tensor_back(kind: str) -> None:
    x = Var("x", TensorType((1, 4, 6, 6), DType.FLOAT32))
    module = Module({"main": Function((x,), FOLLOWERS[kind](_conv(x, 7)))})
    made = PassManager(verify=True).run(module, (ConvertLayout(),))
    assert _names(made).count("layout_transform") == 2
    data = np.random.default_rng(5).standard_normal((1, 4, 6, 6)).astype(np.float32)
    wanted, found = (np.asarray(Interpreter(each).run(x=data)) for each in (module, made))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_a_transpose_takes_the_move_along() -> None:
    x = Var("x", TensorType((1, 4, 6, 6), DType.FLOAT32))
    body = call("transpose", _conv(x, 7), attrs=TransposeAttrs(axes=(0, 2, 3, 1)))
    module = Module({"main": Function((x,), body)})
    made = PassManager(verify=True).run(module, (ConvertLayout(),))
    assert _names(made).count("layout_transform") == 1
    transpose = made.main.body
    assert isinstance(transpose, Call)
    assert transpose.attrs == TransposeAttrs(axes=(0, 1, 2, 3))


def test_what_knows_only_the_programs_layout_gets_it() -> None:
    x = Var("x", TensorType((1, 4, 6, 6), DType.FLOAT32))
    body = call("nn.prelu", _conv(x, 7), _random(2, 4))
    module = Module({"main": Function((x,), _conv(body, 8))})
    made = PassManager(verify=True).run(module, (ConvertLayout(), FoldConstant()))
    assert _names(made).count("layout_transform") == 4
    data = np.random.default_rng(5).standard_normal((1, 4, 6, 6)).astype(np.float32)
    wanted, found = (np.asarray(Interpreter(each).run(x=data)) for each in (module, made))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", LAYOUT_CASES)
@pytest.mark.parametrize("layout", ["NHWC", "NCHW2c"])
def test_the_gradient_is_the_plain_one_moved(name: str, layout: str) -> None:
    rng = np.random.default_rng(3)
    arrays: list[Array] = [rng.standard_normal((1, 2, 5, 5))]
    plain: Any = Pool2DAttrs(pool_size=(2, 3), strides=(2, 1), padding=(1, 1, 0, 0))
    moved: Any = replace(plain, layout=layout)
    layouts = [layout]
    if name == "nn.conv2d":
        arrays.append(rng.standard_normal((4, 2, 3, 2)))
        plain = Conv2DAttrs(strides=(1, 2), padding=(1, 0, 1, 0))
        moved = replace(plain, data_layout=layout, kernel_layout="HWIO")
        layouts.append("HWIO")
    stored = [
        Layout.of(each).from_plain(tuple(axes), array)
        for each, axes, array in zip(layouts, ("NCHW", "OIHW"), arrays, strict=False)
    ]
    wanted = _gradients(name, arrays, plain)
    for found, each, axes, expected in zip(
        _gradients(name, stored, moved), layouts, ("NCHW", "OIHW"), wanted, strict=False
    ):
        back = Layout.of(each).to_plain(tuple(axes), found)
        np.testing.assert_allclose(back, expected, rtol=1e-9, atol=1e-12)


def _gradients(name: str, arrays: list[Array], attrs: Any) -> list[Array]:
    params = tuple(Var(f"x{i}", value_type(each)) for i, each in enumerate(arrays))
    total = call("sum", call("exp", call(name, *params, attrs=attrs)))
    module = Module({"main": Function(params, total)})
    made = gradient("main", module, mode="first_order")
    value = Interpreter(made).evaluate(made.functions["main_gradient"], arrays)
    assert isinstance(value, tuple)
    assert isinstance(value[1], tuple)
    return [np.asarray(each) for each in value[1]]
