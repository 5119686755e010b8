"""Each mistake gets its reviewed message: `tests/golden/errors/*.relay`, text and what is said."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.frontend.prelude import prelude
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.diagnostics import CodesignError

GOLDEN = Path(__file__).parents[1] / "golden" / "errors"


class Case(NamedTuple):
    file: str
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


def _check(text: str) -> None:
    infer_types(parse_module(text, "program.relay", imports=prelude()))


@pytest.mark.parametrize("case", _cases(), ids=lambda case: f"{case.file}:{case.name}")
def test_the_mistake_gets_its_reviewed_message(case: Case) -> None:
    with pytest.raises(CodesignError) as caught:
        _check(case.text)
    assert f"{caught.value}\n" == case.wanted


def test_there_are_many_of_them() -> None:
    assert len(_cases()) >= 60
