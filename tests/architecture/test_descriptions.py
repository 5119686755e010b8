"""Every knob, counter, command and option says what it means, with its unit."""

from __future__ import annotations

from dataclasses import fields

import pytest
from typer.main import get_command

from codesign.accel.config import AccelConfig, DramTiming
from codesign.accel.counters import Counters
from codesign.cli.main import app

COMMANDS = get_command(app).commands  # type: ignore[attr-defined]  (typer's group has them)


@pytest.mark.parametrize("record", [AccelConfig, DramTiming, Counters], ids=lambda r: r.__name__)
def test_every_field_has_a_description(record: type) -> None:
    assert [f.name for f in fields(record) if not f.metadata.get("doc")] == []


def test_written_configurations_explain_every_knob() -> None:
    text = AccelConfig().to_toml()
    knobs = [each for each in (*fields(AccelConfig), *fields(DramTiming)) if each.name != "dram"]
    assert [knob.name for knob in knobs if knob.metadata["doc"] not in text] == []


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_option_has_help(name: str) -> None:
    silent = [p.name for p in COMMANDS[name].params if not getattr(p, "help", None)]
    assert silent == []


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_shows_an_example(name: str) -> None:
    assert f"codesign {name}" in (COMMANDS[name].help or "")
