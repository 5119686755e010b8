"""Networks whose sums and tables are layers of their own."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from codesign.accel.presets import preset
from codesign.compiler import driver
from codesign.ir.relay.expr import Function, Tuple
from codesign.ir.relay.module import Module
from experiments.sweep.apart import layers_apart
from host_runtime.session import Session
from tests.support.regions import Maker


def _network(maker: Maker) -> Module:
    x = maker.var((1, 8, 4, 4))
    first = maker.lookup(maker.conv(x, (8, 8, 1, 1)))
    total = maker.add(maker.conv(first, (8, 8, 1, 1)), first)
    return Module({"main": Function((x,), maker.lookup(total))})


@pytest.mark.parametrize("is_tuple", [False, True])
def test_sums_and_tables_are_layers_of_their_own_and_answers_stay(is_tuple: bool) -> None:
    module = _network(Maker(np.random.default_rng(3)))
    if is_tuple:
        main = module.main
        module = Module({"main": Function(main.params, Tuple((main.body,)))})
    apart = layers_apart(module)
    data = {"x": np.random.default_rng(4).integers(-128, 128, (1, 8, 4, 4)).astype(np.int8)}
    answers, counts = [], []
    for each in (module, apart):
        executable = driver.compile(each, target="accel", config=preset("tiny"))
        answers.append(next(iter(Session(executable).run(data).values())))
        layers = [layer for step in executable.accel_steps for layer in step.kernel.layers]
        counts.append(Counter(layer.operator for layer in layers))
    np.testing.assert_array_equal(answers[0], answers[1])
    assert counts[0] == {"qnn.conv2d": 2}
    assert counts[1] == {"qnn.conv2d": 2, "qnn.add": 1, "qnn.lookup": 2}
