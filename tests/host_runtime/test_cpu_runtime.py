"""Loading and calling native functions: errors, lifetimes, threads, alignment."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.backends.llvm.cpu import compile_cpu, module_text
from codesign.diagnostics import CodesignError
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Call, Constant, Function, If, Let, OpRef, Project, Tuple, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType
from codesign.ops.axis import AxisAttrs
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.split import SplitAttrs
from host_runtime.cpu import CpuFunction
from tests.support.cpu import native, variables


def _ones(shape: tuple[int, ...], dtype: str = "float32") -> Array:
    return np.ones(shape, dtype)


def _relu() -> CpuFunction:
    (x,) = params = variables(_ones((2, 3)))
    return native(Call(OpRef("nn.relu"), (x,)), params)


def test_wrong_shape_is_refused_with_both_shapes() -> None:
    message = (
        "error: input 0 does not have the type that the function was compiled for\n"
        "  | found float32 of shape [3, 2], expected float32 of shape [2, 3]\n"
        "help: convert the array, or compile the network for this type"
    )
    with pytest.raises(CodesignError) as caught:
        _relu()(_ones((3, 2)))
    assert str(caught.value) == message


def test_wrong_type_is_refused() -> None:
    with pytest.raises(CodesignError, match="found float64 of shape"):
        _relu()(_ones((2, 3), "float64"))


def test_wrong_number_of_inputs_is_refused() -> None:
    with pytest.raises(CodesignError, match="takes 1 inputs"):
        _relu()(_ones((2, 3)), _ones((2, 3)))


def test_strided_and_unaligned_inputs_are_read_right() -> None:
    wide = np.arange(12, dtype=np.float32).reshape(2, 6) - 5
    (found,) = _relu()(wide[:, ::2])
    np.testing.assert_array_equal(found, np.maximum(wide[:, ::2], 0))
    room = np.zeros(4 * 6 + 1, np.uint8)
    unaligned = room[1:].view(np.float32).reshape(2, 3)
    unaligned[:] = -1
    (found,) = _relu()(unaligned)
    np.testing.assert_array_equal(found, np.zeros((2, 3), np.float32))


def test_inputs_are_never_written() -> None:
    x = np.full((2, 3), -1, np.float32)
    x.flags.writeable = False
    _relu()(x)
    np.testing.assert_array_equal(x, -1)


def test_results_are_new_arrays_each_time() -> None:
    function = _relu()
    (first,) = function(_ones((2, 3)))
    function(_ones((2, 3)) * 2)
    np.testing.assert_array_equal(first, 1)


def test_kernel_for_missing_features_is_refused() -> None:
    (x,) = params = variables(_ones((2, 3)))
    function = Function(params, Call(OpRef("nn.relu"), (x,)))
    kernel = compile_cpu(function, infer_types(Module({"main": function})))
    with pytest.raises(CodesignError, match="amx-tile-of-tomorrow"):
        CpuFunction(replace(kernel, features=f"{kernel.features},+amx-tile-of-tomorrow"))


def test_code_for_a_plain_processor_gives_equal_results() -> None:
    x = np.random.default_rng(1).standard_normal((1, 5, 8, 9)).astype(np.float32)
    weight = np.random.default_rng(2).standard_normal((7, 5, 3, 3)).astype(np.float32)
    (param,) = params = variables(x)
    body = Call(OpRef("nn.conv2d"), (param, Constant(weight)), Conv2DAttrs(padding=(1, 1, 1, 1)))
    function = Function(params, body)
    types = infer_types(Module({"main": function}))
    plain = CpuFunction(compile_cpu(function, types, cpu="x86-64", features="+sse2"))
    (expected,) = CpuFunction(compile_cpu(function, types))(x)
    np.testing.assert_allclose(plain(x)[0], expected, rtol=1e-5, atol=1e-5)


def test_threads_may_share_a_function() -> None:
    weight = np.random.default_rng(2).standard_normal((8, 8, 3, 3)).astype(np.float32)
    x = np.random.default_rng(1).standard_normal((16, 1, 8, 24, 24)).astype(np.float32)
    (param,) = params = variables(x[0])
    conv = Conv2DAttrs(padding=(1, 1, 1, 1))
    body = Call(OpRef("nn.conv2d"), (param, Constant(weight)), conv)
    for _ in range(3):
        body = Call(OpRef("nn.conv2d"), (body, Constant(weight)), conv)
    function = native(body, params)
    expected = [function(each)[0] for each in x]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda each: function(each)[0], list(x) * 4))
    for one, other in zip(found, expected * 4, strict=True):
        np.testing.assert_array_equal(one, other)


def test_functions_outlive_everything_that_made_them() -> None:
    """Many small kernels of mixed element sizes, their handles dropped, memory collected."""
    kept = []
    for number in range(60):
        dtype = ("bool", "int8", "float64", "float32")[number % 4]
        name = "logical_not" if dtype == "bool" else "negative"
        x = np.arange(1 + number % 37).astype(dtype)
        (param,) = params = variables(x)
        function = native(Call(OpRef(name), (param,)), params)
        expected = ~x if dtype == "bool" else -x
        kept.append((function, x, expected))
        if number % 10 == 0:
            gc.collect()
    gc.collect()
    for function, x, expected in kept:
        np.testing.assert_array_equal(function(x)[0], expected)


@pytest.mark.slow
def test_five_hundred_kernels_come_and_go() -> None:
    for number in range(500):
        x = np.arange(1 + number, dtype=np.float32)
        (param,) = params = variables(x)
        call = native(Call(OpRef("nn.relu"), (Call(OpRef("negative"), (param,)),)), params)
        del param, params
        gc.collect()
        np.testing.assert_array_equal(call(x)[0], np.zeros_like(x))


def test_every_module_names_its_target() -> None:
    (x,) = params = variables(_ones((2, 3)))
    function = Function(params, Call(OpRef("nn.relu"), (x,)))
    first, second, *_ = module_text(function, infer_types(Module({"main": function}))).split("\n")
    assert first.startswith('target datalayout = "e-')
    assert second.startswith("target triple = ")


def test_index_outside_of_a_tensor_is_refused() -> None:
    data, places = np.arange(5, dtype=np.float32), np.array([0, -5, 4])
    x, index = params = variables(data, places)
    function = native(Call(OpRef("take"), (x, index), AxisAttrs(axis=0)), params)
    np.testing.assert_array_equal(function(data, places)[0], data[places])
    for wrong in (5, -6):
        with pytest.raises(CodesignError, match="take reads outside of an axis of length 5"):
            function(data, np.array([0, wrong, 1]))


def test_integer_division_by_zero_is_refused() -> None:
    lhs, rhs = np.array([7, -7], np.int32), np.array([2, 2], np.int32)
    x, y = params = variables(lhs, rhs)
    function = native(Call(OpRef("divide"), (x, y)), params)
    np.testing.assert_array_equal(function(lhs, rhs)[0], [3, -3])
    with pytest.raises(CodesignError, match="integer divisor of zero"):
        function(lhs, np.array([1, 0], np.int32))


def test_lets_tuples_and_functions_in_place_are_compiled() -> None:
    data = np.arange(12, dtype=np.float32).reshape(2, 6)
    (x,) = params = variables(data)
    pieces = Var("pieces")
    inner = Var("inner", TensorType((2, 3), DType.FLOAT32))
    doubled = Function((inner,), Call(OpRef("add"), (inner, inner)), attributes={"Primitive": 1})
    halves = Call(OpRef("split"), (x,), SplitAttrs(indices_or_sections=2, axis=1))
    first = Call(doubled, (Project(pieces, 0),))
    body = Let(pieces, halves, Tuple((first, Project(pieces, 1), x)))
    left, right, same = native(body, params)(data)
    np.testing.assert_array_equal(left, data[:, :3] * 2)
    np.testing.assert_array_equal(right, data[:, 3:])
    np.testing.assert_array_equal(same, data)


def test_branches_are_refused_by_name() -> None:
    flag = Var("flag", TensorType((), DType.BOOL))
    x = Var("x", TensorType((2,), DType.FLOAT32))
    function = Function((flag, x), If(flag, x, Call(OpRef("nn.relu"), (x,))))
    with pytest.raises(CodesignError, match="the CPU backend does not compile if"):
        compile_cpu(function, infer_types(Module({"main": function})))
