"""The traversal: each shared node once, no recursion, unchanged nodes themselves."""

from __future__ import annotations

from itertools import pairwise

import pytest

from codesign.ir.relay.expr import Call, Expr, Function, Let, OpRef, Tuple, Var
from codesign.ir.relay.visit import (
    children,
    free_variables,
    post_order,
    rewrite,
    rewrite_module,
    rewrite_pairs,
    substitute,
    use_counts,
)
from codesign.ops.table import call
from tests.support.relay_programs import (
    call_chain,
    diamond,
    even_and_odd,
    integer,
    let_chain,
)


class Counting:
    """A rule that changes nothing and counts what it sees."""

    def __init__(self) -> None:
        self.seen: list[Expr] = []

    def __call__(self, node: Expr) -> Expr:
        self.seen.append(node)
        return node


def visits(module: object) -> int:
    rule = Counting()
    rewrite_module(module, rule)  # type: ignore[arg-type]
    return len(rule.seen)


def test_children_come_before_their_parents() -> None:
    done: set[Expr] = set()
    for node in post_order(let_chain(20).main):
        assert done.issuperset(children(node))
        done.add(node)


def test_a_diamond_is_visited_once_a_node() -> None:
    depth = 20
    rule = Counting()
    assert rewrite(diamond(depth).main, rule) is not None
    assert len(rule.seen) == len(set(rule.seen)) == 2 * depth + 2  # calls, operators, x, function


@pytest.mark.parametrize("make", [call_chain, let_chain, diamond])
def test_visits_grow_linearly(make: object) -> None:
    counts = [visits(make(n)) for n in (250, 500, 1000, 2000)]  # type: ignore[operator]
    steps = [later - earlier for earlier, later in pairwise(counts)]
    assert steps == [steps[0], 2 * steps[0], 4 * steps[0]]


@pytest.mark.parametrize("make", [call_chain, let_chain])
@pytest.mark.parametrize("length", [5_000, pytest.param(200_000, marks=pytest.mark.slow)])
def test_long_chains_do_not_recurse(make: object, length: int) -> None:
    main = make(length).main  # type: ignore[operator]
    assert rewrite(main, lambda node: node) is main


def test_an_unchanged_node_is_returned_itself() -> None:
    module = even_and_odd()
    assert rewrite_module(module, lambda node: node) is module


def test_a_change_keeps_the_rest_and_its_sharing() -> None:
    x, y = Var("x"), Var("y")
    kept = call("abs", y)
    changed = call("abs", x)
    old = Tuple((changed, kept, changed))
    new = rewrite(old, lambda node: integer(3) if node is x else node)
    assert isinstance(new, Tuple)
    assert new.fields[1] is kept
    assert new.fields[0] is new.fields[2]
    assert new.fields[0] is not changed


def test_pairs_show_the_original() -> None:
    x = Var("x")
    inner = call("abs", x)
    outer = call("exp", inner)
    originals: dict[Expr, Expr] = {}

    def rule(original: Expr, rebuilt: Expr) -> Expr:
        originals[original] = rebuilt
        return integer(1) if original is x else rebuilt

    rewrite_pairs(outer, rule)
    rebuilt = originals[outer]
    assert isinstance(rebuilt, Call)
    assert rebuilt is not outer
    assert rebuilt.args[0] is originals[inner]


def test_free_variables_in_order_of_use() -> None:
    x, y, bound, param = Var("x"), Var("y"), Var("bound"), Var("param")
    function = Function((param,), call("add", param, y))
    body = Let(bound, call("abs", x), Tuple((bound, function, x)))
    assert free_variables(body) == (x, y)
    assert free_variables(Function((x, y), body)) == ()


def test_substitute_replaces_each_use() -> None:
    x = Var("x")
    one = integer(1)
    new = substitute(call("add", x, x), {x: one})
    assert isinstance(new, Call)
    assert new.args == (one, one)


def test_use_counts_count_places() -> None:
    x = Var("x")
    square = call("multiply", x, x)
    pair = Tuple((square, square, x))
    counts = use_counts(pair)
    assert (counts[x], counts[square], counts[pair]) == (3, 2, 1)


def test_a_binder_must_stay_a_variable() -> None:
    x = Var("x")
    function = Function((x,), x)
    with pytest.raises(AssertionError, match="must stay a variable"):
        rewrite(function, lambda node: OpRef("abs") if node is x else node)
