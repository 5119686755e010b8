"""Operators that tensors tell what to do: compiled code gives the interpreter's answers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from codesign.compiler.driver import compile  # noqa: A004
from codesign.compiler.interpreter import Interpreter
from codesign.diagnostics import CodesignError
from codesign.dtypes import Array
from host_runtime.session import Session
from tests.support.relay_values import module_of

MATRIX = "%x: Tensor[(?, ?), float32]"
A = np.arange(12, dtype=np.float32).reshape(3, 4) - 5


def _ints(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


PROGRAMS: dict[str, tuple[str, str, list[tuple[Array, ...]]]] = {
    "tile": (
        f"{MATRIX}, %r: Tensor[(3,), int64]",
        "dyn.tile(%x, %r)",
        [(A, _ints(2, 1, 3)), (A[:0], _ints(1, 2, 1)), (A, _ints(0, 1, 1))],
    ),
    "expand_dims": (
        f"{MATRIX}, %r: int64",
        "dyn.expand_dims(%x, %r, num_newaxis=2)",
        [(A, np.asarray(1)), (A, np.asarray(-1)), (A, np.asarray(-3))],
    ),
    "squeeze": (
        "%x: Tensor[(?, ?, ?), float32], %r: Tensor[(2,), int64]",
        "dyn.squeeze(%x, %r)",
        [(A[None, :, :1], _ints(0, 2)), (A[:1, None, :], _ints(-2, 0))],
    ),
    "one_hot": (
        "%x: Tensor[(?,), int32], %r: int64",
        "dyn.one_hot(%x, 2f, -1f, %r, axis=0)",
        [(np.array([0, 3, 9, -1], np.int32), np.asarray(5))],
    ),
    "pad": (
        f"{MATRIX}, %r: Tensor[(2, 2), int32]",
        "dyn.nn.pad(%x, %r, 1.5f)",
        [(A, np.array([[1, 0], [2, 3]], np.int32)), (A[:0], np.array([[1, 1], [0, 0]], np.int32))],
    ),
    "topk": (
        "%x: Tensor[(3, 4), float32], %r: int32",
        "dyn.topk(%x, %r)",
        [(A % 5, np.asarray(2, np.int32)), (A, np.asarray(4, np.int32))],
    ),
    "slice": (
        f"{MATRIX}, %b: Tensor[(2,), int64], %e: Tensor[(2,), int64], %s: Tensor[(2,), int64]",
        "dyn.strided_slice(%x, %b, %e, %s)",
        [
            (A, _ints(0, 1), _ints(3, 100), _ints(2, 1)),
            (A, _ints(-1, -1), _ints(-100, 0), _ints(-1, -2)),
            (A, _ints(2, 3), _ints(1, 3), _ints(1, 1)),
        ],
    ),
    "numbers": ("%x: int32", "dyn.arange(%x)", [(np.asarray(5, np.int32),)]),
}


def _close(found: Sequence[object], wanted: object) -> None:
    fields = wanted if isinstance(wanted, tuple) else (wanted,)
    for one, other in zip(map(np.asarray, found), map(np.asarray, fields), strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", PROGRAMS)
def test_operators_that_are_told(name: str) -> None:
    params, body, cases = PROGRAMS[name]
    module = module_of(f"def @main({params}) {{ {body} }}")
    session = Session(compile(module))
    for args in cases:
        inputs = dict(zip([each.name for each in module.main.params], args, strict=True))
        found = list(session.run(inputs).values())
        _close(found, Interpreter(module).result_of(module.main, list(args)))


REFUSED = {
    "tile": (A, _ints(-1, 1, 1)),
    "expand_dims": (A, np.asarray(3)),
    "squeeze": (A[None], _ints(0, 1)),
    "topk": (A, np.asarray(5, np.int32)),
    "slice": (A, _ints(0, 0), _ints(1, 1), _ints(0, 1)),
    "numbers": (np.asarray(-1, np.int32),),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_told_is_refused_by_both(name: str) -> None:
    params, body, _ = PROGRAMS[name]
    module = module_of(f"def @main({params}) {{ {body} }}")
    session = Session(compile(module))
    inputs = dict(zip([each.name for each in module.main.params], REFUSED[name], strict=True))
    with pytest.raises(CodesignError):
        session.run(inputs)
    with pytest.raises(CodesignError):
        Interpreter(module).result_of(module.main, list(REFUSED[name]))
