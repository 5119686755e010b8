"""bisect: the pass that breaks a program is named, the others are not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, final

import numpy as np
import pytest

from codesign.cli.main import main
from codesign.compiler.bisect import bisect, is_same_answer, is_same_bits
from codesign.compiler.pass_manager import Form, PassContext
from codesign.compiler.passes.fold_constant import FoldConstant
from codesign.compiler.passes.to_a_normal_form import ToANormalForm
from codesign.compiler.pipelines import pipeline
from codesign.compiler.values import DataValue
from codesign.ir.relay.expr import Call, Expr, OpRef
from codesign.ir.relay.module import Module
from codesign.ir.relay.visit import rewrite_module
from codesign.ops.table import call
from tests.support.relay_values import HEAD, module_of


@final
@dataclass(frozen=True, slots=True)
class SubtractForAdd:
    """A pass with a fault: sums become differences."""

    name: ClassVar[str] = "subtract-for-add"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})

    wanted: str = "subtract"

    def run(self, module: Module, context: PassContext) -> Module:
        return rewrite_module(module, self._rule)

    def _rule(self, node: Expr) -> Expr:
        match node:
            case Call(OpRef("add"), args):
                return call(self.wanted, *args)
            case _:
                return node


def test_the_first_pass_that_changes_the_answer_is_named() -> None:
    module = module_of("def @main(%x: int32) { (%x * %x) + (1 + 2) }")
    passes = (FoldConstant(), ToANormalForm(), SubtractForAdd(), FoldConstant())
    found = bisect(module, passes, [np.asarray(5, np.int32)])
    assert found is not None
    assert (found.index, found.name) == (3, "subtract-for-add")
    assert (found.answer_before, found.answer_after) == (28, 22)


def test_an_error_that_a_pass_brings_is_a_change() -> None:
    module = module_of("def @main(%x: int32) { %x + 0 }")
    found = bisect(module, (SubtractForAdd("divide"),), [np.asarray(5, np.int32)])
    assert found is not None
    assert found.answer_after is None
    assert "divisor of zero" in found.refused


def test_good_passes_change_nothing() -> None:
    module = module_of("def @main(%x: int32) { let %r = ref(%x); ref_write(%r, 2); ref_read(%r) }")
    assert bisect(module, pipeline(4), [np.asarray(5, np.int32)]) is None


def test_answers_are_compared_deeply_and_bit_for_bit() -> None:
    zero, minus = np.float32(0.0), np.float32(-0.0)
    nan = np.array([np.nan], np.float32)
    left = (DataValue("Some", (np.asarray(zero), nan)),)
    assert is_same_answer(left, (DataValue("Some", (np.asarray(zero), nan)),), is_same_bits)
    assert not is_same_answer(left, (DataValue("Some", (np.asarray(minus), nan)),), is_same_bits)
    assert not is_same_answer(left, (DataValue("None"),), is_same_bits)


def test_the_command_finds_nothing_in_a_good_pipeline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "model.relay"
    file.write_text(HEAD + "def @main(%x: Tensor[(2,), float32]) { %x + (1f + 2f) }")
    assert main(["bisect", str(file), "--level", "4"]) == 0
    assert "passes changes the answer" in capsys.readouterr().out


def test_the_command_optimizes_a_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "model.relay"
    file.write_text(HEAD + "def @main(%x: Tensor[(2,), float32]) { %x + (1f + 2f) }")
    options = ["--passes", "fold-constant", "--verify", "--times", "--dump", str(tmp_path / "ir")]
    assert main(["optimize", str(file), *options]) == 0
    shown = capsys.readouterr()
    assert "add(%x, 3.0f)" in shown.out
    assert "fold-constant" in shown.err
    assert (tmp_path / "ir" / "01-fold-constant.relay").exists()
