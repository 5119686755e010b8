"""The prelude does to lists, trees and numbers what Python does to its own."""

from __future__ import annotations

from functools import reduce
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.frontend.prelude import prelude
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.diagnostics import CodesignError
from codesign.ir.relay.equal import is_equal_module
from codesign.ir.relay.printer import print_module
from codesign.ir.relay.types import FuncType, Type, type_text
from codesign.ir.relay.wellformed import check_module
from tests.support.relay_values import module_of, run

LISTS = st.lists(st.integers(-100, 100), max_size=6)


def test_the_prelude_is_checked_like_any_text() -> None:
    module = prelude()
    check_module(module)
    infer_types(module)
    assert is_equal_module(module, parse_module(print_module(module)))


SIGNATURES = {
    "id": "fn[A] (A) -> A",
    "compose": "fn[A, B, C] (fn (B) -> C, fn (A) -> B) -> fn (A) -> C",
    "flip": "fn[A, B, C] (fn (A, B) -> C) -> fn (B, A) -> C",
    "iterate": "fn[A] (fn (A) -> A, int32) -> fn (A) -> A",
    "hd": "fn[A] (List[A]) -> A",
    "tl": "fn[A] (List[A]) -> List[A]",
    "nth": "fn[A] (List[A], int32) -> A",
    "update": "fn[A] (List[A], int32, A) -> List[A]",
    "map": "fn[A, B] (fn (A) -> B, List[A]) -> List[B]",
    "foldl": "fn[A, B] (fn (A, B) -> A, A, List[B]) -> A",
    "foldr": "fn[A, B] (fn (A, B) -> B, B, List[A]) -> B",
    "foldr1": "fn[A] (fn (A, A) -> A, List[A]) -> A",
    "zip": "fn[A, B] (List[A], List[B]) -> List[(A, B)]",
    "map_accumr": "fn[A, B, C] (fn (A, B) -> (A, C), A, List[B]) -> (A, List[C])",
    "unfoldr": "fn[A, B] (fn (A) -> Option[(A, B)], A) -> List[B]",
    "tmap": "fn[A, B] (fn (A) -> B, Tree[A]) -> Tree[B]",
    "size": "fn[A] (Tree[A]) -> int32",
    "nat_iterate": "fn[A] (fn (A) -> A, nat) -> fn (A) -> A",
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_signature(name: str) -> None:
    found: Type = infer_types(prelude())[prelude().functions[name]]
    assert isinstance(found, FuncType)
    assert type_text(found) == SIGNATURES[name]


def test_a_text_gets_only_what_it_uses() -> None:
    module = module_of("def @main(%x: int32) { @length(Cons(%x, Nil)) }")
    assert set(module.functions) == {"main", "length", "foldl"}
    assert set(module.data_types) == {"List"}
    assert not module_of("def @main(%x: int32) { %x }").data_types


def test_a_text_may_have_its_own_function_of_that_name() -> None:
    assert run("def @sum(%x: int32) { %x * 2 } def @main(%x: int32) { @sum(%x) }", 4) == 8


LIST = "%xs: List[int32]"


@given(LISTS, LISTS)
def test_functions_of_two_lists(xs: list[int], ys: list[int]) -> None:
    text = f"def @main({LIST}, %ys: List[int32]) {{ (@concat(%xs, %ys), @zip(%xs, %ys)) }}"
    assert run(text, xs, ys) == (xs + ys, [*zip(xs, ys, strict=False)])


@given(LISTS)
def test_functions_of_a_list(xs: list[int]) -> None:
    text = f"""
    def @main({LIST}) {{
      let %less = fn (%a: int32, %b: int32) -> int32 {{ %a - %b }};
      (@length(%xs), @rev(%xs), @sum(%xs), @map(fn (%x) {{ %x * 3 }}, %xs),
       @filter(fn (%x) {{ %x > 0 }}, %xs), @foldl(%less, 5, %xs), @foldr(%less, 5, %xs))
    }}"""
    foldr = reduce(lambda done, x: x - done, reversed(xs), 5)
    assert run(text, xs) == (
        len(xs),
        xs[::-1],
        sum(xs),
        [3 * x for x in xs],
        [x for x in xs if x > 0],
        reduce(lambda done, x: done - x, xs, 5),
        foldr,
    )


@given(LISTS.filter(bool), st.data())
def test_functions_of_a_list_that_is_not_empty(xs: list[int], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(xs) - 1))
    text = f"""
    def @main({LIST}, %n: int32) {{
      let %less = fn (%a: int32, %b: int32) -> int32 {{ %a - %b }};
      (@hd(%xs), @tl(%xs), @nth(%xs, %n), @update(%xs, %n, 7), @foldr1(%less, %xs))
    }}"""
    changed = [*xs[:index], 7, *xs[index + 1 :]]
    folded = reduce(lambda done, x: x - done, reversed(xs[:-1]), xs[-1])
    assert run(text, xs, index) == (xs[0], xs[1:], xs[index], changed, folded)


@given(LISTS)
def test_maps_that_carry_a_value(xs: list[int]) -> None:
    text = f"""
    def @main({LIST}) {{
      let %f = fn (%s: int32, %x: int32) -> (int32, int32) {{ (%s + %x, %s + %x) }};
      (@map_accuml(%f, 0, %xs), @map_accumr(%f, 0, %xs))
    }}"""
    left, right = [*accumulate(xs)], [*accumulate(xs[::-1])][::-1]
    assert run(text, xs) == ((sum(xs), left), (sum(xs), right))


def test_lists_from_a_state() -> None:
    text = """
    def @main(%n: int32) {
      let %f = fn (%i: int32) { if (%i == 0) { None } else { Some((%i - 1, %i)) } };
      (@unfoldr(%f, %n), @unfoldl(%f, %n))
    }"""
    assert run(text, 4) == ([4, 3, 2, 1], [1, 2, 3, 4])


def test_functions_of_functions() -> None:
    text = """
    def @main(%n: int32) {
      let %twice = fn (%x: int32) -> int32 { %x * 2 };
      let %next = fn (%x: int32) -> int32 { %x + 1 };
      (@compose(%twice, %next)(%n), @iterate(%twice, 5)(%n), @id(%n),
       @flip(fn (%a: int32, %b: int32) -> int32 { %a - %b })(1, %n))
    }"""
    assert run(text, 3) == (8, 96, 3, 2)


def test_trees() -> None:
    text = """
    def @main(%n: int32) {
      let %tree = Rose(%n, Cons(Rose(2, Nil), Cons(Rose(3, Cons(Rose(4, Nil), Nil)), Nil)));
      (@size(%tree), @tmap(fn (%x) { %x * 10 }, %tree))
    }"""
    leaf = ("Rose", 20, [])
    assert run(text, 1) == (4, ("Rose", 10, [leaf, ("Rose", 30, [("Rose", 40, [])])]))


def _nat(value: object) -> int:
    count = 0
    while isinstance(value, tuple) and value[0] == "succ":
        value, count = value[1], count + 1
    assert value == ("zero",)
    return count


@given(st.integers(0, 6), st.integers(0, 6))
def test_natural_numbers(m: int, n: int) -> None:
    def written(number: int) -> str:
        return "succ(" * number + "zero" + ")" * number

    text = f"def @main() {{ (@nat_add({written(m)}, {written(n)}), @nat_double({written(m)})) }}"
    found = run(text)
    assert isinstance(found, tuple)
    assert (_nat(found[0]), _nat(found[1])) == (m + n, 2 * m)


def test_natural_numbers_count() -> None:
    text = """
    def @main(%xs: List[int32]) {
      let %two = succ(succ(zero));
      (@nat_nth(%xs, %two), @nat_update(%xs, %two, 0), @nat_iterate(fn (%x) { %x + 5 }, %two)(1))
    }"""
    assert run(text, [4, 5, 6, 7]) == (6, [4, 5, 0, 7], 11)


def test_the_head_of_nothing_is_a_mistake_with_its_place() -> None:
    with pytest.raises(CodesignError, match=r"prelude.relay:\d+:3\n(.|\n)*constructor Nil"):
        run("def @main(%xs: List[int32]) { @hd(%xs) }", [])


def test_a_long_list_does_not_recurse() -> None:
    text = "def @main(%xs: List[int32]) { @sum(@map(fn (%x) { %x * 2 }, @rev(%xs))) }"
    assert run(text, [1] * 2000) == 4000
