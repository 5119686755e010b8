"""Machine code on disk is out of date when any of its sources changes."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from codesign.sim.machine_code import MachineCode

SOURCE = """
from pathlib import Path
from codesign.sim.machine_code import MachineCode

FACTOR = int(Path({constant!r}).read_text())
compiled = MachineCode.of([Path(__file__), *map(Path, {more!r})])


@compiled
def scaled(value):
    return FACTOR * value
"""


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("covered", "result"), [(True, 50), (False, 30)])
def test_a_changed_file_that_the_stamp_covers_is_compiled_in(
    covered: bool, result: int, tmp_path: Path
) -> None:
    constant, path = tmp_path / "constant.txt", tmp_path / f"calls_{covered}.py"
    more = [str(constant)] if covered else []
    path.write_text(SOURCE.format(constant=str(constant), more=more))
    constant.write_text("3")
    assert load(path).scaled(10) == 30
    constant.write_text("5")
    assert load(path).scaled(10) == result


def test_the_stamp_is_that_of_the_contents_in_any_order(tmp_path: Path) -> None:
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_text("1")
    two.write_text("2")
    before = MachineCode.of([one, two])
    assert MachineCode.of([two, one]) == before
    two.write_text("3")
    assert MachineCode.of([one, two]) != before
