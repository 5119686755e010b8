"""How the functional simulator's loops become machine code, and how they stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

import numba

from codesign.accel.config import Memory
from codesign.accel.isa import SHIFT_MAX
from codesign.diagnostics import CodesignError
from codesign.sim.machine_code import MachineCode
from codesign.sim.state import unwritten

_P = ParamSpec("_P")
_R = TypeVar("_R")


_HERE: Final = Path(__file__).parent

compiled: Final = MachineCode.of(
    [
        *_HERE.glob("functional_*.py"),
        *(_HERE.parent / "accel" / f"{name}.py" for name in ("arithmetic", "config", "isa")),
    ]
)
"""Makes machine code of a function that others call."""


def compiled_part(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return the function as machine code for other compiled functions alone: half the time."""
    part: Callable[_P, _R] = numba.njit(
        error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True
    )(function)
    return part


class TileFault(Exception):  # noqa: N818  (a CodesignError by the time that anybody sees it)
    """A compiled function reads a tile that nothing has written: its `Memory` and index."""


class ShiftFault(Exception):  # noqa: N818
    """A compiled function meets a param word that shifts too far: its shift."""


@contextmanager
def faults_named() -> Iterator[None]:
    """Turn what stops compiled functions into the CodesignError that says so."""
    try:
        yield
    except TileFault as fault:
        memory, tile = fault.args
        raise unwritten(Memory(memory), tile) from None
    except ShiftFault as fault:
        raise CodesignError.of(
            f"a param word shifts by {fault.args[0]} bits, more than {SHIFT_MAX}"
        ) from None
