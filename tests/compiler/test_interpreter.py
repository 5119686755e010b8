"""Evaluation: meaning, sharing, laziness of branches, memory, and observation."""

from __future__ import annotations

import weakref
from dataclasses import replace

import numpy as np
import pytest

from codesign.compiler import interpreter as subject
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.compiler.interpreter import Interpreter
from codesign.diagnostics import CodesignError
from codesign.ir.relay.expr import Call, Expr, Var
from codesign.ops.operator import Value
from codesign.ops.table import OPERATORS
from tests.support.relay_programs import INT, call_chain, diamond, even_and_odd, let_chain, main_of


def run(text: str, **inputs: object) -> Value:
    module = parse_module(f'#[version = "0.0.5"]\n{text}')
    return Interpreter(module).run(**{name: np.asarray(each) for name, each in inputs.items()})


def i32(value: object) -> np.ndarray:
    return np.asarray(value, np.int32)


@pytest.mark.parametrize(("n", "even"), [(0, True), (4, True), (7, False), (3001, False)])
def test_mutual_recursion(n: int, even: bool) -> None:
    assert Interpreter(even_and_odd()).run(y=i32(n)) == np.asarray(even)


def test_the_branch_that_is_not_taken_is_never_evaluated() -> None:
    text = "def @main(%n: int32) { if (%n == 0) { 7 } else { 100 / %n } }"
    assert run(text, n=i32(0)) == i32(7)
    assert run(text, n=i32(3)) == i32(33)


def test_closures_keep_the_values_of_their_variables() -> None:
    text = """
    def @main(%x: int32) {
      let %k = %x * 10;
      let %f = fn (%y: int32) { %y + %k };
      let %k2 = 1000;
      %f(%f(%k2))
    }"""
    assert run(text, x=i32(2)) == i32(1040)


def test_local_recursion() -> None:
    text = """
    def @main(%n: int32) {
      let %sum = fn (%i: int32) -> int32 { if (%i == 0) { 0 } else { %i + %sum(%i - 1) } };
      %sum(%n)
    }"""
    assert run(text, n=i32(2000)) == i32(2000 * 2001 // 2)


def test_tuples_of_values() -> None:
    text = "def @main(%x: int32) { let %p = ((%x, 2), 3); (%p.0.1, %p.1, %p.0) }"
    assert run(text, x=i32(1)) == (2, 3, (1, 2))


def test_a_let_that_nobody_uses_is_evaluated_once() -> None:
    assert run("def @main(%x: int32) { let %dead = %x + 1; %x }", x=i32(5)) == i32(5)


@pytest.mark.parametrize("make", [call_chain, let_chain])
def test_long_chains_do_not_recurse(make: object) -> None:
    module = make(5_000)  # type: ignore[operator]
    assert Interpreter(module).run(x=i32(1)) == i32(5_001)


def test_a_shared_node_is_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counting(name: str, span: object) -> object:
        calls.append(name)
        return OPERATORS[name]

    monkeypatch.setattr(subject, "operator", counting)
    assert Interpreter(diamond(25)).run(x=i32(1)) == i32(2**25)
    assert calls == ["add"] * 25


def test_intermediates_are_dropped_after_their_last_use(monkeypatch: pytest.MonkeyPatch) -> None:
    alive, most = 0, 0

    def dropped() -> None:
        nonlocal alive
        alive -= 1

    def add(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        nonlocal alive, most
        result = np.asarray(lhs + rhs)
        weakref.finalize(result, dropped)
        alive += 1
        most = max(most, alive)
        return result

    record = replace(OPERATORS["add"], reference=add)
    monkeypatch.setattr(subject, "operator", lambda name, span: record)
    for make in (call_chain, let_chain, diamond):
        most = 0
        Interpreter(make(30)).run(x=i32(1))
        assert most == 2


def test_every_intermediate_value_can_be_observed() -> None:
    module = parse_module(
        '#[version = "0.0.5"]\ndef @main(%x: int32) { %0 = %x + 1; let %v = %0 * %0; (%v, %0) }'
    )
    seen: list[tuple[Expr, Value]] = []
    Interpreter(module).evaluate(
        module.main, [i32(2)], observe=lambda node, value: seen.append((node, value))
    )
    calls = {node.callee.name: value for node, value in seen if isinstance(node, Call)}  # type: ignore[union-attr]
    assert calls == {"add": 3, "multiply": 9}
    assert [value for node, value in seen if isinstance(node, Var)] == [2]
    assert len({node for node, _ in seen}) == len(seen)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, r"expected \['x'\]"),
        ({"x": i32(1), "y": i32(1)}, r"found \['x', 'y'\]"),
        ({"x": i32([1])}, r"found Tensor\[\(1,\), int32\], expected int32"),
        ({"x": np.float32(1)}, "found float32, expected int32"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(inputs: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(CodesignError, match=message):
        Interpreter(call_chain(1)).run(**inputs)


def test_a_mistake_at_run_time_has_the_place_of_its_call() -> None:
    with pytest.raises(CodesignError, match=r"<text>:2:24") as caught:
        run("def @main(%n: int32) { 1 / %n }", n=i32(0))
    assert "divisor of zero" in str(caught.value)


def test_a_variable_without_value_is_refused() -> None:
    with pytest.raises(CodesignError, match="%q has no value here"):
        Interpreter(main_of(body=Var("q", INT))).run()
