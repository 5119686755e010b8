"""Each pass on reviewed texts: `golden/<pass>.relay` holds what goes in and what must come out."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.compiler.pass_manager import PassContext
from codesign.compiler.pipelines import PASSES
from codesign.ir.relay.equal import is_equal_module
from codesign.ir.relay.printer import print_module
from codesign.ir.relay.wellformed import check_module

GOLDEN = Path(__file__).parent / "golden"


class Case(NamedTuple):
    pass_name: str
    name: str
    text: str
    wanted: str


def _cases() -> list[Case]:
    found = []
    for file in sorted(GOLDEN.glob("*.relay")):
        for block in file.read_text(encoding="utf-8").split("// CASE ")[1:]:
            name, rest = block.split("\n", 1)
            text, wanted = rest.split("// EXPECT\n")
            found.append(Case(file.stem, name, text, wanted))
    return found


@pytest.mark.parametrize("case", _cases(), ids=lambda case: f"{case.pass_name}:{case.name}")
def test_pass_makes_the_reviewed_text(case: Case) -> None:
    module = PASSES[case.pass_name]().run(parse_module(case.text), PassContext())
    check_module(module)
    infer_types(module)
    assert is_equal_module(module, parse_module(case.wanted)), print_module(module)


@pytest.mark.parametrize("case", _cases(), ids=lambda case: f"{case.pass_name}:{case.name}")
def test_pass_leaves_its_own_result_alone(case: Case) -> None:
    if case.pass_name == "fuse-ops":
        pytest.skip("fuse-ops runs once")
    module = parse_module(case.wanted)
    assert PASSES[case.pass_name]().run(module, PassContext()) is module


def test_every_pass_has_reviewed_texts() -> None:
    assert {case.pass_name for case in _cases()} == set(PASSES)
