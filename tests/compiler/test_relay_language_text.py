"""Text of the whole language: data types, match, cells, type parameters."""

from __future__ import annotations

import pytest
from hypothesis import given

from codesign.compiler.frontend.prelude import prelude
from codesign.compiler.frontend.relay_parser import parse_expr, parse_module
from codesign.diagnostics import CodesignError
from codesign.ir.relay.equal import is_equal, is_equal_module
from codesign.ir.relay.expr import (
    Call,
    Constructor,
    Expr,
    Function,
    Let,
    Match,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    RefWrite,
    Tuple,
    Wildcard,
)
from codesign.ir.relay.module import Module
from codesign.ir.relay.printer import print_module
from codesign.ir.relay.types import FuncType, TypeVar
from codesign.ir.relay.visit import children, post_order, rewrite_module, with_children
from codesign.ir.relay.wellformed import check_module
from tests.support.random_relay import modules
from tests.support.relay_text import HEAD, read_back


@given(modules())
def test_random_programs_of_every_construct_survive(module: Module) -> None:
    check_module(module)
    read = read_back(module)
    check_module(read)
    assert is_equal_module(module, read)
    assert is_equal_module(read, module)


@given(modules())
def test_every_node_is_rebuilt_from_its_children(module: Module) -> None:
    assert rewrite_module(module, lambda node: node) is module
    for node in post_order(*module.functions.values()):
        assert with_children(node, children(node)) is node

    def copied(node: Expr) -> Expr:
        return RefWrite(node.reference, node.value) if isinstance(node, RefWrite) else node

    assert is_equal_module(rewrite_module(module, copied), module)


PRINTED = """#[version = "0.0.5"]

type Chain[A] {
  Link(A, Chain[A]),
  End,
}

extern type Storage[A]

def @main[B](%c: Chain[(B, int32)], %r: ref(int32), %f: fn[C] (C) -> Storage[C]) -> int32 {
  match (%c) {
    Link((%b, %n: int32), _) => {
      let %_: () = ref_write(%r, %n);
      %0 = ref_read(%r);
      %0
    },
    End => {
      match? (Link(1, End)) {
        Link(%only, End) => {
          %only
        },
      }
    },
  }
}

def @id[A](%x: A) -> A {
  let %g = fn[A_1](%y: A_1) -> (A_1, A) {
    (%y, %x)
  };
  %1 = %g(5);
  %1.1
}
"""


def test_golden_program_prints_as_it_was_read() -> None:
    module = parse_module(PRINTED)
    check_module(module)
    text = print_module(module)
    assert text == PRINTED.replace(
        "      %0 = ref_read(%r);\n      %0\n", "      ref_read(%r)\n"
    ).replace(
        "      match? (Link(1, End)) {\n", "      %0 = Link(1, End);\n      match? (%0) {\n"
    ).replace("%1", "%0")
    assert is_equal_module(parse_module(text), module)


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("fn[A](%x: A) { %x }", "fn[B](%x: B) { %x }", True),
        ("fn[A, B](%x: A) { %x }", "fn[B, A](%x: B) { %x }", True),
        ("fn[A, B](%x: A) { %x }", "fn[A, B](%x: B) { %x }", False),
        ("fn[A](%x: A) { %x }", "fn(%x: int32) { %x }", False),
        ("fn(%x: fn[A](A) -> A) { %x }", "fn(%x: fn[B](B) -> B) { %x }", True),
        ("fn(%x: _) { %x }", "fn(%x: _) { %x }", True),
        ("fn(%x: _) { %x }", "fn(%x) { %x }", False),
        ("match (1) { _ => 1 }", "match? (1) { _ => 1 }", False),
        ("match (1) { %x => %x }", "match (1) { %y => %y }", True),
        ("match (1) { %x => 1 }", "match (1) { _ => 1 }", False),
        ("match (1) { (%a, %b) => %a }", "match (1) { (%a, %b) => %b }", False),
        ("ref(1)", "ref_read(1)", False),
        ("Some(1)", "Cons(1)", False),
    ],
)
def test_equality_up_to_names(left: str, right: str, same: bool) -> None:
    a, b = (parse_expr(text, imports=prelude()) for text in (left, right))
    assert is_equal(a, b) is same
    assert is_equal(b, a) is same


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("type T[A] { C(A), D }", "type T[B] { C(B), D }", True),
        ("type T[A] { C(A), D }", "type T[A] { D, C(A) }", False),
        ("type T[A, B] { C(A) }", "type T[A, B] { C(B) }", False),
        ("type T { }", "extern type T", False),
        ("type T { }", "type U { }", False),
    ],
)
def test_equality_of_data_types(left: str, right: str, same: bool) -> None:
    a, b = (parse_module(f"{HEAD}{text}") for text in (left, right))
    assert is_equal_module(a, b) is same


def test_a_constructor_without_fields_is_called_where_it_stands() -> None:
    for text in ("Nil", "Nil()"):
        found = parse_expr(text, imports=prelude())
        assert isinstance(found, Call)
        assert isinstance(found.callee, Constructor)
        assert found.args == ()
    assert isinstance(parse_expr("Some", imports=prelude()), Constructor)


def test_patterns() -> None:
    text = "match (1) { Cons(%h, Nil) => 1, (_, %x: int8,) => 2, () => 3 }"
    found = parse_expr(text, imports=prelude())
    assert isinstance(found, Match)
    first, second, third = (clause.pattern for clause in found.clauses)
    assert isinstance(first, PatternConstructor)
    assert isinstance(first.fields[0], PatternVar)
    assert first.fields[1] == PatternConstructor("Nil")
    assert isinstance(second, PatternTuple)
    assert second.fields[0] == Wildcard()
    assert third == PatternTuple(())


def test_an_inner_type_parameter_gets_a_name_of_its_own() -> None:
    module = parse_module(
        f"{HEAD}def @main[A](%x: A) {{ fn[A](%y: A, %z: fn[A](A) -> A) {{ 1 }} }}"
    )
    check_module(module)
    inner = module.main.body
    assert isinstance(inner, Function)
    assert inner.type_params == (TypeVar("A_1"),)
    assert inner.params[0].annotation == TypeVar("A_1")
    last = TypeVar("A_2")
    assert inner.params[1].annotation == FuncType((last,), last, (last,))


def test_a_sequence_is_a_let_of_nobody() -> None:
    found = parse_expr("free_var %r: ref(int32); ref_write(%r, 1); ref_read(%r)")
    assert isinstance(found, Let)
    assert isinstance(found.value, RefWrite)


def test_deep_matches_do_not_recurse() -> None:
    depth = 400
    text = "match (1) { _ => " * depth + "1" + " }" * depth
    module = Module({"main": Function((), parse_expr(text))})
    assert is_equal_module(parse_module(print_module(module)), module)


def test_wellformed_knows_the_scope_of_patterns_and_of_type_parameters() -> None:
    var = parse_module(f"{HEAD}def @main(%x: int32) {{ %x }}").main.params[0]
    clause = parse_expr("match (1) { %y => %y }")
    assert isinstance(clause, Match)
    pattern = clause.clauses[0].pattern
    assert isinstance(pattern, PatternVar)
    outside = Tuple((clause, pattern.var))
    with pytest.raises(CodesignError, match="%y is used outside its scope"):
        check_module(Module({"main": Function((var,), outside)}))
    twice = Tuple((clause, Match(var, clause.clauses)))
    with pytest.raises(CodesignError, match="%y is bound twice"):
        check_module(Module({"main": Function((var,), twice)}))
    free = Function((var,), var, TypeVar("A"))
    with pytest.raises(CodesignError, match="no type parameter A is in scope"):
        check_module(Module({"main": free}))
    hidden = Function((), Function((), var, None, {}, (TypeVar("A"),)), None, {}, (TypeVar("A"),))
    with pytest.raises(CodesignError, match="type parameter A hides another"):
        check_module(Module({"main": Function((var,), hidden)}))
    with pytest.raises(CodesignError, match="no constructor is named Nil"):
        check_module(Module({"main": Function((), Call(Constructor("Nil"), ()))}))
    bare = Module({"main": Function((), Constructor("Nil"))}, prelude().data_types)
    with pytest.raises(CodesignError, match="constructor Nil has no fields: call it"):
        check_module(bare)
