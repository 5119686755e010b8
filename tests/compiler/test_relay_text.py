"""Relay text: what is printed reads back equal, bit for bit; mistakes have their place."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codesign.compiler.frontend.relay_parser import parse_expr, parse_module
from codesign.compiler.interpreter import Interpreter
from codesign.diagnostics import CodesignError
from codesign.ir.relay.equal import is_equal, is_equal_module
from codesign.ir.relay.expr import Call, Constant, Expr, Function, If, Let, Tuple, Var
from codesign.ir.relay.printer import print_expr, print_module
from codesign.ir.relay.wellformed import check_module
from codesign.ops.table import call
from tests.support.relay_programs import (
    BOOL,
    INT,
    call_chain,
    diamond,
    even_and_odd,
    integer,
    let_chain,
    main_of,
)

HEAD = '#[version = "0.0.5"]\n'

PROGRAM = """#[version = "0.0.5"]

def @main(%x: Tensor[(2, 3), float32], %c: bool) -> (Tensor[(2, 3), float32], int32) {
  %0 = nn.relu(%x);
  let %y = add(%0, %0);
  if (%c) {
    %1 = nn.softmax(%y, axis=-1);
    (%1, 5)
  } else {
    (%y, @f(1, 2).0)
  }
}

def @f(%a: int32, %b: int32, Primitive=1, Compiler="accel") -> (int32,) {
  let %g = fn (%z: int32) -> int32 {
    multiply(%z, -3)
  };
  (%g(%b),)
}
"""


def test_golden_program_prints_as_it_was_read() -> None:
    text = PROGRAM.replace("@f(1, 2).0", "%2.0").replace(
        "  } else {\n", "  } else {\n    %2 = @f(1, 2);\n"
    )
    text = text.replace("  (%g(%b),)", "  %0 = %g(%b);\n  (%0,)")
    assert print_module(parse_module(PROGRAM)) == text
    assert print_module(parse_module(text)) == text


@pytest.mark.parametrize(
    "make", [even_and_odd, lambda: let_chain(3000), lambda: call_chain(3000), lambda: diamond(200)]
)
def test_programs_survive(make: object) -> None:
    module = make()  # type: ignore[operator]
    read = parse_module(print_module(module))
    check_module(read)
    assert is_equal_module(module, read)


def test_a_node_shared_by_both_branches_stands_before_them() -> None:
    x, c = Var("x", INT), Var("c", BOOL)
    shared = call("abs", x)
    module = main_of(x, c, body=If(c, shared, call("add", shared, shared)))
    text = print_module(module)
    assert text.index("%0 = abs(%x);") < text.index("if (%c)")
    assert is_equal_module(module, parse_module(text))


def test_variables_of_one_name_are_told_apart() -> None:
    outer, inner = Var("v"), Var("v")
    module = main_of(body=Let(outer, integer(1), Let(inner, integer(2), Tuple((outer, inner)))))
    read = parse_module(print_module(module))
    assert is_equal_module(module, read)
    assert Interpreter(read).run() == (1, 2)


def test_names_that_the_text_does_not_allow_are_mended() -> None:
    x = Var("conv/1:0", INT)
    text = print_module(main_of(x, body=x))
    assert "%conv_1_0" in text
    assert is_equal_module(main_of(x, body=x), parse_module(text))


SPECIAL = [
    np.float32(-0.0),
    np.float32(np.inf),
    np.float32(-np.inf),
    np.float32(np.nan),
    np.uint32(0xFFC12345).view(np.float32),
    np.float32(1e-45),
    np.float32(3.4028235e38),
    np.float32(16777216),
    np.int8(-128),
    np.int16(-32768),
    np.int32(-(2**31)),
    np.int64(-(2**63)),
    np.uint8(255),
    np.uint64(2**64 - 1),
    np.bool_(True),
    np.bool_(False),
    np.float16(0.1),
    np.float16(np.inf),
    np.float64(0.1),
    np.float64(5e-324),
    np.float64(np.nan),
    np.zeros((0, 3), np.float32),
    np.zeros((2, 0), np.int8),
    np.array([1.5, -0.0, np.nan], np.float64),
    np.array([[True, False]]),
    np.arange(6, dtype=np.int64).reshape(2, 3).T,
]


@pytest.mark.parametrize("value", SPECIAL, ids=lambda value: f"{value.dtype}-{value}")
def test_constants_survive_bit_for_bit(value: np.generic) -> None:
    read = parse_expr(print_expr(Constant(np.asarray(value))))
    assert isinstance(read, Constant)
    assert read.value.dtype == value.dtype
    assert read.value.shape == value.shape
    assert read.value.tobytes() == np.ascontiguousarray(value).tobytes()


@given(st.integers(0, 2**32 - 1))
def test_every_float32_survives(bits: int) -> None:
    value = np.uint32(bits).view(np.float32)
    read = parse_expr(print_expr(Constant(np.asarray(value))))
    assert isinstance(read, Constant)
    assert read.value.tobytes() == value.tobytes()


@given(st.data())
def test_random_programs_survive(data: st.DataObject) -> None:
    known: list[Expr] = [Var("x", INT)]
    param = known[0]
    assert isinstance(param, Var)
    for _ in range(data.draw(st.integers(1, 12))):
        left, right = (data.draw(st.sampled_from(known)) for _ in range(2))
        match data.draw(st.integers(0, 3)):
            case 0:
                known.append(call("add", left, right))
            case 1:
                known.append(If(call("less", left, right), left, right))
            case 2:
                var = Var("v")
                known.append(Let(var, left, call("multiply", var, right)))
            case 3:
                inner = Var("x", INT)
                known.append(Call(Function((inner,), call("add", inner, left)), (right,)))
    module = main_of(param, body=known[-1])
    check_module(module)
    read = parse_module(print_module(module))
    check_module(read)
    assert is_equal_module(module, read)
    three = np.asarray(3, np.int32)
    assert Interpreter(module).run(x=three) == Interpreter(read).run(x=three)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("10 - 3 - 2", 5),
        ("2 - -3", 5),
        ("---5", -5),
        ("1 + 2 == 3", True),
        ("1 < 2 == True", True),
        ("7; 8", 8),
        ("let %x = 2; let %y = %x + 1; %x * %y", 6),
        ("%0 = 2 + 3; %0 * %0", 25),
        ("/* a /* nested */ comment */ 4 // and a line", 4),
        ("(5,).0", 5),
        ("((1, 2), 3).0.1", 2),
        ("{ let %x = 1; %x } + 1", 2),
        ("(fn (%x: int32) { %x * 2 })(4)", 8),
        ("if (True) { 1 } else { 2 }", 1),
        ("1\r\n+ 1", 2),
    ],
)
def test_expressions_mean(text: str, value: object) -> None:
    module = main_of(body=parse_expr(text))
    assert Interpreter(module).run() == np.asarray(value)


def test_deeply_nested_text_does_not_recurse() -> None:
    deep = 5000
    assert is_equal(parse_expr("(" * deep + "1" + ")" * deep), integer(1))
    nested = "{ let %x = 1; " * deep + "%x" + " }" * deep
    assert isinstance(parse_expr(nested), Let)


def test_attributes_may_be_left_out_where_they_have_defaults() -> None:
    short = parse_expr("free_var %x: float32; free_var %w: float32; nn.conv2d(%x, %w)")
    assert "strides=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1], groups=1" in print_expr(short)


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("%x", "1:1", "%x is not defined here"),
        ("let %x = 1; %x;\n%y", "2:1", "%y is not defined here"),
        ("let %x = { let %y = 1; %y }; %y", "1:30", "%y is not defined here"),
        ("%0 = 1; %1", "1:9", "%1 is not defined here"),
        ("add(1,", "1:7", "found the end of the text"),
        ("let %x = 1 %x", "1:12", "expected ';'"),
        ("nn.rely(1)", "1:1", "there is nn.relu"),
        ("nn.relu(1f, a=3)", "1:1", "nn.relu has no attributes"),
        ("nn.softmax(1f, axes=3)", "1:1", "there is no attribute 'axes', there is axis"),
        ('nn.softmax(1f, axis="a")', "1:1", "attribute 'axis' is 'a', expected int"),
        ("reshape(1f, shape=[1, 2.5])", "1:1", "attribute 'shape' is 2.5, expected int"),
        ('nn.pad(1f, pad_width=[], pad_mode="mirror")', "1:1", "'reflect'"),
        ("clip(1f, a_min=0.0)", "1:1", "attribute 'a_max' is missing"),
        ('cast(1f, dtype="int9")', "1:1", "attribute 'dtype' is 'int9'"),
        ("5i3", "1:1", "'i3' is no suffix"),
        ("1.5i8", "1:1", "an integer has a fraction"),
        ("128i8", "1:1", "int8 is from -128 to 127"),
        ("99999999999999999999999", "1:1", "does not fit"),
        ("1" * 5000, "1:1", "does not fit"),
        ('"text', "1:1", "begins nothing"),
        ("1 + /* open", "1:5", "a comment is not closed"),
        ("1\r2", "1:2", "a carriage return stands without a line feed"),
        ("fn (%x: float9) { %x }", "1:9", "no type is named 'float9'"),
        ("def (1) { }", "1:1", "'def' begins no expression"),
        ("(1, 2).99999999999999999999", "1:7", "a whole number"),
        ("meta[relay.Constant][0]", "1:1", "the text has no metadata table"),
        ("meta[relay.Other][0]", "1:6", "metadata of kind relay.Other is not read yet"),
        (
            'meta[relay.Constant][1]\n#[metadata]\n{"relay.Constant": []}',
            "1:1",
            "it has 0 constants",
        ),
        (
            'meta[relay.Constant][0]\n#[metadata]\n{"relay.Constant": '
            '[{"dtype": "int8", "shape": [2], "data": "AA=="}]}',
            "1:1",
            "takes 2 bytes, found 1",
        ),
        ("1\n#[metadata]\n{", "2:1", "the metadata is no JSON"),
        ("1 2", "1:3", "the end of the expression"),
        ("(" * 100 + "fn (%x: " + "(" * 100, "1:1", "nest at most"),
    ],
)
def test_mistakes_have_a_place(text: str, place: str, message: str) -> None:
    with pytest.raises(CodesignError) as caught:
        parse_expr(text, "net.relay")
    shown = str(caught.value)
    assert f"--> net.relay:{place}" in shown
    assert message in shown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def @main() { 1 }", 'write #[version = "0.0.5"] first'),
        ('#[version = "0.0.4"]\ndef @main() { 1 }', "found '0.0.4', expected '0.0.5'"),
        (f"{HEAD}def @f() {{ 1 }} def @f() {{ 2 }}", "@f is defined twice"),
        (f"{HEAD}type L {{ }} type L {{ }}", "L is defined twice"),
        (f"{HEAD}1", "a module is made of definitions"),
    ],
)
def test_mistakes_of_modules(text: str, message: str) -> None:
    with pytest.raises(CodesignError) as caught:
        parse_module(text)
    assert message in str(caught.value)


def test_a_mistake_is_underlined() -> None:
    with pytest.raises(CodesignError) as caught:
        parse_module(f"{HEAD}def @main() {{\n  add(1, %nobody)\n}}\n", "net.relay")
    assert str(caught.value) == (
        "error: %nobody is not defined here\n"
        " --> net.relay:3:10\n"
        "  |\n"
        "3 |   add(1, %nobody)\n"
        "  |          ^^^^^^^"
    )
