"""The board under Verilator: its serial line is a pseudo-terminal that any program may open.

It is the design of the bitstream, pins and clock generation left out, with the accelerator's
arithmetic written for simulation and a faster serial line.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import os
import pty
import select
import sys
import tempfile
import threading
import tty
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from types import TracebackType
from typing import Final, Self, final

import platformdirs

import hardware
from codesign.accel.config import AccelConfig
from codesign.accel.presets import PRESETS, preset
from codesign.diagnostics import CodesignError
from hardware.boards.board import DEFAULT_PRESET, LEAST_DIVISOR, BoardPlan, memory_left, write_board
from hardware.synthesize import to_stderr
from hardware.verilate import LIBRARY, Progress, build_library, find_tools

HARNESS: Final = Path(__file__).with_name("harness.cpp")

SLICE_CYCLES: Final = 1 << 18
"""Cycles between two looks at whether the simulation shall end."""

IDLE_SLICES: Final = 64
"""Slices without a byte after which time stands still until the next one."""

STOP_SECONDS: Final = 0.05
"""Longest wait for a byte between two looks at whether the simulation shall end."""


def simulated_plan(
    config: AccelConfig, part: str = "LFE5U-85F", memory_bytes: int | None = None
) -> BoardPlan:
    """Return a board of a configuration with the memory of a part, and the fastest serial line.

    Raises
    ------
    CodesignError
        The part has no block RAM left, or is not known.
    """
    clock_hz = config.clock_mhz * 1_000_000
    return BoardPlan(
        config=config,
        memory_bytes=memory_left(config, part) if memory_bytes is None else memory_bytes,
        clock_hz=clock_hz,
        baud=clock_hz // LEAST_DIVISOR,
    ).check()


def build_board_simulator(plan: BoardPlan, cache_dir: Path, say: Progress) -> Path:
    """Return the library of a simulated board, building it where it is not cached.

    Raises
    ------
    CodesignError
        An illegal plan, a missing tool, or a failing one with the end of its output.
    """
    plan.check()
    cache_dir.mkdir(parents=True, exist_ok=True)
    place = cache_dir / f"board-{_key(plan)}" / LIBRARY
    if place.is_file():
        return place
    with tempfile.TemporaryDirectory(dir=cache_dir, prefix="build-board-") as name:
        folder = Path(name)
        say("generating the board's Verilog")
        write_board(plan, folder / "rtl", "simulation")
        finished = build_library(folder, plan.config.digest, cache_dir, say, harness=HARNESS)
        place.parent.mkdir(exist_ok=True)
        finished.replace(place)
    return place


def _key(plan: BoardPlan) -> str:
    """Return a hash of everything that the library is made of."""
    content = hashlib.sha256(find_tools().identity.encode())
    root = Path(hardware.__file__).parent
    accel = Path(sys.modules["codesign.accel.config"].__file__ or "").parent
    sources = [*root.rglob("*.py"), *root.rglob("*.sv"), *root.rglob("*.cpp"), *accel.glob("*.py")]
    for source in sorted(sources):
        content.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    values = (plan.config.digest, *astuple(plan)[1:])
    content.update(repr(values).encode())
    return content.hexdigest()[:32]


@final
class BoardSimulation:
    """A board that runs in a thread of its own from `with` on; `port` is its serial line.

    Parameters
    ----------
    plan, library
        The board, and what `build_board_simulator` made of it.

    Raises
    ------
    CodesignError
        A library of another configuration.
    """

    def __init__(self, plan: BoardPlan, library: Path) -> None:
        self._plan = plan
        self._library = _load(library, plan)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="board", daemon=True)
        self._controller, self._terminal = pty.openpty()
        # Raw, so that every byte passes as it is; held open, so that the line outlives its users.
        tty.setraw(self._terminal)
        os.set_blocking(self._controller, False)
        self.port = os.ttyname(self._terminal)
        self.cycles = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
        os.close(self._controller)
        os.close(self._terminal)

    def wait(self) -> None:
        """Wait until the board stops."""
        self._thread.join()

    def _run(self) -> None:
        library = self._library
        board = library.board_new(self._plan.divisor)
        idle, moved = 0, 0
        while not self._stop.is_set():
            if idle >= IDLE_SLICES:
                readable, _, _ = select.select([self._controller], [], [], STOP_SECONDS)
                if not readable:
                    continue
            if not library.board_run(board, self._controller, SLICE_CYCLES):
                break
            self.cycles = library.board_cycles(board)
            now = library.board_moved(board)
            idle, moved = (0 if now != moved else idle + 1), now
        library.board_free(board)


def _load(path: Path, plan: BoardPlan) -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(path.resolve()))
    except OSError as error:
        raise CodesignError.of(
            f"cannot load board simulator {str(path)!r}", found=str(error)
        ) from None
    library.board_digest.restype = ctypes.c_char_p
    library.board_new.restype = ctypes.c_void_p
    library.board_new.argtypes = (ctypes.c_uint32,)
    library.board_free.argtypes = (ctypes.c_void_p,)
    library.board_run.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64)
    for counter in (library.board_cycles, library.board_moved):
        counter.restype = ctypes.c_uint64
        counter.argtypes = (ctypes.c_void_p,)
    found = library.board_digest().decode()
    if found != plan.config.digest:
        raise CodesignError.of(
            "the board simulator is of another configuration",
            found=f"it has digest {found[:12]}, the board {plan.config.digest[:12]}",
        )
    return library


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `python -m hardware.boards.simulate`: print the port, simulate until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m hardware.boards.simulate", description=__doc__)
    parser.add_argument("--preset", choices=sorted(PRESETS), default=DEFAULT_PRESET)
    options = parser.parse_args(arguments)
    cache = Path(platformdirs.user_cache_dir("codesign")) / "simulators"
    try:
        plan = simulated_plan(preset(options.preset))
        library = build_board_simulator(plan, cache, to_stderr)
        with BoardSimulation(plan, library) as board:
            sys.stdout.write(f"{board.port}\n")
            sys.stdout.flush()
            board.wait()
    except CodesignError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
