"""ResNet-18 and -50, MobileNet-V2, BERT-small and an LSTM, with random weights.

Weights are drawn anew from one seed for each build, in the order in which layers are built, so that
builds of one network have the same ones. Batch normalizations are folded into the convolutions.

Sources: He et al., Deep Residual Learning (2016); Sandler et al., MobileNetV2 (2018); Turc et al.,
Well-Read Students Learn Better (2019), of which BERT-small is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeVar, final

import numpy as np

from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Function, Var
from codesign.ir.relay.types import TensorType
from experiments.gpu.builder import Builder
from experiments.gpu.relay import RelayBuilder

T = TypeVar("T")


@final
class Weights:
    """Random weights of one element type, of a size that keeps activations as they are."""

    def __init__(self, kind: np.dtype[Any]) -> None:
        self._rng = np.random.default_rng(0)
        self._kind = kind

    def __call__(self, *shape: int) -> Array:
        """Return the next weight; the first axis is the outputs'."""
        spread = np.sqrt(2.0 / max(int(np.prod(shape[1:])), 1))
        return np.asarray(self._rng.standard_normal(shape) * spread, self._kind)

    def bias(self, outputs: int) -> Array:
        """Return the next bias."""
        return (self._rng.standard_normal(outputs) * 0.1).astype(self._kind)


Build = Callable[[Builder[Any], Any, Weights, int], Any]
"""`(builder, input, weights, size) -> output`; `size` scales the network down for rehearsals."""


@final
@dataclass(frozen=True)
class TimedNetwork:
    """A network, and its input's shape behind the batch; `time` is the moments of a sequence."""

    name: str
    build: Build
    shape: tuple[int, ...]
    time: int = 0

    def function(self, batch: int, kind: np.dtype[Any], size: int = 1) -> Function:
        """Return the network in Relay; `size` is 1, or how many times smaller it is."""
        shape, time = self.sized(size)
        x = Var("x", TensorType((batch, *shape), DType.of(kind)))
        builder = RelayBuilder(batch, time, kind)
        return Function((x,), self.build(builder, x, Weights(kind), size))

    def sized(self, size: int) -> tuple[tuple[int, ...], int]:
        """Return shape and time of a smaller network."""
        if self.time:
            return (self.time // size, self.shape[1] // size), self.time // size
        return (3, self.shape[1] // size, self.shape[2] // size), 0

    def input(self, batch: int, kind: np.dtype[Any], size: int = 1) -> Array:
        """Return a random input."""
        shape, _ = self.sized(size)
        return np.random.default_rng(1).standard_normal((batch, *shape)).astype(kind)


def _conv(
    b: Builder[T], x: T, w: Weights, channels: tuple[int, int], window: int, stride: int = 1
) -> T:
    weight = w(channels[1], channels[0], window, window)
    return b.conv(x, weight, w.bias(channels[1]), stride=stride, padding=window // 2)


def _basic(b: Builder[T], x: T, w: Weights, before: int, width: int, stride: int) -> T:
    y = b.relu(_conv(b, x, w, (before, width), 3, stride))
    y = _conv(b, y, w, (width, width), 3)
    if stride != 1 or before != width:
        x = _conv(b, x, w, (before, width), 1, stride)
    return b.relu(b.add(y, x))


def _bottleneck(b: Builder[T], x: T, w: Weights, before: int, width: int, stride: int) -> T:
    y = b.relu(_conv(b, x, w, (before, width), 1))
    y = b.relu(_conv(b, y, w, (width, width), 3, stride))
    y = _conv(b, y, w, (width, 4 * width), 1)
    if stride != 1 or before != 4 * width:
        x = _conv(b, x, w, (before, 4 * width), 1, stride)
    return b.relu(b.add(y, x))


def _resnet(depths: tuple[int, ...], *, wide: bool) -> Build:
    block, factor = (_bottleneck, 4) if wide else (_basic, 1)

    def build(b: Builder[Any], x: Any, w: Weights, size: int) -> Any:
        x = b.max_pool(b.relu(_conv(b, x, w, (3, 64 // size), 7, 2)))
        before = 64 // size
        for stage, depth in enumerate(depths):
            width = (64 << stage) // size
            for number in range(depth):
                stride = 2 if stage and not number else 1
                x = block(b, x, w, before, width, stride)
                before = width * factor
        return b.dense(b.mean_pool(x), w(1000 // size, before), w.bias(1000 // size))

    return build


_INVERTED: Final = (
    *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
    *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
)
"""Of MobileNet-V2: how many times wider inside, channels, blocks, first stride."""


def _mobilenet(b: Builder[Any], x: Any, w: Weights, size: int) -> Any:
    before = 32 // size
    x = b.relu6(_conv(b, x, w, (3, before), 3, 2))
    for wider, channels, blocks, first in _INVERTED:
        for number in range(blocks):
            stride, after = first if number == 0 else 1, channels // size
            y, inside = x, before * wider
            if wider > 1:
                y = b.relu6(_conv(b, y, w, (before, inside), 1))
            taps, bias = w(inside, 1, 3, 3), w.bias(inside)
            y = b.relu6(b.conv(y, taps, bias, stride=stride, padding=1, groups=inside))
            y = _conv(b, y, w, (inside, after), 1)
            x = b.add(x, y) if stride == 1 and before == after else y
            before = after
    x = b.relu6(_conv(b, x, w, (before, 1280 // size), 1))
    return b.dense(b.mean_pool(x), w(1000 // size, 1280 // size), w.bias(1000 // size))


def _bert(b: Builder[Any], x: Any, w: Weights, size: int) -> Any:
    width, heads = 512 // size, 8 // size
    for _ in range(max(4 // size, 1)):
        query, key, value = (b.dense(x, w(width, width), w.bias(width)) for _ in range(3))
        mixed = b.attention(query, key, value, heads, width // heads)
        x = _normal(b, b.add(x, b.dense(mixed, w(width, width), w.bias(width))), w, width)
        inner = b.gelu(b.dense(x, w(4 * width, width), w.bias(4 * width)))
        x = _normal(b, b.add(x, b.dense(inner, w(width, 4 * width), w.bias(width))), w, width)
    return x


def _normal(b: Builder[T], x: T, w: Weights, width: int) -> T:
    return b.layer_norm(x, (1 + w.bias(width)).astype(w.bias(1).dtype), w.bias(width))


def _lstm(b: Builder[Any], x: Any, w: Weights, size: int) -> Any:
    units = 512 // size
    return b.lstm(x, w(4 * units, units), w(4 * units, units), w.bias(4 * units))


TIMED: Final[Mapping[str, TimedNetwork]] = MappingProxyType(
    {
        each.name: each
        for each in (
            TimedNetwork("resnet18", _resnet((2, 2, 2, 2), wide=False), (3, 224, 224)),
            TimedNetwork("resnet50", _resnet((3, 4, 6, 3), wide=True), (3, 224, 224)),
            TimedNetwork("mobilenet-v2", _mobilenet, (3, 224, 224)),
            TimedNetwork("bert-small", _bert, (128, 512), 128),
            TimedNetwork("lstm", _lstm, (32, 512), 32),
        )
    }
)
"""The networks that are timed, by name."""
