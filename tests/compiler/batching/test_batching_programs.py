"""Recursive programs on many inputs together give what the interpreter gives for each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from codesign.compiler.batching.cells import Cell
from codesign.compiler.batching.schedule import Plan, batch
from codesign.compiler.interpreter import Interpreter
from codesign.diagnostics import CodesignError
from codesign.dtypes import Array
from codesign.ir.executable.values import DataValue
from codesign.ir.relay.module import Module
from experiments.models import recurrent, tree_lstm
from experiments.models.batched import HostCells
from experiments.models.trees import sentences
from tests.support.relay_values import module_of, relay_list, run

FOLD = """
type Shape {
  Leaf(int64),
  Fork(Shape, Shape),
}

def @fold(%rows: Tensor[(?, 4), float32], %shape: Shape) -> Tensor[(4), float32] {
  match (%shape) {
    Leaf(%i) => take(%rows, %i, axis=0),
    Fork(%l, %r) => tanh(@fold(%rows, %l) + @fold(%rows, %r) * 2f),
  }
}

def @main(%shape: Shape, %rows: Tensor[(?, 4), float32]) -> Tensor[(4), float32] {
  @fold(%rows, %shape) + 1f
}"""


def _leaf(index: int) -> DataValue:
    return DataValue("Leaf", (np.asarray(index),))


def _fork(left: DataValue, right: DataValue) -> DataValue:
    return DataValue("Fork", (left, right))


def _comb(depth: int) -> DataValue:
    shape = _leaf(0)
    for _ in range(depth):
        shape = _fork(shape, _leaf(1))
    return shape


def _rows(count: int, seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal((count, 4)).astype(np.float32)


def by_interpreter(cell: Cell, samples: tuple[Array, ...]) -> Sequence[Array]:
    module = cell.module(None if cell.alone else len(samples[0]))
    found = Interpreter(module).evaluate(module.main, samples)
    assert isinstance(found, tuple)
    return found


def _alone(module: Module, inputs: dict[str, object]) -> Array:
    return Interpreter(module).result_of(
        module.main, [inputs[param.name] for param in module.main.params]
    )


def _equal(module: Module, inputs: list[dict[str, object]], plan: Plan, rtol: float = 0) -> None:
    for found, each in zip(plan.run(by_interpreter), inputs, strict=True):
        np.testing.assert_allclose(found, _alone(module, each), rtol=rtol, atol=rtol)


def test_trees_of_different_shapes_share_their_cells() -> None:
    module = module_of(FOLD)
    shapes = (_leaf(2), _comb(3), _fork(_comb(2), _comb(1)))
    inputs = [{"shape": each, "rows": _rows(3, i)} for i, each in enumerate(shapes)]
    plan = batch(module, inputs)
    _equal(module, inputs, plan)
    inner, last = plan.cells if len(plan.cells[0].params) == 2 else plan.cells[::-1]
    sizes = [len(group.instances) for group in plan.groups if group.cell is inner]
    assert sizes == [3, 2, 2]  # of combs of 3, 2 and 1 forks, and one fork over two of them
    assert sum(len(g.instances) for g in plan.groups if g.cell is last) == 3


def test_a_tree_of_any_depth() -> None:
    module = module_of(FOLD)
    inputs = [{"shape": _comb(1500), "rows": _rows(2, 0)}]
    plan = batch(module, inputs)
    assert max(instance.level for group in plan.groups for instance in group.instances) == 1500


@pytest.mark.parametrize("kind", ["binary", "child_sum"])
def test_tree_lstms(kind: str) -> None:
    judged = sentences()[:3]
    words = [tree_lstm.word_vectors(each.words, i) for i, each in enumerate(judged)]
    if kind == "binary":
        module = tree_lstm.binary(tree_lstm.binary_weights())
        trees = [{"phrase": tree_lstm.binary_value(each.binary)} for each in judged]
    else:
        module = tree_lstm.child_sum(tree_lstm.child_sum_weights())
        trees = [{"tree": tree_lstm.dependency_value(each.dependency)} for each in judged]
    inputs = [{**tree, "words": each} for tree, each in zip(trees, words, strict=True)]
    plan = batch(module, inputs)
    _equal(module, inputs, plan, rtol=1e-6)
    nodes = sum(each.words for each in judged)
    instances = sum(len(group.instances) for group in plan.groups)
    assert len(plan.groups) < instances / 2
    assert instances > nodes


def test_sequences_side_by_side() -> None:
    module = recurrent.recurrent("gru", recurrent.recurrent_weights("gru"))
    inputs = [{"x": recurrent.sequence(seed)} for seed in range(2)]
    plan = batch(module, inputs)
    _equal(module, inputs, plan)
    steps = [group for group in plan.groups if len(group.cell.calls) > 5]
    assert {len(group.instances) for group in steps} == {2}


def test_cells_as_native_code() -> None:
    module = module_of(FOLD)
    inputs = [{"shape": _comb(depth), "rows": _rows(3, depth)} for depth in (1, 2)]
    for found, each in zip(batch(module, inputs).run(HostCells()), inputs, strict=True):
        np.testing.assert_allclose(found, _alone(module, each), rtol=1e-6)


def test_data_come_back_with_their_tensors() -> None:
    text = """
def @twice(%xs: List[Tensor[(4), float32]]) -> List[Tensor[(4), float32]] {
  match (%xs) {
    Nil => Nil,
    Cons(%x, %rest) => Cons(%x + %x, @twice(%rest)),
  }
}
def @main(%y: Tensor[(4), float32], %n: List[int32]) -> (List[Tensor[(4), float32]], int32) {
  (@twice(Cons(%y, Cons(sigmoid(%y), Nil))), 7)
}"""
    module = module_of(text)
    inputs = [{"y": _rows(1, seed)[0], "n": relay_list([])} for seed in range(2)]
    plan = batch(module, inputs)
    for (found, seven), each in zip(plan.run(by_interpreter), inputs, strict=True):
        y = each["y"]
        assert isinstance(y, np.ndarray)
        first, rest = found.fields
        np.testing.assert_array_equal(first, y + y)
        np.testing.assert_allclose(rest.fields[0], 2 / (1 + np.exp(-y)), rtol=1e-6)
        assert rest.fields[1].constructor == "Nil"
        assert int(seven) == 7


def test_known_tensors_that_are_handed_over_are_samples_too() -> None:
    """The first step reads zeros, the others what a step gave: one cell for all."""
    text = """
def @sum(%rows: Tensor[(?, 4), float32], %n: int64, %so_far: Tensor[(4), float32])
    -> Tensor[(4), float32] {
  if (%n == 0i64) { %so_far }
  else { @sum(%rows, %n - 1i64, tanh(%so_far + take(%rows, %n - 1i64, axis=0))) }
}
def @main(%rows: Tensor[(?, 4), float32], %n: Box) -> Tensor[(4), float32] {
  match (%n) { Box(%k) => @sum(%rows, %k, zeros(shape=[4], dtype="float32")) }
}
type Box { Box(int64), }"""
    module = module_of(text)
    inputs = [
        {"rows": _rows(5, n), "n": DataValue("Box", (np.asarray(n, np.int64),))} for n in (1, 3, 5)
    ]
    plan = batch(module, inputs)
    assert len(plan.cells) == 1
    assert [len(group.instances) for group in plan.groups] == [3, 2, 2, 1, 1]
    _equal(module, inputs, plan)


@pytest.mark.parametrize(
    ("body", "title"),
    [
        ("if (sum(%x) > 0f) { %x } else { tanh(%x) }", "depends on a tensor"),
        ("let %r = ref(%x); ref_read(%r)", "ref has no form beside others"),
    ],
)
def test_what_cannot_be_followed_is_refused_at_its_place(body: str, title: str) -> None:
    module = module_of(f"def @main(%x: Tensor[(4), float32]) {{ {body} }}")
    with pytest.raises(CodesignError, match=title) as caught:
        batch(module, [{"x": _rows(1, 0)[0]}])
    assert caught.value.diagnostics[0].span is not None


def test_an_operator_without_a_form_for_samples_is_refused_at_its_place() -> None:
    module = module_of("def @main(%x: Tensor[(4), float32]) { reverse(%x, axis=0) }")
    plan = batch(module, [{"x": _rows(1, 0)[0]}])
    with pytest.raises(CodesignError, match="reverse has no form for many samples") as caught:
        plan.run(by_interpreter)
    assert caught.value.diagnostics[0].span is not None


def test_a_row_that_is_not_there_is_refused() -> None:
    plan = batch(module_of(FOLD), [{"shape": _fork(_leaf(0), _leaf(3)), "rows": _rows(3, 0)}])
    with pytest.raises(CodesignError, match="take reads outside"):
        plan.run(by_interpreter)


def test_other_inputs_than_mains_are_refused() -> None:
    with pytest.raises(CodesignError, match="not main's parameters"):
        batch(module_of(FOLD), [{"shape": _leaf(0)}])
    assert run(FOLD, _leaf(0), _rows(1, 0)) is not None
