"""The generator of DCGAN with seeded weights, written as ONNX without a training framework.

The architecture is real, the weights are not trained: it measures cycles, not pictures.
Source: Radford et al., Unsupervised Representation Learning with Deep Convolutional Generative
Adversarial Networks (ICLR 2016), figure 1, with kernels of 4x4: 100 numbers become 1024 channels of
4x4, and four transposed convolutions make 64x64 pixels of them.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import onnx
from onnx import TensorProto, helper

from experiments.networks.packages import BUILD
from experiments.networks.resnet18 import SeededGraph, save_once
from experiments.networks.samples import Samples, Split

SEED: Final = 64
CODE: Final = 100
_SIDE: Final = 4
_CHANNELS: Final = (1024, 512, 256, 128, 3)
_KERNEL: Final = 4


def to_onnx(seed: int = SEED) -> onnx.ModelProto:
    """Return the network; the same seed gives the same bytes."""
    graph = SeededGraph(rng=np.random.default_rng(seed))
    first = _CHANNELS[0] * _SIDE * _SIDE
    weight = graph.weight("code.weight", graph.rng.normal(0, CODE**-0.5, (first, CODE)))
    bias = graph.weight("code.bias", graph.rng.normal(0, 0.05, first))
    x = graph.add("Gemm", ["code", weight, bias], "code.dense", transB=1)
    x = graph.add("Relu", [x], "code.relu")
    graph.weights.append(
        helper.make_tensor("code.shape", TensorProto.INT64, [4], [1, _CHANNELS[0], _SIDE, _SIDE])
    )
    x = graph.add("Reshape", [x, "code.shape"], "code.planes")
    for index, (cin, cout) in enumerate(pairwise(_CHANNELS)):
        x = _doubled(graph, x, f"up{index}", cin, cout)
        last = index == len(_CHANNELS) - 2
        x = graph.add("Tanh" if last else "Relu", [x], "picture" if last else f"up{index}.relu")
    side = _SIDE << (len(_CHANNELS) - 1)
    return graph.model(
        "dcgan",
        helper.make_tensor_value_info("code", TensorProto.FLOAT, [1, CODE]),
        helper.make_tensor_value_info("picture", TensorProto.FLOAT, [1, 3, side, side]),
    )


def _doubled(graph: SeededGraph, source: str, name: str, cin: int, cout: int) -> str:
    """Append a transposed convolution that doubles both sides; four of its taps meet in a pixel."""
    deviation = np.sqrt(2 / (4 * cin))
    weight = graph.rng.normal(0, deviation, (cin, cout, _KERNEL, _KERNEL))
    return graph.add(
        "ConvTranspose",
        [
            source,
            graph.weight(f"{name}.weight", weight),
            graph.weight(f"{name}.bias", graph.rng.normal(0, 0.05, cout)),
        ],
        f"{name}.conv",
        kernel_shape=[_KERNEL, _KERNEL],
        strides=[2, 2],
        pads=[1] * 4,
    )


def model_file(build: Path = BUILD) -> Path:
    """Return the path of the ONNX file, writing it where it is not there yet."""
    return save_once(build / "dcgan.onnx", to_onnx)


def samples(split: Split, count: int, build: Path = BUILD) -> Samples:
    """Return `count` seeded codes, uniform in -1 to 1."""
    codes = split.generator(SEED).uniform(-1, 1, (count, CODE))
    return Samples(inputs=codes.astype(np.float32), labels=None)
