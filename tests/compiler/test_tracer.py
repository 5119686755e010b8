"""Python functions as Relay: the text that they leave, and what it computes."""

from __future__ import annotations

import doctest
from types import ModuleType

import numpy as np
import pytest

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.frontend import prelude, tracer
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.compiler.frontend.tracer import Traced, branch, function, op, trace
from codesign.compiler.interpreter import Interpreter
from codesign.diagnostics import CodesignError, TextRange
from codesign.ir.relay.equal import is_equal_module
from codesign.ir.relay.expr import Call
from codesign.ir.relay.module import Module
from codesign.ir.relay.wellformed import check_module

HEAD = '#[version = "0.0.5"]\n'


def test_a_traced_network_is_the_text_that_one_would_write() -> None:
    def network(x: Traced, w: Traced) -> object:
        hidden = op("nn.relu", op("nn.dense", x, w))
        doubled = hidden * 2.0
        return doubled + hidden, op("nn.softmax", 1.0 - hidden, axis=1), branch(
            True, lambda: hidden, lambda: -x
        )  # fmt: skip

    types = "Tensor[(1, 4), float32]", "Tensor[(4, 4), float32]"
    module = Module({"main": trace(network, *types)})  # type: ignore[arg-type]
    wanted = parse_module(f"""{HEAD}
    def @main(%x: {types[0]}, %w: {types[1]}) {{
      %0 = nn.relu(nn.dense(%x, %w));
      (%0 * 2f + %0, nn.softmax(1f - %0, axis=1), if (True) {{ %0 }} else {{ negative(%x) }})
    }}""")
    check_module(module)
    infer_types(module)
    assert is_equal_module(module, wanted)


def test_traced_functions_call_each_other() -> None:
    def count(n: Traced, total: Traced) -> Traced:
        return branch(n.equals(0), lambda: total, lambda: function("main")(n - 1, total + n))

    module = Module({"main": trace(count, "int32", "int32")})
    infer_types(module)
    ten, zero = np.asarray(10, np.int32), np.asarray(0, np.int32)
    assert Interpreter(module).run(n=ten, total=zero) == 55


def test_tuples_fields_and_arrays() -> None:
    table = np.arange(4, dtype=np.float32)

    def pair(p: Traced) -> object:
        return p[1] + table, (p[0] < 3, 7)

    module = Module({"main": trace(pair, "(int32, Tensor[(4,), float32])")})  # type: ignore[arg-type]
    infer_types(module)
    arg = (np.asarray(2, np.int32), np.ones(4, np.float32))
    found = Interpreter(module).evaluate(module.main, [arg])
    assert isinstance(found, tuple)
    np.testing.assert_array_equal(found[0], table + 1)
    assert found[1] == (True, 7)


def test_a_mistake_shows_the_line_of_python() -> None:
    def wrong(x: Traced) -> Traced:
        return x + 1.5

    module = Module({"main": trace(wrong, "int32")})
    body = module.main.body
    assert isinstance(body, Call)
    assert isinstance(body.span, TextRange)
    assert body.span.source == __file__
    with pytest.raises(CodesignError) as caught:
        infer_types(module)
    assert "return x + 1.5" in str(caught.value)
    assert "found int32 and float32" in str(caught.value)


@pytest.mark.parametrize("module", [prelude, tracer], ids=lambda module: module.__name__)
def test_examples_in_docstrings(module: ModuleType) -> None:
    done = doctest.testmod(module)
    assert done.attempted > 0
    assert done.failed == 0


def test_what_python_would_have_to_know_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^a traced value has no truth yet: use branch"):
        trace(lambda x: 1 if x > 0 else 2, "int32")
    with pytest.raises(TypeError, match=r"^a traced value has no length yet"):
        trace(lambda x: tuple(x), "(int32, int32)")
    with pytest.raises(TypeError, match=r"^Relay has no value for str$"):
        trace(lambda x: x + "1", "int32")
    with pytest.raises(ValueError, match=r"takes 2 values, not 1$"):
        trace(lambda x, y: x, "int32")
    with pytest.raises(CodesignError, match="no type is named 'int33'"):
        trace(lambda x: x, "int33")
    with pytest.raises(CodesignError, match=r"no operator is named 'nn\.rely'"):
        trace(lambda x: op("nn.rely", x), "int32")
