"""Kernels: functions over buffers that the backend turns into loops.

A `LoopKernel` is a sequence of loop nests in index notation. The other two are schedules by hand
for what a network spends its time on; their epilogue is index notation over the accumulator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, final

from codesign.ir.tensor.compute import Expr
from codesign.ir.tensor.index import Axis, Index
from codesign.ir.tensor.layout import Buffer


@final
@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """`target[index] = body` for all axes, the last one innermost."""

    target: Buffer
    index: tuple[Index, ...]
    axes: tuple[Axis, ...]
    body: Expr


@final
@dataclass(frozen=True, slots=True, eq=False)
class LoopKernel:
    """Loop nests in order; `operands` are the function's pointers."""

    operands: tuple[Buffer, ...]
    stages: tuple[Stage, ...]


@final
@dataclass(frozen=True, slots=True)
class Window:
    """A window's geometry: extents, strides, dilation, and padding before (top, left)."""

    size: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    before: tuple[int, int] = (0, 0)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Contraction:
    """Convolution or matrix product: sums over channels and a window into registers.

    `data` has rank 4 and a halo as wide as the window reaches; `weight` is packed as
    `schedule.packing` says; `axes` are (n, channel block, y, x, lane) of the target, in which
    `epilogue` and its loads are written; the last has as many lanes as a vector. The accumulator
    starts at `initial[c]` where that operand is given.
    """

    data: Buffer
    weight: Buffer
    target: Buffer
    operands: tuple[Buffer, ...]
    axes: tuple[Axis, Axis, Axis, Axis, Axis]
    window: Window
    groups: int
    epilogue: Expr
    tile_pixels: int
    tile_vectors: int
    initial: Buffer | None = None


@final
@dataclass(frozen=True, slots=True, eq=False)
class Depthwise:
    """One window per channel over a blocked tensor; the fields are `Contraction`'s."""

    data: Buffer
    weight: Buffer
    target: Buffer
    operands: tuple[Buffer, ...]
    axes: tuple[Axis, Axis, Axis, Axis, Axis]
    window: Window
    epilogue: Expr
    initial: Buffer | None = None


Kernel: TypeAlias = LoopKernel | Contraction | Depthwise
