"""Whatever a pass does, the interpreter's answer stays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codesign.compiler.interpreter import Interpreter
from codesign.compiler.pass_manager import Form, PassContext, PassManager, write_to
from codesign.compiler.passes.fold_scale_axis import FoldScaleAxis
from codesign.compiler.passes.simplify_inference import SimplifyInference
from codesign.compiler.pipelines import LEVELS, PASSES, fuse, optimize
from codesign.diagnostics import InternalError
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Call, Constant, Expr, Function, OpRef, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType
from codesign.ir.relay.visit import post_order
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.nn.conv2d_transpose import Conv2DTransposeAttrs
from codesign.ops.table import call
from tests.support.random_networks import RandomNetwork

SEEDS = st.integers(0, 2**32 - 1)


def _run(module: Module, inputs: dict[str, Array]) -> Array:
    return np.asarray(Interpreter(module).run(**inputs))


def _names(module: Module) -> list[str]:
    nodes = post_order(module.main.body)
    return [n.callee.name for n in nodes if isinstance(n, Call) and isinstance(n.callee, OpRef)]


@given(seed=SEEDS, level=st.integers(0, len(LEVELS) - 1))
def test_every_level_keeps_the_answer(seed: int, level: int) -> None:
    net = RandomNetwork(seed)
    inputs = net.inputs()
    wanted = _run(net.module, inputs)
    found = _run(optimize(net.module, level, verify=True), inputs)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4 * np.abs(wanted).max())


@given(seed=SEEDS)
def test_fusion_keeps_every_bit(seed: int) -> None:
    net = RandomNetwork(seed)
    inputs = net.inputs()
    optimized = optimize(net.module)
    np.testing.assert_array_equal(_run(fuse(optimized), inputs), _run(optimized, inputs))


@given(seed=SEEDS)
def test_fusion_leaves_no_operator_outside_and_at_most_one_anchor_inside(seed: int) -> None:
    fused = fuse(optimize(RandomNetwork(seed).module))
    functions = [n for n in post_order(fused.main.body) if isinstance(n, Function)]
    inside = {node for each in functions for node in post_order(each.body)}
    calls = [n for n in post_order(fused.main.body) if isinstance(n, Call)]
    assert all(n in inside for n in calls if isinstance(n.callee, OpRef))
    anchors = ("nn.conv2d", "nn.dense")
    for each in functions:
        assert each.attributes == {"Primitive": 1}
        names = [n.callee.name for n in post_order(each.body)
                 if isinstance(n, Call) and isinstance(n.callee, OpRef)]  # fmt: skip
        assert sum(name in anchors for name in names) <= 1


@given(seed=SEEDS, name=st.sampled_from(sorted(set(PASSES) - {"fuse-ops"})))
def test_every_pass_is_done_after_one_run(seed: int, name: str) -> None:
    module = optimize(RandomNetwork(seed).module)
    once = PASSES[name]().run(module, PassContext())
    assert PASSES[name]().run(once, PassContext()) is once


def _affine(anchor: Call, before: Expr, data: Var) -> Module:
    scale = Constant(np.array([2.0, -0.5, 3.0, 1.5], np.float32).reshape(4, 1, 1))
    shift = Constant(np.array([1.0, 2.0, -3.0, 0.5], np.float32).reshape(4, 1, 1))
    body = call("subtract", shift, call("divide", anchor, scale))
    return Module({"main": Function((data,), body)})


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("kind", ["conv", "conv-padded", "transpose"])
def test_scales_and_shifts_go_into_the_weight(kind: str, groups: int) -> None:
    rng = np.random.default_rng(groups)
    data = Var("x", TensorType((2, 4, 5, 5), DType.FLOAT32))
    scale = Constant(rng.standard_normal((4, 1, 1)).astype(np.float32))
    before = call("multiply", data, scale)
    if kind == "conv":
        before = call("add", before, Constant(np.array(1.5, np.float32)))
    weight = Constant(rng.standard_normal((4, 4 // groups, 3, 3)).astype(np.float32))
    if kind == "transpose":
        anchor = call("nn.conv2d_transpose", before, weight,
                      attrs=Conv2DTransposeAttrs(strides=(2, 2), groups=groups))  # fmt: skip
    else:
        padding = (1, 1, 1, 1) if kind == "conv-padded" else (0, 0, 0, 0)
        anchor = call(
            "nn.conv2d", before, weight, attrs=Conv2DAttrs(padding=padding, groups=groups)
        )
    module = _affine(anchor, before, data)
    folded = FoldScaleAxis().run(module, PassContext())
    assert _names(folded) == [anchor.callee.name, "nn.bias_add"]  # type: ignore[union-attr]
    x = {"x": rng.standard_normal((2, 4, 5, 5)).astype(np.float32)}
    np.testing.assert_allclose(_run(folded, x), _run(module, x), rtol=1e-4, atol=1e-4)


def test_a_sum_before_zero_padding_stays() -> None:
    rng = np.random.default_rng(0)
    data = Var("x", TensorType((1, 4, 5, 5), DType.FLOAT32))
    shifted = call("add", data, Constant(np.array(1.0, np.float32)))
    weight = Constant(rng.standard_normal((4, 4, 3, 3)).astype(np.float32))
    body = call("nn.conv2d", shifted, weight, attrs=Conv2DAttrs(padding=(1, 1, 1, 1)))
    module = Module({"main": Function((data,), body)})
    assert FoldScaleAxis().run(module, PassContext()) is module


def test_the_manager_refuses_a_pass_whose_needs_are_not_met() -> None:
    with pytest.raises(InternalError, match=r"fold-scale-axis requires inference"):
        PassManager().run(RandomNetwork(1).module, (FoldScaleAxis(),))


def test_the_manager_records_what_ran() -> None:
    manager = PassManager(verify=True)
    manager.run(RandomNetwork(3).module, (SimplifyInference(), SimplifyInference()))
    assert [record.name for record in manager.records] == ["simplify-inference"] * 2
    assert not manager.records[1].changed


def test_the_manager_shows_every_stage(tmp_path: object) -> None:
    shown: list[tuple[int, str]] = []
    optimize(RandomNetwork(3).module, 0, observe=lambda index, name, _: shown.append((index, name)))
    assert shown == list(enumerate(("input", *(each.name for each in LEVELS[0]))))


def test_stages_are_written_as_numbered_files(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("ir")
    optimize(RandomNetwork(3).module, 0, observe=write_to(folder))
    names = sorted(file.name for file in folder.iterdir())
    stages = enumerate(("input", *(each.name for each in LEVELS[0])))
    assert names == [f"{index:02}-{name}.relay" for index, name in stages]
    assert "nn.batch_norm" not in (folder / names[-1]).read_text()


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^level must be 0 to 4, not 5$"):
        optimize(RandomNetwork(1).module, 5)


def test_every_pass_stands_in_a_form() -> None:
    assert all(each.requires >= {Form.TYPED} for each in PASSES.values())
