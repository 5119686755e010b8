"""One small text for every construct of the grammar in `docs/relay.md`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_SCALARS: Final = (
    *("0", "-5", "2147483647", "3000000000", "5i8", "-128i8", "7i16", "9i32", "5i64"),
    *("1.5f", "-0.0f", "0f", "1e-45f", "2.5f16", "2.5f32", "2.5f64", "inff", "-inff", "nan"),
    *("True", "False", "--3", "6.02e23f64"),
)
_TYPES: Final = (
    *("int8", "uint64", "bool", "float16", "Tensor[(), float32]", "Tensor[(1,), int32]"),
    *("Tensor[(2, 3), float64]", "Tensor[(?, 3, ?), int8]", "Tensor[(0, 0), bool]"),
    *("()", "(int32,)", "(int32, (bool, float32))", "fn () -> int32", "fn (int32, bool) -> ()"),
    *("fn[A] (A) -> A", "fn[A, B] (A, fn (B) -> A) -> (A, B)", "ref(int32)", "ref(ref(bool))"),
    *("_", "(_, int32)", "Two[int32, bool]", "Two[Two[int32, _], ref(bool)]", "Plain", "Outer"),
)
_DATA: Final = (
    "type Two[A, B] { Both(A, B), Left(A), Neither }\n"
    "type Plain { Dot }\nextern type Outer\nextern type Boxed[A]\n"
    "type Nest[A] { Deep(Two[A, Nest[A]], fn (A) -> A, ref(A), (A, int32)), Flat }\n"
)
_ORDERS: Final = ("+", "-", "*", "/", "<", "<=", ">", ">=", "==", "!=")

_EXPRESSIONS: Final[Mapping[str, str]] = {
    "let": "let %y = %x; %y",
    "let with a type": "let %y: int32 = %x; %y",
    "let of a let": "let %y = { let %z = %x; %z }; %y",
    "let as an operand": "add({ let %y = %x; %y }, %x)",
    "let of a recursive function": (
        "let %f: fn (int32) -> int32 = fn (%n: int32) -> int32 "
        "{ if (%n == 0) { 0 } else { %f(%n - 1) } }; %f(%x)"
    ),
    "sequence": "ref_write(%r, %x); %x",
    "graph variable": "%0 = add(%x, %x); %1 = multiply(%0, %0); (%0, %1, %1)",
    "graph variable in a branch": "%0 = add(%x, 1); if (True) { %0 } else { add(%0, %0) }",
    "graph variable across functions": "%0 = add(%x, 1); (fn (%y: int32) { add(%0, %y) }, %0)",
    "if": "if (True) { %x } else { 2 }",
    "if as an operand": "add(if (True) { %x } else { 2 }, 1)",
    "if in an if": "if (if (True) { False } else { True }) { if (True) { 1 } else { 2 } } else { 3}",
    "tuple": "(%x, 1, True)",
    "tuple of one": "(%x,)",
    "tuple of none": "()",
    "tuple in a tuple": "((), (%x,), ((1, 2), 3))",
    "field": "(%x, 1).0",
    "field of a field": "(((%x, 1), 2).0).1",
    "field of a call": "@pair(%x).1",
    "parentheses": "(((%x)))",
    "braces": "{ { %x } }",
    "call of a global": "@pair(%x)",
    "call of a call": "@curried(%x)(1)",
    "call of a literal": "fn (%y: int32) { %y }(%x)",
    "global as a value": "(@pair, @curried)",
    "function": "fn (%y: int32) -> int32 { add(%x, %y) }",
    "function of none": "fn () { %x }",
    "function with type parameters": "fn[A, B] (%a: A, %b: B) -> (B, A) { (%b, %a) }",
    "function with attributes": 'fn (%y: int32, Primitive=1, Composite="a.b") { %y }',
    "function in a function": "fn (%a: int32) { fn (%b: int32) { (%a, %b, %x) } }",
    "constructor": "Both(%x, Left(True))",
    "constructor without fields": "(Neither, Dot, Neither)",
    "constructor as a value": "(Both, Left)",
    "match": "match (Left(%x)) { Both(%a, _) => %a, Left(%b) => %b, Neither => 0 }",
    "match of anything": "match (%x) { _ => 1 }",
    "match with a variable": "match (%x) { %y => %y }",
    "match with a typed variable": "match (%x) { %y: int32 => %y }",
    "match of a tuple": "match ((%x, Left(1))) { (%a, Left(%b)) => add(%a, %b), (%c, _) => %c }",
    "match of a tuple of one": "match ((%x,)) { (%a,) => %a }",
    "match of nothing": "match (()) { () => 1 }",
    "match in depth": (
        "match (Both(Left(%x), (1, Neither))) "
        "{ Both(Left(%a), (_, Neither)) => %a, Both(_, (%b, _)) => %b, _ => 0 }"
    ),
    "match of a match": (
        "match (match (%x) { %y => Left(%y) }) { Left(%z) => match (%z) { _ => %z }, _ => 2 }"
    ),
    "match as an operand": "add(match (%x) { %y => %y }, 1)",
    "partial match": "match? (Left(%x)) { Left(%a) => %a }",
    "partial match of none": "match? (%x) { }",
    "clause with braces": "match (%x) { %y => { let %z = %y; %z }, }",
    "ref": "ref(%x)",
    "ref_read": "ref_read(%r)",
    "ref_write": "ref_write(%r, 3)",
    "cells in a row": "ref_write(%r, ref_read(ref(ref_read(%r))))",
    "names": "let %odd.name_1 = %x; let %_ = %x; let %odd.name_1 = %_; %odd.name_1",
    "operator as infix": "%x + 1 * 2 - 3 / 4",
    "infix in order": "%x + 1 < %x * 2 == True",
    "infix with parentheses": "(%x + 1) * (2 - %x)",
    "attributes": "sum(ones_like(%x), axis=[], keepdims=True)",
    "comment": "// a line\n %x /* one /* inside */ another */",
}

_OTHERS: Final[Mapping[str, str]] = {
    "several functions": "def @g() { @f() }\ndef @f() { 1 }\ndef @main() { @g() }",
    "function that calls itself": "def @main(%n: int32) -> int32 { @main(%n) }",
    "type parameters": "def @main[A, B](%x: A, %f: fn (A) -> B) -> B { %f(%x) }",
    "no annotations": "def @main(%x, %y) { (%x, %y) }",
    "attributes of a function": "def @main(%x, Inline=1) { %x }",
    "metadata": (
        "def @main() { (meta[relay.Constant][0], meta[relay.Constant][0]) }\n"
        '#[metadata] {"relay.Constant": '
        '[{"dtype": "int16", "shape": [2], "data": "AQD//w=="}]}'
    ),
    "data type that calls itself": "type L[A] { C(A, L[A]), N }\ndef @main() { C(1, C(2, N)) }",
    "data type after its use": "def @main() { K }\ntype T { K }",
    "data type of types": "type F[A] { G(fn[B] (B) -> A, ref(A), ()) }\ndef @main() { 1 }",
    "type parameter that hides": "def @main[A](%x: A) { fn[A] (%y: A) { (%x, %y) } }",
}


def _in_main(body: str) -> str:
    return (
        f"{_DATA}def @pair(%a: int32) {{ (%a, %a) }}\n"
        "def @curried(%a: int32) { fn (%b: int32) { (%a, %b) } }\n"
        f"def @main(%x: int32, %r: ref(int32)) {{ {body} }}"
    )


def _all() -> dict[str, str]:
    found = {name: _in_main(body) for name, body in _EXPRESSIONS.items()}
    found |= {f"scalar {each}": _in_main(each) for each in _SCALARS}
    found |= {f"infix {each}": _in_main(f"%x {each} 2") for each in _ORDERS}
    found |= {f"type {each}": f"{_DATA}def @main(%x: {each}) {{ %x }}" for each in _TYPES}
    return {**found, **_OTHERS}


CONSTRUCTS: Final[Mapping[str, str]] = MappingProxyType(_all())
"""A module without its version for each construct, by what it shows."""
