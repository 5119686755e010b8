"""Types of modules: callees first, all mistakes together, each with its place, one visit a node."""

from __future__ import annotations

from collections import Counter

import pytest

from codesign.compiler.analysis import inference as subject
from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.frontend.prelude import prelude
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.diagnostics import CodesignError
from codesign.dtypes import DType
from codesign.ir.relay.expr import Let, OpRef, Tuple, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.type_algebra import accepts
from codesign.ir.relay.types import UNKNOWN, FuncType, TensorType, TupleType, Type, type_text
from codesign.ops.table import OPERATORS, call
from tests.support.relay_programs import (
    BOOL,
    INT,
    call_chain,
    diamond,
    even_and_odd,
    let_chain,
    main_of,
)


def typed(text: str) -> Type:
    module = parse_module(f'#[version = "0.0.5"]\n{text}')
    result = infer_types(module)[module.main]
    assert isinstance(result, FuncType)
    return result.result


def mistakes(text: str) -> str:
    with pytest.raises(CodesignError) as caught:
        typed(text)
    return str(caught.value)


DOUBLE = TensorType((), DType.FLOAT64)


@pytest.mark.parametrize("main_first", [True, False])
def test_callee_is_typed_before_its_caller(main_first: bool) -> None:
    parts = ["def @main(%y: float64) { @f(@f(%y)) }", "def @f(%x: float64) { %x }"]
    assert typed("\n".join(parts if main_first else reversed(parts))) == DOUBLE


def test_functions_that_call_each_other() -> None:
    module = even_and_odd()
    types = infer_types(module)
    assert types[module.main] == FuncType((INT,), BOOL)
    assert types[module.functions["odd"]] == FuncType((INT,), BOOL)


def test_recursion_needs_a_result_type() -> None:
    text = "def @main(%n: int32) { @main(%n) }"
    assert "@main calls itself and has no result type" in mistakes(text)


def test_a_long_chain_of_callees() -> None:
    count = 1500
    links = [f"def @f{i}(%x: int32) {{ @f{i + 1}(%x) }}" for i in range(count)]
    text = "\n".join([*links, f"def @f{count}(%x: int32) {{ %x }}", "def @main() { @f0(1) }"])
    assert typed(text) == INT


def test_structure() -> None:
    text = """
    def @main(%c: bool, %x: Tensor[(2, 3), float32]) {
      let %pair = (%x, 1);
      let %f = fn (%z: Tensor[(2, 3), float32]) { nn.relu(%z) };
      if (%c) { (%f(%pair.0), %pair.1) } else { (%x, 2) }
    }"""
    assert typed(text) == TupleType((TensorType((2, 3), DType.FLOAT32), INT))


def test_local_recursion_with_annotations() -> None:
    text = """
    def @main(%n: int32) {
      let %loop = fn (%i: int32) -> int32 { if (%i < 1) { 0 } else { %loop(%i - 1) } };
      %loop(%n)
    }"""
    assert typed(text) == INT


def test_all_mistakes_of_a_module_come_together_with_their_places() -> None:
    text = mistakes(
        """def @main(%x: Tensor[(2, 3), float32], %w: Tensor[(5, 4), float32]) {
  let %a = nn.dense(%x, %w);
  let %b = add(%a, %a);
  let %c = nn.softmax(%x, axis=7);
  (%b, %c, @g())
}"""
    )
    assert text.count("error:") == 3
    assert "data has 3 columns, weight has 4" in text
    assert "axis 7, the rank is 2" in text
    assert "no function is named @g" in text
    assert " --> <text>:3:12" in text
    assert "3 |   let %a = nn.dense(%x, %w);\n  |            ^^^^^^^^^^^^^^^^" in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def @main(%x) { %x }", "parameter %x has no type"),
        ("def @main() { if (1) { 1 } else { 2 } }", "a condition is a scalar of bool"),
        ("def @main(%c: bool) { if (%c) { 1 } else { 2f } }", "int32 and float32"),
        ("def @main() { (1, 2).2 }", "the tuple has no field 2"),
        ("def @main(%x: int32) { %x.0 }", "a field is taken of no tuple"),
        ("def @main(%x: int32) { %x(1) }", "what is called is no function"),
        ("def @main() -> float32 { 1 }", "another type than the function's result"),
        ("def @main() { let %x: float32 = 1; %x }", "found int32, annotated float32"),
        ("def @main() { @f(1f) } def @f(%x: int32) { %x }", "found (float32), expected (int32)"),
        ("def @main() { @f() } def @f(%x: int32) { %x }", "found (), expected (int32)"),
    ],
)
def test_mistakes(text: str, message: str) -> None:
    assert message in mistakes(text)


def test_an_operator_is_no_value() -> None:
    with pytest.raises(CodesignError, match="operator abs is used as a value"):
        infer_types(main_of(body=Tuple((OpRef("abs"),))))


def test_an_unknown_operator_is_named() -> None:
    x = Var("x", INT)
    good = call("abs", x)
    bad = type(good)(OpRef("nn.reluu"), (x,))
    with pytest.raises(CodesignError, match=r"named 'nn.reluu'(.|\n)*there is nn.relu"):
        infer_types(main_of(x, body=bad))


def test_unknown_lengths_pass_where_they_may() -> None:
    text = "def @main(%x: Tensor[(?, 3), float32]) { nn.relu(add(%x, 1f)) }"
    assert typed(text) == TensorType((UNKNOWN, 3), DType.FLOAT32)


def test_accepts_compares_by_parts() -> None:
    known, unknown = TensorType((2,), DType.INT8), TensorType((UNKNOWN,), DType.INT8)
    assert accepts(unknown, known)
    assert accepts(known, unknown)
    assert not accepts(known, TensorType((3,), DType.INT8))
    assert not accepts(TupleType((known,)), TupleType((known, known)))
    assert not accepts(known, TupleType((known,)))


@pytest.mark.parametrize("make", [call_chain, let_chain, diamond])
def test_each_call_is_typed_once(make: object, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Counter[str] = Counter()

    def counting(name: str, span: object) -> object:
        asked[name] += 1
        return OPERATORS[name]

    monkeypatch.setattr(subject, "operator", counting)
    for length in (250, 500, 1000, 2000):
        asked.clear()
        infer_types(make(length))  # type: ignore[operator]
        assert asked == {"add": length}


@pytest.mark.parametrize("make", [call_chain, let_chain])
@pytest.mark.parametrize("length", [5_000, pytest.param(200_000, marks=pytest.mark.slow)])
def test_long_chains_do_not_recurse(make: object, length: int) -> None:
    module: Module = make(length)  # type: ignore[operator]
    assert infer_types(module)[module.main] == FuncType((INT,), INT)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("{ let %x = Nil; %x }", "List[()]"),
        ("ref(None)", "ref(Option[()])"),
        ("fn (%x) { 1 }", "fn (()) -> int32"),
        ("ref(@id)", "ref(fn (()) -> ())"),
    ],
)
def test_what_nothing_determines_and_nothing_needs_is_the_empty_tuple(
    text: str, shown: str
) -> None:
    module = parse_module(
        f'#[version = "0.0.5"] def @main() {{ let %it = {text}; 1 }}', imports=prelude()
    )
    body = module.main.body
    assert isinstance(body, Let)
    assert type_text(infer_types(module)[body.value]) == shown
