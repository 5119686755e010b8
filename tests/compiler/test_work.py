"""Operations and bytes against counts by hand."""

from __future__ import annotations

import pytest

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.analysis.work import Work, total_work, work_of_calls
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.diagnostics import CodesignError

HEAD = '#[version = "0.0.5"]\n'


def works(text: str) -> list[Work]:
    module = parse_module(HEAD + text)
    types = infer_types(module)
    calls = work_of_calls(module.main, types)
    assert total_work(module.main, types) == sum(calls.values(), Work(0, 0))
    return list(calls.values())


def test_convolution() -> None:
    text = """
    def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(6, 2, 3, 3), float32]) {
      nn.conv2d(%x, %w, groups=2)
    }"""
    macs = 6 * 6 * 6 * 2 * 3 * 3
    assert works(text) == [Work(2 * macs, 4 * (4 * 64 + 6 * 2 * 9 + 6 * 36))]


def test_quantized_layer() -> None:
    text = """
    def @main(%x: Tensor[(1, 16), int8], %w: Tensor[(10, 16), int8]) {
      qnn.dense(%x, %w, zero_point=3)
    }"""
    assert works(text) == [Work(2 * 160, 16 + 160 + 40)]


def test_a_shared_call_and_a_shared_argument_count_once() -> None:
    text = "def @main(%x: Tensor[(5,), float32]) { %0 = add(%x, %x); (%0, multiply(%0, %x)) }"
    assert works(text) == [Work(5, 40), Work(5, 60)]


def test_moving_data_is_no_operation() -> None:
    text = "def @main(%x: Tensor[(2, 3), int8]) { concatenate((%x, %x), axis=0) }"
    (work,) = works(text)
    assert work == Work(0, 24)
    assert work.intensity_op_per_byte == 0


def test_unknown_shapes_are_refused() -> None:
    with pytest.raises(CodesignError, match="depends on a shape that is not known"):
        works("def @main(%x: Tensor[(?, 3), float32]) { nn.relu(%x) }")
