"""Small random networks in Relay, with constant weights, for laws that hold for any network."""

from __future__ import annotations

import numpy as np

from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Constant, Expr, Function, Tuple, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType
from codesign.ops.axis import AxisAttrs
from codesign.ops.clip import ClipAttrs
from codesign.ops.nn.activations import HardSigmoidAttrs
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.nn.pool2d import Pool2DAttrs
from codesign.ops.reshape import ReshapeAttrs
from codesign.ops.table import call

CHANNELS = 4


class RandomNetwork:
    """A network of `depth` layers over an image of 4 channels and 6 x 6 pixels, from a seed."""

    def __init__(self, seed: int, depth: int = 8) -> None:
        self._rng = np.random.default_rng(seed)
        data = Var("x", TensorType((1, CHANNELS, 6, 6), DType.FLOAT32))
        values: list[Expr] = [self._conv(data)]
        for _ in range(depth):
            values.append(self._layer(values))
        body = self._head(values[-1])
        self.module = Module({"main": Function((data,), body)})

    def inputs(self) -> dict[str, Array]:
        """Return one more random input."""
        return {"x": self._array(1, CHANNELS, 6, 6)}

    def _array(self, *shape: int, scale: float = 1.0) -> Array:
        return (self._rng.standard_normal(shape) * scale).astype(np.float32)

    def _constant(self, *shape: int, scale: float = 1.0) -> Constant:
        return Constant(self._array(*shape, scale=scale))

    def _layer(self, values: list[Expr]) -> Expr:
        x = values[-1]
        other = values[self._rng.integers(len(values))]
        match self._rng.integers(11):
            case 0:
                return self._conv(x)
            case 1:
                return self._batch_norm(self._conv(x))
            case 2:
                return call("nn.relu", self._conv(x))
            case 3:
                return call("clip", x, attrs=ClipAttrs(minimum=0.0, maximum=2.0))
            case 4:
                return self._written_hard_swish(x)
            case 5:
                return call("add", x, other)
            case 6:
                return call("multiply", x, self._gate(x))
            case 7:
                window = Pool2DAttrs(pool_size=(3, 3), padding=(1, 1, 1, 1))
                return call("nn.max_pool2d", x, attrs=window)
            case 8:
                return call("add", call("multiply", x, self._constant(CHANNELS, 1, 1)), x)
            case 9:
                joined = call("concatenate", Tuple((x, other)), attrs=AxisAttrs(axis=1))
                return self._conv(joined, inputs=2 * CHANNELS)
            case _:
                return call("sigmoid", self._conv(x))

    def _conv(self, x: Expr, inputs: int = CHANNELS) -> Expr:
        groups = int(self._rng.choice([1, inputs])) if inputs == CHANNELS else 1
        attrs = Conv2DAttrs(padding=(1, 1, 1, 1), groups=groups)
        weight = self._constant(CHANNELS, inputs // groups, 3, 3, scale=0.4)
        made = call("nn.conv2d", x, weight, attrs=attrs)
        match self._rng.integers(3):
            case 0:
                return made
            case 1:
                return call("nn.bias_add", made, self._constant(CHANNELS))
            case _:
                return call("add", self._constant(CHANNELS, 1, 1), made)

    def _batch_norm(self, x: Expr) -> Expr:
        gamma, beta, mean = (self._constant(CHANNELS) for _ in range(3))
        variance = Constant(np.abs(self._array(CHANNELS)) + np.float32(0.5))
        return call("nn.batch_norm", x, gamma, beta, mean, variance)

    def _written_hard_swish(self, x: Expr) -> Expr:
        three, six = (Constant(np.array(value, np.float32)) for value in (3, 6))
        gate = call("clip", call("add", x, three), attrs=ClipAttrs(minimum=0.0, maximum=6.0))
        return call("divide", call("multiply", x, gate), six)

    def _gate(self, x: Expr) -> Expr:
        weight = self._constant(CHANNELS, CHANNELS, 1, 1, scale=0.5)
        squeezed = call("nn.conv2d", call("nn.global_avg_pool2d", x), weight)
        return call("nn.hard_sigmoid", squeezed, attrs=HardSigmoidAttrs())

    def _head(self, x: Expr) -> Expr:
        pooled = call("nn.global_avg_pool2d", x)
        flat = call("reshape", pooled, attrs=ReshapeAttrs(shape=(1, CHANNELS)))
        return call("nn.dense", flat, self._constant(3, CHANNELS))
