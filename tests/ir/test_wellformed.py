"""What `wellformed` accepts and refuses."""

from __future__ import annotations

import pytest

from codesign.diagnostics import CodesignError
from codesign.ir.relay.expr import (
    Call,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    OpRef,
    Project,
    Tuple,
    Var,
)
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


@pytest.mark.parametrize(
    "make",
    [even_and_odd, lambda: let_chain(5_000), lambda: call_chain(5_000), lambda: diamond(60)],
)
def test_good_programs_pass(make: object) -> None:
    check_module(make())  # type: ignore[operator]


def test_a_recursive_local_function_passes() -> None:
    f, n = Var("f"), Var("n", INT)
    body = Let(f, Function((n,), Call(f, (n,)), INT), Call(f, (integer(1),)))
    check_module(main_of(body=body))


def test_a_node_shared_between_branches_passes() -> None:
    x, c = Var("x", INT), Var("c", BOOL)
    shared = call("abs", x)
    check_module(main_of(x, c, body=If(c, shared, call("add", shared, shared))))


def refused(body: Expr, *params: Var) -> str:
    with pytest.raises(CodesignError) as caught:
        check_module(main_of(*params, body=body))
    return str(caught.value)


def test_a_variable_after_its_scope() -> None:
    v = Var("v")
    assert "%v is used outside its scope" in refused(Tuple((Let(v, integer(1), v), v)))


def test_a_variable_in_its_own_value() -> None:
    v = Var("v")
    assert "%v is used outside its scope" in refused(Let(v, call("abs", v), v))


def test_a_shared_node_that_leaves_the_scope_of_its_variable() -> None:
    v = Var("v")
    shared = call("abs", v)
    inside = Let(v, integer(1), call("add", shared, shared))
    assert "%v is used outside its scope" in refused(Tuple((inside, shared)))


def test_a_variable_bound_twice() -> None:
    v = Var("v")
    text = refused(Tuple((Let(v, integer(1), v), Let(v, integer(2), v))))
    assert text == "error: %v is bound twice"


def test_a_parameter_named_twice() -> None:
    x = Var("x", INT)
    assert "%x is bound twice" in refused(x, x, x)


def test_all_mistakes_come_together() -> None:
    body = Tuple((Call(GlobalVar("f"), ()), OpRef("abs"), Project(Tuple(()), -1)))
    text = refused(body)
    assert "no function is named @f" in text
    assert "operator abs is used as a value" in text
    assert "a tuple has no field -1" in text
