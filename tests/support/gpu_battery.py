"""Single operators and networks on the executor of GPU threads, held to independent answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.backends.gpu.device import DEFAULT, DeviceModel
from codesign.compiler.backends.gpu.emulate import Execute, emulate
from codesign.compiler.backends.gpu.execute import execute
from codesign.compiler.backends.gpu.lower import lower
from codesign.compiler.backends.gpu.program import GpuProgram
from codesign.compiler.lower.graph import graph_of
from codesign.compiler.pipelines import optimize
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Call, Expr, Function, OpRef, Tuple, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType
from codesign.ops.table import OPERATORS
from tests.support.operator_cases import CASES, reference
from tests.support.operator_draws import Case


@final
@dataclass(frozen=True)
class OnGpu:
    """A function lowered for a GPU, with what its outputs are."""

    program: GpuProgram
    outputs: tuple[TensorType, ...]

    def run(self, arrays: Sequence[Array], with_: Execute = execute) -> tuple[Array, ...]:
        """Return the outputs as the executor, or another one, computes them."""
        return emulate(self.program, arrays, self.outputs, execute=with_)


def on_gpu(body: Expr, params: tuple[Var, ...], device: DeviceModel = DEFAULT) -> OnGpu:
    """Lower `fn (params) { body }` as the driver does at its lowest level."""
    module = optimize(Module({"main": Function(params, body)}), 0)
    graph = graph_of(module.main, infer_types(module))
    outputs = tuple(TensorType(value.shape, value.dtype) for value in graph.outputs)
    return OnGpu(lower(graph, device), outputs)


def call_of(name: str, case: Case) -> tuple[Expr, tuple[Var, ...], list[Array]]:
    """Return a case as an expression over parameters, and the parameters' values."""
    params: list[Var] = []
    arrays: list[Array] = []

    def parameter(array: Array) -> Var:
        params.append(Var(f"x{len(params)}", TensorType(array.shape, DType.of(array.dtype))))
        arrays.append(array)
        return params[-1]

    args: list[Expr] = [
        Tuple(tuple(map(parameter, each))) if isinstance(each, tuple) else parameter(each)
        for each in case.args
    ]
    return Call(OpRef(name), tuple(args), case.attrs), tuple(params), arrays


ON_GPU: Final = tuple(name for name in CASES if not name.startswith("dyn."))
"""Operators of the battery: all but those whose shapes are values, which need a host."""


def cases(seeds: int) -> Iterator[tuple[str, int]]:
    """Yield every operator with numbers of random cases."""
    for name in ON_GPU:
        for seed in range(seeds):
            yield name, seed


def disagreement(
    name: str, seed: int, with_: Execute = execute, device: DeviceModel = DEFAULT
) -> str:
    """Return how an operator's answer differs from its NumPy reference; empty where it does not."""
    case = CASES[name](np.random.default_rng(seed))
    body, params, arrays = call_of(name, case)
    found = on_gpu(body, params, device).run(arrays, with_)
    return difference(found, reference(OPERATORS[name], case))


def difference(found: Sequence[Array], expected: object) -> str:
    """Return how results differ from a reference's; empty where they do not."""
    wanted = expected if isinstance(expected, tuple) else (expected,)
    for got, right in zip(found, map(np.asarray, wanted), strict=True):
        if got.shape != right.shape or got.dtype != right.dtype:
            return f"{got.dtype}{got.shape} is not {right.dtype}{right.shape}"
        if not np.allclose(got, right, rtol=1e-5, atol=1e-5, equal_nan=True):
            return f"differs by {np.nanmax(np.abs(got.astype(float) - right.astype(float)))}"
    return ""
