"""ResNet-34 and ResNet-50 with seeded weights, written as ONNX without a training framework.

The architecture is real, the weights are not trained: they measure cycles, not accuracy.
Source: He et al., Deep Residual Learning for Image Recognition (CVPR 2016), table 1; the strides
of ResNet-50 are those of the 1x1 convolutions at the beginning of its stages, as there.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final, final

import numpy as np
import onnx
from onnx import TensorProto, helper

from experiments.networks.packages import BUILD
from experiments.networks.resnet18 import SIDE, SeededGraph, save_once

_BLOCKS: Final = (3, 4, 6, 3)
_WIDTHS: Final = (64, 128, 256, 512)
_EXPANSION: Final = 4


@final
class _Network:
    """The graph as it grows; `cin` are the channels of what was added last."""

    def __init__(self, seed: int) -> None:
        self.graph = SeededGraph(rng=np.random.default_rng(seed))
        self.cin = 64

    def basic(self, source: str, name: str, width: int, stride: int) -> str:
        """Append a block of two 3x3 convolutions."""
        result = self.graph.block(source, name, self.cin, width, stride)
        self.cin = width
        return result

    def bottleneck(self, source: str, name: str, width: int, stride: int) -> str:
        """Append a block of 1x1, 3x3 and 1x1 convolutions."""
        graph, cout = self.graph, width * _EXPANSION
        x = graph.conv_norm(source, f"{name}.0", (width, self.cin, 1), stride)
        x = graph.add("Relu", [x], f"{name}.0.relu")
        x = graph.add(
            "Relu", [graph.conv_norm(x, f"{name}.1", (width, width, 3), 1)], f"{name}.1.relu"
        )
        x = graph.conv_norm(x, f"{name}.2", (cout, width, 1), 1)
        short = source
        if self.cin != cout:
            short = graph.conv_norm(source, f"{name}.short", (cout, self.cin, 1), stride)
        self.cin = cout
        return graph.add("Relu", [graph.add("Add", [x, short], f"{name}.add")], f"{name}.relu")


def to_onnx(depth: int) -> onnx.ModelProto:
    """Return the network of 34 or 50 layers; always the same bytes."""
    network = _Network(seed=depth)
    graph = network.graph
    append = network.basic if depth == 34 else network.bottleneck
    x = graph.add("Relu", [graph.conv_norm("image", "stem", (64, 3, 7), 2)], "stem.relu")
    x = graph.add("MaxPool", [x], "stem.pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for stage, (width, blocks) in enumerate(zip(_WIDTHS, _BLOCKS, strict=True)):
        for index in range(blocks):
            stride = 2 if stage > 0 and index == 0 else 1
            x = append(x, f"stage{stage}.{index}", width, stride)
    x = graph.add("Flatten", [graph.add("GlobalAveragePool", [x], "pool")], "flat", axis=1)
    weight = graph.weight("dense.weight", graph.rng.normal(0, 0.05, (1000, network.cin)))
    bias = graph.weight("dense.bias", graph.rng.normal(0, 0.05, 1000))
    graph.add("Gemm", [x, weight, bias], "logits", transB=1)
    return graph.model(
        f"resnet{depth}",
        helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, SIDE, SIDE]),
        helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 1000]),
    )


def model_file(depth: int, build: Path = BUILD) -> Path:
    """Return the path of the ONNX file, writing it where it is not there yet."""
    return save_once(build / f"resnet{depth}.onnx", partial(to_onnx, depth))
