"""Where values are stored and in which layouts; copies between layouts where one is missing."""

from __future__ import annotations

from math import prod
from typing import final

import numpy as np

from codesign.compiler.lower.graph import Value
from codesign.compiler.lower.program import Home, Launch, Place
from codesign.dtypes import Array, DType
from codesign.ir.tensor.compute import Literal, Load
from codesign.ir.tensor.index import Axis, Index, at
from codesign.ir.tensor.kernel import LoopKernel, Stage
from codesign.ir.tensor.layout import PLAIN, Buffer, Layout

Halo = tuple[int, int, int, int]
NO_HALO: Halo = (0, 0, 0, 0)


def domain(shape: tuple[int, ...], layout: Layout) -> tuple[tuple[Axis, ...], tuple[Index, ...]]:
    """Return axes over a tensor in the order of its memory, and the logical index at them.

    A blocked tensor's last axis runs over the lanes of a block, those without meaning too.
    """
    if len(shape) != 4 or layout.block == 1:
        axes = tuple(Axis(f"i{place}", extent) for place, extent in enumerate(shape))
        return axes, tuple(at(axis) for axis in axes)
    n, c, h, w = shape
    block = layout.block
    axes = (
        Axis("n", n),
        Axis("block", -(-c // block)),
        Axis("y", h),
        Axis("x", w),
        Axis("lane", block),
    )
    batch, outer, y, x, lane = (at(axis) for axis in axes)
    return axes, (batch, outer * block + lane, y, x)


@final
class Placement:
    """Stored layouts of every value, and the launches so far."""

    def __init__(self) -> None:
        self.launches: list[Launch] = []
        self._stored: dict[Value, dict[Layout, Place]] = {}

    def constant(self, array: Array) -> Place:
        """Return a place that holds an array."""
        data = np.ascontiguousarray(array)
        return Place(Home.CONSTANTS, data.nbytes, array=data)

    def declare(self, value: Value, place: Place, layout: Layout = PLAIN) -> None:
        """Say that a value is stored in a place."""
        self._stored.setdefault(value, {})[layout] = place

    def layouts(self, value: Value) -> dict[Layout, Place]:
        """Return where a value is stored; a constant is put among the constants."""
        if value not in self._stored and value.constant is not None:
            self.declare(value, self.constant(value.constant))
        return self._stored[value]

    def is_blocked(self, value: Value) -> bool:
        """Whether the value is stored in blocks of channels."""
        return any(layout.block > 1 for layout in self._stored.get(value, ()))

    def create(self, value: Value, layout: Layout, home: Place | None = None) -> Place:
        """Make room for a value in a layout, in the workspace or `home`, and clear its halo."""
        buffer = Buffer("target", value.shape, value.dtype, layout)
        place = home or Place(Home.WORKSPACE, buffer.size_bytes)
        if layout.has_halo and buffer.elements:
            kernel = LoopKernel((buffer,), tuple(_border(buffer)))
            self.launches.append(Launch(kernel, (place,), "clear"))
        self.declare(value, place, layout)
        return place

    def fetch(
        self,
        value: Value,
        *,
        block: int,
        halo: Halo = NO_HALO,
        fill: int = 0,
        storage: DType | None = None,
        any_storage: bool = False,
    ) -> tuple[Layout, Place]:
        """Return a stored layout that meets the wishes, copying into one where none does."""
        stored = self.layouts(value)
        for layout, place in stored.items():
            if layout.block != block or (layout.storage != storage and not any_storage):
                continue
            if any(halo) and layout.fill != fill:
                continue
            if all(has >= needs for has, needs in zip(layout.halo, halo, strict=True)):
                return layout, place
        wanted = Layout(block, halo, fill, storage)
        source = min(stored, key=lambda layout: layout.block != block)
        return wanted, self.copy(value, source, wanted)

    def copy(
        self, value: Value, source: Layout, wanted: Layout, home: Place | None = None
    ) -> Place:
        """Append a copy of a value from one layout to another."""
        origin = self.layouts(value)[source]
        place = self.create(value, wanted, home)
        before = Buffer("source", value.shape, value.dtype, source)
        after = Buffer("target", value.shape, value.dtype, wanted)
        if before.elements:
            kernel = LoopKernel((before, after), tuple(_copies(before, after)))
            self.launches.append(Launch(kernel, (origin, place), "copy"))
        return place


def _copies(source: Buffer, target: Buffer) -> list[Stage]:
    if len(target.shape) != 4 or target.layout.block in (1, source.layout.block):
        axes, index = domain(target.shape, target.layout)
        return [Stage(target, index, axes, Load(source, index))]
    n, c, h, w = target.shape
    block = target.layout.block
    stages = []
    for first, blocks, lanes in ((0, c // block, block), (c // block * block, 1, c % block)):
        if blocks == 0 or lanes == 0:
            continue
        axes = (
            Axis("n", n),
            Axis("block", blocks),
            Axis("y", h),
            Axis("x", w),
            Axis("lane", lanes),
        )
        batch, outer, y, x, lane = (at(axis) for axis in axes)
        index = (batch, outer * block + lane + first, y, x)
        stages.append(Stage(target, index, axes, Load(source, index)))
    return stages


def _border(buffer: Buffer) -> list[Stage]:
    _, _, h, w = buffer.shape
    top, left, bottom, right = buffer.layout.halo
    fill = Literal(buffer.layout.fill, buffer.dtype)
    sides = (
        (-top, top, -left, left + w + right),
        (h, bottom, -left, left + w + right),
        (0, h, -left, left),
        (0, h, w, right),
    )
    stages = []
    for first_row, rows, first_column, columns in sides:
        if prod((rows, columns)) == 0:
            continue
        area = (*buffer.shape[:2], rows, columns)
        axes, (n, c, y, x) = domain(area, buffer.layout)
        index = (n, c, y + first_row, x + first_column)
        stages.append(Stage(buffer, index, axes, fill))
    return stages
