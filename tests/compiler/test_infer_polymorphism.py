"""Types that are found out: recursion, type parameters, unannotated parameters, `?`, cells."""

from __future__ import annotations

from itertools import pairwise

import pytest

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.analysis.unify import Unifier
from codesign.compiler.frontend.prelude import prelude
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.diagnostics import CodesignError
from codesign.dtypes import DType
from codesign.ir.relay.expr import Call, Expr, Tuple, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import (
    UNKNOWN,
    FuncType,
    Hole,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
    type_text,
)
from codesign.ops.table import call
from tests.support.relay_programs import INT, integer, main_of

HEAD = '#[version = "0.0.5"]\n'


def types_of(text: str) -> dict[str, str]:
    """Return the text of every global function's type."""
    module = parse_module(HEAD + text, imports=prelude())
    types = infer_types(module)
    return {name: type_text(types[function]) for name, function in module.functions.items()}


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("def @main(%n: int32) { if (%n == 0) { 1f } else { @main(%n - 1) } }", "main", "float32"),
        ("def @main(%n: int32) { if (%n == 0) { 1 } else { @main(%n - 1) * %n } }", "main",
         "int32"),
        ("def @main(%n: int32) { if (%n == 0) { Nil } else { Cons(%n, @main(%n)) } }", "main",
         "List[int32]"),
        ("def @main(%n: int32) { (%n, @f(%n)) } def @f(%n: int32) { if (%n == 0) { 2f } else "
         "{ @main(%n).1 } }", "main", "(int32, float32)"),
        ("def @main(%n: int32) { let %f = fn (%k: int32) { if (%k == 0) { 0 } else "
         "{ %k + %f(%k - 1) } }; %f(%n) }", "main", "int32"),
    ],
)  # fmt: skip
def test_recursion_needs_no_annotated_result(text: str, name: str, expected: str) -> None:
    assert types_of(text)[name] == f"fn (int32) -> {expected}"


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_mutual_recursion_in_any_order(order: tuple[int, ...]) -> None:
    parts = [
        "def @main(%n: int32) { @even(%n) }",
        "def @even(%n: int32) { if (%n == 0) { True } else { @odd(%n - 1) } }",
        "def @odd(%n: int32) { if (%n == 0) { False } else { @even(%n - 1) } }",
    ]
    found = types_of("\n".join(parts[index] for index in order))
    assert set(found.values()) == {"fn (int32) -> bool"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def @main() { @f(1) } def @f(%x) { %x + 1 }", "fn (int32) -> int32"),
        ("def @main() { @f((1, 2f)) } def @f(%p) { %p.1 }", "fn ((int32, float32)) -> float32"),
        ("def @main() { @f(fn (%x: int32) { 1f }) } def @f(%g) { %g(2) }",
         "fn (fn (int32) -> float32) -> float32"),
        ("def @main() { @f(True) } def @f(%c) { if (%c) { 1 } else { 2 } }", "fn (bool) -> int32"),
        ("def @main() { @f(Cons(1f, Nil)) } def @f(%l) { match? (%l) { Cons(%h, _) => %h } }",
         "fn (List[float32]) -> float32"),
        ("def @main() { @f(ref(1)) } def @f(%r) { ref_write(%r, ref_read(%r) + 1) }",
         "fn (ref(int32)) -> ()"),
        ("def @main() { @f(1f, 2f) } def @f(%x, %y) { nn.relu(%x * %y) }",
         "fn (float32, float32) -> float32"),
        ("def @main() { @f((1, (2f, True))) } def @f(%p) { match (%p) { (%a, (%b, _)) => %b } }",
         "fn ((int32, (float32, bool))) -> float32"),
    ],
)  # fmt: skip
def test_parameters_need_no_annotation_where_their_use_tells(text: str, expected: str) -> None:
    assert types_of(text)["f"] == expected


def test_an_unannotated_parameter_is_not_polymorphic() -> None:
    with pytest.raises(CodesignError, match=r"found \(float32\), expected \(int32\)"):
        types_of("def @main() { (@f(1), @f(2f)) } def @f(%x) { %x }")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("(@f(1), @f(2f))", "(int32, float32)"),
        ("@map(@f, Cons(1f, Nil))", "List[float32]"),
        ("@map(Some, Cons(1, Nil))", "List[Option[int32]]"),
        ("@foldr(Cons, Nil, Cons(1, Nil))", "List[int32]"),
        ("let %g = fn[B] (%x: B) -> (B, B) { (%x, %x) }; (%g(1), %g(True))",
         "((int32, int32), (bool, bool))"),
        ("let %g = @f; (%g(1), %g(2f))", "(int32, float32)"),
        ("(if (True) { @f } else { @id })(1)", "int32"),
        ("@use(@f)", "(int32, float32)"),
        ("Cons(Nil, Cons(Cons(1i8, Nil), Nil))", "List[List[int8]]"),
        ("(@id, 1).0(2f)", "float32"),
        ("let %l: List[_] = Cons(1, Nil); %l", "List[int32]"),
        ("let %p: (_, float32) = (True, 1f); %p", "(bool, float32)"),
        ("(fn (%x: _) -> _ { %x })(1)", "int32"),
    ],
)  # fmt: skip
def test_polymorphic_functions_are_chosen_at_each_use(body: str, expected: str) -> None:
    text = f"""
    def @main() {{ {body} }}
    def @f[A](%x: A) -> A {{ %x }}
    def @use(%f: fn[A] (A) -> A) {{ (%f(1), %f(2f)) }}
    """
    assert types_of(text)["main"] == f"fn () -> {expected}"


def test_polymorphic_recursion_with_annotations() -> None:
    text = """
    type Nested[A] { Flat(A), Deep(Nested[(A, A)]) }
    def @depth[A](%n: Nested[A]) -> int32 {
      match (%n) { Flat(_) => 0, Deep(%inner) => 1 + @depth(%inner) }
    }
    def @main() { @depth(Deep(Deep(Flat(((1, 2), (3, 4)))))) }
    """
    assert types_of(text)["depth"] == "fn[A] (Nested[A]) -> int32"


@pytest.mark.parametrize("main_first", [True, False])
def test_polymorphic_functions_in_a_circle_without_annotated_results(main_first: bool) -> None:
    parts = [
        "def @main() { (@f(1, 3), @f(True, 3)) }",
        "def @f[A](%x: A, %n: int32) { if (%n == 0) { %x } else { @g(%x, %n - 1) } }",
        "def @g[B](%y: B, %n: int32) { if (%n == 0) { %y } else { @f(%y, %n - 1) } }",
    ]
    found = types_of("\n".join(parts if main_first else reversed(parts)))
    assert found["f"] == "fn[A] (A, int32) -> A"
    assert found["g"] == "fn[B] (B, int32) -> B"
    assert found["main"] == "fn () -> (int32, bool)"


def test_a_type_parameter_of_an_inner_function_hides_no_other() -> None:
    text = """
    def @main[A](%x: A) {
      let %f = fn[A] (%y: A) -> (A, A) { (%y, %y) };
      (%x, %f(1), %f(%x))
    }"""
    assert types_of(text)["main"] == "fn[A] (A) -> (A, (int32, int32), (A, A))"


def test_a_data_type_may_come_after_its_use_and_refer_to_itself() -> None:
    text = """
    def @main() { Even(Odd(Zero)) }
    type E { Zero, Even(O) }
    type O { Odd(E) }
    """
    assert types_of(text)["main"] == "fn () -> E"


def test_extern_types_pass_through() -> None:
    text = "extern type Storage[A] def @main(%s: Storage[int8]) { Some(%s) }"
    assert types_of(text)["main"] == "fn (Storage[int8]) -> Option[Storage[int8]]"


# --- lengths that are not known -------------------------------------------------------------------

GRADUAL = "%x: Tensor[(?, 4), float32], %y: Tensor[(3, 4), float32], %c: bool"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("if (%c) { %x } else { %y }", "Tensor[(?, 4), float32]"),
        ("if (%c) { %y } else { %x }", "Tensor[(?, 4), float32]"),
        ("if (%c) { (%y, 1) } else { (%x, 2) }", "(Tensor[(?, 4), float32], int32)"),
        ("Cons(%y, Cons(%x, Nil))", "List[Tensor[(?, 4), float32]]"),
        ("%x + %y", "Tensor[(3, 4), float32]"),
        ("%x + 1f", "Tensor[(?, 4), float32]"),
        ("concatenate((%x, %y), axis=0)", "Tensor[(?, 4), float32]"),
        ("concatenate((%x, %y), axis=1)", "Tensor[(3, 8), float32]"),
        ("nn.dense(%x, %y)", "Tensor[(?, 3), float32]"),
        ("let %z: Tensor[(3, ?), float32] = %x; %z", "Tensor[(3, ?), float32]"),
    ],
)
def test_unknown_lengths_are_gradual(body: str, expected: str) -> None:
    found = types_of(f"def @main({GRADUAL}) {{ {body} }}")["main"]
    assert found.endswith(f"-> {expected}")


def test_what_is_used_at_two_lengths_has_an_unknown_one() -> None:
    text = f"""
    def @main({GRADUAL}) {{ (@f(%y), @f(%x)) }}
    def @f(%z) {{ nn.relu(%z) }}
    """
    unknown = "Tensor[(?, 4), float32]"
    assert types_of(text)["f"] == f"fn ({unknown}) -> {unknown}"


def test_a_loop_that_grows_a_tensor() -> None:
    text = """
    def @go(%i: int32, %acc: Tensor[(?, 4), float32], %x: Tensor[(1, 4), float32]) {
      if (%i == 0) { %acc } else { @go(%i - 1, concatenate((%acc, %x), axis=0), %x) }
    }
    def @main(%x: Tensor[(1, 4), float32]) { @go(3, %x, %x) }
    """
    assert types_of(text)["main"] == "fn (Tensor[(1, 4), float32]) -> Tensor[(?, 4), float32]"


# --- the unifier ----------------------------------------------------------------------------------

FLOATS = TensorType((3,), DType.FLOAT32)
SOME = TensorType((UNKNOWN,), DType.FLOAT32)


def test_what_watches_a_hole_is_told_when_it_is_bound_and_when_it_loosens() -> None:
    unifier = Unifier[str]()
    hole, other = Hole(), Hole()
    unifier.watch(hole, "waiter")
    assert unifier.flow(hole, other)
    unifier.queue.clear()
    assert unifier.flow(FLOATS, other)
    assert [*unifier.queue] == ["waiter"]
    assert unifier.flow(SOME, hole)
    assert [*unifier.queue] == ["waiter", "waiter"]
    assert unifier.resolve(other) == SOME
    assert unifier.flow(FLOATS, hole)
    assert len(unifier.queue) == 2


@pytest.mark.parametrize(
    "around", [lambda t: TupleType((t,)), lambda t: TypeCall("L", (t,)), lambda t: FuncType((), t)]
)
def test_a_type_does_not_contain_itself(around: object) -> None:
    unifier = Unifier[str]()
    hole = Hole()
    assert not unifier.flow(hole, around(hole))  # type: ignore[operator]
    assert unifier.is_circular
    assert unifier.flow(hole, hole)
    assert not unifier.is_circular


def test_functions_flow_against_their_parameters() -> None:
    unifier = Unifier[str]()
    hole = Hole()
    assert unifier.flow(FuncType((hole,), INT), FuncType((FLOATS,), INT))
    assert unifier.resolve(hole) == FLOATS


def test_polymorphic_functions_are_equal_up_to_names() -> None:
    a, b = TypeVar("A"), TypeVar("B")
    identity, renamed = FuncType((a,), a, (a,)), FuncType((b,), b, (b,))
    constant = FuncType((b,), INT, (b,))
    assert Unifier[str]().flow(identity, renamed)
    assert not Unifier[str]().flow(identity, constant)
    assert Unifier[str]().flow(identity, FuncType((INT,), INT))
    assert not Unifier[str]().flow(FuncType((INT,), INT), identity)


def test_long_chains_of_holes() -> None:
    unifier = Unifier[str]()
    holes = [Hole() for _ in range(5000)]
    for left, right in pairwise(holes):
        assert unifier.flow(left, right)
    assert unifier.flow(INT, holes[0])
    assert all(unifier.resolve(hole) == INT for hole in holes)


def test_a_deep_diamond_of_tuples_takes_linear_time() -> None:
    x = Var("x", INT)
    pair: Expr = x
    for _ in range(60):
        pair = Tuple((pair, pair))
    types: dict[Expr, Type] = dict(infer_types(main_of(x, body=pair)))
    found = types[pair]
    for _ in range(60):
        assert isinstance(found, TupleType)
        found = found.fields[0]
    assert found == INT


@pytest.mark.parametrize("length", [1000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_a_long_chain_on_an_unannotated_parameter(length: int) -> None:
    x = Var("x")
    body: Expr = x
    for _ in range(length):
        body = call("add", body, integer(1))
    inner = main_of(x, body=body).main
    outer = main_of(body=Call(inner, (integer(1),)))
    types = infer_types(Module({"main": outer.main}))
    assert types[inner] == FuncType((INT,), INT)
