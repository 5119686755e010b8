"""Each mistake gets its reviewed message: `tests/golden/errors/*.relay`, text and what is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.frontend.prelude import prelude
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.diagnostics import CodesignError
from tests.support.golden import Golden, check_golden, golden_cases

CASES = golden_cases(Path(__file__).parents[1] / "golden" / "errors")


def _check(text: str) -> None:
    infer_types(parse_module(text, "program.relay", imports=prelude()))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.file}:{case.name}")
def test_the_mistake_gets_its_reviewed_message(case: Golden, pytestconfig: pytest.Config) -> None:
    with pytest.raises(CodesignError) as caught:
        _check(case.text)
    check_golden(case, f"{caught.value}\n", pytestconfig)


def test_there_are_many_of_them() -> None:
    assert len(CASES) >= 60
