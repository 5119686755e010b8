"""Random int8 regions, their NumPy meaning, and a run of their kernel on a simulator."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from codesign.accel.config import AccelConfig
from codesign.accel.presets import preset
from codesign.compiler.analysis.infer_types import infer_expression
from codesign.compiler.backends.accel.region import compile_accel
from codesign.compiler.backends.accel.search import Tuning
from codesign.compiler.partition.assign import Assignment, assign
from codesign.compiler.partition.split import split
from codesign.dtypes import Array, DType
from codesign.ir.executable.accel_kernel import AccelKernel
from codesign.ir.relay.expr import Attrs, Call, Constant, Expr, Function, OpRef, Tuple, Var
from codesign.ir.relay.types import TensorType
from codesign.ir.relay.visit import post_order
from codesign.ops.nn.pad import PadAttrs
from codesign.ops.nn.pool2d import Pool2DAttrs
from codesign.ops.qnn.add import QAddAttrs
from codesign.ops.qnn.conv2d import QConv2DAttrs
from codesign.ops.qnn.dense import QDenseAttrs
from codesign.ops.qnn.matmul import QMatmulAttrs
from codesign.ops.qnn.multiply import QMultiplyAttrs
from codesign.ops.qnn.requantize import RequantizeAttrs
from codesign.ops.qnn.sum_pool2d import QSumPool2DAttrs
from codesign.ops.reshape import ReshapeAttrs
from codesign.ops.table import operator
from codesign.sim.functional import FunctionalSimulator

MINUTE = {"inp_depth": 2, "wgt_depth": 2, "vec_depth": 2, "acc_depth": 2, "out_depth": 2}

CONFIGS = {
    "tiny": preset("tiny"),
    "edge": preset("edge"),
    "base": preset("base"),
    "batch4": preset("batch4"),
    "batch16": preset("batch16"),
    "one": AccelConfig(block_in=1, block_out=1, vector_lanes=1, bus_bits=32),
    "unequal": AccelConfig(block_in=8, block_out=16, vector_lanes=8),
    "unequal-up": AccelConfig(block_in=16, block_out=4, vector_lanes=2, batch=2, bus_bits=32),
    "one-bank": AccelConfig(acc_banks=1, block_in=4, block_out=4, vector_lanes=4, bus_bits=32),
    "small": AccelConfig(
        block_in=4,
        block_out=4,
        vector_lanes=1,
        bus_bits=32,
        inp_depth=32,
        wgt_depth=16,
        vec_depth=32,
        acc_depth=8,
        out_depth=4,
        param_depth=8,
        lut_depth=256,
        acc_banks=4,
        queue_depth=2,
    ),
    "minute": AccelConfig(**MINUTE, param_depth=2, lut_depth=256, acc_banks=1),
    "wide-bus": AccelConfig(block_in=2, block_out=2, vector_lanes=2, bus_bits=512, burst_beats=4),
    "block64": AccelConfig(block_in=64, block_out=64, vector_lanes=64, wgt_depth=64),
}


@dataclass
class Maker:
    """Makes calls with random constants from one generator."""

    rng: np.random.Generator

    def var(self, shape: tuple[int, ...], name: str = "x") -> Var:
        return Var(name, TensorType(shape, DType.INT8))

    def data(self, shape: tuple[int, ...]) -> Array:
        return self.rng.integers(-128, 128, shape).astype(np.int8)

    def requantize(self, sums: Expr, channels: int, terms: int) -> Call:
        """Scale sums of `terms` products so that results spread over the whole int8 range."""
        rng = self.rng
        bias = rng.integers(-5000, 5000, channels).astype(np.int32)
        multiplier = rng.integers(1 << 22, 1 << 23, channels).astype(np.int32)
        spread = 23 + round(np.log2(100 * np.sqrt(terms))) + rng.integers(-1, 2, channels)
        low, high = sorted(int(each) for each in rng.integers(-128, 128, 2))
        attrs = RequantizeAttrs(
            zero_point=int(rng.integers(-40, 40)), minimum=min(low, -60), maximum=max(high, 60)
        )
        shift = np.clip(spread, 0, 56).astype(np.int32)
        return _call("qnn.requantize", sums, bias, multiplier, shift, attrs=attrs)

    def conv(
        self,
        x: Expr,
        weight: tuple[int, int, int, int],
        *,
        strides: tuple[int, int] = (1, 1),
        padding: tuple[int, int, int, int] = (0, 0, 0, 0),
        dilation: tuple[int, int] = (1, 1),
        groups: int = 1,
    ) -> Call:
        attrs = QConv2DAttrs(
            strides=strides,
            padding=padding,
            dilation=dilation,
            groups=groups,
            zero_point=int(self.rng.integers(-60, 60)),
        )
        sums = _call("qnn.conv2d", x, self.data(weight), attrs=attrs)
        return self.requantize(sums, weight[0], weight[1] * weight[2] * weight[3])

    def dense(self, x: Expr, weight: tuple[int, int]) -> Call:
        attrs = QDenseAttrs(zero_point=int(self.rng.integers(-128, 128)))
        return self.requantize(
            _call("qnn.dense", x, self.data(weight), attrs=attrs), weight[0], weight[1]
        )

    def matmul(self, lhs: Expr, rhs: Expr, inner: int, columns: int, rank: int) -> Call:
        sums = _call("qnn.matmul", lhs, rhs, attrs=QMatmulAttrs())
        made = self.requantize(sums, columns, inner)
        return replace(made, attrs=replace(made.attrs, axis=rank - 1))

    def add(self, lhs: Expr, rhs: Expr) -> Call:
        zero = [int(each) for each in self.rng.integers(-50, 50, 3)]
        factors = [int(each) for each in self.rng.integers((1 << 13, -(1 << 12)), 1 << 15)]
        attrs = QAddAttrs(
            lhs_zero_point=zero[0],
            rhs_zero_point=zero[1],
            lhs_multiplier=factors[0],
            rhs_multiplier=factors[1],
            shift=int(self.rng.integers(14, 17)),
            zero_point=zero[2],
            minimum=-120,
        )
        return _call("qnn.add", lhs, rhs, attrs=attrs)

    def multiply(self, lhs: Expr, rhs: Expr) -> Call:
        zero = [int(each) for each in self.rng.integers(-50, 50, 3)]
        attrs = QMultiplyAttrs(
            lhs_zero_point=zero[0],
            rhs_zero_point=zero[1],
            multiplier=int(self.rng.integers(1 << 20, 1 << 23)),
            shift=int(self.rng.integers(28, 31)),
            zero_point=zero[2],
            maximum=100,
        )
        return _call("qnn.multiply", lhs, rhs, attrs=attrs)

    def max_pool(self, x: Expr, **attrs: object) -> Call:
        return _call("nn.max_pool2d", x, attrs=Pool2DAttrs(**attrs))

    def sum_pool(self, x: Expr, channels: int, **attrs: object) -> Call:
        pool = QSumPool2DAttrs(zero_point=int(self.rng.integers(-128, 128)), **attrs)
        sums = _call("qnn.sum_pool2d", x, attrs=pool)
        height, width = pool.pool_size
        return self.requantize(sums, channels, max(1, height * width // 50))

    def lookup(self, x: Expr) -> Call:
        return _call("qnn.lookup", x, self.data((256,)))

    def pad(self, x: Expr, padding: tuple[int, int, int, int]) -> Call:
        top, left, bottom, right = padding
        around = ((0, 0), (0, 0), (top, bottom), (left, right))
        value = float(self.rng.integers(-128, 128))
        return _call("nn.pad", x, attrs=PadAttrs(pad_width=around, value=value))

    def reshape(self, x: Expr, shape: tuple[int, ...]) -> Call:
        return _call("reshape", x, attrs=ReshapeAttrs(shape=shape))


def _call(name: str, *args: Expr | Array, attrs: Attrs | None = None) -> Call:
    operands = tuple(Constant(arg) if isinstance(arg, np.ndarray) else arg for arg in args)
    return Call(OpRef(name), operands, attrs)


def meaning(results: tuple[Expr, ...], values: dict[Expr, Array]) -> tuple[Array, ...]:
    """Return what NumPy makes of a graph: every operator's own reference."""
    known = dict(values)
    for node in post_order(*results):
        match node:
            case Constant(value=value):
                known[node] = value
            case Tuple(fields=fields):
                known[node] = tuple(known[each] for each in fields)
            case Call(callee=OpRef(name=name), args=args, attrs=attrs):
                arrays = [known[arg] for arg in args]
                reference = operator(name).reference
                known[node] = (
                    reference(*arrays) if attrs is None else reference(*arrays, attrs=attrs)
                )
    return tuple(known[result] for result in results)


def kernel_of(
    params: tuple[Var, ...], body: Expr, config: AccelConfig, tuning: Tuning | None = None
) -> AccelKernel:
    types = infer_expression(Function(params, body))
    return compile_accel(Function(params, body), types, config, tuning)


def run_kernel(kernel: AccelKernel, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """Run a kernel on the functional simulator, in memory that is full of ones elsewhere."""
    base = -(-len(kernel.constants) // 4096) * 4096
    dram = np.full(base + kernel.activation_bytes, 0xFF, np.uint8)
    dram[: len(kernel.constants)] = np.frombuffer(kernel.constants, np.uint8)
    bus = kernel.config.bus_bytes
    for array, places in zip(arrays, kernel.inputs, strict=True):
        for place in places:
            start = base + place.address * bus
            dram[start : start + place.bytes] = place.pack(array)
    FunctionalSimulator(kernel.config).run(kernel.program, dram, (0, base))
    outputs = []
    for place in kernel.outputs:
        start = base + place.address * bus
        outputs.append(place.unpack(dram[start : start + place.bytes]))
    return tuple(outputs)


def assert_same(
    params: tuple[Var, ...],
    body: Expr,
    config: AccelConfig,
    rng: np.random.Generator,
    *,
    must_vary: bool = True,
    tuning: Tuning | None = None,
) -> None:
    """Hold a region's kernel to NumPy, bit for bit; a result that does not vary tests nothing."""
    arrays = tuple(
        rng.integers(-128, 128, param.annotation.shape).astype(np.int8) for param in params
    )
    results = body.fields if isinstance(body, Tuple) else (body,)
    values = dict(zip(params, arrays, strict=True))
    if config.block_in == config.block_out:
        found = run_kernel(kernel_of(params, body, config, tuning), arrays)
    else:
        found = run_parts(results, values, config, tuning)
    for want, got in zip(meaning(results, values), found, strict=True):
        np.testing.assert_array_equal(got, want)
        assert not must_vary or want.size < 8 or np.unique(want).size > 2, (
            "a constant result tests nothing"
        )


def run_parts(
    results: tuple[Expr, ...],
    values: dict[Var, Array],
    config: AccelConfig,
    tuning: Tuning | None = None,
    assignment: Assignment | None = None,
) -> tuple[Array, ...]:
    """Run a graph in the steps that placement makes of it, the host's steps in NumPy."""
    types = infer_expression(Tuple(results))
    one_layer = config.block_in != config.block_out
    assignment = assignment or assign(results, types, config)
    known: dict[Expr, Array] = dict(values)
    for part in split(results, types, assignment, one_layer=one_layer):
        arrays = tuple(known[each] for each in part.inputs)
        if part.side == "accel":
            kernel = kernel_of(part.function.params, part.function.body, config, tuning)
            found = run_kernel(kernel, arrays)
        else:
            body = part.function.body
            bodies = body.fields if isinstance(body, Tuple) else (body,)
            found = meaning(bodies, dict(zip(part.function.params, arrays, strict=True)))
        known.update(zip(part.outputs, found, strict=True))
    return tuple(known[result] for result in results)


def with_dram(config: AccelConfig, latency: int) -> AccelConfig:
    return replace(config, dram=replace(config.dram, latency_cycles=latency))
