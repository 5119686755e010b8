"""Whole networks that onnxruntime quantized: the same outputs to the bit, on CPU and chip."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, final

import numpy as np
import pytest

from codesign.accel.presets import preset
from codesign.compiler import driver
from codesign.compiler.frontend.onnx import load_onnx
from codesign.dtypes import Array
from codesign.ir.executable.executable import Executable
from experiments.networks.registry import BUILD, network
from experiments.networks.samples import Split
from host_runtime.device import open_device
from host_runtime.session import Session
from tests.support.onnx_graphs import onnxruntime_session

quantization = pytest.importorskip("onnxruntime.quantization")
pytestmark = pytest.mark.needs_onnxruntime
SHAPE = (1, 1, 8, 8)


@final
class _Reader(quantization.CalibrationDataReader):  # type: ignore[misc,name-defined]
    def __init__(self, samples: Array) -> None:
        self._left = iter(samples)

    def get_next(self) -> dict[str, Array] | None:
        sample = next(self._left, None)
        return None if sample is None else {"image": sample[None]}


def _quantized(folder: Path, form: str, *, per_channel: bool, activations: str) -> Path:
    """Return digits as onnxruntime quantizes it; weights of 7 bits do not saturate there."""
    digits = network("digits")
    samples = digits.samples(Split.CALIBRATION, 16, BUILD).inputs
    file = folder / f"{form}-{per_channel}-{activations}.onnx"
    kinds: Any = quantization.QuantType
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantization.quantize_static(
            str(digits.model_file(BUILD)),
            str(file),
            _Reader(samples),
            quant_format=getattr(quantization.QuantFormat, form),
            activation_type=getattr(kinds, activations),
            weight_type=kinds.QInt8,
            per_channel=per_channel,
            reduce_range=True,
        )
    return file


def _outputs(executable: Executable, samples: Array, device: Any = None) -> Array:
    session = Session(executable, device)
    return np.concatenate([next(iter(session.run({"image": x[None]}).values())) for x in samples])


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("activations", ["QUInt8", "QInt8"])
def test_digits_equal_onnxruntime(
    form: str, per_channel: bool, activations: str, tmp_path: Path
) -> None:
    file = _quantized(tmp_path, form, per_channel=per_channel, activations=activations)
    samples = network("digits").samples(Split.EVALUATION, 40, BUILD).inputs
    model = load_onnx(file, shapes={"image": SHAPE})
    found = _outputs(driver.compile(model), samples)
    session = onnxruntime_session(file.read_bytes())
    wanted = np.concatenate([session.run(None, {"image": x[None]})[0] for x in samples])
    assert len(np.unique(wanted)) > 50
    np.testing.assert_array_equal(found, wanted)


def test_layers_whose_factors_are_multipliers_run_on_the_accelerator(tmp_path: Path) -> None:
    file = _quantized(tmp_path, "QDQ", per_channel=False, activations="QUInt8")
    samples = network("digits").samples(Split.EVALUATION, 8, BUILD).inputs
    model = load_onnx(file, shapes={"image": SHAPE})
    config = preset("tiny")
    executable = driver.compile(model, target="accel", config=config)
    sides = {each.operator: each.unit for each in executable.placements}
    assert sides["qnn.conv2d"] == "gemm"
    found = _outputs(executable, samples, open_device("functional", config))
    np.testing.assert_array_equal(found, _outputs(driver.compile(model), samples))
