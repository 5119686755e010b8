"""A network as kernels over places in memory, ready for a backend."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import final

from codesign.dtypes import Array
from codesign.ir.tensor.kernel import Kernel


class Home(Enum):
    """Which of the four pointers of a call a place belongs to."""

    CONSTANTS = "constants"
    WORKSPACE = "workspace"
    INPUT = "input"
    OUTPUT = "output"


@final
@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Memory of one tensor; identity is the node.

    `number` tells which input or output; `array` is a constant's content.
    """

    home: Home
    size_bytes: int
    number: int = 0
    array: Array | None = None


@final
@dataclass(frozen=True, slots=True, eq=False)
class Launch:
    """One call of a kernel; `places` are its operands' memory, in order."""

    kernel: Kernel
    places: tuple[Place, ...]
    label: str


@final
@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Kernels in order. Sizes of inputs and outputs follow from the function's types.

    For each of `checks`, the mistake that it finds, one output of int8 follows the function's own.
    """

    launches: tuple[Launch, ...]
    checks: tuple[str, ...] = ()
