"""Memory of compiled programs: exact counts, reuse, depth, and nothing left behind."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.backends.native.compile import control_of
from codesign.compiler.values import DataValue
from codesign.diagnostics import CodesignError
from codesign.ir.control.printer import print_program
from codesign.ir.executable.heap import Slot
from host_runtime.native import NativeFunction
from tests.support.native import native
from tests.support.relay_values import module_of, relay_list

LENGTH = 100_000
INT_LIST = "%xs: List[int32]"


def _numbers(length: int) -> DataValue:
    gc.disable()
    found = relay_list([np.asarray(each, np.int32) for each in range(length)])
    gc.enable()
    return found


def _elements(value: object) -> list[int]:
    found = []
    while isinstance(value, DataValue) and value.constructor == "Cons":
        head, value = value.fields
        found.append(int(head))
    return found


@pytest.fixture(scope="module")
def numbers() -> DataValue:
    return _numbers(LENGTH)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("@rev(@map(fn (%x: int32) { %x + 1 }, %xs))", list(range(LENGTH, 0, -1))),
        ("@filter(fn (%x: int32) { %x < 5 }, %xs)", [0, 1, 2, 3, 4]),
    ],
)
def test_a_long_list(numbers: DataValue, body: str, expected: list[int]) -> None:
    function = native(f"def @main({INT_LIST}) {{ {body} }}")
    assert _elements(function(numbers)) == expected
    assert function.live_objects == 0


@pytest.mark.parametrize(
    "fold",
    [
        "@foldr(fn (%x: int32, %y: int32) { %x - %y }, 0, %xs)",
        "@foldl(fn (%y: int32, %x: int32) { %x - %y }, 0, %xs)",
    ],
)
def test_a_fold_of_a_long_list(numbers: DataValue, fold: str) -> None:
    function = native(f"def @main({INT_LIST}) {{ {fold} }}")
    found = 0
    order = range(LENGTH) if "foldl" in fold else reversed(range(LENGTH))
    for each in order:
        found = each - found
    assert function(numbers) == found
    assert function.live_objects == 0


def _room(function: NativeFunction) -> int:
    """Return how many bytes of its first memory the only heap of a function has never used."""
    (heap,) = function._idle
    return heap.slots[Slot.END] - heap.slots[Slot.NEXT]


def test_a_second_run_takes_no_new_memory() -> None:
    function = native(f"def @main({INT_LIST}) {{ @map(fn (%x: int32) {{ %x * 2 }}, %xs) }}")
    function(_numbers(1000))
    before = _room(function)
    function(_numbers(1000))
    assert _room(function) == before > 0


def test_a_map_is_written_into_the_list_that_it_reads() -> None:
    """Cells and numbers that nobody else holds are used again: the copy needs no memory."""
    module = module_of(f"def @main({INT_LIST}) {{ @map(fn (%x: int32) {{ %x + 1 }}, %xs) }}")
    text = print_program(control_of(module, infer_types(module)))
    assert "unpack xs" in text
    assert "memory" in text.split("= Cons(", 1)[1].split("\n", 1)[0]
    mapping = native(f"def @main({INT_LIST}) {{ @map(fn (%x: int32) {{ %x + 1 }}, %xs) }}")
    plain = native(f"def @main({INT_LIST}) {{ %xs }}")
    many = _numbers(2000)
    mapped, kept = (function(many) for function in (mapping, plain))
    assert _elements(mapped) == [each + 1 for each in _elements(kept)]
    assert _room(mapping) == _room(plain) > 0


def test_a_value_with_two_owners_is_not_overwritten() -> None:
    function = native(
        "def @main(%x: Tensor[(16,), float32]) { let %f = fn (%y: Tensor[(16,), float32]) "
        "{ if (True) { %y + 1f } else { %y } }; (%f(%x), %x, %f(%f(%x))) }"
    )
    x = np.arange(16, dtype=np.float32)
    one, kept, two = function(x)
    np.testing.assert_array_equal(one, x + 1)
    np.testing.assert_array_equal(kept, x)
    np.testing.assert_array_equal(two, x + 2)
    np.testing.assert_array_equal(x, np.arange(16))
    assert function.live_objects == 0


def test_large_tensors_come_and_go() -> None:
    text = (
        "def @main(%n: int32, %x: Tensor[(300, 300), float32]) { let %f = fn (%i: int32, "
        "%y: Tensor[(300, 300), float32]) -> Tensor[(300, 300), float32] "
        "{ if (%i == 0) { %y } else { let %z = %y + %x; %f(%i - 1, nn.relu(%z)) } }; %f(%n, %x) }"
    )
    function = native(text)
    x = np.full((300, 300), 0.5, np.float32)
    np.testing.assert_array_equal(function(np.asarray(9, np.int32), x), x * 10)
    assert function.live_objects == 0


CIRCLE = """
type Node { Node(ref(Link)) }
type Link { End, To(Node) }
def @main(%n: int32) {
  let %c = ref(End);
  let %a = Node(%c);
  ref_write(%c, To(%a));
  %n
}
"""


def test_cells_in_a_circle_are_freed_when_the_run_ends_and_counted() -> None:
    function = native(CIRCLE)
    for _ in range(3):
        assert function(np.asarray(4, np.int32)) == 4
        assert function.live_objects == 3


def test_cells_without_a_circle_leave_nothing() -> None:
    function = native(CIRCLE.replace("To(%a)", "End"))
    assert function(np.asarray(4, np.int32)) == 4
    assert function.live_objects == 0


DEEP = "def @f(%n: int32) -> int32 { if (%n == 0) { 0 } else { 1 + @f(%n - 1) } }"


def test_a_million_calls_deep() -> None:
    function = native(DEEP + "def @main(%n: int32) { @f(%n) }")
    assert function(np.asarray(1_000_000, np.int32)) == 1_000_000
    assert function.live_objects == 0


def test_a_recursion_without_end_is_an_error_and_the_next_run_works() -> None:
    function = native(DEEP + "def @main(%n: int32) { @f(%n) }", stack_bytes=1 << 20)
    for _ in range(2):
        with pytest.raises(CodesignError, match="the recursion is too deep"):
            function(np.asarray(-1, np.int32))
        assert function(np.asarray(100, np.int32)) == 100
        assert function.live_objects == 0


def test_the_smallest_stack_is_used_to_its_end_only() -> None:
    function = native(DEEP + "def @main(%n: int32) { @f(%n) }", stack_bytes=1 << 19)
    for depth in (1, 10, 100, 1000):
        assert function(np.asarray(depth, np.int32)) == depth
    with pytest.raises(CodesignError, match="524,288 bytes"):
        function(np.asarray(1 << 24, np.int32))


def test_a_stack_that_the_system_does_not_have_is_refused() -> None:
    function = native("def @main(%n: int32) { if (%n == 0) { 1 } else { 2 } }", stack_bytes=1 << 60)
    with pytest.raises(CodesignError, match="the system gives no stack"):
        function(np.asarray(0, np.int32))
