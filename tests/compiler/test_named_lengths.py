"""Lengths with names: `Tensor[(n, 4), float32]`, chosen by each call, checked where it runs."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.compiler.interpreter import Interpreter
from codesign.compiler.pipelines import LEVELS, optimize
from codesign.diagnostics import CodesignError
from codesign.ir.relay.module import Module
from codesign.ir.relay.printer import print_module
from codesign.ir.relay.types import FuncType, type_text

BESIDE = """
def @beside(%x: Tensor[(n, 4), float32], %y: Tensor[(n, k), float32]) {
  concatenate((%x, %y), axis=1)
}
"""


def _module(text: str) -> Module:
    return parse_module(f'#[version = "0.0.5"]\n{text}', "lengths.relay")


def _result(text: str) -> str:
    module = _module(text)
    type_ = infer_types(module)[module.main]
    assert isinstance(type_, FuncType)
    return type_text(type_.result)


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("add(%x, %x)", "Tensor[(n, 4), float32]"),
        ("reshape(%x, shape=[-1, 2, 2])", "Tensor[(n, 2, 2), float32]"),
        ("reshape(%x, shape=[-1, 2])", "Tensor[(?, 2), float32]"),
        ("transpose(%x, axes=[1, 0])", "Tensor[(4, n), float32]"),
        ("nn.dense(%x, %x)", "Tensor[(n, n), float32]"),
        ("sum(%x, axis=[1], keepdims=False)", "Tensor[(n,), float32]"),
        ("concatenate((%x, %x), axis=0)", "Tensor[(?, 4), float32]"),
        ("concatenate((%x, %y), axis=1)", "Tensor[(n, 6), float32]"),
        (
            "(if (True) { %x } else { %x }, %y)",
            "(Tensor[(n, 4), float32], Tensor[(n, 2), float32])",
        ),
        ("let %z: Tensor[(n, 4), float32] = add(%x, 1f); %z", "Tensor[(n, 4), float32]"),
        ("@beside(%x, %y)", "Tensor[(n, ?), float32]"),
    ],
)
def test_operators_and_calls_keep_names(body: str, wanted: str) -> None:
    params = "%x: Tensor[(n, 4), float32], %y: Tensor[(n, 2), float32]"
    assert _result(f"{BESIDE}def @main({params}) {{ {body} }}") == wanted


@pytest.mark.parametrize(
    ("other", "wanted"),
    [("(3, 2)", "(3, ?)"), ("(?, 2)", "(3, ?)"), ("(3, ?)", "(3, ?)")],
)
def test_a_call_chooses_lengths(other: str, wanted: str) -> None:
    params = f"%a: Tensor[(3, 4), float32], %b: Tensor[{other}, float32]"
    found = _result(f"{BESIDE}def @main({params}) {{ @beside(%a, %b) }}")
    assert found == f"Tensor[{wanted}, float32]"


def test_each_call_chooses_anew() -> None:
    text = """
def @double(%x: Tensor[(n,), float32]) -> Tensor[(n,), float32] { add(%x, %x) }
def @main(%a: Tensor[(3,), float32], %b: Tensor[(5,), float32]) { (@double(%a), @double(%b)) }
"""
    assert _result(text) == "(Tensor[(3,), float32], Tensor[(5,), float32])"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "def @main(%x: Tensor[(n, 4), float32], %y: Tensor[(m, 4), float32])"
            " -> Tensor[(n, 4), float32] { %y }",
            r"found Tensor\[\(m, 4\), float32\], annotated Tensor\[\(n, 4\), float32\]",
        ),
        (
            "def @main(%x: Tensor[(n,), float32]) -> Tensor[(3,), float32] { %x }",
            r"found Tensor\[\(n,\), float32\], annotated Tensor\[\(3,\), float32\]",
        ),
        (
            f"{BESIDE}def @main(%a: Tensor[(3, 4), float32], %b: Tensor[(5, 2), float32])"
            " { @beside(%a, %b) }",
            "argument 1 does not fit",
        ),
        (
            "def @square(%x: Tensor[(n, n), float32]) { %x }\n"
            "def @main(%a: Tensor[(3, 4), float32]) { @square(%a) }",
            r"expected \(Tensor\[\(3, 3\), float32\]\)",
        ),
    ],
)
def test_lengths_that_differ_are_refused(text: str, message: str) -> None:
    with pytest.raises(CodesignError, match=message):
        infer_types(_module(text))


@pytest.mark.parametrize(
    "text",
    [
        "def @main() -> Tensor[(n,), float32] { 1f }",
        "def @main(%x: float32) { let %y: Tensor[(n,), float32] = %x; %y }",
        "type Box { Box(Tensor[(n,), float32]) } def @main() { 1 }",
        "def @f(%x: Tensor[(n,), int8]) { %x } def @main(%y: int8) -> Tensor[(n,), int8] { %y }",
    ],
)
def test_only_parameters_of_global_functions_name_lengths(text: str) -> None:
    with pytest.raises(CodesignError, match="no length is named 'n'"):
        _module(text)


def test_text_keeps_names() -> None:
    text = print_module(
        _module(
            "def @main(%x: Tensor[(n, 4), float32], %f: fn (Tensor[(n,), int8]) -> int32)"
            " -> Tensor[(n, 4), float32] { let %y: Tensor[(n, ?), float32] = %x; %y }"
        )
    )
    assert text.count("n, 4") == 2
    assert "(n, ?)" in text
    assert "fn (Tensor[(n,), int8])" in text
    assert print_module(parse_module(text)) == text


def test_main_refuses_arguments_of_which_a_name_is_two_lengths() -> None:
    module = _module(
        "def @main(%x: Tensor[(n, 2), float32], %y: (Tensor[(n,), float32], int32)) { %x }"
    )
    infer_types(module)
    x, one = np.zeros((3, 2), np.float32), np.asarray(1, np.int32)
    right, wrong = np.zeros(3, np.float32), np.zeros(4, np.float32)
    assert np.shape(Interpreter(module).result_of(module.main, [x, (right, one)])) == (3, 2)
    with pytest.raises(CodesignError, match=r"(?s)n is two lengths.*found 3 in %x and 4 in %y"):
        Interpreter(module).result_of(module.main, [x, (wrong, one)])


def test_a_call_whose_lengths_no_type_told_is_checked_where_it_runs() -> None:
    module = _module(
        "def @same(%x: Tensor[(n,), float32], %y: Tensor[(n,), float32]) { 1 }\n"
        "def @main(%a: Tensor[(?,), float32], %b: Tensor[(3,), float32]) { @same(%a, %b) }"
    )
    infer_types(module)
    three, four = np.zeros(3, np.float32), np.zeros(4, np.float32)
    assert Interpreter(module).result_of(module.main, [three, three]) == 1
    with pytest.raises(CodesignError, match="n is two lengths"):
        Interpreter(module).result_of(module.main, [four, three])


@pytest.mark.parametrize("level", range(len(LEVELS)))
def test_levels_keep_programs_with_names(level: int) -> None:
    module = _module(
        f"{BESIDE}def @main(%a: Tensor[(m, 4), float32], %b: Tensor[(m, 2), float32])"
        " { let %c = @beside(%a, %b); let %d = @beside(%a, %a); (nn.relu(%c), %d, %c) }"
    )
    infer_types(module)
    rng = np.random.default_rng(level)
    args = [rng.standard_normal((3, k)).astype(np.float32) for k in (4, 2)]
    made = optimize(module, level, verify=True)
    found = Interpreter(made).result_of(made.main, args)
    wanted = Interpreter(module).result_of(module.main, args)
    assert isinstance(found, tuple)
    assert isinstance(wanted, tuple)
    for mine, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(mine, other)
