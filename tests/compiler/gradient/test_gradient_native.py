"""Gradients compiled to native code, at the highest level of passes, leave nothing behind."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.backends.native.compile import compile_native
from codesign.compiler.gradient import gradient
from codesign.compiler.interpreter import Interpreter
from codesign.compiler.pipelines import LEVELS, optimize
from codesign.compiler.values import DataValue
from codesign.dtypes import Array
from host_runtime.native import NativeFunction
from tests.support.gradient_programs import PROGRAMS, module_of

QUICK = ("closures in data", "a cell in a loop", "recursive network")
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
    fast = optimize(module, len(LEVELS) - 1, verify=True)
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
