"""EfficientNet-Lite0 in plain torch; members are named after the keys of the packaged weights.

Source: Tan and Le, EfficientNet (ICML 2019), table 1; the Lite variant of tensorflow/tpu
(`efficientnet/lite`): no squeeze-and-excitation, ReLU6 for swish, stem and head not scaled.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn

_STAGES: Final = (
    # blocks, kernel, stride, expansion, channels out
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
_STEM: Final = 32
_HEAD: Final = 1280
_EPSILON: Final = 1e-3


class SameConv(nn.Conv2d):
    """A convolution padded as TensorFlow's SAME does: the odd row and column at the far end."""

    def __init__(self, cin: int, cout: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        total = max(kernel - stride, 0)
        near, far = total // 2, total - total // 2
        even = near if near == far else 0
        super().__init__(cin, cout, kernel, stride, even, groups=groups, bias=False)
        self.pad = nn.Identity() if near == far else nn.ZeroPad2d((near, far, near, far))

    def forward(self, x: Tensor) -> Tensor:
        """Return the padded convolution of Tensor[(n, c, h, w)] with even h and w."""
        return super().forward(self.pad(x))


class Block(nn.Module):
    """An inverted bottleneck: expand, depthwise, project; with a shortcut where shapes agree."""

    def __init__(self, cin: int, cout: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = cin * expansion
        self.expands = expansion != 1
        self.shortcut = stride == 1 and cin == cout
        if self.expands:
            self._expand_conv = SameConv(cin, wide, 1)
            self._bn0 = nn.BatchNorm2d(wide, _EPSILON)
        self._depthwise_conv = SameConv(wide, wide, kernel, stride, wide)
        self._bn1 = nn.BatchNorm2d(wide, _EPSILON)
        self._project_conv = SameConv(wide, cout, 1)
        self._bn2 = nn.BatchNorm2d(cout, _EPSILON)

    def forward(self, x: Tensor) -> Tensor:
        y = x
        if self.expands:
            y = nn.functional.relu6(self._bn0(self._expand_conv(y)))
        y = nn.functional.relu6(self._bn1(self._depthwise_conv(y)))
        y = self._bn2(self._project_conv(y))
        return x + y if self.shortcut else y


class EfficientNetLite0(nn.Module):
    """Image float32 Tensor[(n, 3, 224, 224)] to logits Tensor[(n, 1000)]."""

    def __init__(self) -> None:
        super().__init__()
        self._conv_stem = SameConv(3, _STEM, 3, 2)
        self._bn0 = nn.BatchNorm2d(_STEM, _EPSILON)
        blocks, cin = [], _STEM
        for count, kernel, stride, expansion, cout in _STAGES:
            for index in range(count):
                blocks.append(Block(cin, cout, kernel, stride if index == 0 else 1, expansion))
                cin = cout
        self._blocks = nn.ModuleList(blocks)
        self._conv_head = SameConv(cin, _HEAD, 1)
        self._bn1 = nn.BatchNorm2d(_HEAD, _EPSILON)
        self._fc = nn.Linear(_HEAD, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.relu6(self._bn0(self._conv_stem(x)))
        for block in self._blocks:
            x = block(x)
        x = nn.functional.relu6(self._bn1(self._conv_head(x)))
        logits: Tensor = self._fc(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))
        return logits


def export(weights: Path, target: Path) -> None:
    """Write the network with the packaged weights as ONNX, opset 17."""
    network = EfficientNetLite0().eval()
    network.load_state_dict(torch.load(weights, weights_only=True))
    target.parent.mkdir(parents=True, exist_ok=True)
    torch.onnx.export(
        network,
        (torch.zeros(1, 3, 224, 224),),
        str(target),
        input_names=["image"],
        output_names=["logits"],
        opset_version=17,
        dynamo=False,
    )
