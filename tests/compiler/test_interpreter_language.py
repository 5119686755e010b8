"""Evaluation of the whole language: cells in order, matches, closures, deep recursion."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codesign.compiler import interpreter as subject
from codesign.compiler.driver import compile  # noqa: A004
from codesign.compiler.frontend.prelude import prelude
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.compiler.interpreter import Interpreter
from codesign.compiler.pass_manager import PassContext
from codesign.compiler.pipelines import PASSES, optimize
from codesign.compiler.values import DataValue
from codesign.diagnostics import CodesignError
from codesign.ir.relay.expr import Expr, OpRef
from codesign.ir.relay.visit import post_order
from codesign.ops.operator import Value
from tests.support.relay_values import HEAD, module_of, run

COUNTER = """
def @main(%n: int32) {
  let %r = ref(0);
  let %f = fn (%k: int32) -> int32 { ref_write(%r, ref_read(%r) + %k); ref_read(%r) };
"""


def test_cells_are_read_and_written_in_order() -> None:
    assert run(COUNTER + "(%f(%n), %f(10), %f(%n)) }", 7) == (7, 17, 24)


def test_a_shared_read_happens_once_and_another_one_again() -> None:
    text = """
    def @main() {
      let %r = ref(1);
      %0 = ref_read(%r);
      let %before = %0;
      ref_write(%r, 5);
      (%before, %0, ref_read(%r))
    }"""
    assert run(text) == (1, 1, 5)


def test_a_cell_is_shared_and_each_new_one_is_another() -> None:
    text = """
    def @main() {
      let %r = ref(1);
      let %same = %r;
      let %other = ref(1);
      ref_write(%same, 7);
      (ref_read(%r), ref_read(%other))
    }"""
    assert run(text) == (7, 1)


def test_only_the_branch_and_the_clause_that_are_taken_write() -> None:
    text = """
    def @main(%c: bool) {
      let %r = ref(0);
      if (%c) { ref_write(%r, 1) } else { ref_write(%r, 2) };
      match (Some(3)) { None => ref_write(%r, 100), Some(%x) => ref_write(%r, ref_read(%r) + %x) };
      ref_read(%r)
    }"""
    assert (run(text, True), run(text, False)) == (4, 5)


def test_a_function_may_be_tied_to_itself_through_a_cell() -> None:
    text = """
    def @main(%n: int32) {
      let %r = ref(fn (%k: int32) -> int32 { 0 });
      ref_write(%r, fn (%k: int32) -> int32 { if (%k == 0) { 1 } else { %k * ref_read(%r)(%k - 1) } });
      ref_read(%r)(%n)
    }"""  # noqa: E501
    assert run(text, 5) == 120


PROGRAM = st.lists(
    st.tuples(st.sampled_from(["write", "add", "keep"]), st.integers(0, 2), st.integers(-9, 9)),
    max_size=8,
)


@given(PROGRAM)
def test_cells_do_what_a_list_does(steps: list[tuple[str, int, int]]) -> None:
    lines, cells, kept = [], [1, 2, 3], []
    for number, (kind, index, value) in enumerate(steps):
        match kind:
            case "write":
                lines.append(f"ref_write(%c{index}, {value});")
                cells[index] = value
            case "add":
                lines.append(f"ref_write(%c{index}, ref_read(%c{index}) + ref_read(%c0));")
                cells[index] += cells[0]
            case _:
                lines.append(f"let %k{number} = ref_read(%c{index});")
                kept.append((f"%k{number}", cells[index]))
    names = [*(name for name, _ in kept), *(f"ref_read(%c{i})" for i in range(3))]
    text = f"""
    def @main() {{
      let %c0 = ref(1); let %c1 = ref(2); let %c2 = ref(3);
      {" ".join(lines)}
      ({", ".join(names)},)
    }}"""
    wanted = (*(value for _, value in kept), *cells)
    assert run(text) == wanted
    module = module_of(text)
    for name in ("eliminate-dead-code", "eliminate-common-subexpr", "fold-constant"):
        changed = PASSES[name]().run(module, PassContext())
        assert Interpreter(changed).run() == wanted


@given(st.integers(0, 5), st.integers(0, 5))
def test_the_first_clause_that_fits_is_taken(m: int, n: int) -> None:
    text = """
    def @main(%xs: List[int32], %ys: List[int32]) {
      match ((%xs, %ys)) {
        (Nil, Nil) => 0,
        (Cons(%x, _), Nil) => %x,
        (_, Cons(%y, Cons(_, Nil))) => 100 + %y,
        (Nil, %rest) => 200 + @length(%rest),
        (%all, _) => 300 + @length(%all),
      }
    }"""
    xs, ys = [*range(10, 10 + m)], [*range(50, 50 + n)]
    if not ys:
        wanted = xs[0] if xs else 0
    elif n == 2:
        wanted = 100 + ys[0]
    else:
        wanted = 300 + m if xs else 200 + n
    assert run(text, xs, ys) == wanted


def test_functions_stand_in_tuples_data_and_cells() -> None:
    text = """
    def @main(%n: int32) {
      let %pair = (fn (%x: int32) { %x + 1 }, Some(fn (%x: int32) { %x * 2 }));
      let %r = ref(%pair.0);
      let %f = match (%pair.1) { Some(%g) => %g, None => %pair.0 };
      %f(ref_read(%r)(%n))
    }"""
    assert run(text, 4) == 10


def test_functions_called_one_after_the_other() -> None:
    text = """
    def @main(%n: int32) { @add(%n)(10)(100) }
    def @add(%a: int32) { fn (%b: int32) { fn (%c: int32) { %a + %b + %c } } }
    """
    assert run(text, 1) == 111


DEPTHS = [3000, pytest.param(100_000, marks=pytest.mark.slow)]


@pytest.mark.parametrize("depth", DEPTHS)
def test_deep_recursion(depth: int) -> None:
    text = "def @main(%n: int32) { if (%n == 0) { 0 } else { 1 + @main(%n - 1) } }"
    assert run(text, depth) == depth


@pytest.mark.parametrize("depth", DEPTHS)
def test_deep_recursion_through_data(depth: int) -> None:
    text = """
    type Deep { More(Deep), End }
    def @make(%n: int32, %d: Deep) { if (%n == 0) { %d } else { @make(%n - 1, More(%d)) } }
    def @depth(%d: Deep) { match (%d) { More(%rest) => 1 + @depth(%rest), End => 0 } }
    def @main(%n: int32) { @depth(@make(%n, End)) }
    """
    assert run(text, depth) == depth


def test_a_call_in_tail_position_keeps_no_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    module = module_of("""
    def @main(%n: int32) {
      let %m = %n - 1;
      match ((%m, %n)) { (_, %k) => if (%k == 0) { %k } else { let %next = @main(%m); %next } }
    }
    def @loop(%n: int32) {
      let %m = %n - 1;
      match ((%m, %n)) { (_, %k) => if (%k == 0) { %k } else { @loop(%m) } }
    }""")
    most: list[int] = []
    enter = subject._Machine._enter

    def counting(machine: subject._Machine, *args: object) -> None:
        enter(machine, *args)  # type: ignore[arg-type]
        most.append(len(machine._activations))

    monkeypatch.setattr(subject._Machine, "_enter", counting)
    depths = {}
    for name, function in module.functions.items():
        Interpreter(module).result_of(function, [np.asarray(50, np.int32)])
        depths[name] = max(most)
        most.clear()
    assert depths == {"main": 51, "loop": 1}


def test_observation_sees_tensors_and_leaves_the_rest_out() -> None:
    module = module_of("def @main(%x: int32) { match? (Some(%x + 1)) { Some(%y) => %y * 2 } }")
    seen: list[tuple[Expr, Value]] = []
    Interpreter(module).evaluate(
        module.main,
        [np.asarray(3, np.int32)],
        observe=lambda node, value: seen.append((node, value)),
    )
    assert sorted(int(value) for _, value in seen if isinstance(value, np.ndarray))[-2:] == [4, 8]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "def @main() { let %o: Option[int32] = None; match? (%o) { Some(%x) => %x + 1 } }",
            "no clause of a match fits",
        ),
        ("def @main() { Some(1) }", "a tensor or a tuple of tensors is expected"),
        ("def @main() { fn (%x: int32) { %x } }", "found a function"),
        ("def @main() { ref(1) }", "found a cell"),
    ],
)
def test_mistakes_at_run_time(text: str, message: str) -> None:
    module = module_of(text)
    with pytest.raises(CodesignError, match=message):
        Interpreter(module).run()


def test_a_match_that_fails_says_where_and_on_what() -> None:
    with pytest.raises(CodesignError) as caught:
        run("def @main(%xs: List[int32]) {\n  match? (%xs) { Cons(%x, _) => %x }\n}", [])
    assert str(caught.value) == (
        "error: no clause of a match fits\n"
        " --> <text>:3:3\n"
        "  |\n"
        "3 |   match? (%xs) { Cons(%x, _) => %x }\n"
        "  |   ^^^^^^^^^^^^ found a value of constructor Nil"
    )


@pytest.mark.parametrize(
    "body", ["let %y: Tensor[(3,), int8] = %x; %y", "(fn (%y: Tensor[(3,), int8]) { %y })(%x)"]
)
def test_a_length_that_is_known_late_is_checked_where_it_is_annotated(body: str) -> None:
    module = module_of(f"def @main(%x: Tensor[(?,), int8]) {{ {body} }}")
    three, two = np.zeros(3, np.int8), np.zeros(2, np.int8)
    np.testing.assert_array_equal(Interpreter(module).run(x=three), three)
    with pytest.raises(CodesignError) as caught:
        Interpreter(module).run(x=two)
    assert "%y does not fit\n --> <text>:2:" in str(caught.value)
    assert "found Tensor[(2,), int8], expected Tensor[(3,), int8]" in str(caught.value)


def test_inputs_of_any_kind() -> None:
    module = module_of("def @main(%o: Option[int32], %x: int32) { match (%o) { Some(%y) => %y, "
                       "None => %x } }")  # fmt: skip
    one, two = np.asarray(1, np.int32), np.asarray(2, np.int32)
    machine = Interpreter(module)
    assert machine.result_of(module.main, [DataValue("Some", (one,)), two]) == 1
    assert machine.result_of(module.main, [DataValue("None"), two]) == 2
    with pytest.raises(CodesignError, match="expected int32"):
        machine.result_of(module.main, [DataValue("None"), np.asarray(2.5, np.float32)])


def test_dead_code_that_writes_stays() -> None:
    module = module_of(COUNTER + "let %unused = %f(%n); let %gone = %n * 3; ref_read(%r) }")
    smaller = PASSES["eliminate-dead-code"]().run(module, PassContext())
    assert Interpreter(smaller).run(n=np.asarray(5, np.int32)) == 5
    names = [node.name for node in post_order(smaller.main) if isinstance(node, OpRef)]
    assert names == ["add"]


def test_a_field_is_folded_only_where_the_others_write_nothing() -> None:
    module = module_of("def @main() { let %r = ref(1); let %x = (ref_write(%r, 2), 5).1; "
                       "(%x, (ref_read(%r), 7).1, ref_read(%r)) }")  # fmt: skip
    changed = PASSES["fold-constant"]().run(module, PassContext())
    assert changed is not module
    assert Interpreter(changed).run() == (5, 7, 2)


def test_what_fails_in_a_branch_that_is_not_taken_does_not_fail_earlier() -> None:
    module = module_of("def @main(%c: bool) { if (%c) { 1 / 0 } else { 2 + 3 } }")
    changed = PASSES["fold-constant"]().run(module, PassContext())
    assert Interpreter(changed).run(c=np.asarray(False)) == 5


@pytest.mark.parametrize("target", ["cpu", "accel"])
@pytest.mark.parametrize(
    ("body", "mistake"),
    [
        ("ref(%x)", "main's result holds a cell"),
        ("(%x, fn () { %x })", "main's result holds a function"),
        ("Some(ref(%x))", "main's result holds a cell"),
    ],
)
def test_backends_name_what_cannot_leave_a_program(target: str, body: str, mistake: str) -> None:
    module = module_of(f"def @main(%x: Tensor[(1, 4), float32]) {{ {body} }}")
    with pytest.raises(CodesignError) as caught:
        compile(module, target=target)
    assert f"{mistake}\n --> <text>:2:5" in str(caught.value)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_passes_keep_the_meaning_of_the_whole_language(level: int) -> None:
    text = (
        COUNTER
        + """
      let %xs = @map(fn (%k: int32) { %f(%k) }, Cons(%n, Cons(1 + 1, Nil)));
      match (%xs) { Cons(%a, Cons(%b, _)) => %a * 1000 + %b, _ => 0 }
    }"""
    )
    module = parse_module(HEAD + text, imports=prelude())
    changed = optimize(module, level)
    found = Interpreter(changed).run(n=np.asarray(3, np.int32))
    assert found == Interpreter(module).run(n=np.asarray(3, np.int32)) == 3005
    assert set(changed.data_types) == {"List"}
