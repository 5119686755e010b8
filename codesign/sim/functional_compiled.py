"""Machine code of the functional simulator, and what its functions share: memories, loop nests."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple, ParamSpec, TypeAlias, TypeVar

import numba
import numpy as np

from codesign.accel import arithmetic, config, isa
from codesign.accel.config import Memory
from codesign.dtypes import Array
from codesign.sim.state import Scratchpads

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _sources() -> str:
    """Return the digest of all sources whose constants and functions are compiled in."""
    here = sorted(Path(__file__).parent.glob("functional_*.py"))
    files = [*here, *(Path(module.__file__) for module in (arithmetic, config, isa))]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


_STAMP: Final = _sources()


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return the function as machine code, cached on disk between runs.

    numba throws its cache away when the function's own file changes; these functions call each
    other across files, so the stamp that it compares covers all of them.
    """
    result = numba.njit(cache=True, error_model="numpy")(function)
    result._cache._cache_file._source_stamp = _STAMP
    compiled_function: Callable[_P, _R] = result
    return compiled_function


Fault: TypeAlias = tuple[int, int]
"""What stopped a compiled function: the `Memory` of a tile that nothing has written, and the tile;
or `SHIFT` and a param word's shift; or `NONE`."""

NONE: Final = -1
SHIFT: Final = len(Memory)


class Pads(NamedTuple):
    """The memories of the vector unit as matrices [tile, element], and which tiles are written.

    Param words are int64.
    """

    acc: Any
    vec: Any
    out: Any
    param: Any
    lut: Any
    acc_written: Any
    vec_written: Any
    out_written: Any
    param_written: Any
    lut_written: Any


def pads_of(state: Scratchpads) -> Pads:
    """Return views of the scratchpads."""

    def matrix(memory: Memory) -> Array:
        tiles = state.whole(memory)
        return tiles.reshape(len(tiles), -1)

    memories = (Memory.ACC, Memory.VEC, Memory.OUT, Memory.PARAM, Memory.LUT)
    acc, vec, out, param, lut = (matrix(memory) for memory in memories)
    written = [state.written(memory) for memory in memories]
    return Pads(acc, vec, out, param.view(np.int64), lut, *written)


@compiled
def advance(counters: Array, loops: Array, places: Array) -> None:
    """Step a loop nest on by one iteration.

    `loops` are the extents and then the strides of every operand, int64[(1 + operands, loops)];
    `places` the operands' tiles. The last iteration steps to the first again.
    """
    loop = len(counters) - 1
    while loop >= 0:
        counters[loop] += 1
        if counters[loop] < loops[0, loop]:
            for operand in range(len(places)):
                places[operand] += loops[1 + operand, loop]
            return
        counters[loop] = 0
        for operand in range(len(places)):
            places[operand] -= loops[1 + operand, loop] * (loops[0, loop] - 1)
        loop -= 1
