"""Regions over an unknown number of rows give the interpreter's answers, for any number."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.backends.native.compile import compile_native
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.compiler.interpreter import Interpreter
from codesign.diagnostics import CodesignError
from codesign.dtypes import Array
from codesign.ir.relay.module import Module
from host_runtime.native import NativeFunction

HEAD = '#[version = "0.0.5"]\n'
ROWS = (0, 1, 2, 3, 5, 6, 7, 9, 19)


def _module(text: str) -> Module:
    return parse_module(HEAD + text)


def _native(module: Module) -> NativeFunction:
    return NativeFunction(compile_native(module, infer_types(module)))


def _random(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


X = "%x: Tensor[(?, 5), float32]"
BY_ROW = {
    "elementwise": f"def @main({X}) {{ tanh(%x) * 2f + sigmoid(%x) }}",
    "broadcast": f"def @main({X}, %b: Tensor[(5), float32]) {{ (%x + %b) * %x }}",
    "row": f"def @main({X}, %b: Tensor[(1, 5), float32]) {{ %b - %x }}",
    "dense": f"def @main({X}, %w: Tensor[(7, 5), float32]) {{ nn.relu(nn.dense(%x, %w)) }}",
    "softmax": f"def @main({X}) {{ nn.log_softmax(%x, axis=1) }}",
    "several": f"def @main({X}) {{ let %y = %x + %x; (%y, negative(%y), %x < %y) }}",
    "vector": "def @main(%x: Tensor[(?), float32]) { exp(%x) }",
}
OPERANDS = {"broadcast": (5,), "row": (1, 5), "dense": (7, 5)}


@pytest.mark.parametrize("name", BY_ROW)
def test_row_by_row(name: str) -> None:
    module = _module(BY_ROW[name])
    function = _native(module)
    operands = [_random(*OPERANDS[name], seed=1)] if name in OPERANDS else []
    for rows in ROWS:
        x = _random(rows) if name == "vector" else _random(rows, 5)
        found = function(x, *operands)
        expected = Interpreter(module).result_of(module.main, [x, *operands])
        many = zip(found, expected, strict=True) if name == "several" else [(found, expected)]
        for one, other in many:
            assert one.shape == other.shape
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
        assert function.live_objects == 0


TAKE = "def @main(%x: Tensor[(?, 9), float32], %i: Tensor[(2), int32]) {{ {} }}"


@pytest.mark.parametrize("index", [[0, 3], [-1, -4], [2, -2]])
def test_rows_are_taken(index: list[int]) -> None:
    module = _module(TAKE.format("tanh(take(%x, %i, axis=0))"))
    x = _random(4, 9)
    function = _native(module)
    found = function(x, np.asarray(index, np.int32))
    np.testing.assert_allclose(found, np.tanh(x[index]), rtol=1e-5)
    assert function.live_objects == 0


@pytest.mark.parametrize(("rows", "index"), [(4, [0, 4]), (4, [-5, 0]), (0, [0, 0]), (1, [0, 1])])
def test_no_row_beyond_the_last_is_taken(rows: int, index: list[int]) -> None:
    function = _native(_module(TAKE.format("take(%x, %i, axis=0)")))
    with pytest.raises(CodesignError, match="take reads outside of its axis"):
        function(_random(rows, 9), np.asarray(index, np.int32))
    found = function(_random(3, 9), np.asarray([2, 0], np.int32))
    np.testing.assert_array_equal(found, _random(3, 9)[[2, 0]])


def test_rows_of_several_tensors_meet() -> None:
    module = _module(f"def @main({X}, %y: Tensor[(?, 5), float32]) {{ tanh(%x + %y) * %x }}")
    function = _native(module)
    for rows in ROWS:
        x, y = _random(rows, 5), _random(rows, 5, seed=1)
        np.testing.assert_allclose(function(x, y), np.tanh(x + y) * x, rtol=1e-5)
        assert function.live_objects == 0
    with pytest.raises(CodesignError, match="add has operands that do not broadcast"):
        function(_random(3, 5), _random(4, 5))
