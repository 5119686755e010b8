"""The networks in Relay."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from codesign.dtypes import Array
from codesign.ir.relay.expr import Constant, Expr
from codesign.ops.clip import ClipAttrs
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.nn.pool2d import Pool2DAttrs
from codesign.ops.reshape import ReshapeAttrs
from codesign.ops.strided_slice import StridedSliceAttrs
from codesign.ops.table import call
from codesign.ops.transpose import TransposeAttrs


@final
class RelayBuilder:
    """A `Builder` of expressions, for a batch and, where there is time, so many moments."""

    def __init__(self, batch: int, time: int, kind: np.dtype[Any]) -> None:
        self.batch = batch
        self.time = time
        self.kind = kind

    def conv(
        self, x: Expr, weight: Array, bias: Array, *, stride: int, padding: int, groups: int = 1
    ) -> Expr:
        attrs = Conv2DAttrs(strides=(stride, stride), padding=(padding,) * 4, groups=groups)
        sums = call("nn.conv2d", x, Constant(weight), attrs=attrs)
        return call("nn.bias_add", sums, Constant(bias))

    def relu(self, x: Expr) -> Expr:
        return call("nn.relu", x)

    def relu6(self, x: Expr) -> Expr:
        return call("clip", x, attrs=ClipAttrs(minimum=0.0, maximum=6.0))

    def add(self, x: Expr, y: Expr) -> Expr:
        return call("add", x, y)

    def max_pool(self, x: Expr) -> Expr:
        attrs = Pool2DAttrs(pool_size=(3, 3), strides=(2, 2), padding=(1, 1, 1, 1))
        return call("nn.max_pool2d", x, attrs=attrs)

    def mean_pool(self, x: Expr) -> Expr:
        return call("nn.batch_flatten", call("nn.global_avg_pool2d", x))

    def dense(self, x: Expr, weight: Array, bias: Array) -> Expr:
        return call("add", call("nn.dense", x, Constant(weight)), Constant(bias))

    def gelu(self, x: Expr) -> Expr:
        return call("nn.gelu", x)

    def layer_norm(self, x: Expr, gamma: Array, beta: Array) -> Expr:
        return call("nn.layer_norm", x, Constant(gamma), Constant(beta))

    def attention(self, query: Expr, key: Expr, value: Expr, heads: int, width: int) -> Expr:
        shape = (self.batch, self.time, heads, width)
        query, key, value = (_reshaped(each, *shape) for each in (query, key, value))
        scores = call("nn.matmul", _turned(query, 0, 2, 1, 3), _turned(key, 0, 2, 3, 1))
        scale = np.asarray(width**-0.5, self.kind)
        weights = call("nn.softmax", call("multiply", scores, Constant(scale)))
        mixed = call("nn.matmul", weights, _turned(value, 0, 2, 1, 3))
        return _reshaped(_turned(mixed, 0, 2, 1, 3), self.batch, self.time, heads * width)

    def lstm(self, x: Expr, of_input: Array, of_state: Array, bias: Array) -> Expr:
        units = of_state.shape[1]
        moments = self.dense(x, of_input, bias)
        inputs = _reshaped(moments, self.batch, self.time * 4 * units)
        hidden: Expr = Constant(np.zeros((self.batch, units), of_state.dtype))
        cell = hidden
        for moment in range(self.time):
            now = _slice(inputs, 1, moment * 4 * units, 4 * units)
            gates = call("add", call("nn.dense", hidden, Constant(of_state)), now)
            parts = [_slice(gates, 1, number * units, units) for number in range(4)]
            enter, forget, out = (call("sigmoid", parts[each]) for each in (0, 1, 3))
            fresh = call("multiply", enter, call("tanh", parts[2]))
            cell = call("add", call("multiply", forget, cell), fresh)
            hidden = call("multiply", out, call("tanh", cell))
        return hidden


def _reshaped(x: Expr, *shape: int) -> Expr:
    return call("reshape", x, attrs=ReshapeAttrs(shape=shape))


def _turned(x: Expr, *axes: int) -> Expr:
    return call("transpose", x, attrs=TransposeAttrs(axes=axes))


def _slice(x: Expr, axis: int, begin: int, length: int) -> Expr:
    attrs = StridedSliceAttrs(begin=(begin,), end=(begin + length,), axes=(axis,))
    return call("strided_slice", x, attrs=attrs)
