"""The README is true: its Python runs, its commands work, what it names is there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from codesign.cli.main import main

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


COMMANDS = [
    line.removeprefix(".venv/bin/codesign ")
    for block in _blocks("sh")
    for line in block.splitlines()
    if line.startswith(".venv/bin/codesign ")
]


@pytest.mark.parametrize("code", _blocks("python"))
def test_python_of_the_readme_runs(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    exec(compile(code, "README.md", "exec"), {})


def test_the_readme_shows_commands() -> None:
    assert {command.split()[0] for command in COMMANDS} >= {"run", "compare", "compile", "rtl"}


@pytest.mark.slow
@pytest.mark.needs_verilator
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_readme_works(
    command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)  # their outputs are relative: they land here
    (tmp_path / "experiments").symlink_to(ROOT / "experiments")  # and so are the plans they read
    assert main(shlex.split(command)) == 0


def test_every_make_target_that_is_named_exists() -> None:
    texts = [README, (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")]
    named = {name for text in texts for name in re.findall(r"\bmake ([a-z][a-z-]+)", text)}
    targets = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
    assert named - targets == set()


def test_every_linked_file_exists() -> None:
    for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#:]+)\)", text):
            assert (ROOT / target).exists(), f"{name} links to {target}"


def test_every_make_target_is_listed_by_help() -> None:
    phony = re.search(r"^\.PHONY:((?:.*\\\n)*.*)$", MAKEFILE, re.MULTILINE)
    assert phony is not None
    names = phony.group(1).replace("\\", " ").split()
    silent = [n for n in names if not re.search(rf"^{n}:.*## ", MAKEFILE, re.MULTILINE)]
    assert silent == []
    assert "test-cosim" in names
