"""Measures softmax and layer normalization on the host and as chains on the accelerator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from codesign.accel.config import AccelConfig
from codesign.accel.presets import preset
from codesign.compiler import driver
from codesign.compiler.backends.accel.search import Tuning
from codesign.dtypes import Array, DType
from codesign.ir.executable.executable import AccelStep, CpuStep
from codesign.ir.relay.expr import Call, Constant, Function, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType
from codesign.ops.axis import AxisAttrs
from codesign.ops.qnn.quantize import QuantizeAttrs
from codesign.ops.table import call
from codesign.sim.cycle import program_cycles, time_program
from experiments.road.devices import Say
from experiments.study.host_operators.chains import (
    CHAIN_OF,
    EPSILON,
    choices,
    input_codes,
    module_of,
)
from experiments.study.host_operators.point import (
    CHAINS,
    HOST,
    HOST_FROM_INT8,
    LAYER_NORM,
    SOFTMAX,
    ErrorPoint,
    TimePoint,
)
from experiments.sweep.measure import host_ms

LENGTHS: Final = {SOFTMAX: (64, 128, 256, 512), LAYER_NORM: (64, 128, 256, 512, 768)}
SPREADS: Final = {SOFTMAX: (1, 2, 4), LAYER_NORM: (1, 4, 16)}
HEADS: Final = 12
TOKENS: Final = 128
_JUDGED_ROWS: Final = 256


def machine() -> AccelConfig:
    """Return the preset `base` with its 64-bit bus, behind a memory of 60 cycles of latency."""
    base = preset("base")
    return replace(base, dram=replace(base.dram, latency_cycles=60)).check()


def rows_of(operator: str, length: int, spread: int, count: int) -> Array:
    """Return seeded rows, float64[count, length].

    Logits are normal with a deviation of `spread`. Those of a layer normalization are normal about
    means of their own, each row as wide as chance says between 1 and `spread`.
    """
    rng = np.random.default_rng(0)
    rows = rng.normal(0, 1, (count, length))
    if operator == SOFTMAX:
        return rows * spread
    width = np.exp(rng.uniform(0, np.log(spread), (count, 1)))
    return np.asarray((rows + rng.normal(0, 0.5, (count, 1))) * width)


def exact(operator: str, rows: Array) -> Array:
    """Return an operator's result in float64."""
    if operator == SOFTMAX:
        powers = np.exp(rows - rows.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))
    centred = rows - rows.mean(axis=1, keepdims=True)
    return np.asarray(centred / np.sqrt(rows.var(axis=1, keepdims=True) + EPSILON))


def error_points(operator: str, length: int, spread: int) -> Iterator[ErrorPoint]:
    """Return the errors of every way; of a chain's choices, that with the least noise."""
    rows = rows_of(operator, length, spread, _JUDGED_ROWS)
    wanted, data = exact(operator, rows), input_codes(rows)
    found = {
        HOST: _rounded_once(operator, rows, wanted),
        HOST_FROM_INT8: _rounded_once(operator, _rows(data.real), wanted),
    }
    for way, rounds in CHAINS.items():
        tried = [_rows(CHAIN_OF[operator](data, each).real) for each in choices(operator, rounds)]
        found[way] = min(tried, key=lambda result: float(np.square(result - wanted).sum()))
    for way, result in found.items():
        noise = np.square(result - wanted).sum()
        yield ErrorPoint(
            operator=operator,
            length=length,
            spread=spread,
            way=way,
            sqnr_db=10 * float(np.log10(np.square(wanted).sum() / noise)),
            worst=float(np.abs(result - wanted).max()),
        )


def time_points(operator: str, length: int) -> Iterator[TimePoint]:
    """Return the time of every way for as many rows as a layer of BERT-base has."""
    count = HEADS * length if operator == SOFTMAX else TOKENS
    kernel = _only_cpu(_on_host(operator, count, length))
    blank = TimePoint(
        operator=operator,
        length=length,
        rows=count,
        way=HOST,
        time_ms=host_ms(kernel.kernel),
        cycles=None,
        moved_bytes=2 * count * length,
    )
    yield blank
    data, config = input_codes(rows_of(operator, length, 1, count)), machine()
    for way, rounds in CHAINS.items():
        result = CHAIN_OF[operator](data, next(choices(operator, rounds)))
        step = _only_accel(module_of(data, result), config)
        run = time_program(step.kernel.program, config)
        yield replace(
            blank,
            way=way,
            time_ms=run.cycles / config.clock_mhz / 1e3,
            cycles=run.cycles,
            moved_bytes=run.counters.bytes_read + run.counters.bytes_written,
        )


def every_error(say: Say) -> Iterator[ErrorPoint]:
    """Return the errors at every length and spread."""
    for operator, lengths in LENGTHS.items():
        for length in lengths:
            say(f"errors of {operator} of {length}")
            for spread in SPREADS[operator]:
                yield from error_points(operator, length, spread)


def every_time(say: Say) -> Iterator[TimePoint]:
    """Return the times at every length."""
    for operator, lengths in LENGTHS.items():
        for length in lengths:
            say(f"times of {operator} of {length}")
            yield from time_points(operator, length)


def _rows(real: Array) -> Array:
    return np.asarray(real[0, :, 0, :].T)


def _rounded_once(operator: str, rows: Array, wanted: Array) -> Array:
    """Return the result in float32, rounded to the int8 that hold the greatest wanted one."""
    result = exact(operator, rows.astype(np.float32))
    levels = (0, 255) if operator == SOFTMAX else (-127, 127)
    scale = np.abs(wanted).max() / levels[1]
    return np.asarray(np.clip(np.rint(result / scale), *levels) * scale)


def _on_host(operator: str, count: int, length: int) -> Module:
    data = Var("x", TensorType((count, length), DType.INT8))
    codes = QuantizeAttrs(scale=1 / 32, zero_point=0)
    real = call("qnn.dequantize", data, attrs=codes)
    return Module(
        {
            "main": Function(
                (data,), call("qnn.quantize", _float(operator, real, length), attrs=codes)
            )
        }
    )


def _float(operator: str, real: Call, length: int) -> Call:
    if operator == SOFTMAX:
        return call("nn.softmax", real, attrs=AxisAttrs(axis=-1))
    ones, zeros = np.ones(length, np.float32), np.zeros(length, np.float32)
    return call("nn.layer_norm", real, Constant(ones), Constant(zeros))


def _only_cpu(module: Module) -> CpuStep:
    (step,) = driver.compile(module, target="cpu").steps
    assert isinstance(step, CpuStep), "a network for the host is one step of it"
    return step


def _only_accel(module: Module, config: AccelConfig) -> AccelStep:
    tuning = Tuning(program_cycles)
    (step,) = driver.compile(module, target="accel", config=config, tuning=tuning).steps
    assert isinstance(step, AccelStep), "no part of a chain is left to the host"
    return step
