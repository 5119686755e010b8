"""Sums of products through shared memory: matrix products and convolutions of every geometry.

    target[batch, m, n] = epilogue(sum over k of left[batch, m, k] * right[batch, n, k])

Axes of the result that only one factor depends on are m or n, axes of both are the batch; the
reduced axes are k. A block computes a tile of m x n: its threads fetch a slice of both factors,
wait, and each adds products for a small tile of its own. A convolution is so a matrix product whose
right factor is gathered from the image, padding being a condition of the gathering.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Final, TypeAlias, final

from codesign.compiler.backends.gpu.device import DeviceModel
from codesign.compiler.backends.gpu.elementwise import places
from codesign.dtypes import DType
from codesign.ir.simt.kernel import Barrier, Conditions, Serial, SimtKernel, Statement, Store, When
from codesign.ir.tensor.compute import (
    Apply,
    Convert,
    Expr,
    Fn,
    Guarded,
    Literal,
    Load,
    Reduce,
    Reduction,
    apply,
    convert,
)
from codesign.ir.tensor.index import Axis, Index, at, unflatten
from codesign.ir.tensor.kernel import Stage
from codesign.ir.tensor.layout import Buffer
from codesign.ir.tensor.substitute import Substitution
from codesign.ir.tensor.uses import axes_of
from codesign.ir.tensor.walk import axes_in, indices, nodes


@final
@dataclass(frozen=True, slots=True)
class Tile:
    """A block's tile of m x n in slices of k; a thread's own is `rows` x `columns`."""

    m: int
    n: int
    k: int
    rows: int
    columns: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return (self.m // self.rows) * (self.n // self.columns)


_TILES: Final = (
    Tile(128, 128, 8, 8, 8),
    Tile(128, 64, 8, 8, 4),
    Tile(64, 64, 16, 4, 4),
    Tile(32, 64, 16, 4, 4),
    Tile(32, 32, 16, 2, 4),
    Tile(16, 32, 16, 2, 2),
    Tile(16, 16, 16, 1, 2),
)
"""Largest first: a larger tile reads less, a smaller one keeps more of the device busy."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """A stage as a sum of products: its factors, and which axes are m, n, batch and k."""

    stage: Stage
    reduce: Reduce
    left: Expr
    right: Expr
    m: tuple[Axis, ...]
    n: tuple[Axis, ...]
    batch: tuple[Axis, ...]

    @property
    def dtype(self) -> DType:
        """The type of the sums."""
        return self.left.dtype

    def value(self, axes: Mapping[Axis, Index], total: Expr) -> Expr:
        """Return a result at a place, given its sum."""
        replaced: dict[Expr, Expr] = {self.reduce: convert(total, self.reduce.dtype)}
        return Substitution(axes, replaced).expr(self.stage.body)

    def with_sum(self, axes: Mapping[Axis, Index], total: Expr) -> Store:
        """Return the store of a result at a place, given its sum."""
        chosen = Substitution(axes, {})
        place = tuple(map(chosen.index, self.stage.index))
        return Store(self.stage.target, place, self.value(axes, total))

    def axes_at(self, batch: Index, m: Index, n: Index) -> dict[Axis, Index]:
        """Return what the result's axes are at a place of its three groups."""
        return {
            **{axis: Index() for axis in self.stage.axes},
            **places(self.batch, batch),
            **places(self.m, m),
            **places(self.n, n),
        }

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Extents of batch, m, n and k."""
        groups = (self.batch, self.m, self.n, self.reduce.axes)
        batch, m, n, k = (prod(axis.extent for axis in axes) for axes in groups)
        return batch, m, n, k


def product_in(stage: Stage, reduce: Reduce) -> Product | None:
    """Return a stage as a sum of products; None where it is none or has too little to share.

    Long sums of float32 that are written as such of float64 are taken in float32: tiles and warps
    make many short sums of them.
    """
    if reduce.kind is not Reduction.SUM or reduce.initial.value != 0:
        return None
    body = reduce.body
    if isinstance(body, Convert) and body.value.dtype is DType.FLOAT32:
        body = body.value
    match body:
        case Apply(Fn.MULTIPLY, (left, right), _):
            conditions: Conditions = ()
        case Guarded(conditions, Apply(Fn.MULTIPLY, (left, right), _), Literal(0)):
            pass
        case _:
            return None
    tested = frozenset(axes_of(index for index, _, _ in conditions))
    if conditions and tested <= axes_in(left):
        left = Guarded(conditions, left, Literal(0, left.dtype))
    elif conditions and tested <= axes_in(right):
        right = Guarded(conditions, right, Literal(0, right.dtype))
    elif conditions:
        return None
    return _sorted(stage, reduce, left, right)


def _sorted(stage: Stage, reduce: Reduce, left: Expr, right: Expr) -> Product | None:
    of_left, of_right = axes_in(left), axes_in(right)
    if any(axis not in of_left or axis not in of_right for axis in reduce.axes if axis.extent > 1):
        return None
    wide = [axis for axis in stage.axes if axis.extent > 1]
    only_left = tuple(axis for axis in wide if axis in of_left and axis not in of_right)
    only_right = tuple(axis for axis in wide if axis in of_right and axis not in of_left)
    batch = tuple(axis for axis in wide if axis not in only_left and axis not in only_right)
    if not only_left or not only_right:
        return None
    if wide[-1] in only_left:
        return Product(stage, reduce, right, left, only_right, only_left, batch)
    return Product(stage, reduce, left, right, only_left, only_right, batch)


def tile_for(product: Product, device: DeviceModel) -> Tile:
    """Return the largest tile that still gives every multiprocessor a block, if there is one."""
    fitting = [tile for tile in _TILES if _fits(tile, product, device)]
    batch, m, n, _ = product.sizes
    for tile in fitting:
        if batch * -(-m // tile.m) * -(-n // tile.n) >= device.multiprocessors:
            return tile
    return min(fitting, key=lambda tile: -(-m // tile.m) * tile.m * -(-n // tile.n) * tile.n)


def _fits(tile: Tile, product: Product, device: DeviceModel) -> bool:
    size = tile.k * (tile.m + tile.n + 2 * _PAD) * product.dtype.size_bytes
    registers = (tile.rows + 1) * (tile.columns + 1) * (product.dtype.size_bytes // 4 or 1)
    return (
        size <= device.shared_bytes
        and tile.threads <= device.threads_per_block
        and 2 * registers <= device.registers_per_thread
    )


_PAD: Final = 4
"""Elements between rows in shared memory, so that a column does not lie in one bank."""


def tiled(product: Product, operands: tuple[Buffer, ...], device: DeviceModel) -> SimtKernel:
    """Return a kernel in which each block computes one tile."""
    return _Writer(product, tile_for(product, device)).kernel(operands)


_Write: TypeAlias = Callable[[Index, Index], Statement]


@final
class _Writer:
    def __init__(self, product: Product, tile: Tile) -> None:
        self.product = product
        self.tile = tile
        batch, m, n, _ = product.sizes
        grid = (batch, -(-m // tile.m), -(-n // tile.n))
        self.block = Axis("block", prod(grid))
        self.thread = Axis("thread", tile.threads)
        self.batch, row, column = unflatten(at(self.block), grid)
        self.first_m, self.first_n = row * tile.m, column * tile.n
        own = unflatten(at(self.thread), (tile.m // tile.rows, tile.n // tile.columns))
        self.own_m, self.own_n = own[0] * tile.rows, own[1] * tile.columns
        dtype = product.dtype
        self.left = Buffer("left", (tile.k, tile.m + _PAD), dtype)
        self.right = Buffer("right", (tile.k, tile.n + _PAD), dtype)
        self.rows = Buffer("rows", (tile.rows,), dtype)
        self.columns = Buffer("columns", (tile.columns,), dtype)
        self.sums = Buffer("sums", (tile.rows, tile.columns), dtype)

    def kernel(self, operands: tuple[Buffer, ...]) -> SimtKernel:
        slices = Axis("slice", -(-self.product.sizes[3] // self.tile.k))
        return SimtKernel(
            operands,
            self.block,
            self.thread,
            (
                self._for_own(
                    lambda i, j: Store(self.sums, (i, j), Literal(0, self.product.dtype))
                ),
                Serial(
                    slices,
                    (
                        self._fetch(self.left, self.product.left, at(slices), is_left=True),
                        self._fetch(self.right, self.product.right, at(slices), is_left=False),
                        Barrier(),
                        self._multiply(),
                        Barrier(),
                    ),
                ),
                self._for_own(self._result),
            ),
            shared=(self.left, self.right),
            registers=(self.rows, self.columns, self.sums),
        )

    def _for_own(self, write: _Write) -> Statement:
        i, j = Axis("i", self.tile.rows), Axis("j", self.tile.columns)
        inner = Serial(j, (write(at(i), at(j)),), unroll=True)
        return Serial(i, (inner,), unroll=True)

    def _fetch(self, target: Buffer, factor: Expr, part: Index, *, is_left: bool) -> Statement:
        """Fetch a slice of a factor; neighbouring threads take neighbours in its memory."""
        product, tile = self.product, self.tile
        extent = tile.m if is_left else tile.n
        outer = product.m if is_left else product.n
        first = self.first_m if is_left else self.first_n
        turn = Axis("turn", -(-extent * tile.k // tile.threads))
        position = at(turn) * tile.threads + at(self.thread)
        if runs_along(factor, product.reduce.axes):
            place, depth = unflatten(position, (extent, tile.k))
        else:
            depth, place = unflatten(position, (tile.k, extent))
        whole, k = first + place, part * tile.k + depth
        axes = {
            **places(product.batch, self.batch),
            **places(outer, whole),
            **places(product.reduce.axes, k),
        }
        element = Substitution(axes, {}).expr(factor)
        inside = limits((whole, prod(axis.extent for axis in outer)), (k, product.sizes[3]))
        if inside:
            element = Guarded(inside, element, Literal(0, element.dtype))
        store: Statement = Store(target, (depth, place), element)
        if extent * tile.k % tile.threads:
            store = When(((position, 0, extent * tile.k),), (store,))
        return Serial(turn, (store,), unroll=True)

    def _multiply(self) -> Statement:
        k, i, j = Axis("k", self.tile.k), Axis("i", self.tile.rows), Axis("j", self.tile.columns)
        row = Store(self.rows, (at(i),), Load(self.left, (at(k), self.own_m + at(i))))
        column = Store(self.columns, (at(j),), Load(self.right, (at(k), self.own_n + at(j))))
        return Serial(
            k,
            (
                Serial(i, (row,), unroll=True),
                Serial(j, (column,), unroll=True),
                self._for_own(self._add),
            ),
            unroll=True,
        )

    def _add(self, i: Index, j: Index) -> Statement:
        factors = Load(self.rows, (i,)), Load(self.columns, (j,))
        known = Load(self.sums, (i, j))
        if known.dtype.is_float:
            return Store(self.sums, (i, j), apply(Fn.FMA, *factors, known))
        return Store(self.sums, (i, j), apply(Fn.ADD, known, apply(Fn.MULTIPLY, *factors)))

    def _result(self, i: Index, j: Index) -> Statement:
        product = self.product
        m, n = self.first_m + self.own_m + i, self.first_n + self.own_n + j
        store = product.with_sum(product.axes_at(self.batch, m, n), Load(self.sums, (i, j)))
        _, whole_m, whole_n, _ = product.sizes
        inside = limits((m, whole_m), (n, whole_n))
        return When(inside, (store,)) if inside else store


def limits(*pairs: tuple[Index, int]) -> Conditions:
    """Return the conditions `index < extent` that do not hold anyway."""
    return tuple((index, 0, extent) for index, extent in pairs if index.bounds()[1] >= extent)


def runs_along(factor: Expr, axes: Iterable[Axis]) -> bool:
    """Whether the factor's innermost step in memory is along one of the axes."""
    steps = {
        axis: step
        for node in nodes(factor)
        if isinstance(node, Load)
        for axis in axes_of(indices(node))
        if (step := node.buffer.address(node.index).factor(axis)) is not None
    }
    if not steps:
        return False
    nearest = min(steps, key=lambda axis: abs(steps[axis]))
    return nearest in set(axes)
