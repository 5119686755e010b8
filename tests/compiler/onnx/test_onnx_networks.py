"""Published networks: imported and optimized, they answer as onnxruntime does."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.compiler.frontend.onnx import load_onnx
from codesign.compiler.interpreter import Interpreter
from codesign.compiler.pipelines import fuse, optimize
from codesign.dtypes import Array
from codesign.ir.relay.expr import Call, OpRef
from codesign.ir.relay.module import Module
from codesign.ir.relay.visit import post_order
from experiments.networks.registry import BUILD, network
from tests.support.onnx_graphs import onnxruntime_session


def _module(name: str) -> tuple[Module, Array, Array]:
    wanted = network(name)
    x = np.random.default_rng(7).standard_normal(wanted.input_shape).astype(np.float32)
    file = wanted.model_file(BUILD)
    session = onnxruntime_session(file.read_bytes())
    (answer,) = session.run(None, {wanted.input_name: x})
    shapes = {wanted.input_name: wanted.input_shape}
    return load_onnx(file, shapes=shapes).module, x, answer


def _run(module: Module, x: Array) -> Array:
    (param,) = module.main.params
    return np.asarray(Interpreter(module).run(**{param.name: x}))


@pytest.mark.needs_onnxruntime
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.needs_models(name), *marks])
        for name, marks in (
            ("digits", []),
            ("direction", []),
            ("orientation", [pytest.mark.slow]),
            ("resnet18", [pytest.mark.slow]),
            ("efficientnet-lite0", [pytest.mark.slow]),
        )
    ],
)
def test_network_equals_onnxruntime_at_every_stage(name: str) -> None:
    module, x, answer = _module(name)
    optimized = optimize(module, verify=True)
    scale = np.abs(answer).max()
    for stage in (module, optimized, fuse(optimized)):
        np.testing.assert_allclose(_run(stage, x), answer, rtol=1e-4, atol=1e-4 * scale)


@pytest.mark.needs_models("direction")
@pytest.mark.needs_onnxruntime
def test_optimized_direction_classifier_has_its_activations_by_name() -> None:
    module, _, _ = _module("direction")
    nodes = post_order(optimize(module).main.body)
    names = [n.callee.name for n in nodes if isinstance(n, Call) and isinstance(n.callee, OpRef)]
    assert names.count("nn.hard_swish") == 18
    assert names.count("nn.conv2d") == 53
    assert not {"nn.batch_norm", "clip", "divide"} & set(names)
