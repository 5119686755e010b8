"""Compile Relay for this processor and run it, for tests."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.backends.llvm.cpu import compile_cpu
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Attrs, Call, Expr, Function, OpRef, Tuple, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType
from codesign.ops.table import OPERATORS
from host_runtime.cpu import CpuFunction


def variables(*arrays: Array) -> tuple[Var, ...]:
    """One parameter for each array."""
    return tuple(
        Var(f"x{number}", TensorType(array.shape, DType.of(array.dtype)))
        for number, array in enumerate(arrays)
    )


def native(body: Expr, params: tuple[Var, ...]) -> CpuFunction:
    """Compile `fn (params) { body }` and load it."""
    function = Function(params, body)
    types = infer_types(Module({"main": function}))
    return CpuFunction(compile_cpu(function, types))


def run(build: Callable[..., Expr], *arrays: Array) -> Array:
    """Compile `build(parameters)` and return its one result for these arrays."""
    params = variables(*arrays)
    (result,) = native(build(*params), params)(*arrays)
    return result


def run_operator(name: str, *arrays: Array, attrs: Attrs | None = None) -> Array:
    """The native result of one operator whose arguments are all run-time inputs."""
    return run(lambda *args: Call(OpRef(name), args, attrs), *arrays)


def reference(name: str, *arrays: Array, attrs: Attrs | None = None) -> Array:
    """The operator's meaning, in NumPy."""
    keywords = {} if attrs is None else {"attrs": attrs}
    return np.asarray(OPERATORS[name].reference(*arrays, **keywords))


def run_tuple(name: str, *arrays: Array, attrs: Attrs | None = None) -> Array:
    """As `run_operator`, for operators that take one tuple."""
    return run(lambda *args: Call(OpRef(name), (Tuple(args),), attrs), *arrays)
