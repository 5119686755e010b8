"""Each pass on reviewed texts: `golden/<pass>.relay` holds what goes in and what must come out."""

from __future__ import annotations

from pathlib import Path

import pytest

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.compiler.pass_manager import PassContext
from codesign.compiler.pipelines import PASSES
from codesign.ir.relay.equal import is_equal_module
from codesign.ir.relay.printer import print_module
from codesign.ir.relay.wellformed import check_module
from tests.support.golden import Golden, check_golden, golden_cases

CASES = golden_cases(Path(__file__).parent / "golden")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.file}:{case.name}")
def test_pass_makes_the_reviewed_text(case: Golden, pytestconfig: pytest.Config) -> None:
    module = PASSES[case.file]().run(parse_module(case.text), PassContext())
    check_module(module)
    infer_types(module)
    is_right = is_equal_module(module, parse_module(case.wanted))
    check_golden(case, case.wanted if is_right else print_module(module), pytestconfig)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.file}:{case.name}")
def test_pass_leaves_its_own_result_alone(case: Golden) -> None:
    if case.file == "fuse-ops":
        pytest.skip("fuse-ops runs once")
    module = parse_module(case.wanted)
    assert PASSES[case.file]().run(module, PassContext()) is module


def test_every_pass_has_reviewed_texts() -> None:
    assert {case.file for case in CASES} == set(PASSES)
