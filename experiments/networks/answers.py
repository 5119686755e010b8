"""What onnxruntime answers, recorded once per network: the independent side of `road-fp32`."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from experiments.networks.packages import BUILD
from experiments.networks.registry import Network
from experiments.networks.samples import Split

COUNT: Final = 8
"""Samples of the evaluation split whose answers are recorded."""


def recorded(network: Network, build: Path = BUILD) -> npt.NDArray[np.float32]:
    """Return onnxruntime's answers to the first `COUNT` samples, float32 Tensor[(8, classes)].

    Recorded under `build/networks/answers/` at the first call; the file's name holds the digest of
    model and inputs, so a changed network or sample is answered anew.
    """
    model, inputs = (
        network.model_file(build),
        network.samples(Split.EVALUATION, COUNT, build).inputs,
    )
    digest = hashlib.sha256(model.read_bytes() + inputs.tobytes()).hexdigest()[:16]
    path = build / "answers" / f"{network.name}-{digest}.npy"
    if path.is_file():
        stored: npt.NDArray[np.float32] = np.load(path)
        return stored
    answers = onnxruntime_answers(model, inputs)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, answers)
    return answers


def onnxruntime_answers(model: Path, inputs: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return onnxruntime's first output for every sample, run one by one on the CPU."""
    run = session(model)
    return np.concatenate(
        [run.run(None, {run.get_inputs()[0].name: each[None]})[0] for each in inputs]
    )


def has_onnxruntime() -> bool:
    """Return whether onnxruntime, which only development needs, is installed."""
    return importlib.util.find_spec("onnxruntime") is not None


def session(model: Path) -> Any:
    """Return a session of one thread, so that times compare with ours."""
    onnxruntime = importlib.import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
