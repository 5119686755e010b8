"""Networks of several samples: each answers as it does alone."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.accel.presets import preset
from codesign.compiler import driver
from codesign.diagnostics import CodesignError
from codesign.dtypes import DType
from codesign.ir.relay.expr import Call, Function, OpRef, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType
from codesign.ops.transpose import TransposeAttrs
from experiments.sweep.network import prepare
from experiments.sweep.samples import with_samples
from host_runtime.session import Session


def test_samples_together_answer_as_each_alone() -> None:
    module = prepare("digits", lambda _: None).integer
    images = np.random.default_rng(3).uniform(0, 1, (5, 1, 8, 8)).astype(np.float32)
    alone = Session(driver.compile(module, target="cpu"))
    together = with_samples(module, 5)
    for config in (None, preset("tiny"), preset("batch4")):
        target = "cpu" if config is None else "accel"
        session = Session(driver.compile(together, target=target, config=config))
        (found,) = session.run({"image": images}).values()
        expected = [alone.run({"image": each[None]})["output"] for each in images]
        np.testing.assert_array_equal(found, np.concatenate(expected))


def test_a_network_that_mixes_samples_is_refused() -> None:
    x = Var("x", TensorType((1, 4), DType.FLOAT32))
    turned = Call(OpRef("transpose"), (x,), attrs=TransposeAttrs(axes=(1, 0)))
    with pytest.raises(CodesignError, match="does not run 3 samples at once"):
        with_samples(Module({"main": Function((x,), turned)}), 3)
    y = Var("y", TensorType((2, 4), DType.FLOAT32))
    with pytest.raises(CodesignError, match="input 'y' has no axis of samples"):
        with_samples(Module({"main": Function((y,), y)}), 3)
