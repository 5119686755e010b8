"""Sums of products on tensor cores: tiles in shared memory ahead of time, matrices for warps.

A block computes a tile of m x n. Slices of both factors are copied to shared memory while earlier
ones are multiplied; each warp multiplies a part of the tile with `Multiply`. Rows in shared memory
are 64 bytes and 16 that are not used, so that the rows of a matrix lie in different banks.

Source: NVIDIA, CUTLASS, efficient GEMM in CUDA (multistage pipelines); no code was taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import Final, final

from codesign.compiler.backends.gpu.contraction import Product, limits, runs_along
from codesign.compiler.backends.gpu.device import DeviceModel
from codesign.compiler.backends.gpu.elementwise import per_element, places
from codesign.compiler.backends.gpu.factor import narrowed
from codesign.compiler.backends.gpu.fetch import PAD_BYTES, Fetch, under, unrolled
from codesign.compiler.backends.gpu.flatten import flattened
from codesign.compiler.backends.gpu.fragments import fragments
from codesign.ir.simt.kernel import (
    Barrier,
    CommitCopies,
    Multiply,
    Serial,
    SimtKernel,
    Statement,
    Store,
    WaitCopies,
)
from codesign.ir.simt.matrix import WARP, Mma
from codesign.ir.tensor.compute import Expr, Literal, Load, Reduce, Reduction
from codesign.ir.tensor.index import Axis, Index, at, constant, flatten, unflatten
from codesign.ir.tensor.kernel import Stage
from codesign.ir.tensor.layout import Buffer

_ROW_BYTES: Final = 64


@final
@dataclass(frozen=True, slots=True)
class MatrixTile:
    """A block's tile of m x n, a warp's part of it, slices under way, and its worth.

    `worth` is an estimate of how near to the device's best such tiles come; large ones read less.
    """

    m: int
    n: int
    warp_m: int
    warp_n: int
    stages: int
    worth: float

    @property
    def warps(self) -> tuple[int, int]:
        """Warps along m and n."""
        return self.m // self.warp_m, self.n // self.warp_n

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return prod(self.warps) * WARP


_RATES: Final = {Mma.F16: 1024, Mma.BF16: 1024, Mma.TF32: 512, Mma.SPLIT: 170, Mma.S8: 2048}
"""Products and sums of a multiprocessor in a clock."""

_CLOCKS_PER_US: Final = 1700
_BYTES_PER_US: Final = 2_000_000
_JOIN_US: Final = 2.5
_START: Final = 96
"""Of k, what it takes until the first slice has come and the last result has gone."""

_PARTS: Final = (1, 2, 3, 4, 6, 8)
_SHORTEST: Final = 128
"""Of k, the least that is a part."""

_TILES: Final = (
    MatrixTile(128, 256, 64, 64, 4, 1.0),
    MatrixTile(128, 128, 64, 32, 4, 0.9),
    MatrixTile(128, 64, 32, 32, 4, 0.7),
    MatrixTile(64, 128, 32, 32, 4, 0.7),
    MatrixTile(64, 64, 32, 32, 4, 0.55),
    MatrixTile(64, 32, 32, 16, 4, 0.4),
    MatrixTile(32, 64, 16, 32, 4, 0.4),
    MatrixTile(32, 32, 16, 16, 4, 0.3),
    MatrixTile(16, 64, 16, 16, 4, 0.25),
)


@final
@dataclass(frozen=True, slots=True, eq=False)
class MatrixProduct:
    """A product whose factors have the type that tensor cores multiply."""

    product: Product
    kind: Mma
    left: Expr
    right: Expr
    k: tuple[Axis, ...]


def matrix_product(product: Product, device: DeviceModel) -> MatrixProduct | None:
    """Return the product for the device's tensor cores; None where they do not take it."""
    if not device.has_tensor_cores:
        return None
    for kind in (Mma.F16, Mma.S8, device.float32):
        if kind is None or product.dtype is not kind.shape.sums:
            continue
        left, right = (narrowed(each, kind.shape.factor) for each in (product.left, product.right))
        if left is not None and right is not None:
            return MatrixProduct(product, kind, left, right, _fastest_last(product, left, right))
    return None


def _fastest_last(product: Product, left: Expr, right: Expr) -> tuple[Axis, ...]:
    """Return the summed axes, last the one along which the factors lie side by side."""
    axes = product.reduce.axes
    for factor in (left, right):
        for axis in axes:
            if axis.extent > 1 and runs_along(factor, (axis,)):
                return (*(each for each in axes if each is not axis), axis)
    return axes


def plan(product: MatrixProduct, device: DeviceModel) -> tuple[MatrixTile, int]:
    """Return the tile, and in how many parts k is summed, by which the device is done first.

    An estimate in microseconds: waves of blocks, and for parts the kernel that joins them.
    """
    batch, m, n, k = product.product.sizes
    rate = _RATES[product.kind] * _CLOCKS_PER_US
    joined_bytes = batch * m * n * 2 * product.kind.shape.sums.size_bytes

    def duration_us(tile: MatrixTile, parts: int) -> float:
        blocks = batch * ceil(m / tile.m) * ceil(n / tile.n) * parts
        sums = ceil(blocks / device.multiprocessors) * tile.m * tile.n * (k / parts + _START)
        joining = _JOIN_US + parts * joined_bytes / _BYTES_PER_US if parts > 1 else 0.0
        return sums / tile.worth / rate + joining

    choices = [
        (tile, parts)
        for tile in _TILES
        if _fits(tile, product, device)
        for parts in _PARTS
        if parts == 1 or k >= parts * _SHORTEST
    ]
    return min(choices, key=lambda choice: duration_us(*choice))


def _fits(tile: MatrixTile, product: MatrixProduct, device: DeviceModel) -> bool:
    kind = product.kind
    rows = (tile.m + tile.n) * (_ROW_BYTES + PAD_BYTES)
    fragments = tile.warp_m * kind.left_elements // 16 + tile.warp_n * kind.right_elements // 8
    words = fragments * kind.shape.factor.size_bytes // 4 * kind.shape.parts
    registers = tile.warp_m * tile.warp_n // WARP + words
    return (
        tile.stages * rows <= device.shared_limit_bytes
        and registers * 4 <= device.registers_per_thread * 3
    )


def on_tensor_cores(
    product: MatrixProduct, operands: tuple[Buffer, ...], tile: MatrixTile
) -> SimtKernel:
    """Return a kernel in which each block computes one tile."""
    return _Writer(product, tile).kernel(operands)


@final
@dataclass(frozen=True, slots=True, eq=False)
class InParts:
    """A product whose k is summed in parts by one kernel, which another joins.

    `partial` is what is between them; both take all operands, and it before the last.
    """

    partial: Buffer
    multiply: SimtKernel
    join: SimtKernel


def in_parts(
    product: MatrixProduct,
    operands: tuple[Buffer, ...],
    device: DeviceModel,
    tile: MatrixTile,
    parts: int,
) -> InParts:
    """Return two kernels that keep more of the device busy than one."""
    inner = product.product
    batch, m, n, _ = inner.sizes
    partial = Buffer("partial", (parts, batch, m, n), inner.dtype)
    part = Axis("part", parts)
    place = tuple(
        flatten(tuple(map(at, axes)), tuple(axis.extent for axis in axes))
        for axes in (inner.batch, inner.m, inner.n)
    )
    load = Load(partial, (at(part), *place))
    total = Reduce(Reduction.SUM, (part,), load, Literal(0, inner.dtype))
    stage = Stage(inner.stage.target, inner.stage.index, inner.stage.axes, inner.value({}, total))
    *read, target = operands
    whole = (*read, partial, target)
    flat_stage, flat = flattened(stage, whole)
    multiply = _Writer(product, tile, partial, parts).kernel((*read, partial))
    return InParts(partial, multiply, per_element(flat_stage, flat, device))


@final
class _Writer:
    def __init__(
        self,
        product: MatrixProduct,
        tile: MatrixTile,
        partial: Buffer | None = None,
        parts: int = 1,
    ) -> None:
        self.product = product
        self.partial = partial
        self.kind = kind = product.kind
        self.tile = tile
        self.depth = _ROW_BYTES // kind.shape.factor.size_bytes
        batch, m, n, k = product.product.sizes
        grid = (parts, batch, -(-m // tile.m), -(-n // tile.n))
        self.block = Axis("block", prod(grid))
        self.thread = Axis("thread", tile.threads)
        self.part, self.batch, row, column = unflatten(at(self.block), grid)
        self.of_batch = places(product.product.batch, self.batch)
        self.first = (row * tile.m, column * tile.n)
        warp_m, warp_n = unflatten(at(self.thread) // WARP, tile.warps)
        self.lane = at(self.thread) % WARP
        self.warp_m, self.warp_n = warp_m * tile.warp_m, warp_n * tile.warp_n
        self.slices = Axis("slice", -(-k // (self.depth * parts)))
        self.left = self._fetch("left", product.left, product.product.m, tile.m)
        self.right = self._fetch("right", product.right, product.product.n, tile.n)
        self.rows, self.columns = tile.warp_m // 16, tile.warp_n // 8
        factor = kind.shape.factor
        self.left_part = Buffer("left_part", (self.rows, kind.left_elements), factor)
        self.right_part = Buffer("right_part", (self.columns, kind.right_elements), factor)
        sums = (self.rows, self.columns, kind.sums_elements)
        self.sums = Buffer("sums", sums, kind.shape.sums)

    def _fetch(self, name: str, factor: Expr, outer: tuple[Axis, ...], extent: int) -> Fetch:
        return Fetch.of(
            name,
            factor,
            outer,
            self.product.k,
            self.thread,
            stages=self.tile.stages,
            extent=extent,
            depth=self.depth,
            may_turn=factor.dtype.size_bytes == 2,
        )

    def kernel(self, operands: tuple[Buffer, ...]) -> SimtKernel:
        sides = (self.left, self.right)
        held = tuple(side.held for side in sides if side.held is not None)
        return SimtKernel(
            operands,
            self.block,
            self.thread,
            (
                *self._clear(),
                *self._ahead(),
                Serial(self.slices, self._slice()),
                *self._results(),
            ),
            shared=tuple(side.memory for side in sides),
            registers=(self.sums, self.left_part, self.right_part, *held),
        )

    def _clear(self) -> tuple[Statement, ...]:
        i, j, e = (Axis(name, extent) for name, extent in zip("ije", self.sums.shape, strict=True))
        store = Store(self.sums, (at(i), at(j), at(e)), Literal(0, self.sums.dtype))
        return (unrolled((i, j, e), store),)

    def _ahead(self) -> tuple[Statement, ...]:
        """Begin the first slices."""
        statements: list[Statement] = []
        for number in range(self.tile.stages - 1):
            if number < self.slices.extent:
                part = constant(number)
                statements += [*self._begin(part, part), *self._finish(part)]
            statements.append(CommitCopies())
        return tuple(statements)

    def _slice(self) -> tuple[Statement, ...]:
        """Wait for a slice, begin a later one, multiply."""
        ahead = self.tile.stages - 1
        part = at(self.slices) + ahead
        stage = part % self.tile.stages
        later = limits((part, self.slices.extent))
        return (
            WaitCopies(ahead - 1),
            Barrier(),
            *under(later, *self._begin(part, stage)),
            CommitCopies(),
            self._multiply(at(self.slices) % self.tile.stages),
            *under(later, *self._finish(stage)),
        )

    def _begin(self, part: Index, stage: Index) -> tuple[Statement, ...]:
        first_m, first_n = self.first
        k = (self.part * self.slices.extent + part) * self.depth
        return (
            *self.left.begin(self.of_batch, first_m, k, stage),
            *self.right.begin(self.of_batch, first_n, k, stage),
        )

    def _finish(self, stage: Index) -> tuple[Statement, ...]:
        return (*self.left.finish(stage), *self.right.finish(stage))

    def _multiply(self, stage: Index) -> Statement:
        kind = self.kind
        step = Axis("step", self.depth // kind.shape.k)
        i, j = Axis("i", self.rows), Axis("j", self.columns)
        product = Multiply(
            kind,
            self.sums,
            (at(i), at(j), Index()),
            self.left_part,
            (at(i), Index()),
            self.right_part,
            (at(j), Index()),
        )
        depth = at(step) * kind.shape.k
        parts = [
            fragments(
                kind,
                registers,
                side.memory,
                self.lane,
                (stage, first, depth),
                is_left=side is self.left,
                across=side.across,
            )
            for side, registers, first in (
                (self.left, self.left_part, self.warp_m),
                (self.right, self.right_part, self.warp_n),
            )
        ]
        return unrolled((step,), *parts, unrolled((i, j), product))

    def _results(self) -> tuple[Statement, ...]:
        product = self.product.product
        _, whole_m, whole_n, _ = product.sizes
        i, j, half, pair = Axis("i", self.rows), Axis("j", self.columns), Axis("h", 2), Axis("p", 2)
        m = self.first[0] + self.warp_m + at(i) * 16 + self.lane // 4 + at(half) * 8
        column = self.first[1] + self.warp_n + at(j) * 8 + self.lane % 4 * 2
        n = column + at(pair)
        total = Load(self.sums, (at(i), at(j), at(half) * 2 + at(pair)))
        if self.partial is None:
            store = product.with_sum(product.axes_at(self.batch, m, n), total)
        else:
            store = Store(self.partial, (self.part, self.batch, m, n), total)
        if whole_n % 2 == 0:
            inside = limits((m, whole_m), (column, whole_n))
            body = under(inside, Serial(pair, (store,), unroll=True))
        else:
            inside = limits((m, whole_m), (n, whole_n))
            body = (Serial(pair, under(inside, store), unroll=True),)
        return (unrolled((i, j, half), *body),)
