"""Gradients compiled to native code, at the highest level of passes, leave nothing behind."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import codesign
from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.backends.native.compile import compile_native
from codesign.compiler.gradient import gradient
from codesign.compiler.interpreter import Interpreter
from codesign.compiler.pipelines import LEVELS, optimize
from codesign.compiler.values import DataValue
from codesign.dtypes import Array
from codesign.ir.relay.module import Module
from host_runtime.native import NativeFunction
from host_runtime.session import Session
from tests.support.gradient_cases import (
    SMOOTH,
    gradient_case,
    module_of_case,
    seed_of,
    with_loss,
)
from tests.support.gradient_programs import PROGRAMS, module_of

QUICK = ("closures in data", "recursive network")
REST = tuple(name for name in PROGRAMS if name not in QUICK)


def _leaves(value: object) -> Iterator[Array]:
    match value:
        case np.ndarray():
            yield value
        case (tuple() as fields) | DataValue(_, fields):
            for each in fields:
                yield from _leaves(each)
        case _:
            raise AssertionError(f"gradients are tensors, tuples and data, not {value!r}")


def _check(name: str, order: int) -> None:
    program = PROGRAMS[name]
    module = module_of(program.text)
    for _ in range(order):
        module = gradient("main", module, name="main")
    fast = optimize(module, len(LEVELS) - 1, verify=order == 1)
    function = NativeFunction(compile_native(fast, infer_types(fast)))
    found = function(*program.args())
    expected = Interpreter(module).result_of(module.main, program.args())
    for left, right in zip(_leaves(found), _leaves(expected), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-12, atol=1e-12)
    assert function.live_objects == 0


@pytest.mark.parametrize("name", QUICK)
def test_native_gradient_is_the_interpreters(name: str) -> None:
    _check(name, 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", REST)
def test_native_gradient_of_every_program(name: str) -> None:
    _check(name, 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_native_gradient_of_the_gradient_of_every_program(name: str) -> None:
    _check(name, 2)


def _check_operator(name: str) -> None:
    """The gradient of a random sum of what an operator gives, in float32, as one graph."""
    rng = seed_of(name)
    module, arrays = module_of_case(name, gradient_case(name, rng), np.float32)
    summed = with_loss(module, "main", rng)
    if summed is None:
        return
    loss = gradient("loss", summed, mode="first_order", name="loss").functions["loss"]
    graph = Module({"main": loss})
    inputs = {param.name: each for param, each in zip(loss.params, arrays, strict=True)}
    found = Session(codesign.compile(graph, target="cpu")).run(inputs)
    expected = Interpreter(graph).evaluate(loss, arrays)
    for left, right in zip(_leaves(tuple(found.values())), _leaves(expected), strict=True):
        np.testing.assert_allclose(left, right, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("name", ["nn.conv2d", "take"])
def test_native_gradient_of_an_operator(name: str) -> None:
    _check_operator(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", SMOOTH)
def test_native_gradient_of_every_operator(name: str) -> None:
    _check_operator(name)


def test_a_hundred_thousand_steps_run_backwards() -> None:
    module = module_of(
        """
        def @loop(%x: float64, %n: int32) -> float64 {
          if (%n == 0) { %x } else { @loop(%x * 1.00001f64, %n - 1) }
        }
        def @main(%x: float64, %n: int32) -> float64 { @loop(%x, %n) }
        """
    )
    grown = gradient("main", module, name="main")
    function = NativeFunction(compile_native(grown, infer_types(grown)))
    _, (slope, _) = function(np.asarray(3.0), np.asarray(100_000, np.int32))
    np.testing.assert_allclose(slope, 1.00001**100_000, rtol=1e-9)
    assert function.live_objects == 0
