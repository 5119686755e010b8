"""Whole sequences on the accelerator: every step's codes, and weights that stay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from codesign.accel.presets import preset
from codesign.compiler.interpreter import Interpreter
from codesign.diagnostics import CodesignError
from codesign.sim.cycle import time_program
from experiments.models.cells import KINDS, CellSize, cell_cycles, integer_cell
from experiments.models.sequences import sequence, sequence_on_accelerator, weights_stay
from host_runtime.session import Session

SIZE = CellSize(inputs=20, hidden=28)
STEPS = 3


def test_a_sequence_is_its_step_again_and_again() -> None:
    """On the accelerator (functional), against the step's NumPy references one by one."""
    executable = sequence_on_accelerator("lstm", STEPS, 2, preset("batch4"), SIZE)
    rng = np.random.default_rng(0)
    codes = {
        param.name: rng.integers(-100, 100, param.annotation.static_shape).astype(np.int8)
        for param in sequence("lstm", STEPS, 2, SIZE).main.params
    }
    found = tuple(Session(executable).run(codes).values())
    step = Interpreter(integer_cell("lstm", 2, SIZE).module)
    state = {name: codes[name] for name, _ in KINDS["lstm"].states}
    for index in range(STEPS):
        results = step.run(x=codes[f"x{index}"], **state)
        assert isinstance(results, tuple)
        np.testing.assert_array_equal(found[index], results[0])
        assert np.unique(found[index]).size > 8
        state = {name: results[place] for name, place in KINDS["lstm"].states}
    np.testing.assert_array_equal(found[STEPS], state["h"])
    np.testing.assert_array_equal(found[STEPS + 1], state["c"])


def test_weights_stay_where_they_fit() -> None:
    roomy = preset("edge").with_dram(latency_cycles=60)
    tight = replace(roomy, wgt_depth=32)
    stays, goes = (sequence_on_accelerator("gru", STEPS, 1, each, SIZE) for each in (roomy, tight))
    assert weights_stay(stays)
    assert not weights_stay(goes)
    (step,) = stays.accel_steps
    cycles = time_program(step.kernel.program, roomy).cycles
    assert cycles < 0.8 * STEPS * cell_cycles("gru", 1, roomy, SIZE)


def test_a_tree_is_no_sequence() -> None:
    with pytest.raises(CodesignError, match="tree is no step of a sequence"):
        sequence("tree", 2, 1)
