"""The contract for others: a fresh manual, a header that a C compiler reads, peaks."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from codesign.accel.config import AccelConfig
from codesign.accel.counters import COUNTER_NAMES
from codesign.accel.encoding import instruction_bytes
from codesign.accel.export import contract_header, isa_manual, main, manifest
from codesign.accel.isa import Opcode
from codesign.accel.peaks import peaks
from codesign.accel.presets import PRESETS
from codesign.accel.registers import OFFSETS

DOCS = Path(__file__).parents[2] / "docs"


def test_manual_in_the_tree_is_fresh() -> None:
    written = (DOCS / "isa.md").read_text(encoding="utf-8")
    assert written == isa_manual(AccelConfig()), "run python -m codesign.accel.export docs/isa.md"


def test_manual_names_every_field_counter_and_register() -> None:
    text = isa_manual(AccelConfig())
    fields = {
        row["name"] for rows in manifest(AccelConfig())["instructions"].values() for row in rows
    }
    for name in (*fields, *COUNTER_NAMES, *OFFSETS):
        assert f"`{name}`" in text
    assert all(f"## {opcode.name.lower()} " in text for opcode in Opcode)


def test_manual_is_written_where_it_is_told(tmp_path: Path) -> None:
    assert main([str(tmp_path / "isa.md")]) == 0
    assert (tmp_path / "isa.md").read_text(encoding="utf-8").startswith("# Instruction set")
    assert main([]) == 2


@pytest.mark.parametrize("name", PRESETS)
def test_manifest_survives_json(name: str) -> None:
    data = manifest(PRESETS[name])
    assert json.loads(json.dumps(data)) == json.loads(json.dumps(data, sort_keys=True))
    assert data["digest"] == PRESETS[name].digest
    assert data["instruction_bytes"] == instruction_bytes(PRESETS[name])


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_header_compiles_and_says_what_the_contract_says(tmp_path: Path) -> None:
    config = PRESETS["wide"]
    (tmp_path / "accel_contract.h").write_text(contract_header(config))
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "accel_contract.h"\n#include "accel_contract.h"\n'
        'int main(void) { printf("%s %d %d", ACCEL_DIGEST, ACCEL_INSTRUCTION_BYTES, '
        "ACCEL_REGISTER_CYCLES_LO); return 0; }\n"
    )
    subprocess.run(["cc", "-Wall", "-Werror", "-o", "main", "main.c"], cwd=tmp_path, check=True)
    told = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout
    assert told == f"{config.digest} {instruction_bytes(config)} {OFFSETS['cycles_lo']}"


def test_header_defines_no_macro_twice() -> None:
    names = re.findall(r"^#define (\w+)", contract_header(AccelConfig()), re.MULTILINE)
    assert len(names) == len(set(names))


def test_peaks_of_base_by_hand() -> None:
    """256 MAC and 8 bytes a cycle at 100 MHz: 25.6 GMAC/s, 0.8 GB/s, ridge 32 MAC/byte."""
    found = peaks(PRESETS["base"])
    assert found.macs_per_second == 25_600_000_000
    assert found.bytes_per_second == 800_000_000
    assert found.ridge == 32.0
    assert found.attainable(16.0) == 128.0
    assert found.attainable(64.0) == 256.0
    assert found.least_cycles(macs=2560, moved_bytes=96, vector_elements=17) == 12
    slow = peaks(PRESETS["base"].with_dram(bytes_per_cycle=2))
    assert slow.ridge == 128.0
