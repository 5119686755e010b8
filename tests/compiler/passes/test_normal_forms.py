"""Normal forms and redundancy on the whole language: order, sharing, size, depth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign.compiler.analysis.effects import Effect, Effects
from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.interpreter import Interpreter
from codesign.compiler.pass_manager import PassContext
from codesign.compiler.pipelines import PASSES
from codesign.diagnostics import CodesignError
from codesign.ir.relay.expr import Call, Expr, Function, Let, Match, RefNew, RefRead, RefWrite
from codesign.ir.relay.module import Module
from codesign.ir.relay.visit import post_order
from codesign.ir.relay.wellformed import check_module
from tests.support.relay_programs import call_chain, diamond, let_chain
from tests.support.relay_values import module_of, to_python, to_relay

MINE = (
    "to-a-normal-form",
    "to-basic-block-normal-form",
    "to-graph-normal-form",
    "eliminate-dead-code",
    "eliminate-common-subexpr",
    "fold-constant",
    "inline",
    "eta-expand",
    "lambda-lift",
    "remove-unused-functions",
    "partial-evaluate",
    "to-cps",
)


def _run(module: Module, *args: object) -> object:
    return to_python(Interpreter(module).result_of(module.main, [to_relay(each) for each in args]))


def _after(name: str, module: Module) -> Module:
    made = PASSES[name]().run(module, PassContext())
    check_module(made)
    infer_types(made)
    return made


def _count(module: Module, *kinds: type[Expr]) -> int:
    nodes = post_order(*module.functions.values())
    return sum(isinstance(node, kinds) for node in nodes)


PROGRAMS = (
    # A write that two branches may be the first to need.
    """
    def @main(%c: bool, %d: bool, %n: int32) {
      let %r = ref(%n);
      %0 = ref_write(%r, ref_read(%r) * 10);
      let %a = if (%c) { %0; ref_read(%r) } else { ref_read(%r) };
      let %b = if (%d) { %0; ref_read(%r) } else { 7 };
      (%a, %b, ref_read(%r))
    }""",
    # A read that is shared before and after a write.
    """
    def @main(%c: bool, %d: bool, %n: int32) {
      let %r = ref(%n);
      %0 = ref_read(%r);
      let %a = if (%c) { %0 } else { 0 };
      ref_write(%r, 5);
      (%a, %0 + ref_read(%r), if (%d) { %0 } else { 1 })
    }""",
    # A node that a function shares with what is around it is evaluated in each activation.
    """
    def @main(%c: bool, %d: bool, %n: int32) {
      let %r = ref(%n);
      %0 = ref_read(%r) + 1;
      let %f = fn () -> int32 { ref_write(%r, %0); %0 };
      let %a = %f();
      let %b = if (%c) { %f() } else { %0 };
      (%a, %b, %0, ref_read(%r))
    }""",
    # Closures in data, a cell that a closure writes, recursion over a list.
    """
    def @main(%c: bool, %d: bool, %n: int32) {
      let %sum = ref(0);
      let %add = fn (%k: int32) -> int32 { ref_write(%sum, ref_read(%sum) + %k); ref_read(%sum) };
      let %fs = Cons(%add, Cons(fn (%k: int32) -> int32 { %k * %n }, Nil));
      let %xs = @map(fn (%f: fn (int32) -> int32) -> int32 { %f(%n) + %add(1) }, %fs);
      let %last = if (%d) { @hd(@rev(%xs)) } else { @sum(%xs) };
      (%last, ref_read(%sum), @foldl(fn (%a: int32, %b: int32) -> int32 { %a - %b }, 0, %xs))
    }""",
    # A cell that holds a function which reads the cell.
    """
    def @main(%c: bool, %d: bool, %n: int32) {
      let %r = ref(fn (%k: int32) -> int32 { 0 });
      ref_write(%r, fn (%k: int32) -> int32 {
        if (%k <= 0) { %n } else { %k + ref_read(%r)(%k - 2) } });
      ref_read(%r)(6) + (if (%c) { ref_read(%r)(3) } else { 0 })
    }""",
    # Known data through functions of any type; a match that is decided late.
    """
    def @pick[A](%first: bool, %p: (A, A)) -> A { if (%first) { %p.0 } else { %p.1 } }
    def @main(%c: bool, %d: bool, %n: int32) {
      let %options = (Some(%n), None);
      let %known = match (@pick(True, %options)) { Some(%k) => %k * 2, None => 0 };
      let %open = match (@pick(%c, %options)) { Some(%k) => %k + %known, None => %known };
      (%known, %open, @size(@tmap(fn (%x: int32) -> bool { %x < %n }, Rose(1, Nil))))
    }""",
)


@pytest.mark.parametrize("name", MINE)
@pytest.mark.parametrize("text", PROGRAMS, ids=range(len(PROGRAMS)))
def test_a_pass_keeps_the_answer_of_programs_with_effects(text: str, name: str) -> None:
    module = module_of(text)
    changed = _after(name, module)
    for c in (False, True):
        for d in (False, True):
            assert _run(changed, c, d, 3) == _run(module, c, d, 3)


@pytest.mark.slow
@pytest.mark.parametrize("first", MINE)
@pytest.mark.parametrize("second", ["to-a-normal-form", "to-graph-normal-form", "partial-evaluate"])
def test_passes_after_each_other_keep_the_answer(first: str, second: str) -> None:
    for text in PROGRAMS[:4]:
        module = module_of(text)
        changed = _after("eliminate-dead-code", _after(second, _after(first, module)))
        assert _run(changed, True, False, 2) == _run(module, True, False, 2)


PLAN = st.lists(
    st.tuples(st.sampled_from(["read", "write", "both", "neither"]), st.booleans()),
    min_size=1,
    max_size=6,
)


@settings(max_examples=10)
@given(PLAN, st.lists(st.booleans(), min_size=6, max_size=6))
def test_a_shared_effect_happens_once_and_where_it_is_first_needed(
    plan: list[tuple[str, bool]], conditions: list[bool]
) -> None:
    lines, cell, done, seen = [], 1, None, []
    for index, ((kind, otherwise), taken) in enumerate(zip(plan, conditions, strict=False)):
        use = {"read": "%1", "write": "{ %0; 0 }", "both": "{ %0; %1 }", "neither": "0"}[kind]
        ways = (use, "ref_read(%r)") if otherwise else ("ref_read(%r)", use)
        lines.append(f"let %v{index} = if (%c{index}) {{ {ways[0]} }} else {{ {ways[1]} }};")
        if taken != otherwise:
            seen.append(cell)
            continue
        if kind in ("write", "both") and done is None:
            done, cell = True, cell + 10
        seen.append({"read": None, "write": 0, "both": None, "neither": 0}[kind])
    params = ", ".join(f"%c{index}: bool" for index in range(6))
    names = "".join(f"%v{index}, " for index in range(len(plan)))
    text = f"""
    def @main({params}) {{
      let %r = ref(1);
      %0 = ref_write(%r, ref_read(%r) + 10);
      %1 = ref_read(%r) * 100;
      {" ".join(lines)}
      ({names}ref_read(%r))
    }}"""
    module = module_of(text)
    wanted = _run(module, *conditions)
    assert isinstance(wanted, tuple)
    assert wanted[-1] == cell
    assert all(mine is None or mine == found for mine, found in zip(seen, wanted, strict=False))
    for name in ("to-a-normal-form", "to-basic-block-normal-form", "partial-evaluate"):
        assert _run(_after(name, module), *conditions) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("name", MINE)
def test_long_and_deep_programs_meet_no_limit(name: str) -> None:
    _check_size(name, call_chain(2000), let_chain(5000), diamond(2000))


@pytest.mark.parametrize("name", MINE)
def test_programs_deeper_than_pythons_stack_do_not_grow(name: str) -> None:
    _check_size(name, let_chain(1100), diamond(100))


def _check_size(name: str, *modules: Module) -> None:
    for module in modules:
        changed = _after(name, module)
        bound = 12 + 2 * _count(module, Call, Let)
        assert _count(changed, Call, Let) <= bound
        x = np.asarray(1, np.int32)
        assert Interpreter(changed).run(x=x) == Interpreter(module).run(x=x)


def test_an_error_is_never_brought_forward() -> None:
    text = """
    def @main(%c: bool, %n: int32) {
      %0 = 7 / %n;
      let %a = if (%c) { %0 } else { 1 };
      (if (%c) { %0 + %a } else { 2 })
    }"""
    module = module_of(text)
    for name in MINE:
        changed = _after(name, module)
        assert _run(changed, False, 0) == 2
        with pytest.raises(CodesignError, match="divisor of zero"):
            _run(changed, True, 0)


def test_effects_follow_calls_through_names_and_circles() -> None:
    module = module_of("""
    def @pure(%n: int32) -> int32 { if (%n <= 0) { 0 } else { @pure(%n - 1) } }
    def @writes(%r: ref(int32)) -> () { ref_write(%r, 1) }
    def @even(%r: ref(int32), %n: int32) -> () { if (%n == 0) { () } else { @odd(%r, %n - 1) } }
    def @odd(%r: ref(int32), %n: int32) -> () { @writes(%r); @even(%r, %n) }
    def @main(%n: int32) { let %r = ref(%n); @even(%r, 3); @pure(ref_read(%r)) }
    """)
    effects = Effects(module)
    assert effects.latent("pure") == Effect.FAILS
    assert effects.latent("writes") == Effect.WRITES
    assert effects.latent("even") == effects.latent("odd") == Effect.WRITES | Effect.FAILS


def test_what_is_known_disappears() -> None:
    text = """
    def @main(%n: int32) {
      let %total = ref(0);
      let %add = fn (%k: int32) { ref_write(%total, ref_read(%total) + %k) };
      let %pair = (%add, Some(%n));
      match (%pair.1) { Some(%k) => %pair.0(%k), None => () };
      %pair.0(5);
      ref_read(%total)
    }"""
    module = module_of(text)
    changed = _after("eliminate-dead-code", _after("partial-evaluate", module))
    assert _count(changed, RefNew, RefRead, RefWrite, Match) == 0
    assert _count(changed, Function) == 1
    assert _run(changed, 4) == _run(module, 4) == 9


def test_continuations_there_and_back_keep_the_answer() -> None:
    for text in PROGRAMS:
        module = module_of(text)
        there = _after("to-cps", module)
        back = _after("un-cps", there)
        for made in (there, back):
            assert _run(made, True, True, 3) == _run(module, True, True, 3)
        attributes = [node.attributes for node in post_order(*back.functions.values())
                      if isinstance(node, Function)]  # fmt: skip
        assert all("CPS" not in each for each in attributes)


def test_a_loop_in_continuation_passing_style_needs_no_stack() -> None:
    text = """
    def @main(%n: int32) {
      let %loop = fn (%k: int32, %s: int32) -> int32 {
        if (%k == 0) { %s } else { %loop(%k - 1, %s + %k) } };
      %loop(%n, 0)
    }"""
    assert _run(_after("to-cps", module_of(text)), 3_000) == 3_000 * 3_001 // 2


@pytest.mark.parametrize("text", [PROGRAMS[0], PROGRAMS[2], PROGRAMS[4]], ids=[0, 2, 4])
def test_defunctionalized_programs_have_no_functions_as_values(text: str) -> None:
    module = module_of(text)
    changed = _after("defunctionalize", module)
    inner = [node for each in changed.functions.values() for node in post_order(each.body)]
    assert not any(isinstance(node, Function) for node in inner)
    for c in (False, True):
        assert _run(changed, c, True, 3) == _run(module, c, True, 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "def @main(%n: int32) { let %f = fn[A] (%x: A) -> A { %x }; %f(%n) }",
            "a function with type parameters\n --> <text>:2",
        ),
        ("def @main(%f: fn (int32) -> int32) { %f(1) }", "main with functions outside\n --> "),
    ],
)
def test_defunctionalization_says_what_it_does_not_take(text: str, message: str) -> None:
    module = module_of(text)
    with pytest.raises(CodesignError) as caught:
        PASSES["defunctionalize"]().run(module, PassContext())
    assert f"defunctionalize does not take {message}" in str(caught.value)


GENERIC = """
def @twice[A](%f: fn (A) -> A, %x: A) -> A { %f(%f(%x)) }
def @pair[A](%x: A) -> (A, A) { (%x, %x) }
def @main(%n: int32) {
  let %l = @map(fn (%k: int32) { %k * %n }, Cons(1, Cons(2, Nil)));
  let %d = @map(@pair, %l);
  let %s = @map(Some, %l);
  (@twice(fn (%k) { %k + %n }, 3), @twice(fn (%b: bool) { if (%b) { False } else { True } }, True),
   @foldl(fn (%a: int32, %k: int32) { %a + %k }, 0, %l), @length(%d), @hd(%d), @length(%s))
}
"""


def test_functions_with_type_parameters_are_copied_for_each_choice() -> None:
    module = module_of(GENERIC)
    changed = _after("defunctionalize", module)
    assert not any(each.type_params for each in changed.functions.values())
    inner = [node for each in changed.functions.values() for node in post_order(each.body)]
    assert not any(isinstance(node, Function) for node in inner)
    assert _run(changed, 5) == _run(module, 5)
    assert _after("defunctionalize", changed) is changed


def test_a_function_at_ever_other_types_is_refused() -> None:
    module = module_of("""
    def @deep[A](%n: int32, %x: A, %f: fn (int32) -> int32) -> int32 {
      if (%n == 0) { %f(0) } else { @deep(%n - 1, (%x, %x), %f) }
    }
    def @main(%n: int32) { @deep(%n, 1, fn (%k: int32) { %k }) }""")
    with pytest.raises(CodesignError, match="calls itself at ever other types"):
        PASSES["defunctionalize"]().run(module, PassContext())
