"""The laws find passes that are wrong, forgive what is not promised, and hold for ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign.compiler.frontend.relay_parser import parse_module
from codesign.ir.relay.expr import Call, Expr, Function, Let, Match, OpRef, RefRead, RefWrite, Tuple
from codesign.ir.relay.module import Module
from codesign.ir.relay.visit import rewrite, rewrite_module, substitute
from experiments.laws.answers import Verdict, answer, compare, is_same
from experiments.laws.passes import judge
from experiments.laws.program import random_program
from experiments.laws.round_trip import constructs, operators, survives
from experiments.laws.shrink import shrink, size_of

SEEDS = st.integers(0, 2**32 - 1)

HEAD = '#[version = "0.0.5"]\n'


def _named(node: Expr, name: str) -> bool:
    return isinstance(node, Call) and isinstance(node.callee, OpRef) and node.callee.name == name


def _without_writes(node: Expr) -> Expr:
    return Tuple(()) if isinstance(node, RefWrite) else node


def _with_swapped_differences(node: Expr) -> Expr:
    if isinstance(node, Call) and _named(node, "subtract"):
        return replace(node, args=node.args[::-1])
    return node


def _with_moved_values(node: Expr) -> Expr:
    """Put the value of a `let` where its variable is used, past what happens in between."""
    if isinstance(node, Let) and not isinstance(node.value, Function):
        return substitute(node.body, {node.var: node.value})
    return node


def _with_merged_casts(node: Expr) -> Expr:
    if isinstance(node, Call) and _named(node, "cast"):
        inner = node.args[0]
        if isinstance(inner, Call) and _named(inner, "cast"):
            return replace(node, args=inner.args)
    return node


def _with_last_clause_first(node: Expr) -> Expr:
    if isinstance(node, Match):
        return replace(node, clauses=(*node.clauses[-1:], *node.clauses[:-1]))
    return node


def _with_merged_reads(module: Module) -> Module:
    """Make all reads of a cell in a function one."""

    def merged(function: Expr) -> Expr:
        first: dict[Expr, Expr] = {}
        return rewrite(
            function,
            lambda node: (
                first.setdefault(node.reference, node) if isinstance(node, RefRead) else node
            ),
        )

    functions = {name: merged(each) for name, each in module.functions.items()}
    return module.with_functions(functions)  # type: ignore[arg-type]


_WRONG: Mapping[str, Callable[[Module], Module]] = {
    "drops writes": lambda module: rewrite_module(module, _without_writes),
    "swaps differences": lambda module: rewrite_module(module, _with_swapped_differences),
    "moves values": lambda module: rewrite_module(module, _with_moved_values),
    "merges casts": lambda module: rewrite_module(module, _with_merged_casts),
    "reorders clauses": lambda module: rewrite_module(module, _with_last_clause_first),
    "merges reads": _with_merged_reads,
}


def _differs(wrong: Callable[[Module], Module], seed: int) -> bool:
    program = random_program(seed, 30)
    changed = wrong(program.module)
    if changed is program.module:
        return False
    found = answer(changed, program.args)
    wanted = answer(program.module, program.args)
    return compare(wanted, found, program.module, program.args) is Verdict.DIFFERENT


@pytest.mark.parametrize("name", _WRONG)
def test_a_pass_that_is_wrong_is_found(name: str) -> None:
    assert any(_differs(_WRONG[name], seed) for seed in range(150))


def test_a_failing_program_is_made_small() -> None:
    seed = next(seed for seed in range(150) if _differs(_WRONG["swaps differences"], seed))
    program = random_program(seed, 30)

    def fails(module: Module) -> bool:
        changed = _WRONG["swaps differences"](module)
        return not is_same(answer(changed, program.args), answer(module, program.args))

    small = shrink(program.module, fails)
    assert fails(small)
    assert size_of(small) < size_of(program.module) / 3


def _scalar(text: str) -> Module:
    return parse_module(f"{HEAD}def @main(%x: float32) {{ {text} }}")


@pytest.mark.parametrize(
    ("text", "other", "verdict"),
    [
        ("exp(%x)", "multiply(exp(%x), 1.0000001f)", Verdict.CLOSE),
        ("exp(%x)", "multiply(exp(%x), 1.0001f)", Verdict.DIFFERENT),
        ("exp(%x) < 2.718281828f", "exp(%x) <= 2.718281828f", Verdict.UNSTABLE),
        ("multiply(%x, 0f)", "multiply(%x, -0.0f)", Verdict.SAME),
        ("%x + 1f == 3f", "True", Verdict.DIFFERENT),
        ('cast(%x, dtype="int32")', "2", Verdict.DIFFERENT),
        ("(exp(%x) < 2.718281828f, 1)", "(True, 2)", Verdict.DIFFERENT),
    ],
)
def test_answers_may_differ_as_far_as_rounding_goes(
    text: str, other: str, verdict: Verdict
) -> None:
    module, args = _scalar(text), (np.asarray(1, np.float32),)
    assert compare(answer(module, args), answer(_scalar(other), args), module, args) is verdict


def test_a_nan_equals_a_nan_and_no_number() -> None:
    nan, one = np.asarray(np.nan, np.float32), np.asarray(1, np.float32)
    assert is_same((nan, one), (nan, one))
    assert not is_same(nan, one)
    assert not is_same(one, np.asarray(1, np.float64))


@pytest.mark.parametrize(("name", "module"), [*constructs()])
def test_text_keeps_every_construct(name: str, module: Module) -> None:
    assert survives(module)


def test_text_keeps_every_attribute_of_every_operator() -> None:
    assert [name for name, module in operators() if not survives(module)] == []


@settings(max_examples=3)
@given(seed=SEEDS)
def test_passes_and_levels_keep_random_programs(seed: int) -> None:
    assert judge(random_program(seed, 20)).breaches == ()
