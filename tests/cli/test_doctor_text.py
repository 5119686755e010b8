"""What doctor prints is what one types."""

from __future__ import annotations

import pytest

from codesign.cli import tools
from codesign.cli.main import main


def test_brackets_of_extras_are_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = tools.package("no-such-package", "nothing", how="pip install 'codesign[gpu]'")
    monkeypatch.setattr("codesign.cli.doctor.TOOLS", (missing,))
    assert main(["doctor"]) == 1
    assert "pip install 'codesign[gpu]'" in capsys.readouterr().out
