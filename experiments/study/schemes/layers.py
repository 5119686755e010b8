"""Times of single layers in every scheme: random weights, three alike behind each other."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import numpy as np

from codesign.compiler import driver
from codesign.compiler.quantization import Scheme
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Call, Constant, Expr, Function, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.qnn.conv2d import QConv2DAttrs
from codesign.ops.qnn.requantize import RequantizeAttrs
from codesign.ops.table import call
from experiments.road.devices import Say
from experiments.study.schemes.point import FP32, Layer, Outcome
from host_runtime.session import Session

ROUNDS: Final = 100
_ALIKE: Final = 3


def measure_layer(schemes: tuple[str, ...], layer: Layer, say: Say) -> Iterator[Outcome]:
    """Return the least time of a layer in each scheme, all of them in turns."""
    say(f"{layer.name} in {', '.join(schemes)}")
    sessions = {scheme: Session(driver.compile(_module(layer, scheme))) for scheme in schemes}
    rng = np.random.default_rng(0)
    inputs = {
        scheme: {"x": rng.integers(-100, 100, layer.shape).astype(_codes(scheme).numpy)}
        for scheme in schemes
    }
    best = dict.fromkeys(schemes, float("inf"))
    for _ in range(ROUNDS):
        for scheme, session in sessions.items():
            start = time.perf_counter()
            session.run(inputs[scheme])
            best[scheme] = min(best[scheme], (time.perf_counter() - start) * 1e3)
    for scheme in schemes:
        yield Outcome(
            network=layer.name,
            scheme=scheme,
            ranges="mse",
            power_of_two=False,
            samples=0,
            right_top1_percent=None,
            same_top1_percent=None,
            sqnr_db=None,
            time_ms=best[scheme] / _ALIKE,
        )


def _codes(scheme: str) -> DType:
    return DType.FLOAT32 if scheme == FP32 else Scheme(scheme).codes


def _module(layer: Layer, scheme: str) -> Module:
    data = Var("x", TensorType(layer.shape, _codes(scheme)))
    shape = (layer.channels, layer.channels // layer.groups, layer.kernel, layer.kernel)
    weight = np.random.default_rng(1).integers(-3, 4, shape)
    padding = (layer.kernel // 2,) * 4
    body: Expr = data
    for _ in range(_ALIKE):
        if scheme == FP32:
            attrs = Conv2DAttrs(padding=padding, groups=layer.groups)
            body = call("nn.conv2d", body, Constant(weight.astype(np.float32)), attrs=attrs)
        else:
            body = _integer(body, weight, layer, Scheme(scheme))
    return Module({"main": Function((data,), body)})


def _integer(data: Expr, weight: Array, layer: Layer, scheme: Scheme) -> Call:
    codes = scheme.codes
    window = QConv2DAttrs(padding=(layer.kernel // 2,) * 4, groups=layer.groups, dtype=scheme.sums)
    acc = call("qnn.conv2d", data, Constant(weight.astype(codes.numpy)), attrs=window)
    limits = RequantizeAttrs(minimum=codes.minimum, maximum=codes.maximum, dtype=codes)
    constants = (Constant(np.full(layer.channels, each, np.int32)) for each in (5, 1 << 19, 27))
    return call("qnn.requantize", acc, *constants, attrs=limits)
