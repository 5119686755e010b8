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
from codesign.compiler.backends.gpu.elementwise import places
from codesign.compiler.backends.gpu.factor import Copied, copied, narrowed
from codesign.ir.simt.kernel import (
    Barrier,
    CommitCopies,
    Conditions,
    CopyAsync,
    LoadMatrix,
    Multiply,
    Serial,
    SimtKernel,
    Statement,
    Store,
    WaitCopies,
    When,
)
from codesign.ir.simt.matrix import WARP, Mma
from codesign.ir.tensor.compute import Expr, Guarded, Literal, Load
from codesign.ir.tensor.index import Axis, Index, at, constant, unflatten
from codesign.ir.tensor.layout import Buffer
from codesign.ir.tensor.substitute import Substitution

_ROW_BYTES: Final = 64
_PAD_BYTES: Final = 16


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


def matrix_tile(product: MatrixProduct, device: DeviceModel) -> MatrixTile:
    """Return the tile with which the device is done first, by blocks, waste and worth."""
    batch, m, n, _ = product.product.sizes

    def duration(tile: MatrixTile) -> float:
        blocks = batch * ceil(m / tile.m) * ceil(n / tile.n)
        return ceil(blocks / device.multiprocessors) * tile.m * tile.n / tile.worth

    return min((tile for tile in _TILES if _fits(tile, product, device)), key=duration)


def _fits(tile: MatrixTile, product: MatrixProduct, device: DeviceModel) -> bool:
    kind = product.kind
    rows = (tile.m + tile.n) * (_ROW_BYTES + _PAD_BYTES)
    fragments = tile.warp_m * kind.left_elements // 16 + tile.warp_n * kind.right_elements // 8
    words = fragments * kind.shape.factor.size_bytes // 4 * kind.shape.parts
    registers = tile.warp_m * tile.warp_n // WARP + words
    return (
        tile.stages * rows <= device.shared_limit_bytes
        and registers * 4 <= device.registers_per_thread * 3
    )


def on_tensor_cores(
    product: MatrixProduct, operands: tuple[Buffer, ...], device: DeviceModel
) -> SimtKernel:
    """Return a kernel in which each block computes one tile."""
    return _Writer(product, matrix_tile(product, device)).kernel(operands)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """One factor: its memory in slices, how it gets there, and its fragments.

    `across` says that rows of the memory run along m or n, not along k. What no copy takes goes by
    `held`, registers in which elements wait while a slice is multiplied.
    """

    factor: Expr
    copied: Copied | None
    axes: tuple[Axis, ...]
    first: Index
    extent: int
    whole: int
    across: bool
    memory: Buffer
    held: Buffer | None
    fragments: Buffer


@final
class _Writer:
    def __init__(self, product: MatrixProduct, tile: MatrixTile) -> None:
        self.product = product
        self.kind = product.kind
        self.tile = tile
        self.depth = _ROW_BYTES // self.kind.shape.factor.size_bytes
        batch, m, n, _ = product.product.sizes
        grid = (batch, -(-m // tile.m), -(-n // tile.n))
        self.block = Axis("block", prod(grid))
        self.thread = Axis("thread", tile.threads)
        self.batch, row, column = unflatten(at(self.block), grid)
        warp_m, warp_n = unflatten(at(self.thread) // WARP, tile.warps)
        self.lane = at(self.thread) % WARP
        self.warp_m, self.warp_n = warp_m * tile.warp_m, warp_n * tile.warp_n
        self.slices = Axis("slice", -(-product.product.sizes[3] // self.depth))
        self.left = self._side("left", product.left, product.product.m, row * tile.m, tile.m)
        self.right = self._side("right", product.right, product.product.n, column * tile.n, tile.n)
        self.rows, self.columns = tile.warp_m // 16, tile.warp_n // 8
        elements = self.kind.sums_elements
        self.sums = Buffer("sums", (self.rows, self.columns, elements), self.kind.shape.sums)

    def _side(
        self, name: str, factor: Expr, axes: tuple[Axis, ...], first: Index, extent: int
    ) -> _Side:
        shape, tile = self.kind.shape, self.tile
        copy = copied(factor, (self.product.k, axes))
        along_k = runs_along(factor, self.product.k)
        if copy is not None and copy.elements > 1:
            along_k = copy.axis in self.product.k
        across = not along_k and shape.factor.size_bytes == 2
        if copy is not None and not along_k and not across and copy.elements > 1:
            copy = None if shape.factor.size_bytes < 4 else _one_by_one(copy)
        pad = _PAD_BYTES // shape.factor.size_bytes
        rows = (self.depth, extent + pad) if across else (extent, self.depth + pad)
        held = None
        if copy is None:
            turns = -(-extent * self.depth // tile.threads)
            held = Buffer(f"{name}_held", (turns,), shape.factor)
        is_left = name == "left"
        count = tile.warp_m // 16 if is_left else tile.warp_n // 8
        elements = self.kind.left_elements if is_left else self.kind.right_elements
        return _Side(
            factor,
            copy,
            axes,
            first,
            extent,
            prod(axis.extent for axis in axes),
            across,
            Buffer(name, (tile.stages, *rows), shape.factor),
            held,
            Buffer(f"{name}_fragments", (count, elements), shape.factor),
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
            registers=(self.sums, *(side.fragments for side in sides), *held),
        )

    def _clear(self) -> tuple[Statement, ...]:
        i, j, e = (Axis(name, extent) for name, extent in zip("ije", self.sums.shape, strict=True))
        store = Store(self.sums, (at(i), at(j), at(e)), Literal(0, self.sums.dtype))
        return (_unrolled((i, j, e), store),)

    def _ahead(self) -> tuple[Statement, ...]:
        """Begin the first slices."""
        statements: list[Statement] = []
        for number in range(self.tile.stages - 1):
            if number < self.slices.extent:
                part = constant(number)
                for side in (self.left, self.right):
                    statements += [*self._begin(side, part, part), *self._finish(side, part)]
            statements.append(CommitCopies())
        return tuple(statements)

    def _slice(self) -> tuple[Statement, ...]:
        """Wait for a slice, begin a later one, multiply."""
        ahead = self.tile.stages - 1
        part = at(self.slices) + ahead
        stage = part % self.tile.stages
        sides = (self.left, self.right)
        begin = [each for side in sides for each in self._begin(side, part, stage)]
        finish = [each for side in sides for each in self._finish(side, stage)]
        later = limits((part, self.slices.extent))
        return (
            WaitCopies(ahead - 1),
            Barrier(),
            *_under(later, tuple(begin)),
            CommitCopies(),
            *self._multiply(at(self.slices) % self.tile.stages),
            *(_under(later, tuple(finish)) if finish else ()),
        )

    def _begin(self, side: _Side, part: Index, stage: Index) -> tuple[Statement, ...]:
        """Begin to fetch a slice: by copies to shared memory, or into registers."""
        width = 1 if side.copied is None else side.copied.elements
        turn, place, depth, inside = self._turns(side, width)
        row, k = side.first + place, part * self.depth + depth
        axes = {
            **places(self.product.product.batch, self.batch),
            **places(side.axes, row),
            **places(self.product.k, k),
        }
        within = limits((row, side.whole), (k, self.product.product.sizes[3]))
        statement: Statement
        if side.copied is not None:
            index, conditions = side.copied.at(axes, within)
            where = self._stored(side, stage, place, depth)
            source = side.copied.buffer
            statement = CopyAsync(side.memory, where, source, index, width, conditions)
        else:
            assert side.held is not None, "what is not copied is held"
            element = Substitution(axes, {}).expr(side.factor)
            if within or inside:
                zero = Literal(0, element.dtype)
                element = Guarded((*within, *inside), element, zero)
            return (Serial(turn, (Store(side.held, (at(turn),), element),), unroll=True),)
        return (Serial(turn, _under(inside, (statement,)), unroll=True),)

    def _finish(self, side: _Side, stage: Index) -> tuple[Statement, ...]:
        """Store what was held in registers."""
        if side.held is None:
            return ()
        turn, place, depth, inside = self._turns(side, 1)
        where = self._stored(side, stage, place, depth)
        store = Store(side.memory, where, Load(side.held, (at(turn),)))
        return (Serial(turn, _under(inside, (store,)), unroll=True),)

    def _turns(self, side: _Side, width: int) -> tuple[Axis, Index, Index, Conditions]:
        """How threads share a slice: turns, place along m or n, depth, conditions."""
        pieces = side.extent * self.depth // width
        turn = Axis("turn", -(-pieces // self.tile.threads))
        position = at(turn) * self.tile.threads + at(self.thread)
        along_k = not side.across and (width > 1 or runs_along(side.factor, self.product.k))
        if along_k:
            place, depth = unflatten(position, (side.extent, self.depth // width))
            depth = depth * width
        else:
            depth, place = unflatten(position, (self.depth, side.extent // width))
            place = place * width
        return turn, place, depth, limits((position, pieces))

    def _stored(self, side: _Side, stage: Index, place: Index, depth: Index) -> tuple[Index, ...]:
        return (stage, depth, place) if side.across else (stage, place, depth)

    def _multiply(self, stage: Index) -> tuple[Statement, ...]:
        step = Axis("step", self.depth // self.kind.shape.k)
        i, j = Axis("i", self.rows), Axis("j", self.columns)
        product = Multiply(
            self.kind,
            self.sums,
            (at(i), at(j), Index()),
            self.left.fragments,
            (at(i), Index()),
            self.right.fragments,
            (at(j), Index()),
        )
        depth = at(step) * self.kind.shape.k
        return (
            Serial(
                step,
                (
                    *self._matrices(self.left, stage, depth, self.warp_m, is_left=True),
                    *self._matrices(self.right, stage, depth, self.warp_n, is_left=False),
                    _unrolled((i, j), product),
                ),
                unroll=True,
            ),
        )

    def _matrices(
        self, side: _Side, stage: Index, depth: Index, first: Index, *, is_left: bool
    ) -> tuple[Statement, ...]:
        """Read a warp's fragments of one factor, four matrices of 8 x 16 bytes at a time.

        The order of the matrices is that of the fragments: by rows and then k in the left one, by
        k in the right one. Where float32 becomes bfloat16, two matrices lie side by side on k; both
        factors are then summed in the same other order.
        """
        run = 16 // self.kind.shape.factor.size_bytes
        chunks = self.kind.shape.k // run
        matrix, row = self.lane // 8, self.lane % 8
        per_load = 16 if is_left or chunks == 2 else 8
        extent = self.tile.warp_m if is_left else self.tile.warp_n
        tiles = Axis("tile", extent // per_load)
        turns = Axis("half", chunks // 2 if is_left else 1)
        if not is_left:
            place, chunk = matrix // chunks * 8 + row, matrix % chunks
        elif chunks == 2:
            place, chunk = matrix % 2 * 8 + row, matrix // 2
        else:
            place, chunk = matrix // 2 * 8 + row, matrix % 2 + at(turns) * 2
        place = first + at(tiles) * per_load + place
        if side.across:
            # The matrix is turned: its rows are k, its columns m or n.
            inner = place - row
            where = (stage, depth + chunk * run + row, inner)
        else:
            where = (stage, place, depth + chunk * run)
        elements = self.kind.left_elements if is_left else self.kind.right_elements
        per_tile = 1 if is_left else per_load // 8
        registers = (at(tiles) * per_tile, at(turns) * (elements // turns.extent))
        load = LoadMatrix(side.fragments, registers, side.memory, where, 4, transposed=side.across)
        return (_unrolled((tiles, turns), load),)

    def _results(self) -> tuple[Statement, ...]:
        product = self.product.product
        _, whole_m, whole_n, _ = product.sizes
        i, j, half, pair = Axis("i", self.rows), Axis("j", self.columns), Axis("h", 2), Axis("p", 2)
        m = self.left.first + self.warp_m + at(i) * 16 + self.lane // 4 + at(half) * 8
        column = self.right.first + self.warp_n + at(j) * 8 + self.lane % 4 * 2
        n = column + at(pair)
        total = Load(self.sums, (at(i), at(j), at(half) * 2 + at(pair)))
        store = product.with_sum(product.axes_at(self.batch, m, n), total)
        if whole_n % 2 == 0:
            inside = limits((m, whole_m), (column, whole_n))
            body = _under(inside, (Serial(pair, (store,), unroll=True),))
        else:
            inside = limits((m, whole_m), (n, whole_n))
            body = (Serial(pair, _under(inside, (store,)), unroll=True),)
        return (_unrolled((i, j, half), *body),)


def _one_by_one(copy: Copied) -> Copied:
    return Copied(copy.buffer, copy.index, copy.conditions, 1, copy.axis)


def _unrolled(axes: tuple[Axis, ...], *body: Statement) -> Statement:
    statements: tuple[Statement, ...] = body
    for axis in reversed(axes):
        statements = (Serial(axis, statements, unroll=True),)
    (statement,) = statements
    return statement


def _under(conditions: Conditions, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    return (When(conditions, body),) if conditions else body
