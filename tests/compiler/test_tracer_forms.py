"""`let`, data types and `match` in traced Python functions."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.frontend.prelude import prelude
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.compiler.frontend.tracer import Traced, function, op, trace
from codesign.compiler.frontend.tracer_forms import construct, let, match
from codesign.compiler.interpreter import Interpreter
from codesign.diagnostics import CodesignError, TextRange
from codesign.dtypes import DType
from codesign.ir.relay.equal import is_equal
from codesign.ir.relay.expr import Expr, Function, Let
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType, TypeCall
from codesign.ir.relay.wellformed import check_module
from tests.support.relay_values import to_relay

NUMBERS = TypeCall("List", (TensorType((), DType.INT32),))


def _total(numbers: Traced) -> Traced:
    return match(
        numbers,
        ("Cons(%head, Cons(%next, %rest))",
         lambda head, following, rest: head + following * 10 + function("total")(rest)),
        ("Cons(%only, _)", lambda only: only),
        ("Nil", lambda: 0),
    )  # fmt: skip


def _module(main: Function, **others: Function) -> Module:
    module = Module({"main": main, **others}, prelude().data_types)
    check_module(module)
    infer_types(module)
    return module


def test_a_traced_match_takes_lists_apart() -> None:
    module = _module(
        trace(lambda numbers: function("total")(numbers), NUMBERS), total=trace(_total, NUMBERS)
    )
    for numbers, wanted in (([], 0), ([7], 7), ([1, 2], 21), ([1, 2, 3], 24)):
        found = Interpreter(module).result_of(module.main, [to_relay(numbers)])
        assert np.asarray(found) == wanted


def test_a_traced_let_evaluates_once_and_reads_like_text() -> None:
    traced = trace(lambda x: let(op("exp", x), lambda y: y * y, name="y"), "float32")
    text = '#[version = "0.0.5"] def @main(%x: float32) { let %y = exp(%x); %y * %y }'
    assert is_equal(traced, parse_module(text).main)


def test_constructed_values_are_what_the_text_makes() -> None:
    traced = trace(lambda x: construct("Cons", x, construct("Nil")), "int32")
    text = '#[version = "0.0.5"] def @main(%x: int32) { Cons(%x, Nil) }'
    assert is_equal(traced, parse_module(text, imports=prelude()).main)


def test_a_partial_match_is_written_so() -> None:
    traced = trace(
        lambda x: match(construct("Some", x), ("Some(%y)", lambda y: y), complete=False), "int32"
    )
    text = '#[version = "0.0.5"] def @main(%x: int32) { match? (Some(%x)) { Some(%y) => %y } }'
    assert is_equal(traced, parse_module(text, imports=prelude()).main)


def test_mistakes_have_the_line_of_python() -> None:
    traced = trace(lambda x: construct("Unheard", x), "int32")
    with pytest.raises(CodesignError, match="no constructor is named Unheard") as caught:
        infer_types(Module({"main": traced}))
    span = caught.value.diagnostics[0].span
    assert isinstance(span, TextRange)
    assert span.source == __file__
    assert "Unheard" in span.line_text


@pytest.mark.parametrize(
    ("pattern", "mistake"),
    [("Cons(%a", CodesignError), ("Cons %a", CodesignError), ("Cons(%a, %b)", ValueError)],
)
def test_a_pattern_that_does_not_fit_its_body_is_refused(
    pattern: str, mistake: type[Exception]
) -> None:
    with pytest.raises(mistake):
        trace(lambda x: match(x, (pattern, lambda a: a)), NUMBERS)


def test_let_is_a_node() -> None:
    body: Expr = trace(lambda x: let(x, lambda y: y), "int32").body
    assert isinstance(body, Let)
