"""Operators on lengths that are known at run time only give the interpreter's answers."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.compiler.interpreter import Interpreter
from codesign.diagnostics import CodesignError
from tests.support.native import native_module
from tests.support.relay_values import module_of, to_relay

X = "%x: Tensor[(?, ?), float32]"
Y = "%y: Tensor[(?, ?), float32]"
A = np.arange(12, dtype=np.float32).reshape(3, 4) - 5
WIDE = np.random.default_rng(2).standard_normal((7, 33)).astype(np.float32)
NONE = np.zeros((0, 4), np.float32)
INTEGERS = A.astype(np.int32)

PROGRAMS = {
    "elementwise": (f"{X}", "nn.gelu(%x) + 1f", [(A,), (WIDE,), (NONE,)]),
    "chain": (f"{X}", "sigmoid(tanh(%x) * %x)", [(A,), (WIDE,), (A[:1, :1],)]),
    "broadcast": (f"{X}, %y: Tensor[(?,), float32]", "%x * %y",
                  [(A, A[0]), (A, A[0, :1]), (A[:, :1], A[0]), (NONE, A[0])]),
    "columns": (f"{X}, {Y}", "maximum(%x, %y)", [(A, A[:, :1]), (A[:1], A), (A, A)]),
    "comparison": (f"{X}, {Y}", "where(%x < %y, %x, 2f)", [(A, A[:1]), (A, A)]),
    "integers": ("%x: Tensor[(?, ?), int32], %y: Tensor[(?, ?), int32]", "%x / %y",
                 [(INTEGERS, INTEGERS[:, :1] * 2 + 1)]),
    "cast": (X, 'cast(%x, dtype="int8")', [(A,), (WIDE,)]),
    "clip": (X, "clip(%x, a_min=-1.0, a_max=2.0)", [(A,)]),
    "softmax": (X, "nn.softmax(%x, axis=-1)", [(A,), (WIDE,), (A[:, :0],)]),
    "log softmax": (X, "nn.log_softmax(%x, axis=0)", [(A,), (WIDE,)]),
    "dense": (f"{X}, {Y}", "nn.dense(%x, %y)", [(A, A), (A, A[:2]), (WIDE, WIDE), (NONE, A)]),
    "batch_matmul": (
        "%x: Tensor[(?, ?, ?), float32], %y: Tensor[(?, ?, ?), float32]",
        "nn.batch_matmul(%x, %y)",
        [(A.reshape(3, 2, 2), A.reshape(3, 2, 2)), (A[None], A[None, :2])],
    ),
    "rows together": (f"{X}, {Y}", "concatenate((%x, %y, %x), axis=0)", [(A, A[:2]), (NONE, A)]),
    "columns together": (f"{X}, {Y}", "concatenate((%x, %y), axis=1)", [(A, A[:, :1])]),
    "take": (f"{X}, %y: Tensor[(?,), int32]", "take(%x, %y, axis=1)",
             [(A, np.array([1, 3, -4], np.int32)), (A, np.zeros(0, np.int32))]),
    "transpose": (X, "transpose(%x)", [(A,), (WIDE,), (NONE,)]),
    "axes": (X, "squeeze(expand_dims(transpose(%x), axis=1), axis=[1])", [(A,)]),
    "reshape_like": (f"{X}, {Y}", "reshape_like(%x, %y)", [(A, A.reshape(6, 2))]),
    "like": (f"{X}, {Y}", "broadcast_to_like(%x, %y) + ones_like(%y) * zeros_like(%x)",
             [(A[:1], A), (A[:, :1], A)]),
    "one_hot": ("%x: Tensor[(?,), int32]", "one_hot(%x, 2f, -1f, depth=4, axis=-1)",
                [(np.array([0, 3, 9, -1], np.int32),)]),
    "truth": (X, "if (True) { %x < 1f } else { %x < 2f }", [(A,)]),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_operators_on_unknown_lengths(name: str) -> None:
    params, body, cases = PROGRAMS[name]
    module = module_of(f"def @main({params}) {{ {body} }}")
    function = native_module(module)
    for args in cases:
        found = function(*args)
        expected = Interpreter(module).result_of(module.main, list(args))
        assert isinstance(found, np.ndarray)
        assert isinstance(expected, np.ndarray)
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
        assert function.live_objects == 0


MISFITS = {
    "broadcast": (f"{X}, {Y}", "%x + %y", (A, A[:, :2])),
    "dense": (f"{X}, {Y}", "nn.dense(%x, %y)", (A, A[:, :2])),
    "concatenate": (f"{X}, {Y}", "concatenate((%x, %y), axis=0)", (A, A[:, :2])),
    "take": (f"{X}, %y: Tensor[(?,), int32]", "take(%x, %y, axis=1)",
             (A, np.array([4], np.int32))),
    "divide": ("%x: Tensor[(?, ?), int32], %y: Tensor[(?, ?), int32]", "%x / %y",
               (INTEGERS, INTEGERS * 0)),
    "squeeze": (X, "squeeze(%x, axis=[1])", (A,)),
    "reshape_like": (f"{X}, {Y}", "reshape_like(%x, %y)", (A, A[:2])),
}  # fmt: skip


@pytest.mark.parametrize("name", MISFITS)
def test_lengths_that_do_not_fit_are_refused_by_both(name: str) -> None:
    params, body, args = MISFITS[name]
    module = module_of(f"def @main({params}) {{ {body} }}")
    function = native_module(module)
    for _ in range(2):
        with pytest.raises(CodesignError, match="--> <text>:2:"):
            function(*args)
    with pytest.raises(CodesignError, match="--> <text>:2:"):
        Interpreter(module).result_of(module.main, list(args))


GROW = """
def @grow(%x: Tensor[(?, 4), float32], %n: int32) -> Tensor[(?, 4), float32] {
  if (%n == 0) { %x } else { @grow(concatenate((%x, %x + 1f), axis=0), %n - 1) }
}
def @main(%x: Tensor[(3, 4), float32], %n: int32) { nn.relu(@grow(%x, %n)) }
"""


@pytest.mark.parametrize("turns", [0, 1, 6])
def test_a_tensor_grows_in_a_recursion(turns: int) -> None:
    module = module_of(GROW)
    function = native_module(module)
    args = [A, to_relay(turns)]
    found = function(*args)
    np.testing.assert_array_equal(found, Interpreter(module).result_of(module.main, args))
    assert function.live_objects == 0


def test_what_has_no_kernel_is_refused_by_name() -> None:
    module = module_of(f"def @main({X}, {Y}) {{ collapse_sum_like(%x, %y) }}")
    message = "collapse_sum_like is not compiled for shapes that are not known"
    with pytest.raises(CodesignError, match=message):
        native_module(module)
