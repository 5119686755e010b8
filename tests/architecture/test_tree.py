"""The tree keeps its rules: arrows, sizes, names, nothing generated in git."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("codesign", "hardware", "host_runtime", "experiments")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
LONGEST_FILE = 400
FORBIDDEN_NAMES = {"utils", "helpers", "common", "misc", "base"}


def _tracked() -> list[Path]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / name for name in listed.stdout.split("\0") if name]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_is_at_most_400_lines(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST_FILE


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_import_hides_in_a_function(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    hidden = [
        node.lineno
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert hidden == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_says_what_it_is(path: Path) -> None:
    if path.name == "__init__.py":
        pytest.skip("a package may be silent")
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


def test_no_module_is_a_drawer_for_everything() -> None:
    assert [path for path in SOURCES if path.stem in FORBIDDEN_NAMES] == []


def test_nothing_generated_is_in_git() -> None:
    generated = {".v", ".so", ".vcd", ".fst", ".o", ".whl", ".pth", ".npz"}
    assert [path for path in _tracked() if path.suffix in generated] == []


def test_the_committed_network_is_small() -> None:
    networks = [path for path in _tracked() if path.suffix == ".onnx"]
    assert networks
    assert all(path.stat().st_size <= 200_000 for path in networks)


def test_imports_only_point_down() -> None:
    lint_imports = ROOT / ".venv" / "bin" / "lint-imports"
    command = [str(lint_imports) if lint_imports.exists() else "lint-imports"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
