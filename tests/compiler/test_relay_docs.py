"""The programs in docs/relay.md are what it says: they read, type, print, and give what it says."""

from __future__ import annotations

import re
from ast import literal_eval
from pathlib import Path

import numpy as np
import pytest

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.frontend.prelude import prelude
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.compiler.interpreter import Interpreter
from codesign.ir.relay.equal import is_equal_module
from codesign.ir.relay.printer import print_module
from codesign.ir.relay.wellformed import check_module
from tests.support.relay_values import to_python, to_relay

DOCUMENT = Path(__file__).parents[2] / "docs" / "relay.md"
BLOCKS = DOCUMENT.read_text(encoding="utf-8").split("```\n")[1::2]
PROGRAMS = [block for block in BLOCKS if block.startswith("#[version")]
CLAIM = re.compile(r"// @main\((.*)\) gives (.*)")


def test_the_network_of_the_document_runs() -> None:
    module = parse_module(PROGRAMS[0], "docs/relay.md")
    infer_types(module)
    value = Interpreter(module).run(x=np.ones((1, 4), np.float32), w=np.zeros((3, 4), np.float32))
    np.testing.assert_allclose(value, np.full((1, 3), 1 / 3))
    assert parse_module(print_module(module)).main.params[0].name == "x"


@pytest.mark.parametrize("program", PROGRAMS[1:])
def test_a_program_of_the_document_gives_what_stands_there(program: str) -> None:
    module = parse_module(program, "docs/relay.md", imports=prelude())
    check_module(module)
    infer_types(module)
    assert is_equal_module(parse_module(print_module(module)), module)
    claim = CLAIM.search(program)
    assert claim is not None
    args = [to_relay(literal_eval(claim[1]))]
    result = Interpreter(module).result_of(module.main, args)
    assert to_python(result) == literal_eval(claim[2])


def test_the_document_names_every_function_of_the_prelude() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert [name for name in prelude().functions if not re.search(rf"\b{name}\b", text)] == []


def test_the_files_that_the_document_names_exist() -> None:
    root = DOCUMENT.parents[1]
    named = re.findall(r"`(codesign/[\w/]+\.\w+)`", DOCUMENT.read_text(encoding="utf-8"))
    assert named
    assert [name for name in named if not (root / name).exists()] == []
