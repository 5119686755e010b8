"""Steps from codes to codes: states of one scale, gates of one table, refusals with their place."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.compiler.batching.gates import gates_apart
from codesign.compiler.interpreter import Interpreter
from codesign.compiler.pipelines import optimize
from codesign.compiler.quantization.cell import has_integer_form, quantize_cell
from codesign.diagnostics import CodesignError
from codesign.dtypes import Array
from codesign.ir.relay.expr import Call, Constant, Function, OpRef
from codesign.ir.relay.module import Module
from codesign.ir.relay.visit import post_order, substitute
from experiments.models.cells import KINDS, CellSize, cell, cell_inputs, integer_cell
from tests.support.relay_values import module_of

SMALL = CellSize(inputs=12, hidden=10)


def _calls(module: Module, name: str) -> list[Call]:
    return [
        node
        for node in post_order(module.main.body)
        if isinstance(node, Call) and isinstance(node.callee, OpRef) and node.callee.name == name
    ]


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_states_have_the_scale_of_the_results_that_become_them(kind: str) -> None:
    made = integer_cell(kind, 2, SMALL)
    for name, index in KINDS[kind].states:
        assert made.inputs[name] == made.outputs[index]


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_several_steps_in_integers_stay_near_those_in_fp32(kind: str) -> None:
    made, exact = integer_cell(kind, 2, SMALL), Interpreter(cell(kind, 2, SMALL))
    whole = Interpreter(made.module)
    numbers = next(cell_inputs(kind, 2, 1, SMALL))
    codes = {name: made.inputs[name].codes(each).astype(np.int8) for name, each in numbers.items()}
    for _ in range(5):
        wanted, found = exact.run(**numbers), whole.run(**codes)
        for name, index in KINDS[kind].states:
            numbers[name], codes[name] = wanted[index], found[index]
    for index, params in enumerate(made.outputs):
        held = np.clip(wanted[index], params.low, params.high)  # states saturate at what was seen
        assert np.abs(params.values(found[index]) - held).max() < 8 * params.scale
        assert np.abs(held).max() > 0.1


def test_all_gates_share_one_table() -> None:
    tables = {
        call.args[1].value.tobytes()
        for call in _calls(integer_cell("lstm", 1, SMALL).module, "qnn.lookup")
        if isinstance(call.args[1], Constant)
    }
    assert len(tables) == 2  # the gates', and tanh of the cell, whose scale is the state's


def _samples(**shapes: tuple[int, ...]) -> list[dict[str, Array]]:
    rng = np.random.default_rng(0)
    return [
        {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
        for _ in range(3)
    ]


def test_what_has_no_integer_form_is_refused_at_its_place() -> None:
    text = """
def @main(%x: Tensor[(1, 4), float32], %y: Tensor[(1, 4), float32]) {
  (tanh(%x), nn.softmax(%y + %x))
}"""
    module = optimize(module_of(text))
    assert not has_integer_form(module)
    with pytest.raises(CodesignError, match=r"cannot hold nn.softmax"):
        quantize_cell(module, _samples(x=(1, 4), y=(1, 4)))


def test_a_parameter_that_nothing_reads_is_refused() -> None:
    text = "def @main(%x: Tensor[(1, 4), float32], %y: Tensor[(1, 4), float32]) { (tanh(%x),) }"
    with pytest.raises(CodesignError, match="no operator of the cell reads 'y'"):
        quantize_cell(optimize(module_of(text)), _samples(x=(1, 4), y=(1, 4)))


def test_gates_apart_keeps_the_answer() -> None:
    rng = np.random.default_rng(1)
    text = """
def @main(%x: Tensor[(3, 4), float32], %w: Tensor[(6, 4), float32], %b: Tensor[(6), float32]) {
  let %g = split(nn.dense(%x, %w) + %b, indices_or_sections=[1, 4], axis=1);
  (tanh(%g.0), %g.2, nn.dense(%x, %w) + %b)
}"""
    module = module_of(text)
    x, w, b = (rng.standard_normal(s).astype(np.float32) for s in ((3, 4), (6, 4), (6,)))
    data, *weights = module.main.params
    fixed = dict(zip(weights, (Constant(w), Constant(b)), strict=True))
    known = Module({"main": Function((data,), substitute(module.main.body, fixed))})
    apart = gates_apart(optimize(known))
    assert not _calls(apart, "split")
    assert len(_calls(apart, "nn.dense")) == 3
    for wanted, found in zip(Interpreter(known).run(x=x), Interpreter(apart).run(x=x), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
