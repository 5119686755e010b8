"""MobileNet-V1 with seeded weights, written as ONNX without a training framework.

The architecture is real, the weights are not trained: it measures cycles, not accuracy.
Source: Howard et al., MobileNets: Efficient Convolutional Neural Networks for Mobile Vision
Applications (2017), table 1, with all its channels and 224 x 224 pixels.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import onnx
from onnx import TensorProto, helper

from experiments.networks.packages import BUILD
from experiments.networks.resnet18 import SIDE, SeededGraph, save_once

SEED: Final = 1
_STEM: Final = 32
_BLOCKS: Final = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *((512, 1),) * 5,
    (1024, 2),
    (1024, 1),
)
"""Out channels and stride of each depthwise convolution with the 1x1 convolution behind it."""


def to_onnx(seed: int = SEED) -> onnx.ModelProto:
    """Return the network; the same seed gives the same bytes."""
    graph = SeededGraph(rng=np.random.default_rng(seed))
    x = _rectified(graph, "image", "stem", (_STEM, 3, 3), 2)
    cin = _STEM
    for index, (cout, stride) in enumerate(_BLOCKS):
        x = _rectified(graph, x, f"block{index}.depthwise", (cin, 1, 3), stride, groups=cin)
        x = _rectified(graph, x, f"block{index}.pointwise", (cout, cin, 1), 1)
        cin = cout
    x = graph.add("Flatten", [graph.add("GlobalAveragePool", [x], "pool")], "flat", axis=1)
    weight = graph.weight("dense.weight", graph.rng.normal(0, 0.05, (1000, cin)))
    bias = graph.weight("dense.bias", graph.rng.normal(0, 0.05, 1000))
    graph.add("Gemm", [x, weight, bias], "logits", transB=1)
    return graph.model(
        "mobilenet",
        helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, SIDE, SIDE]),
        helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 1000]),
    )


def _rectified(
    graph: SeededGraph,
    source: str,
    name: str,
    shape: tuple[int, int, int],
    stride: int,
    groups: int = 1,
) -> str:
    norm = graph.conv_norm(source, name, shape, stride, groups=groups)
    return graph.add("Clip", [norm, *graph.limits(0.0, 6.0)], f"{name}.relu6")


def model_file(build: Path = BUILD) -> Path:
    """Return the path of the ONNX file, writing it where it is not there yet."""
    return save_once(build / "mobilenet.onnx", to_onnx)
