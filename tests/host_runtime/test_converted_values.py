"""Arguments that are converted once give what the values themselves give, call after call."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest

import host_runtime.values
from codesign.diagnostics import CodesignError
from host_runtime.native import NativeFunction
from tests.support.native import native
from tests.support.relay_values import to_python, to_relay

TEXT = """
def @main(%l: List[int32], %x: Tensor[(?,), float32], %p: (int32, List[int32])) {
  (@rev(%l), %x + 1f, %p.0, @concat(%l, %p.1))
}
"""


@pytest.fixture(scope="module")
def function() -> NativeFunction:
    return native(TEXT)


def _args(count: int) -> tuple[object, ...]:
    numbers = [np.asarray(each, np.int32) for each in range(count)]
    x = np.arange(count, dtype=np.float32)
    return to_relay(numbers), x, to_relay((np.asarray(7, np.int32), numbers[:2]))


@pytest.mark.parametrize("chosen", [(0,), (1,), (2,), (0, 2), (0, 1, 2)])
def test_any_argument_may_be_converted(function: NativeFunction, chosen: tuple[int, ...]) -> None:
    args = _args(5)
    mixed = [
        function.convert(place, each) if place in chosen else each  # type: ignore[arg-type]
        for place, each in enumerate(args)
    ]
    for _ in range(2):
        assert to_python(function(*mixed)) == to_python(function(*args))  # type: ignore[arg-type]
        assert function.live_objects == 0


def test_the_form_keeps_what_the_value_was(function: NativeFunction) -> None:
    values, x, pair = _args(3)
    kept = function.convert(1, x)  # type: ignore[arg-type]
    before = to_python(function(values, kept, pair))  # type: ignore[arg-type]
    x[:] = 50  # type: ignore[index]
    assert to_python(function(values, kept, pair)) == before  # type: ignore[arg-type]


def test_values_that_are_held_many_times_are_still_written_once(function: NativeFunction) -> None:
    args = _args(4)
    wanted = to_python(function(*args))  # type: ignore[arg-type]
    with mock.patch.object(host_runtime.values, "_MANY_VALUES", 0):
        mixed = (function.convert(0, args[0]), *args[1:])  # type: ignore[arg-type]
        assert to_python(function(*mixed)) == wanted  # type: ignore[arg-type]
    plain = (args[0], function.convert(1, args[1]), args[2])  # type: ignore[arg-type]
    with mock.patch.object(host_runtime.values, "_MANY_VALUES", 0):
        assert to_python(function(*plain)) == wanted  # type: ignore[arg-type]


def test_a_form_is_for_one_parameter_of_one_program(function: NativeFunction) -> None:
    args = _args(2)
    form = function.convert(0, args[0])  # type: ignore[arg-type]
    with pytest.raises(CodesignError, match="belongs to another parameter or program"):
        function(args[0], form, args[2])  # type: ignore[arg-type]
    with pytest.raises(CodesignError, match="belongs to another parameter or program"):
        native(TEXT)(form, *args[1:])  # type: ignore[arg-type]


def test_what_does_not_fit_is_refused_when_it_is_converted(function: NativeFunction) -> None:
    with pytest.raises(CodesignError, match="does not fit its parameter"):
        function.convert(0, np.float32(1))
    with pytest.raises(CodesignError, match="no parameter 3"):
        function.convert(3, np.float32(1))
