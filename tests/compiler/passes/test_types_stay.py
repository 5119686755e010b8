"""What a pass takes away may be what told a type: it writes the type down first."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.compiler.interpreter import Interpreter
from codesign.compiler.pass_manager import PassContext
from codesign.compiler.pipelines import PASSES

TOLD_BY_DEAD_CODE = """
    type Maybe[A] { Some(A), None }
    def @same(%a: Maybe[int32], %b: Maybe[int32]) { 1 }
    def @empty() { let %none = None; let %dead = @same(%none, Some(1)); %none }
    def @main(%x: int32) { match (@empty()) { None => %x, Some(_) => 2 } }
"""
"""When %dead is gone, @same is not reached; without both, nothing tells what @empty gives."""

TOLD_BY_NOBODY = """
    type Maybe[A] { Some(A), None }
    def @main(%x: int32) {
      let %none = fn () { None };
      match (%none()) { None => %x, Some(_) => 2 }
    }
"""


@pytest.mark.parametrize("text", [TOLD_BY_DEAD_CODE, TOLD_BY_NOBODY])
@pytest.mark.parametrize("name", ["eliminate-dead-code", "lambda-lift", "fold-constant", "inline"])
def test_a_type_outlives_what_told_it(text: str, name: str) -> None:
    module = parse_module('#[version = "0.0.5"]\n' + text)
    made = PASSES[name]().run(module, PassContext())
    assert infer_types(made)[made.main] == infer_types(module)[module.main]
    assert np.asarray(Interpreter(made).evaluate(made.main, (np.array(7, np.int32),))) == 7
