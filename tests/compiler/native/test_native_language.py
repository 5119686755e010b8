"""Every construct of the language, compiled, gives what the interpreter gives."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.ir.relay.expr import (
    Call,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    RefNew,
    RefRead,
    RefWrite,
    Tuple,
    Var,
)
from codesign.ir.relay.module import Module
from codesign.ops.table import call
from tests.support.native import assert_agrees, from_python, native, native_module, run_native
from tests.support.relay_programs import BOOL, INT, diamond, even_and_odd, integer
from tests.support.relay_values import module_of

PROGRAMS = {
    "call": ("def @f(%x: int32) { %x * 3 } def @main(%n: int32) { @f(@f(%n)) }", 5),
    "if": ("def @main(%n: int32) { if (%n < 3) { %n + 1 } else { %n - 1 } }", 5),
    "if of a value": (
        "def @main(%n: int32) { let %b = %n < 9; (if (%b) { 1 } else { 2 }, %b) }",
        5,
    ),
    "if of calls": (
        "def @p(%n: int32) -> bool { %n < 3 } "
        "def @main(%n: int32) { (if (@p(%n)) { 1 } else { 2 }) + %n }",
        5,
    ),
    "nested tuples": (
        "def @main(%p: (int32, (int32, bool))) { (%p.1, %p.0 + %p.1.0, (), (%p.0,)) }",
        (1, (2, True)),
    ),
    "closure": (
        "def @main(%n: int32) { let %add = fn (%x: int32) { %x + %n }; %add(%add(1)) }",
        5,
    ),
    "closure of a closure": (
        "def @main(%n: int32) { let %k = fn (%x: int32) { fn (%y: int32) { %x * %y + %n } }; "
        "%k(3)(4) }",
        5,
    ),
    "local recursion": (
        "def @main(%n: int32) { let %f = fn (%i: int32) -> int32 "
        "{ if (%i == 0) { %n } else { %f(%i - 1) + 1 } }; %f(10) }",
        5,
    ),
    "recursion through an inner closure": (
        "def @main(%n: int32) { let %f = fn (%i: int32) -> int32 { let %g = fn () -> int32 "
        "{ %f(%i - 1) + %n }; if (%i == 0) { 0 } else { %g() } }; %f(4) }",
        5,
    ),
    "constructors as functions": (
        "def @main(%n: int32) { @map(Some, Cons(%n, Cons(2, Nil))) }",
        5,
    ),
    "functions in data": (
        "def @main(%n: int32) { let %fs = Cons(fn (%x: int32) { %x + %n }, "
        "Cons(fn (%x: int32) { %x * %n }, Nil)); "
        "@foldl(fn (%a: int32, %f: fn (int32) -> int32) { %f(%a) }, 1, %fs) }",
        5,
    ),
    "polymorphism": (
        "def @twice[A](%f: fn (A) -> A, %x: A) { %f(%f(%x)) } def @main(%n: int32) "
        "{ (@twice(fn (%x) { %x * 3 }, %n), @twice(fn (%b: bool) { if (%b) { False } "
        "else { True } }, True)) }",
        5,
    ),
    "nested patterns": (
        "def @main(%xs: List[(int32, Option[int32])]) { match (%xs) { "
        "Cons((%a, Some(%b)), Cons((%c, None), _)) => %a + %b * %c, "
        "Cons((%a, None), Nil) => %a, Cons(%p, _) => %p.0 - 100, Nil => 0 - 1 } }",
        [(3, ("Some", 4))],
    ),
    "match of a tuple": (
        "def @main(%p: (List[int32], List[int32])) { match (%p) { (Nil, Nil) => 0, "
        "(Cons(%x, _), Nil) => %x, (_, Cons(%y, _)) => %y } }",
        ([1], [2, 3]),
    ),
    "cells": (
        "def @main(%n: int32) { let %r = ref(%n); let %s = ref(%r); "
        "ref_write(ref_read(%s), 7); "
        "(ref_read(%r), ref_write(%s, ref(1)), ref_read(ref_read(%s))) }",
        5,
    ),
    "counter": (
        "def @main(%n: int32) { let %total = ref(0); let %add = fn (%k: int32) "
        "{ ref_write(%total, ref_read(%total) + %k); ref_read(%total) }; "
        "(%add(%n), %add(10), %add(%n)) }",
        5,
    ),
    "order of effects": (
        "def @main(%n: int32) { let %r = ref(1); let %f = fn (%k: int32) "
        "{ ref_write(%r, ref_read(%r) * 10 + %k); ref_read(%r) }; (%f(2), (%f(3), %f(4))) }",
        5,
    ),
    "several results": (
        "def @main(%x: Tensor[(4,), int32]) { let %p = split(%x, indices_or_sections=2); "
        "if (True) { (%p.1, %p.0) } else { %p } }",
        np.arange(4, dtype=np.int32),
    ),
    "trees": (
        "def @main(%t: Tree[int32]) { (@size(%t), @tmap(fn (%x: int32) { %x + 1 }, %t)) }",
        ("Rose", 1, [("Rose", 2, []), ("Rose", 3, [("Rose", 4, [])])]),
    ),
    "numbers": ("def @main(%n: nat) "
                "{ @nat_iterate(fn (%x: int32) { %x * 2 }, @nat_double(%n))(1) }",
                ("succ", ("succ", ("zero",)))),
    "map_accum": (
        "def @main(%xs: List[int32]) { let %f = fn (%a: int32, %x: int32) { (%a + %x, %a * %x) }; "
        "(@map_accuml(%f, 0, %xs), @map_accumr(%f, 0, %xs)) }",
        [1, 2, 3, 4],
    ),
    "unfold": (
        "def @main(%n: int32) { let %f = fn (%k: int32) { if (%k == 0) { None } "
        "else { Some((%k - 1, %k * %k)) } }; (@unfoldl(%f, %n), @unfoldr(%f, %n)) }",
        5,
    ),
    "lists": (
        "def @main(%xs: List[int32]) { (@zip(%xs, @rev(%xs)), @concat(%xs, %xs), @length(%xs), "
        "@filter(fn (%x: int32) { %x < 3 }, %xs), @update(%xs, 1, 9), @nth(%xs, 2), "
        "@foldr1(fn (%a: int32, %b: int32) { %a - %b }, %xs)) }",
        [1, 2, 3, 4],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_native_code_agrees_with_the_interpreter(name: str) -> None:
    text, argument = PROGRAMS[name]
    assert_agrees(module_of(text), from_python(argument))


@pytest.mark.parametrize(
    "argument",
    [[], [(3, ("Some", 4)), (5, ("None",))], [(3, ("None",))], [(1, ("None",)), (2, ("None",))]],
)
def test_every_clause_of_a_match_is_reached(argument: object) -> None:
    text, _ = PROGRAMS["nested patterns"]
    assert_agrees(module_of(text), from_python(argument))


def test_mutual_recursion_in_tail_position_needs_no_stack() -> None:
    function = native_module(even_and_odd(), stack_bytes=1 << 20)
    assert function(np.asarray(1_000_001, np.int32)) == np.asarray(False)
    assert function.live_objects == 0


def test_a_loop_of_a_closure_needs_no_stack() -> None:
    text = (
        "def @main(%n: int32, %k: int32) { let %loop = fn (%i: int32, %a: int32) -> int32 "
        "{ if (%i == 0) { %a } else { %loop(%i - 1, %a + %k) } }; %loop(%n, 0) }"
    )
    function = native(text, stack_bytes=1 << 20)
    assert function(np.asarray(1_000_000, np.int32), np.asarray(3, np.int32)) == 3_000_000


def test_a_loop_of_many_arguments_needs_no_stack() -> None:
    """More arguments than any processor has registers for, in another order at each turn."""
    names = [f"a{number}" for number in range(14)]
    params = ", ".join(f"%{name}: int32" for name in names)
    turned = ", ".join(f"%{name}" for name in (*names[1:], names[0]))
    digits = " + ".join(f"%{name} * {index + 1}" for index, name in enumerate(names))
    text = (
        f"def @loop(%n: int32, {params}) -> int32 "
        f"{{ if (%n == 0) {{ {digits} }} else {{ @loop(%n - 1, {turned}) }} }} "
        f"def @main(%n: int32) {{ @loop(%n, {', '.join(map(str, range(14)))}) }}"
    )
    function = native(text, stack_bytes=1 << 20)
    turns = 100_003
    shifted = [(index + turns) % 14 for index in range(14)]
    expected = sum(value * (index + 1) for index, value in enumerate(shifted))
    assert function(np.asarray(turns, np.int32)) == expected
    assert function.live_objects == 0


def test_a_node_is_evaluated_once_however_often_it_is_shared() -> None:
    assert_agrees(diamond(40), 3)


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("second", [False, True])
def test_what_branches_share_is_evaluated_once_on_every_way(first: bool, second: bool) -> None:
    """`tick` is one node: in an arm of each of two ifs, and in neither where both are false."""
    c, d, r = Var("c", BOOL), Var("d", BOOL), Var("r")
    done = Var("_")
    body = call("add", RefRead(r), integer(1))
    step = Function((), Let(done, RefWrite(r, body), RefRead(r)))
    f = Var("f")
    tick = Call(f, ())
    chosen = Tuple(
        (If(c, tick, integer(10)), If(d, call("multiply", tick, integer(7)), integer(20)))
    )
    main = Function((c, d), Let(r, RefNew(integer(0)), Let(f, step, Tuple((chosen, RefRead(r))))))
    assert_agrees(Module({"main": main}), first, second)


def test_a_shared_node_of_both_arms_and_behind_them() -> None:
    n = Var("n", INT)
    shared = Call(GlobalVar("f"), (n,))
    chosen = If(
        call("less", n, integer(3)), call("add", shared, integer(1)), call("add", shared, shared)
    )
    m = Var("m", INT)
    module = Module(
        {
            "main": Function((n,), Tuple((chosen, shared))),
            "f": Function((m,), call("multiply", m, m), INT),
        }
    )
    for value in (1, 5):
        assert_agrees(module, value)


def test_a_chain_of_lets_of_calls_is_not_compiled_by_recursion() -> None:
    n = Var("n", INT)
    variables = [Var(f"v{index}") for index in range(1500)]
    body: Expr = variables[-1]
    for before, var in zip([n, *variables][1499::-1], reversed(variables), strict=True):
        body = Let(var, Call(GlobalVar("f"), (before,)), body)
    m = Var("m", INT)
    module = Module(
        {
            "main": Function((n,), body),
            "f": Function(
                (m,), If(call("less", m, integer(0)), m, call("add", m, integer(1))), INT
            ),
        }
    )
    function = native_module(module)
    assert function(np.asarray(7, np.int32)) == 1507


def test_tensors_flow_through_recursion() -> None:
    text = (
        "def @loop(%i: int32, %x: Tensor[(3, 8), float32], %w: Tensor[(8, 8), float32]) "
        "-> Tensor[(3, 8), float32] { if (%i == 0) { %x } else "
        "{ @loop(%i - 1, tanh(nn.dense(%x, %w)) + %x, %w) } } "
        "def @main(%i: int32, %x: Tensor[(3, 8), float32], %w: Tensor[(8, 8), float32]) "
        "{ @loop(%i, %x, %w) }"
    )
    random = np.random.default_rng(1)
    x, w = (random.standard_normal(shape).astype(np.float32) for shape in ((3, 8), (8, 8)))
    assert_agrees(module_of(text), 6, x, w, exact=False)


def test_programs_of_several_functions_answer_in_python() -> None:
    text = "def @main(%xs: List[int32]) { (@sum(%xs), @map(fn (%x: int32) { %x * %x }, %xs)) }"
    assert run_native(text, [1, 2, 3]) == (6, [1, 4, 9])
