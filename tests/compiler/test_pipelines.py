"""Levels and pipelines as text: what is chosen, and what is said about mistakes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from codesign.compiler.driver import compile  # noqa: A004
from codesign.compiler.pass_manager import Form, PassContext, write_to
from codesign.compiler.passes.fold_constant import FoldConstant
from codesign.compiler.passes.fuse_ops import FuseOps
from codesign.compiler.passes.partial_evaluate import PartialEvaluate
from codesign.compiler.pipelines import LEVELS, optimize, pipeline
from codesign.diagnostics import CodesignError
from codesign.ir.relay.module import Module
from codesign.ir.relay.printer import print_module
from host_runtime.session import Session
from tests.support.relay_values import module_of


def test_a_text_names_passes_with_their_parameters() -> None:
    found = pipeline(text=" fold-constant , partial-evaluate(fuel=7, unroll=2),fold-constant()")
    assert found == (FoldConstant(), PartialEvaluate(fuel=7, unroll=2), FoldConstant())


def test_a_level_stands_for_its_passes() -> None:
    found = pipeline(text="O1,fuse-ops(max_depth=8)")
    assert found == (*LEVELS[1], FuseOps(max_depth=8))


def test_no_text_is_no_pass() -> None:
    module = module_of("def @main(%x: int32) { %x + (1 + 2) }")
    assert optimize(module, passes="") is module


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fuse-op", "no pass is named 'fuse-op'\nhelp: did you mean fuse-ops?"),
        ("O9", "no pass is named 'O9'"),
        ("O1(x=1)", "level O1 has no parameters"),
        ("fold-constant(max_element=3)", "pass fold-constant has no parameter max_element"),
        ("inline(x=1)", "pass inline has no parameter x\nhelp: it has none"),
        ("fold-constant(max_elements=many)", "parameter max_elements of fold-constant is int"),
        ("fold-constant(3)", "a parameter of fold-constant is a name and a value"),
        ("eta-expand(globals_too=yes)", "parameter globals_too of eta-expand is bool"),
        ("fold-constant;inline", "a pipeline is a list of passes"),
        ("fuse-ops", "pass fuse-ops needs the form inference, which no pass before it makes"),
    ],
)
def test_mistakes_are_named_with_their_pass(text: str, message: str) -> None:
    with pytest.raises(CodesignError, match=re.escape(message)):
        pipeline(text=text)


def test_a_compiled_module_takes_the_passes_of_a_text(tmp_path: Path) -> None:
    module = module_of("def @main(%x: Tensor[(2,), float32]) { %x + (1f + 2f) }")
    compiled = compile(module, passes="fold-constant", verify=True, dump=tmp_path)
    x = np.array([1, 2], np.float32)
    np.testing.assert_array_equal(Session(compiled).run({"x": x})["output"], x + 3)
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "00-input.relay",
        "01-fold-constant.relay",
    ]


def test_every_level_ends_in_blocks_that_share_nothing() -> None:
    text = "def @main(%c: bool, %n: int32) { %0 = %n * 3; if (%c) { %0 + 1 } else { %0 + 2 } }"
    for level in range(2, len(LEVELS)):
        made = optimize(module_of(text), level)
        assert "let %v1 = multiply(%n, 3);" in print_module(made)


def test_every_pass_of_a_level_finds_the_form_that_it_needs() -> None:
    for passes in LEVELS:
        forms = {Form.TYPED}
        for each in passes:
            assert each.requires <= forms
            forms |= each.ensures


def test_partial_evaluation_is_what_the_highest_levels_add() -> None:
    text = "def @main(%x: int32) { let %r = ref(%x); ref_write(%r, %x + 1); ref_read(%r) }"
    module = module_of(text)
    assert "ref(" in print_module(optimize(module, 2))
    assert "ref(" not in print_module(optimize(module, 3))
    assert PartialEvaluate().run(module, PassContext()) is not module


def test_a_folder_that_cannot_be_dumped_to_is_named(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(CodesignError, match="cannot dump to"):
        write_to(blocked / "folder")(0, "input", Module({}))
