"""A network with the inputs it is judged on and those it is calibrated with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from codesign.compiler.frontend.onnx import Model, load_onnx
from codesign.compiler.quantization import QuantizationConfig
from codesign.diagnostics import CodesignError
from codesign.dtypes import Array
from codesign.ir.relay.types import TensorType
from experiments.networks.packages import BUILD
from experiments.networks.registry import NETWORKS, STUDIED, network
from experiments.networks.samples import Split

RANDOM_SAMPLES = 32
"""Samples that calibrate a network without data."""

Inputs = Mapping[str, Array]


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Subject:
    """What the road runs.

    `quantization` is how it becomes integers. `evaluation` and `calibration` are inputs by name,
    each of the network's own batch; `labels` the true classes of `evaluation`, where they are
    known. `is_trained` says whether top-1 means something; `has_data` whether the inputs are more
    than seeded noise.
    """

    name: str
    title: str
    model: Model
    quantization: QuantizationConfig
    evaluation: tuple[Inputs, ...]
    calibration: tuple[Inputs, ...]
    labels: tuple[int, ...] | None
    is_trained: bool
    has_data: bool


def is_network(argument: str) -> bool:
    """Return whether a command's MODEL names a network of this project."""
    return any(each.name == argument for each in (*NETWORKS, *STUDIED))


def load(argument: str, shapes: Mapping[str, Sequence[int]] | None = None) -> Model:
    """Return the model of a network's name or an ONNX file.

    Raises
    ------
    CodesignError
        No such network or file, or one that cannot be imported.
    """
    if is_network(argument):
        return _network_model(argument)
    if "/" not in argument and "." not in argument and not Path(argument).exists():
        network(argument)
    return load_onnx(argument, shapes=shapes)


def subject(
    argument: str,
    *,
    samples: int,
    seed: int = 0,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> Subject:
    """Return a network with `samples` inputs to judge it on.

    A network of this project comes with data; an ONNX file gets standard normal numbers.
    """
    model = load(argument, shapes)
    if not is_network(argument):
        return _file_subject(argument, model, samples, seed)
    chosen = network(argument)
    evaluation = chosen.samples(Split.EVALUATION, samples, BUILD)
    calibration = chosen.samples(Split.CALIBRATION, chosen.calibration_samples, BUILD)
    name = model.inputs[0][0]
    labels = None if evaluation.labels is None else tuple(int(v) for v in evaluation.labels)
    return Subject(
        name=chosen.name,
        title=chosen.title,
        model=model,
        quantization=chosen.quantization,
        evaluation=tuple({name: each[None]} for each in evaluation.inputs),
        calibration=tuple({name: each[None]} for each in calibration.inputs),
        labels=labels,
        is_trained=chosen.is_trained,
        has_data=True,
    )


def random_inputs(
    inputs: Sequence[tuple[str, TensorType]], rng: np.random.Generator
) -> dict[str, Array]:
    """Return standard normal numbers for inputs in floating point, 0 to 9 for integers."""
    return {name: _random(tensor, rng) for name, tensor in inputs}


def _network_model(name: str) -> Model:
    chosen = network(name)
    return load_onnx(chosen.model_file(BUILD), shapes={chosen.input_name: chosen.input_shape})


def _file_subject(argument: str, model: Model, samples: int, seed: int) -> Subject:
    rng = np.random.default_rng(seed)
    if not model.inputs:
        raise CodesignError.of(f"{argument} has no inputs: there is nothing to compare")
    evaluation = tuple(random_inputs(model.inputs, rng) for _ in range(samples))
    calibration = tuple(random_inputs(model.inputs, rng) for _ in range(RANDOM_SAMPLES))
    return Subject(
        name=Path(argument).stem,
        title=argument,
        model=model,
        quantization=QuantizationConfig(),
        evaluation=evaluation,
        calibration=calibration,
        labels=None,
        is_trained=False,
        has_data=False,
    )


def _random(tensor: TensorType, rng: np.random.Generator) -> Array:
    dtype = tensor.dtype.numpy
    if tensor.dtype.is_float:
        return rng.standard_normal(tensor.static_shape).astype(dtype)
    return rng.integers(0, 10 if tensor.dtype.is_integer else 2, tensor.static_shape).astype(dtype)
