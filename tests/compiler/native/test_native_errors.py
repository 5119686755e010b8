"""Mistakes inside of compiled programs come back with their place, and leave the process whole."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.diagnostics import CodesignError
from tests.support.native import native
from tests.support.relay_values import to_relay

MISTAKES = {
    "partial match": (
        "def @main(%xs: List[int32]) { match? (%xs) { Cons(%x, Nil) => %x } }",
        ([1, 2],),
        ([7],),
        "no clause of a match fits\n --> <text>:2:31",
    ),
    "index": (
        "def @main(%x: Tensor[(3,), int32], %i: int32) "
        "{ if (%i == 9) { %i } else { take(%x, %i, axis=0) } }",
        (np.arange(3, dtype=np.int32), 3),
        (np.arange(3, dtype=np.int32), 2),
        "take reads outside of an axis of length 3",
    ),
    "index in a called function": (
        "def @f(%x: Tensor[(3,), int32], %i: int32) -> int32 "
        "{ 1 + (if (%i == 9) { %i } else { take(%x, %i, axis=0) }) } "
        "def @main(%x: Tensor[(3,), int32], %i: int32) { @f(%x, %i) + @f(%x, 0) }",
        (np.arange(3, dtype=np.int32), 5),
        (np.arange(3, dtype=np.int32), -1),
        "take reads outside of an axis of length 3",
    ),
    "division": (
        "def @main(%a: int32, %b: int32) { if (%a == 9) { 1 } else { %a / %b } }",
        (4, 0),
        (4, 2),
        "divide has an integer divisor of zero",
    ),
    "annotation": (
        "def @main(%x: Tensor[(?, 2), float32]) { let %y: Tensor[(3, 2), float32] = %x; %y }",
        (np.zeros((2, 2), np.float32),),
        (np.zeros((3, 2), np.float32),),
        "%y does not fit\n --> <text>:2:46",
    ),
    "parameter": (
        "def @f(%y: Tensor[(3, 2), float32]) { %y + %y } "
        "def @main(%x: Tensor[(?, 2), float32]) { @f(%x) }",
        (np.zeros((2, 2), np.float32),),
        (np.zeros((3, 2), np.float32),),
        "%y does not fit\n --> <text>:2:8",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_has_its_place_and_the_next_run_works(name: str) -> None:
    text, wrong, right, message = MISTAKES[name]
    function = native(text)
    for _ in range(2):
        with pytest.raises(CodesignError) as caught:
            function(*map(to_relay, wrong))
        assert message in str(caught.value)
        assert "--> <text>:2:" in str(caught.value)
        function(*map(to_relay, right))
        assert function.live_objects == 0


def test_main_may_not_have_type_parameters() -> None:
    with pytest.raises(CodesignError, match="main has type parameters"):
        native("def @main[A](%x: A) { %x }")
