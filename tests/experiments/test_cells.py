"""Cells of recurrent networks: counts by hand, NumPy's formulas, and trees in integers."""

from __future__ import annotations

import json

import numpy as np
import pytest

from codesign.accel.presets import preset
from codesign.compiler.batching.schedule import batch
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.compiler.interpreter import Interpreter
from codesign.diagnostics import CodesignError
from codesign.dtypes import Array
from codesign.ir.executable.values import DataValue
from codesign.ir.relay.literal import CONSTANTS, to_metadata
from codesign.ir.relay.module import Module
from experiments.models import tree_lstm
from experiments.models.batched import HostCells, IntegerRun, quantized_cells
from experiments.models.cells import (
    CellSize,
    cell,
    cell_bytes,
    cell_cycles,
    cell_inputs,
    cell_macs,
    cell_on_accelerator,
    cycles_per_sample,
)
from experiments.road.devices import Recorder, device
from experiments.rows.study_recurrent import run_cell

SMALL = CellSize(inputs=24, hidden=40)


def test_bytes_and_macs_by_hand() -> None:
    assert cell_macs("lstm", 2) == 2 * 1024 * 512
    assert cell_bytes("lstm", 2) == 1024 * 512 + 8 * 1024 + 2 * (3 * 256 + 2 * 256)
    assert cell_macs("gru", 1) == 3 * 256 * 512
    assert cell_bytes("gru", 1) == 3 * 256 * 512 + 8 * (512 + 256 + 256) + 3 * 256
    assert cell_macs("tree", 1) == 750 * 300
    assert cell_bytes("tree", 1) == 750 * 300 + 8 * 750 + 6 * 150


def test_the_tree_cell_is_the_published_one() -> None:
    weights = tree_lstm.binary_weights()
    inputs = next(cell_inputs("tree", 3, 1))
    lh, rh, lc, rc = (inputs[name].astype(np.float64) for name in ("x0", "x1", "x2", "x3"))
    sums = lh @ weights["L.weight"].T + rh @ weights["R.weight"].T + weights["L.bias"]
    i, fl, fr, o, u = np.split(sums, 5, axis=1)
    c = _sigmoid(i) * np.tanh(u) + _sigmoid(fl) * lc + _sigmoid(fr) * rc
    found = Interpreter(cell("tree", 3)).run(**inputs)
    for values, wanted in zip(found, (c, _sigmoid(o) * np.tanh(c)), strict=True):
        np.testing.assert_allclose(values, wanted, rtol=1e-5, atol=1e-6)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def test_more_state_costs_what_its_weights_cost() -> None:
    config = preset("edge").with_dram(latency_cycles=60)
    sizes = SMALL, CellSize(inputs=24, hidden=80)
    small, large = (cell_cycles("lstm", 1, config, size) for size in sizes)
    weights = 4 * (80 * (24 + 80) - 40 * (24 + 40))
    assert weights / 8 < large - small < 1.2 * weights / 8


def test_rows_share_the_weights() -> None:
    """Four rows fill the tiles of batch4, and four times one row does not: weights come once."""
    config = preset("batch4")
    one, four = (cell_cycles("gru", samples, config, SMALL) for samples in (1, 4))
    assert four < 1.2 * one
    with pytest.raises(CodesignError, match="there is no cell 'elman'"):
        cycles_per_sample("elman", 1, config)


def test_every_operator_of_a_cell_is_on_the_accelerator() -> None:
    executable = cell_on_accelerator("gru", 1, preset("tiny"), SMALL)
    assert {each.unit for each in executable.placements} == {"gemm", "vector", "none"}


TREE = """#[version = "0.0.5"]

type Shape {
  Leaf(int64),
  Fork(Shape, Shape),
}

def @node(%rows: Tensor[(?, 12), float32], %shape: Shape)
    -> (Tensor[(12), float32], Tensor[(12), float32]) {
  match (%shape) {
    Leaf(%i) => {
      let %x = take(%rows, %i, axis=0);
      let %c = sigmoid(%x) * tanh(%x);
      (tanh(%c), %c)
    },
    Fork(%left, %right) => {
      let %l = @node(%rows, %left);
      let %r = @node(%rows, %right);
      let %gates = nn.dense(concatenate((%l.0, %r.0), axis=0), meta[relay.Constant][0]);
      let %g = split(%gates + meta[relay.Constant][1], indices_or_sections=3, axis=0);
      let %c = sigmoid(%g.0) * tanh(%g.1) + sigmoid(%g.2) * (%l.1 + %r.1);
      (tanh(%c), %c)
    },
  }
}

def @main(%shape: Shape, %rows: Tensor[(?, 12), float32]) -> Tensor[(3), float32] {
  nn.softmax(nn.dense(@node(%rows, %shape).0, meta[relay.Constant][2]))
}

#[metadata]
"""


def _small_tree() -> Module:
    rng = np.random.default_rng(0)
    shapes = ((36, 24), (36,), (3, 12))
    constants = [to_metadata(rng.standard_normal(each).astype(np.float32)) for each in shapes]
    return parse_module(TREE + json.dumps({CONSTANTS: constants}))


def _shape(depth: int, seed: int) -> DataValue:
    if depth == 0:
        return DataValue("Leaf", (np.asarray(seed % 5),))
    left, right = _shape(depth - 1, seed * 3 + 1), _shape(seed % depth, seed + 1)
    return DataValue("Fork", (left, right))


def test_trees_in_integers_on_the_accelerator() -> None:
    """The accelerator gives the host's integers, and both are near fp32."""
    rng = np.random.default_rng(1)
    rows = [rng.standard_normal((5, 12)).astype(np.float32) for _ in range(3)]
    inputs = [{"shape": _shape(3, i), "rows": each} for i, each in enumerate(rows)]
    plan = batch(_small_tree(), inputs)
    made = quantized_cells(plan)
    assert len(made.cells) == len(plan.cells) - 1  # softmax has no integer form
    recorder = Recorder(device("functional", preset("batch4"), print))
    exact, host = plan.run(HostCells()), plan.run(IntegerRun(made))
    found = plan.run(IntegerRun(made, recorder, most=2))
    groups = [group for group in plan.groups if group.cell in made.cells]
    assert len(recorder.runs) == sum(-(-len(group.instances) // 2) for group in groups)
    for fp32, wanted, values in zip(exact, host, found, strict=True):
        np.testing.assert_array_equal(values, wanted)
        assert np.abs(wanted - fp32).max() < 0.05


@pytest.mark.slow
def test_the_tree_cell_on_the_rtl_takes_the_same_cycles() -> None:
    config = preset("edge").with_dram(latency_cycles=60)
    executable = cell_on_accelerator("tree", 1, config)
    cycles = run_cell("tree", executable, config, "cycle")
    assert run_cell("tree", executable, config, "rtl") == cycles
