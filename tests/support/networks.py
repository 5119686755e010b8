"""A small quantized network with work for host and accelerator."""

from __future__ import annotations

import numpy as np

from codesign.dtypes import DType
from codesign.ir.relay.expr import Call, Function, OpRef, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType
from codesign.ops.axis import AxisAttrs
from codesign.ops.qnn.quantize import QuantizeAttrs
from tests.support.regions import Maker

IMAGE = TensorType((1, 3, 12, 12), DType.FLOAT32)


def small_network(seed: int = 0) -> Module:
    """Return float image -> probabilities, int8 between: convolutions, a gate, a sum, a product."""
    maker = Maker(np.random.default_rng(seed))
    image = Var("image", IMAGE)
    q = Call(OpRef("qnn.quantize"), (image,), QuantizeAttrs(scale=0.02, zero_point=3))
    stem = maker.conv(q, (20, 3, 3, 3), padding=(1, 1, 1, 1), strides=(2, 2))
    inner = maker.conv(stem, (20, 1, 3, 3), groups=20, padding=(1, 1, 1, 1))
    gate = maker.lookup(maker.conv(maker.sum_pool(inner, 20, pool_size=(6, 6)), (20, 20, 1, 1)))
    added = maker.add(maker.multiply(inner, gate), stem)
    flat = maker.reshape(maker.max_pool(added, pool_size=(2, 2), strides=(2, 2)), (1, 180))
    scores = maker.dense(flat, (10, 180))
    real = Call(OpRef("qnn.dequantize"), (scores,), QuantizeAttrs(scale=0.05, zero_point=3))
    result = Call(OpRef("nn.softmax"), (real,), AxisAttrs(axis=-1))
    return Module({"main": Function((image,), result)})


def image(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=IMAGE.shape).astype(np.float32)
