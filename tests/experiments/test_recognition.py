"""The text recognizer, convolutions and attention, by every way of running it."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.accel.presets import preset
from experiments.networks.answers import onnxruntime_answers
from experiments.networks.packages import BUILD
from experiments.networks.registry import network
from experiments.networks.samples import Split
from experiments.road.build import build_on_cpu, compile_fp32
from experiments.road.compare import compare
from experiments.road.stages import Stage, run_stage
from experiments.road.subject import subject
from host_runtime.session import Session


def _silent(_: object) -> None:
    pass


@pytest.mark.needs_onnxruntime
@pytest.mark.needs_models("recognition")
def test_recognition_in_fp32_is_onnxruntimes() -> None:
    judged = subject("recognition", samples=2)
    chosen = network("recognition")
    inputs = chosen.samples(Split.EVALUATION, 2, BUILD).inputs
    expected = onnxruntime_answers(chosen.model_file(BUILD), inputs)
    session = Session(compile_fp32(judged, _silent))
    found = run_stage(Stage.CPU_FP32, session, judged.evaluation, _silent)
    np.testing.assert_allclose(found.first_output, expected.reshape(2, -1), atol=1e-4)
    np.testing.assert_array_equal(found.classes, expected.argmax(axis=-1))


@pytest.mark.slow
@pytest.mark.needs_verilator
@pytest.mark.needs_models("recognition")
def test_recognition_is_the_same_down_to_the_circuit() -> None:
    built = build_on_cpu(subject("recognition", samples=2), _silent)
    comparison = compare(built, preset("base"), _silent, rtl_samples=1)
    assert comparison.agrees
    assert comparison.top1_agreement() >= 0.9
    products = [
        each.unit for each in comparison.executable.placements if each.operator == "qnn.matmul"
    ]
    assert products == ["gemm"] * 4
