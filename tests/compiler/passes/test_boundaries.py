"""Passes keep what annotations know of lengths, and what tells the types of what is left."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from codesign.compiler.analysis.boundaries import is_boundary, knows_more, with_boundaries
from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.frontend.prelude import prelude
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.compiler.interpreter import Interpreter
from codesign.compiler.pass_manager import PassContext
from codesign.compiler.pipelines import LEVELS, PASSES, optimize
from codesign.diagnostics import CodesignError
from codesign.dtypes import DType
from codesign.ir.relay.expr import Call, If, Let
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import UNKNOWN, FuncType, TensorType, Type, type_text
from experiments.laws.answers import answer, is_same
from experiments.laws.passes import judge
from experiments.laws.program import Program

HEAD = '#[version = "0.0.5"]\n'
VECTOR = np.arange(3, dtype=np.float32)
KNOWN, OPEN = TensorType((3,), DType.FLOAT32), TensorType((UNKNOWN,), DType.FLOAT32)

PROGRAMS: Mapping[str, str] = {
    "a variable knows more": """
        def @main(%x: Tensor[(?,), float32]) { let %y: Tensor[(3,), float32] = %x; %y }
    """,
    "a variable knows more than a shared value": """
        def @main(%x: Tensor[(?,), float32]) {
          %0 = exp(%x);
          let %y: Tensor[(3,), float32] = %0;
          (%y, %0, nn.relu(%0))
        }
    """,
    "a variable knows less": """
        def @main(%x: Tensor[(3,), float32]) {
          let %y: Tensor[(?,), float32] = %x;
          let %z: Tensor[(3,), float32] = exp(%y);
          (%y, %z)
        }
    """,
    "a parameter knows more": """
        def @f(%x: Tensor[(3,), float32], Inline=1) { (exp(%x), %x) }
        def @main(%x: Tensor[(?,), float32]) { @f(%x) }
    """,
    "a result knows more": """
        def @f(%x: Tensor[(?,), float32], Inline=1) -> Tensor[(3,), float32] { exp(%x) }
        def @main(%x: Tensor[(?,), float32]) { @f(%x) }
    """,
    "the type of a function knows more": """
        def @main(%x: Tensor[(3,), float32]) {
          let %f: fn (Tensor[(?,), float32]) -> Tensor[(?,), float32] =
            fn (%p: Tensor[(3,), float32]) { exp(%p) };
          let %y: Tensor[(3,), float32] = %f(%x);
          let %g: fn (Tensor[(3,), float32]) -> Tensor[(3,), float32] = %f;
          (%y, %g(%x))
        }
    """,
    "the variable of a local function knows more": """
        def @main(%x: Tensor[(?,), float32], %y: Tensor[(3,), float32]) {
          let %loop: fn (int32, Tensor[(?,), float32]) -> Tensor[(3,), float32] =
            fn (%n, %s: Tensor[(?,), float32]) {
              if (%n == 0) { %s } else { exp(%loop(%n - 1, %s)) }
            };
          let %f: fn (int32) -> Tensor[(3,), float32] = fn (%n) { nn.relu(%x) };
          let %g = fn (%z) { add(%loop(1, %z), %f(2)) };
          (%loop(2, %x), %f(1), %g(%x), %g(%y))
        }
    """,
    "a length has a name": """
        def @f(%x: Tensor[(n, 2), float32], Inline=1) { transpose(%x, axes=[1, 0]) }
        def @main(%x: Tensor[(3,), float32]) {
          @f(broadcast_to(expand_dims(%x, axis=1), shape=[3, 2]))
        }
    """,
    "functions without annotations are given lengths with names": """
        def @both(%x, %y) { let %f = fn (%z) { add(%z, %y) }; (%f(%x), %y) }
        def @main(%x: Tensor[(n,), float32], %y: Tensor[(n,), float32]) {
          let %unused = @both(%y, %x);
          let %z = @both(%x, %y).0;
          (%z, @both(%x, %z), concatenate((%x, %y), axis=0))
        }
    """,
    "a branch is chosen": """
        def @main(%x: Tensor[(?,), float32], %y: Tensor[(3,), float32]) {
          let %z: Tensor[(3,), float32] = if (True) { %x } else { %y };
          (%z, if (False) { %x } else { %y })
        }
    """,
    "a clause is chosen": """
        def @main(%x: Tensor[(?,), float32]) {
          match (Some((%x, %x))) {
            Some((%y: Tensor[(3,), float32], _)) => %y,
            None => meta[relay.Constant][0],
          }
        }
    """,
    "a cell knows more": """
        def @main(%x: Tensor[(?,), float32]) {
          let %r: ref(Tensor[(3,), float32]) = ref(%x);
          let %before = ref_read(%r);
          ref_write(%r, exp(%x));
          (%before, ref_read(%r))
        }
    """,
    "a field knows less": """
        def @main(%x: Tensor[(?,), float32], %y: Tensor[(3,), float32]) {
          let %l = Cons(%y, Cons(%x, Nil));
          let %first: Tensor[(3,), float32] = @hd(%l);
          (%first, @hd(@tl(%l)))
        }
    """,
    "a field knows more": """
        type Held { Held(Tensor[(3,), float32]) }
        def @main(%x: Tensor[(?,), float32]) { match (Held(%x)) { Held(%y) => (%y, %x) } }
    """,
    "a type parameter knows less": """
        def @second[A](%x: A, %y: A, Inline=1) -> A { %y }
        def @main(%x: Tensor[(?,), float32], %y: Tensor[(3,), float32]) {
          (@second(%x, %y), @second(%y, %x))
        }
    """,
    "a bias knows how many channels there are": """
        def @main(%x: Tensor[(?,), float32], %b: Tensor[(3,), float32]) {
          nn.bias_add(%x, %b, axis=0)
        }
    """,
    "only an annotation names a type parameter": """
        def @main(%x: Tensor[(3,), float32]) {
          let %pair = fn[T](%p: T) {
            let %walk = fn (%y: Tensor[(3,), float32]) { let %none: Option[T] = None; exp(%y) };
            (%p, %walk(%x), %walk)
          };
          let %made = %pair(%x);
          (%made.0, %made.1)
        }
    """,
    "the clause that is not taken tells a type": """
        def @main(%x: Tensor[(3,), float32]) {
          let %f = fn (%p) {
            let %chosen = match (match? (None) { None => { zero } }) {
              zero => { (%x, %p) },
              _ => { (exp(%p), %x) },
            };
            exp(%chosen.0)
          };
          %f(%x)
        }
    """,
}
"""Programs in which other lengths are known of a place than of the value that stands there."""

UNTOLD: Mapping[str, str] = {
    "a call told a parameter": """
        def @f(%n: int32, %state) { %n + 1 }
        def @main(%x: Tensor[(3,), float32]) {
          let %unused = @f(1, %x);
          match (Some(@f)) { Some(_) => %x, None => exp(%x) }
        }
    """,
    "a function that goes told a parameter": """
        def @f(%state) { () }
        def @g(%x: Tensor[(3,), float32]) { @f(%x) }
        def @main(%x: Tensor[(3,), float32]) { let %f = @f; (%x, (fn (%h) { %x })(%f)) }
    """,
    "dead code told the type of a result": """
        def @main(%x: Tensor[(3,), float32]) {
          let %l = Nil;
          let %unused = Cons(1, %l);
          (%l, %x)
        }
    """,
    "dead code told the type that an operator needs": """
        def @main(%x: Tensor[(3,), float32]) {
          let %o = None;
          let %unused = if (True) { %o } else { Some(1f) };
          match (%o) { Some(%v) => broadcast_to(exp(%v), shape=[3]), None => %x }
        }
    """,
    "a function that goes told the result of one that stays": """
        def @f() { None }
        def @g() { if (True) { @f() } else { Some(2f) } }
        def @main(%x: Tensor[(3,), float32]) {
          let %unused = @g();
          match (@f()) { Some(%v) => broadcast_to(exp(%v), shape=[3]), None => %x }
        }
    """,
    "a local function that goes told what it takes": """
        def @main(%x: Tensor[(3,), float32]) {
          let %f = fn (%y) { %y };
          let %unused = %f(Nil);
          let %l = Nil;
          let %z = (%f, Cons(3, %f(%l)));
          (%l, %x)
        }
    """,
    "the branch that is not taken told the type": """
        def @main(%x: Tensor[(3,), float32]) {
          (
            if (True) { Nil } else { Cons(1, Nil) },
            match (Some(1)) { Some(_) => None, None => Some(%x) }
          )
        }
    """,
    "a write told what a cell holds": """
        def @main(%x: Tensor[(3,), float32]) {
          let %r = ref(Nil);
          let %before = ref_read(%r);
          ref_write(%r, Cons(%x, Nil));
          %before
        }
    """,
    "an argument told the type of another one": """
        def @first[A](%x: A, %y: A, Inline=1) -> A { %x }
        def @main(%x: Tensor[(3,), float32]) {
          @first((Nil, None), (Cons(%x, Nil), if (True) { None } else { Some(%x) }))
        }
    """,
    "a branch that writes is decided": """
        def @main(%x: Tensor[(3,), float32]) {
          let %r = ref(%x);
          let %y = (if (True) { (2f,) } else { ref_write(%r, exp(%x)); (3f,) }).0;
          add(ref_read(%r), broadcast_to(%y, shape=[3]))
        }
    """,
    "a let has one node as value and as body": """
        def @main(%x: Tensor[(3,), float32]) {
          let %y = exp(%x);
          add({ let %z: Tensor[(3,), float32] = %y; %y }, %y)
        }
    """,
}
"""Programs of which a pass might take away what told a type, or say something twice."""


def _module(text: str) -> Module:
    constants = (
        '#[metadata]\n{"relay.Constant": [{"dtype": "float32", "shape": [3], '
        '"data": "AAAAAAAAAAAAAAAA"}]}'
    )
    return parse_module(HEAD + text + constants, imports=prelude())


def _main_type(module: Module) -> str:
    return type_text(infer_types(module)[module.main])


@pytest.mark.parametrize("name", [*PROGRAMS, *UNTOLD])
def test_passes_and_levels_keep_types_and_answers(name: str) -> None:
    module = _module({**PROGRAMS, **UNTOLD}[name])
    args = (VECTOR,) * len(module.main.params)
    assert judge(Program(0, 0, module, args)).breaches == ()


@pytest.mark.parametrize("name", PROGRAMS)
def test_there_and_back_through_continuations_types_and_answers_stay(name: str) -> None:
    module = _module(PROGRAMS[name])
    back = PASSES["un-cps"]().run(PASSES["to-cps"]().run(module, PassContext()), PassContext())
    assert _main_type(back) == _main_type(module)
    args = (VECTOR,) * len(module.main.params)
    assert is_same(answer(back, args), answer(module, args))


@pytest.mark.parametrize("name", PROGRAMS)
def test_boundaries_are_written_once_and_change_no_type(name: str) -> None:
    module = _module(PROGRAMS[name])
    written = with_boundaries(module)
    assert _main_type(written) == _main_type(module)
    assert with_boundaries(written) is written


def test_a_program_whose_lengths_are_known_has_no_boundaries() -> None:
    module = _module("def @main(%x: Tensor[(3,), float32]) { if (True) { %x } else { exp(%x) } }")
    assert with_boundaries(module) is module


@pytest.mark.parametrize(
    ("declared", "found", "differs", "more"),
    [
        (KNOWN, OPEN, True, True),
        (OPEN, KNOWN, True, False),
        (KNOWN, KNOWN, False, False),
        (FuncType((OPEN,), KNOWN), FuncType((OPEN,), OPEN), True, True),
        (None, OPEN, False, False),
    ],
)
def test_a_boundary_is_where_other_lengths_are_known(
    declared: Type | None, found: Type, differs: bool, more: bool
) -> None:
    assert is_boundary(declared, found) is differs
    assert knows_more(declared, found) is more


def test_a_call_in_tail_position_stays_one() -> None:
    module = _module("""
        def @main(%n: int32, %x: Tensor[(?,), float32]) -> Tensor[(3,), float32] {
          if (%n == 0) { %x } else { @main(%n - 1, %x) }
        }
    """)
    branch = with_boundaries(module).main.body
    assert isinstance(branch, If)
    assert isinstance(branch.then, Let)
    assert isinstance(branch.otherwise, Call)


@pytest.mark.parametrize("after", ["inline", "partial-evaluate", "O1", "O3"])
def test_a_name_that_is_two_lengths_is_refused_after_passes_too(after: str) -> None:
    module = _module("""
        def @f(%x: Tensor[(n,), float32], %y: Tensor[(n,), float32], Inline=1) { (%x, %y) }
        def @main(%x: Tensor[(?,), float32], %y: Tensor[(?,), float32]) { @f(%x, %y) }
    """)
    if after in PASSES:
        made = PASSES[after]().run(module, PassContext())
    else:
        made = optimize(module, range(len(LEVELS))[int(after[1:])])
    for each in (module, made):
        with pytest.raises(CodesignError, match="n is two lengths"):
            Interpreter(each).evaluate(each.main, (VECTOR, VECTOR[:2]))


def test_the_variable_of_a_pattern_is_checked() -> None:
    module = _module("""
        def @main(%x: Tensor[(?,), float32]) {
          match (Some(%x)) { Some(%y: Tensor[(3,), float32]) => %y, None => exp(%x) }
        }
    """)
    for each in (module, PASSES["partial-evaluate"]().run(module, PassContext())):
        with pytest.raises(CodesignError, match="%y does not fit"):
            Interpreter(each).evaluate(each.main, (VECTOR[:2],))
