"""The gradients that docs/relay.md states are those that come out."""

from __future__ import annotations

import re
from ast import literal_eval
from pathlib import Path

import pytest

from codesign.compiler.frontend.prelude import prelude
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.compiler.gradient import gradient
from codesign.compiler.interpreter import Interpreter
from tests.support.relay_values import to_python, to_relay

DOCUMENT = Path(__file__).parents[3] / "docs" / "relay.md"
BLOCKS = DOCUMENT.read_text(encoding="utf-8").split("```\n")[1::2]
CLAIM = re.compile(r"// @main_gradient\((.*)\) gives (.*)")
PROGRAMS = [block for block in BLOCKS if CLAIM.search(block)]


def test_the_document_states_gradients() -> None:
    assert len(PROGRAMS) >= 2


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_gradient_of_the_document_is_what_stands_there(program: str) -> None:
    claim = CLAIM.search(program)
    assert claim is not None
    module = gradient("main", parse_module(program, "docs/relay.md", imports=prelude()))
    args = [to_relay(literal_eval(claim[1]))]
    result = Interpreter(module).result_of(module.functions["main_gradient"], args)
    assert to_python(result) == literal_eval(claim[2])
