"""Gradient cells: ones and zeros are made for who asks, and never to be added or multiplied."""

from __future__ import annotations

import pytest

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.frontend.prelude import gradient_prelude
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.compiler.interpreter import Interpreter
from codesign.ir.relay.wellformed import check_module
from tests.support.relay_values import HEAD, to_python

CELLS = {"Raw(6f)": 6.0, "One(%one)": 1.0, "Zero(%zero)": 0.0}


def _run(expression: str) -> object:
    """Return what a cell holds, and how many ones and zeros were made before somebody asked."""
    text = f"""
        def @main() {{
          let %made = ref(0);
          let %count = fn (%v: float32) -> float32 {{
            ref_write(%made, ref_read(%made) + 1); %v
          }};
          let %one = fn () -> float32 {{ %count(1f) }};
          let %zero = fn () -> float32 {{ %count(0f) }};
          let %add = fn (%a: float32, %b: float32) -> float32 {{ %a + %b }};
          let %multiply = fn (%a: float32, %b: float32) -> float32 {{ %a * %b }};
          let %cell = {expression};
          let %before = ref_read(%made);
          (@FromGradCell(%cell), %before)
        }}
    """
    module = parse_module(HEAD + text, imports=gradient_prelude())
    check_module(module)
    infer_types(module)
    return to_python(Interpreter(module).run())


@pytest.mark.parametrize("left", CELLS)
@pytest.mark.parametrize("right", CELLS)
def test_products_make_nothing(left: str, right: str) -> None:
    value = CELLS[left] * CELLS[right]
    assert _run(f"@MultiplyGradCell(%multiply, {left}, {right})") == (value, 0)


@pytest.mark.parametrize("left", CELLS)
@pytest.mark.parametrize("right", CELLS)
def test_sums_make_ones_only(left: str, right: str) -> None:
    is_lazy = "Zero(%zero)" in (left, right)
    made = 0 if is_lazy else (left, right).count("One(%one)")
    assert _run(f"@AddGradCell(%add, {left}, {right})") == (CELLS[left] + CELLS[right], made)
