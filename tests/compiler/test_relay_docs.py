"""The program in docs/relay.md is what it says: it reads, types and runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.compiler.interpreter import Interpreter
from codesign.ir.relay.printer import print_module

DOCUMENT = Path(__file__).parents[2] / "docs" / "relay.md"


def test_the_program_of_the_document_runs() -> None:
    text = DOCUMENT.read_text(encoding="utf-8").split("```\n")[1]
    module = parse_module(text, "docs/relay.md")
    infer_types(module)
    value = Interpreter(module).run(x=np.ones((1, 4), np.float32), w=np.zeros((3, 4), np.float32))
    np.testing.assert_allclose(value, np.full((1, 3), 1 / 3))
    assert parse_module(print_module(module)).main.params[0].name == "x"
