"""ResNet-18 with seeded weights, written as ONNX without a training framework.

The architecture is real, the weights are not trained: it measures cycles and speed, not accuracy.
Source: He et al., Deep Residual Learning for Image Recognition (CVPR 2016), table 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, final

import numpy as np
import numpy.typing as npt
import onnx
from onnx import NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from experiments.networks.packages import BUILD
from experiments.networks.samples import Samples, Split

SIDE: Final = 224
SEED: Final = 18
_STAGES: Final = ((64, 1), (128, 2), (256, 2), (512, 2))
_BLOCKS: Final = 2


@final
@dataclass(kw_only=True)
class SeededGraph:
    """Nodes and seeded weights as they are added; names are positions in the network."""

    rng: np.random.Generator
    nodes: list[NodeProto] = field(default_factory=list)
    weights: list[TensorProto] = field(default_factory=list)

    def add(self, operator: str, inputs: list[str], name: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(operator, inputs, [name], name=name, **attributes))
        return name

    def weight(self, name: str, value: npt.NDArray[np.floating]) -> str:
        self.weights.append(numpy_helper.from_array(value.astype(np.float32), name))
        return name

    def limits(self, low: float, high: float) -> tuple[str, str]:
        """Return the names of two scalars, the limits of a Clip."""
        names = f"limit.{low:g}", f"limit.{high:g}"
        known = {each.name for each in self.weights}
        for name, value in zip(names, (low, high), strict=True):
            if name not in known:
                self.weight(name, np.array(value))
        return names

    def conv_norm(
        self, source: str, name: str, shape: tuple[int, int, int], stride: int, groups: int = 1
    ) -> str:
        """Append a convolution of `shape` (out, in of a group, kernel) and its normalisation."""
        cout, cin, kernel = shape
        deviation = np.sqrt(2 / (cin * kernel * kernel))
        weight = self.rng.normal(0, deviation, (cout, cin, kernel, kernel))
        conv = self.add(
            "Conv",
            [source, self.weight(f"{name}.weight", weight)],
            f"{name}.conv",
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[kernel // 2] * 4,
            **({"group": groups} if groups > 1 else {}),
        )
        statistics = {
            "scale": self.rng.uniform(0.4, 0.8, cout),
            "shift": self.rng.uniform(-0.1, 0.1, cout),
            "mean": self.rng.normal(0, 0.1, cout),
            "variance": self.rng.uniform(0.8, 1.2, cout),
        }
        names = [self.weight(f"{name}.{key}", value) for key, value in statistics.items()]
        return self.add("BatchNormalization", [conv, *names], f"{name}.norm", epsilon=1e-5)

    def block(self, source: str, name: str, cin: int, cout: int, stride: int) -> str:
        """Append two convolutions and the shortcut around them."""
        first = self.conv_norm(source, f"{name}.0", (cout, cin, 3), stride)
        relu = self.add("Relu", [first], f"{name}.0.relu")
        second = self.conv_norm(relu, f"{name}.1", (cout, cout, 3), 1)
        short = source
        if stride != 1 or cin != cout:
            short = self.conv_norm(source, f"{name}.short", (cout, cin, 1), stride)
        total = self.add("Add", [second, short], f"{name}.add")
        return self.add("Relu", [total], f"{name}.relu")

    def model(self, name: str, source: ValueInfoProto, result: ValueInfoProto) -> onnx.ModelProto:
        """Return the network, checked."""
        model = helper.make_model(
            helper.make_graph(self.nodes, name, [source], [result], self.weights),
            opset_imports=[helper.make_opsetid("", 17)],
            producer_name="codesign",
            ir_version=8,
        )
        onnx.checker.check_model(model)
        return model


def to_onnx(seed: int = SEED) -> onnx.ModelProto:
    """Return the network; the same seed gives the same bytes."""
    graph = SeededGraph(rng=np.random.default_rng(seed))
    x = graph.add("Relu", [graph.conv_norm("image", "stem", (64, 3, 7), 2)], "stem.relu")
    x = graph.add("MaxPool", [x], "stem.pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    cin = 64
    for stage, (cout, stride) in enumerate(_STAGES):
        for index in range(_BLOCKS):
            x = graph.block(x, f"stage{stage}.{index}", cin, cout, stride if index == 0 else 1)
            cin = cout
    x = graph.add("Flatten", [graph.add("GlobalAveragePool", [x], "pool")], "flat", axis=1)
    weight = graph.weight("dense.weight", graph.rng.normal(0, 0.05, (1000, cin)))
    bias = graph.weight("dense.bias", graph.rng.normal(0, 0.05, 1000))
    graph.add("Gemm", [x, weight, bias], "logits", transB=1)
    return graph.model(
        "resnet18",
        helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, SIDE, SIDE]),
        helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 1000]),
    )


def model_file(build: Path = BUILD) -> Path:
    """Return the path of the ONNX file, writing it where it is not there yet."""
    return save_once(build / "resnet18.onnx", to_onnx)


def save_once(path: Path, make: Callable[[], onnx.ModelProto]) -> Path:
    """Write a network to `path` where there is none yet; return the path."""
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        onnx.save(make(), partial)
        partial.replace(path)
    return path


def samples(split: Split, count: int, build: Path = BUILD) -> Samples:
    """Return `count` images of smooth seeded noise: the network was never trained on anything."""
    coarse = split.generator(40).normal(0, 1, (count, 3, SIDE // 8, SIDE // 8))
    return Samples(inputs=coarse.repeat(8, 2).repeat(8, 3).astype(np.float32), labels=None)
