"""Random layers on random legal configurations: equal to NumPy, or refused with the numbers."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

import numpy as np

from codesign.accel.config import AccelConfig
from codesign.compiler.analysis.infer_types import infer_expression
from codesign.compiler.backends.accel.search import Tuning
from codesign.diagnostics import CodesignError
from codesign.ir.relay.expr import Call, Expr, Function, Var
from codesign.ir.relay.types import TensorType
from tests.support.regions import Maker, assert_same

_SHORTAGE: Final = re.compile(
    r"(?:layer '.+' \(.+\) does not fit the accelerator.*?)?its least tile needs (\d+) bytes of "
    r"(\w+), which has (\d+); the smallest that works is \w+_depth = (\d+)",
    re.DOTALL,
)


class Verdict(StrEnum):
    """What became of a random layer."""

    EQUAL = "equal to NumPy"
    REFUSED = "refused with layer, memory, bytes needed and present, and the smallest that works"
    WITHOUT_MULTIPLIER = "refused: has_multiplier = false"
    WRONG = "wrong, or refused without the facts"


def judged(seed: int, tuning: Tuning | None = None) -> tuple[Verdict, str]:
    """Return what becomes of the random layer of a seed, and the message where there is one."""
    rng = np.random.default_rng(seed)
    config = random_config(rng)
    params, body = random_layer(rng, Maker(rng))
    try:
        assert_same(params, body, config, rng, must_vary=False, tuning=tuning)
    except CodesignError as error:
        return _refusal(str(error), config), str(error)
    except AssertionError as error:
        return Verdict.WRONG, str(error)
    return Verdict.EQUAL, ""


def _refusal(text: str, config: AccelConfig) -> Verdict:
    shortages = _SHORTAGE.findall(text)
    right = all(
        int(needed) > int(present) and int(smallest) > getattr(config, f"{memory}_depth")
        for needed, memory, present, smallest in shortages
    )
    if shortages and right and "does not fit" in text:
        return Verdict.REFUSED
    return Verdict.WITHOUT_MULTIPLIER if "has_multiplier = false" in text else Verdict.WRONG


def _power(rng: np.random.Generator, low: int, high: int) -> int:
    return 1 << int(rng.integers(low, high + 1))


def random_config(rng: np.random.Generator) -> AccelConfig:
    """Return a small legal configuration."""
    block = _power(rng, 0, 4)
    batch = _power(rng, 0, 2)
    banks = _power(rng, 0, 2)
    return AccelConfig(
        batch=batch,
        block_in=block,
        block_out=block if rng.random() < 0.7 else _power(rng, 0, 4),
        inp_depth=_power(rng, 1, 8),
        wgt_depth=_power(rng, 1, 8),
        vec_depth=_power(rng, 1, 8),
        acc_depth=banks * _power(rng, 1, 6),
        out_depth=_power(rng, 1, 6),
        param_depth=_power(rng, 1, 5),
        lut_depth=_power(rng, 8, 9),
        acc_banks=banks,
        vector_lanes=1,
        bus_bits=_power(rng, 5, 7),
        burst_beats=_power(rng, 0, 4),
        has_multiplier=bool(rng.random() < 0.8),
    ).check()


def random_layer(rng: np.random.Generator, maker: Maker) -> tuple[tuple[Var, ...], Expr]:
    """Return a layer of any kind with odd sizes, and what it takes."""
    n, c = int(rng.integers(1, 4)), int(rng.integers(1, 20))
    h, w = (int(each) for each in rng.integers(3, 9, 2))
    kernel = tuple(int(each) for each in rng.integers(1, 4, 2))
    window = {
        "strides": tuple(int(each) for each in rng.integers(1, 4, 2)),
        "padding": tuple(int(rng.integers(0, kernel[axis % 2])) for axis in range(4)),
    }
    x, y = maker.var((n, c, h, w)), maker.var((n, c, h, w), "y")
    match int(rng.integers(10)):
        case 0:
            outputs = int(rng.integers(1, 20))
            return (x,), _pooled(rng, maker, x, maker.conv(x, (outputs, c, *kernel), **window))
        case 1:
            return (x,), maker.conv(x, (2 * c, 1, *kernel), groups=c, **window)
        case 2:
            return (x,), maker.conv(x, (c, 1, *kernel), groups=c, **window)
        case 3:
            return (x,), maker.max_pool(x, pool_size=kernel, **window)
        case 4:
            return (x,), maker.sum_pool(x, c, pool_size=kernel, **window)
        case 5:
            return (x, y), maker.add(x, y)
        case 6:
            around = tuple(int(each) for each in rng.integers(0, 9, 4))
            return (x,), maker.lookup(maker.pad(x, around) if rng.random() < 0.6 else x)
        case 7:
            groups = int(rng.integers(2, 5))
            wide = maker.var((n, groups * c, h, w))
            outputs = groups * int(rng.integers(1, 8))
            return (wide,), maker.conv(wide, (outputs, c, *kernel), groups=groups, **window)
        case 8:
            stack, (rows, inner, columns) = (n,) * int(rng.integers(3)), (c, h * w, 4 * h)
            lhs = maker.var((*stack, rows, inner))
            rhs = maker.var((*stack, inner, columns), "y")
            return (lhs, rhs), maker.matmul(lhs, rhs, inner, columns, len(stack) + 2)
        case _:
            flat, outputs = maker.var((n, c * h)), int(rng.integers(1, 40))
            return (flat,), maker.dense(flat, (outputs, c * h))


def _pooled(rng: np.random.Generator, maker: Maker, x: Var, layer: Call) -> Expr:
    """Return a layer as it is, or with a pool behind it."""
    if rng.random() < 0.3:
        return layer
    type_ = infer_expression(Function((x,), layer))[layer]
    assert isinstance(type_, TensorType), "layers give tensors"
    _, channels, *plane = type_.static_shape
    kernel = tuple(int(rng.integers(1, min(3, size) + 1)) for size in plane)
    window = {
        "pool_size": kernel,
        "strides": tuple(int(each) for each in rng.integers(1, 4, 2)),
        "padding": tuple(int(rng.integers(0, kernel[axis % 2])) for axis in range(4)),
    }
    if rng.random() < 0.5:
        return maker.max_pool(layer, **window)
    return maker.sum_pool(layer, channels, **window)
