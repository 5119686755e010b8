"""Values cross into compiled programs and back as they are, or are refused; never in between."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import host_runtime.values
from codesign.diagnostics import CodesignError
from codesign.dtypes import DType
from codesign.ir.executable.values import DataValue
from host_runtime.native import NativeFunction
from tests.support.native import from_python, native
from tests.support.relay_values import to_python, to_relay

TREE = """
type Shape[A] { Leaf, One(A), Two(A, Shape[A]), Pair((A, A), List[Shape[A]]) }
def @main(%s: Shape[Tensor[(2,), int16]], %t: (Tree[bool], ())) { if (True) { (%s, %t) } else { (%s, %t) } }
"""  # noqa: E501


@pytest.fixture(scope="module")
def identity() -> NativeFunction:
    return native(TREE)


PAIRS = st.tuples(st.integers(-9, 9), st.integers(-9, 9)).map(lambda p: np.array(p, np.int16))
SHAPES = st.recursive(
    st.just(("Leaf",)) | st.tuples(st.just("One"), PAIRS),
    lambda inner: (
        st.tuples(st.just("Two"), PAIRS, inner)
        | st.tuples(st.just("Pair"), st.tuples(PAIRS, PAIRS), st.lists(inner, max_size=3))
    ),
    max_leaves=8,
)
TREES = st.recursive(
    st.tuples(st.just("Rose"), st.booleans(), st.just([])),
    lambda inner: st.tuples(st.just("Rose"), st.booleans(), st.lists(inner, max_size=3)),
    max_leaves=8,
)


@given(shape=SHAPES, tree=TREES)
def test_values_come_back_as_they_went(
    identity: NativeFunction, shape: object, tree: object
) -> None:
    args = [to_relay(from_python(shape)), to_relay((from_python(tree), ()))]
    assert to_python(identity(*args)) == to_python(tuple(args))
    assert identity.live_objects == 0
    with mock.patch.object(host_runtime.values, "_MANY_VALUES", 0):
        assert to_python(identity(*args)) == to_python(tuple(args))
    assert identity.live_objects == 0


RANKS = [(), (0,), (3,), (2, 0, 4), (2, 3, 4), (1,) * 9]


@pytest.mark.parametrize("dtype", list(DType))
def test_every_element_type_and_rank(dtype: DType) -> None:
    spelled = [", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") for shape in RANKS]
    params = [f"%x{n}: Tensor[({dims}), {dtype}]" for n, dims in enumerate(spelled)]
    names = ", ".join(f"%x{n}" for n in range(len(RANKS)))
    text = f"def @f({', '.join(params)}) {{ ({names}) }} def @main({', '.join(params)}) "
    function = native(text + f"{{ (@f({names}), @f({names})) }}")
    arrays = [
        np.arange(24)[: int(np.prod(shape))].reshape(shape).astype(dtype.numpy) for shape in RANKS
    ]
    for results in function(*arrays):
        for found, x in zip(results, arrays, strict=True):
            assert (found.dtype, found.shape) == (x.dtype, x.shape)
            np.testing.assert_array_equal(found, x)
    assert function.live_objects == 0


def test_what_a_result_holds_twice_is_one_value() -> None:
    function = native("def @main(%x: Tensor[(3,), int32]) { let %p = (%x, Some(%x)); (%p, %p) }")
    one, other = function(np.arange(3, dtype=np.int32))
    assert one is other
    assert one[1].fields[0] is one[0]
    assert function.live_objects == 0


def test_a_result_that_shares_much_is_not_written_out() -> None:
    """Sixty pairs of pairs: two to the power of sixty leaves, written once each."""
    text = (
        "type Twice { Leaf(int32), Both(Twice, Twice) } "
        "def @grow(%n: int32, %t: Twice) -> Twice "
        "{ if (%n == 0) { %t } else { @grow(%n - 1, Both(%t, %t)) } } "
        "def @main(%n: int32) { @grow(%n, Leaf(7)) }"
    )
    function = native(text)
    found = function(np.asarray(60, np.int32))
    depth = 0
    while found.constructor == "Both":
        assert found.fields[0] is found.fields[1]
        found = found.fields[0]
        depth += 1
    assert (depth, int(found.fields[0])) == (60, 7)
    assert function.live_objects == 0


TWICE = "type Twice { Leaf(int32, Tensor[(2,), bool]), Both(Twice, Twice), Pair((Twice, int8)) } "


def test_an_argument_that_shares_much_is_not_written_out() -> None:
    """Sixty levels of one value twice: it comes back, and each object is there once."""
    main = "def @main(%t: Twice, %u: Twice) { if (True) { (%t, %u) } else { (%u, %t) } }"
    function = native(TWICE + main)
    pair = np.array([True, False])
    value = DataValue("Leaf", (np.asarray(7, np.int32), pair))
    for level in range(60):
        value = DataValue("Both", (value, value))
        if level % 7 == 0:
            value = DataValue("Pair", ((value, np.asarray(level, np.int8)),))
    found, other = function(value, value)
    levels = []
    while found.constructor != "Leaf":
        if found.constructor == "Pair":
            found, level = found.fields[0]
            levels.append(int(level))
        assert found.fields[0] is found.fields[1]
        found = found.fields[0]
    assert levels == list(range(56, -1, -7))
    assert int(found.fields[0]) == 7
    np.testing.assert_array_equal(found.fields[1], pair)
    assert other.constructor == value.constructor
    assert function.live_objects == 0


def test_arrays_that_are_not_dense_and_plain_numbers_are_taken() -> None:
    function = native(
        "def @main(%x: Tensor[(3, 2), float32], %n: int32, %b: bool) "
        "{ if (%b) { (%x, %n) } else { (%x, 0) } }"
    )
    x = np.arange(6, dtype=np.float32).reshape(2, 3).T
    found, number = function(x, 4, True)
    np.testing.assert_array_equal(found, x)
    assert number == 4
    assert function(x[::1], np.int32(5), np.bool_(True))[1] == 5


MISFITS = [
    np.zeros(3, np.int16),
    np.zeros(2, np.int32),
    (),
    "Leaf",
    None,
    DataValue("Three"),
    DataValue("One"),
    DataValue("One", (np.zeros(3, np.int16),)),
    DataValue("One", (DataValue("Leaf"),)),
    DataValue("Two", (np.zeros(2, np.int16), np.zeros(2, np.int16))),
    DataValue("Cons", (np.zeros(2, np.int16), DataValue("Nil"))),
    DataValue("Pair", ((np.zeros(2, np.int16),), DataValue("Nil"))),
]


@pytest.mark.parametrize("number", range(len(MISFITS)))
def test_a_value_of_another_type_is_refused(identity: NativeFunction, number: int) -> None:
    tree = (to_relay(DataValue("Rose", (np.asarray(True), DataValue("Nil")))), ())
    with pytest.raises(CodesignError, match="an argument does not fit its parameter"):
        identity(MISFITS[number], tree)
    assert identity(DataValue("Leaf"), tree)[0].constructor == "Leaf"


def test_another_number_of_arguments_is_refused(identity: NativeFunction) -> None:
    with pytest.raises(CodesignError, match="main takes 2 arguments"):
        identity(DataValue("Leaf"))


def test_threads_have_heaps_of_their_own() -> None:
    function = native(
        "def @main(%xs: List[int32], %k: int32) { @sum(@map(fn (%x: int32) { %x * %k }, %xs)) }"
    )
    numbers = to_relay(list(range(300)))

    def run(k: int) -> int:
        return int(function(numbers, np.asarray(k, np.int32)))

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(run, range(40)))
    assert found == [k * sum(range(300)) for k in range(40)]
