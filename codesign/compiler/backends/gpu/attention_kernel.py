"""Attention in one kernel: scores are never stored; a row's greatest and sum run along.

Each warp has 16 queries. Tiles of keys and values are copied ahead; after each tile what was summed
before is scaled to the new greatest score.

Source: Milakov and Gimelshein, Online normalizer calculation for softmax (2018);
Dao, FlashAttention-2 (2023), section 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Final, final

from codesign.compiler.backends.gpu.contraction import limits, product_in
from codesign.compiler.backends.gpu.device import DeviceModel
from codesign.compiler.backends.gpu.elementwise import places
from codesign.compiler.backends.gpu.fetch import Fetch, under, unrolled
from codesign.compiler.backends.gpu.fragments import fragments
from codesign.compiler.backends.gpu.tensor_core import MatrixProduct, matrix_product
from codesign.dtypes import DType
from codesign.ir.simt.kernel import (
    Barrier,
    CommitCopies,
    Exchange,
    Multiply,
    Serial,
    SimtKernel,
    Statement,
    Store,
    WaitCopies,
)
from codesign.ir.simt.matrix import WARP, Mma
from codesign.ir.tensor.compute import Expr, Fn, Guarded, Literal, Load, Reduce, apply
from codesign.ir.tensor.index import Axis, Index, at, constant, unflatten
from codesign.ir.tensor.kernel import Stage
from codesign.ir.tensor.layout import Buffer
from codesign.ir.tensor.walk import nodes

_KEYS: Final = (64, 32)
"""Keys of a tile, by preference; the second where factors are split, which takes registers."""

_WARPS: Final = (4, 2)
_WIDEST: Final = 128
"""Elements of a query or a value up to which a warp's sums stay in registers; half if split."""

_FAR: Final = -3.0e38
"""Below every score that counts: what masked rows are compared with instead of minus infinity."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Attention:
    """The two products: scores of queries and keys, and results of weights and values."""

    scores: MatrixProduct
    weighted: MatrixProduct

    @property
    def kind(self) -> Mma:
        """How both are multiplied."""
        return self.scores.kind


def attention_of(scores: Stage, weighted: Stage, device: DeviceModel) -> Attention | None:
    """Return two stages as attention; the second reads the scores' softmax. None if it is none."""
    found = []
    for stage in (scores, weighted):
        reductions = [node for node in nodes(stage.body) if isinstance(node, Reduce)]
        product = product_in(stage, reductions[0]) if len(reductions) == 1 else None
        matrix = None if product is None else matrix_product(product, device)
        if matrix is None:
            return None
        found.append(matrix)
    first, second = found
    fits = (
        first.kind is second.kind
        and first.kind is not Mma.S8
        and isinstance(second.left, Load)
        and _extents(first.product.batch) == _extents(second.product.batch)
        and _extents(first.product.m) == _extents(second.product.m)
        and _extents(first.product.n) == _extents(second.k)
        and max(first.product.sizes[3], second.product.sizes[2])
        <= _WIDEST // first.kind.shape.parts
    )
    return Attention(first, second) if fits else None


def over_keys(
    attention: Attention, operands: tuple[Buffer, ...], device: DeviceModel
) -> SimtKernel | None:
    """Return the kernel; None where a factor cannot be copied as it lies, or memory is short."""
    batch, m, _, _ = attention.scores.product.sizes
    warps = next(
        (each for each in _WARPS if batch * -(-m // (16 * each)) >= device.multiprocessors),
        _WARPS[-1],
    )
    for keys in _KEYS if attention.kind.shape.parts == 1 else _KEYS[1:]:
        writer = _Writer(attention, warps, keys)
        kernel = writer.kernel(operands) if writer.is_copied else None
        if kernel is not None and kernel.shared_bytes <= device.shared_limit_bytes:
            return kernel
    return None


@final
class _Writer:
    def __init__(self, attention: Attention, warps: int, keys: int) -> None:
        self.first, self.second = attention.scores.product, attention.weighted.product
        self.kind = kind = attention.kind
        batch, m, n, depth = self.first.sizes
        self.limits = (m, n)
        self.tile = keys
        deep = -(-depth // kind.shape.k) * kind.shape.k
        wide = -(-self.second.sizes[2] // 16) * 16
        grid = (batch, -(-m // (16 * warps)))
        self.block = Axis("block", prod(grid))
        self.thread = Axis("thread", warps * WARP)
        self.batch, row = unflatten(at(self.block), grid)
        self.queries = row * (16 * warps)
        self.lane = at(self.thread) % WARP
        self.warp = at(self.thread) // WARP * 16
        self.tiles = Axis("tile", -(-n // keys))
        self.steps = Axis("step", deep // kind.shape.k)
        scores, weighted = attention.scores, attention.weighted
        self.query = self._fetch(
            "query", scores.left, self.first.m, scores.k, (1, 16 * warps, deep)
        )
        self.keys = self._fetch("keys", scores.right, self.first.n, scores.k, (2, keys, deep))
        self.values = self._fetch(
            "values", weighted.right, self.second.n, weighted.k, (2, wide, keys), may_turn=True
        )
        factor, single = kind.shape.factor, DType.FLOAT32
        self.query_part = Buffer("query_part", (1, kind.left_elements), factor)
        self.key_part = Buffer("key_part", (keys // 8, kind.right_elements), factor)
        self.value_part = Buffer("value_part", (wide // 8, kind.right_elements), factor)
        self.weights = Buffer("weights", (keys // kind.shape.k, kind.left_elements), factor)
        self.scores = Buffer("scores", (keys // 8, 4), single)
        self.sums = Buffer("sums", (wide // 8, 4), single)
        names = ("greatest", "latest", "scale", "total", "other")
        self.stats = [Buffer(name, (2,), single) for name in names]
        self.greatest, self.latest, self.scale, self.total, self.other = self.stats

    def _fetch(
        self,
        name: str,
        factor: Expr,
        outer: tuple[Axis, ...],
        k: tuple[Axis, ...],
        extents: tuple[int, int, int],
        *,
        may_turn: bool = False,
    ) -> Fetch:
        stages, extent, depth = extents
        return Fetch.of(
            name,
            factor,
            outer,
            k,
            self.thread,
            stages=stages,
            extent=extent,
            depth=depth,
            may_turn=may_turn,
        )

    @property
    def is_copied(self) -> bool:
        """Whether all factors come by copies, values in rows of one key."""
        fetches = (self.query, self.keys, self.values)
        return all(each.copied is not None for each in fetches) and self.values.across

    def kernel(self, operands: tuple[Buffer, ...]) -> SimtKernel:
        of_batch = places(self.first.batch, self.batch)
        zero, half = constant(0), Axis("half", 2)
        body: tuple[Statement, ...] = (
            *self.query.begin(of_batch, self.queries, zero, zero),
            *self._begin(zero, zero),
            CommitCopies(),
            self._filled(self.sums, 0.0),
            unrolled((half,), Store(self.greatest, (at(half),), _literal(float("-inf")))),
            unrolled((half,), Store(self.total, (at(half),), _literal(0.0))),
            Serial(self.tiles, self._tile()),
            *self._joined(self.total, Fn.ADD),
            self._results(),
        )
        return SimtKernel(
            operands,
            self.block,
            self.thread,
            body,
            shared=(self.query.memory, self.keys.memory, self.values.memory),
            registers=(
                *(self.query_part, self.key_part, self.value_part),
                *(self.weights, self.scores, self.sums, *self.stats),
            ),
        )

    def _begin(self, number: Index, stage: Index) -> tuple[Statement, ...]:
        """Begin a tile of keys and values."""
        zero, first = constant(0), number * self.tile
        return (
            *self.keys.begin(places(self.first.batch, self.batch), first, zero, stage),
            *self.values.begin(places(self.second.batch, self.batch), zero, first, stage),
        )

    def _tile(self) -> tuple[Statement, ...]:
        following = at(self.tiles) + 1
        stage = at(self.tiles) % 2
        later = limits((following, self.tiles.extent))
        return (
            WaitCopies(0),
            Barrier(),
            *under(later, *self._begin(following, following % 2)),
            CommitCopies(),
            self._filled(self.scores, 0.0),
            self._score(stage),
            self._finished(),
            *self._greatest(),
            *self._scaled(),
            *self._weighted(stage),
        )

    def _filled(self, buffer: Buffer, value: float) -> Statement:
        i, e = Axis("i", buffer.shape[0]), Axis("e", buffer.shape[1])
        return unrolled((i, e), Store(buffer, (at(i), at(e)), _literal(value)))

    def _score(self, stage: Index) -> Statement:
        """Multiply queries and keys."""
        kind, j = self.kind, Axis("j", self.scores.shape[0])
        depth, none = at(self.steps) * kind.shape.k, Index()
        of_query, of_keys = (none, self.warp, depth), (stage, none, depth)
        parts = [
            fragments(
                kind,
                registers,
                side.memory,
                self.lane,
                origin,
                is_left=side is self.query,
                across=side.across,
            )
            for side, registers, origin in (
                (self.query, self.query_part, of_query),
                (self.keys, self.key_part, of_keys),
            )
        ]
        product = Multiply(
            kind,
            self.scores,
            (at(j), none),
            self.query_part,
            (none, none),
            self.key_part,
            (at(j), none),
        )
        body = (*parts, unrolled((j,), product))
        return Serial(self.steps, body, unroll=kind.shape.parts == 1)

    def _row(self, half: Index) -> Index:
        return self.queries + self.warp + self.lane // 4 + half * 8

    def _finished(self) -> Statement:
        """Scale and mask the scores; those of keys that are not there are minus infinity."""
        j, half, pair = Axis("j", self.scores.shape[0]), Axis("half", 2), Axis("pair", 2)
        row = self._row(at(half))
        key = at(self.tiles) * self.tile + at(j) * 8 + self.lane % 4 * 2 + at(pair)
        place = (at(j), at(half) * 2 + at(pair))
        axes = self.first.axes_at(self.batch, row, key)
        score = self.first.value(axes, Load(self.scores, place))
        inside = limits((row, self.limits[0]), (key, self.limits[1]))
        if inside:
            score = Guarded(inside, score, _literal(float("-inf")))
        return unrolled((j, half, pair), Store(self.scores, place, score))

    def _greatest(self) -> tuple[Statement, ...]:
        j, half, pair = Axis("j", self.scores.shape[0]), Axis("half", 2), Axis("pair", 2)
        score = Load(self.scores, (at(j), at(half) * 2 + at(pair)))
        here = (at(half),)
        known = Load(self.latest, here)
        return (
            unrolled((half,), Store(self.latest, here, Load(self.greatest, here))),
            unrolled((j, half, pair), Store(self.latest, here, apply(Fn.MAXIMUM, known, score))),
            *self._joined(self.latest, Fn.MAXIMUM),
        )

    def _joined(self, values: Buffer, function: Fn) -> tuple[Statement, ...]:
        """Join the four lanes that share a row."""
        half = Axis("half", 2)
        here = (at(half),)
        joined = apply(function, Load(values, here), Load(self.other, here))
        return tuple(
            unrolled(
                (half,),
                Exchange(self.other, here, values, here, mask),
                Store(values, here, joined),
            )
            for mask in (1, 2)
        )

    def _scaled(self) -> tuple[Statement, ...]:
        """Turn scores into weights, and scale what was summed by the older greatest score."""
        half, pair = Axis("half", 2), Axis("pair", 2)
        j, i = Axis("j", self.scores.shape[0]), Axis("i", self.sums.shape[0])
        here = (at(half),)
        base = apply(Fn.MAXIMUM, Load(self.latest, here), _literal(_FAR))
        scale = apply(Fn.EXP, apply(Fn.SUBTRACT, Load(self.greatest, here), base))
        place, sum_place = ((at(each), at(half) * 2 + at(pair)) for each in (j, i))
        weight = apply(Fn.EXP, apply(Fn.SUBTRACT, Load(self.scores, place), base))
        more = apply(Fn.ADD, Load(self.total, here), Load(self.scores, place))
        total = apply(Fn.MULTIPLY, Load(self.total, here), Load(self.scale, here))
        sums = apply(Fn.MULTIPLY, Load(self.sums, sum_place), Load(self.scale, here))
        return (
            unrolled(
                (half,),
                Store(self.scale, here, scale),
                Store(self.greatest, here, Load(self.latest, here)),
                Store(self.total, here, total),
            ),
            unrolled(
                (j, half, pair), Store(self.scores, place, weight), Store(self.total, here, more)
            ),
            unrolled((i, half, pair), Store(self.sums, sum_place, sums)),
        )

    def _weighted(self, stage: Index) -> tuple[Statement, ...]:
        """Multiply weights and values. Weights are left fragments with their keys in another order.

        Where a fragment has one element side by side, its columns t and t + 4 stand for the keys
        2 t and 2 t + 1, which a lane has; the values' rows follow.
        """
        kind, none = self.kind, Index()
        chunk, i = Axis("chunk", self.weights.shape[0]), Axis("i", self.sums.shape[0])
        e = Axis("e", kind.left_elements)
        if kind.shape.run == 1:
            source = (at(chunk), at(e) % 2 * 2 + at(e) // 2)
        else:
            source = (at(chunk) * 2 + at(e) // 4, at(e) % 4)
        product = Multiply(
            kind,
            self.sums,
            (at(i), none),
            self.weights,
            (at(chunk), none),
            self.value_part,
            (at(i), none),
        )
        weights = Store(self.weights, (at(chunk), at(e)), Load(self.scores, source))
        depth = at(chunk) * kind.shape.k
        return (
            unrolled((chunk, e), weights),
            unrolled((chunk,), self._values(stage, depth), unrolled((i,), product)),
        )

    def _values(self, stage: Index, depth: Index) -> Statement:
        kind, memory = self.kind, self.values.memory
        if kind.shape.factor.size_bytes == 2:
            origin = (stage, Index(), depth)
            return fragments(
                kind, self.value_part, memory, self.lane, origin, is_left=False, across=True
            )
        i, e = Axis("i", self.value_part.shape[0]), Axis("e", kind.right_elements)
        turn = self.lane % 4 * 2
        key = turn + at(e) if kind.shape.run == 1 else turn + at(e) // 2 * 8 + at(e) % 2
        value = Load(memory, (stage, depth + key, at(i) * 8 + self.lane // 4))
        return unrolled((i, e), Store(self.value_part, (at(i), at(e)), value))

    def _results(self) -> Statement:
        i, half, pair = Axis("i", self.sums.shape[0]), Axis("half", 2), Axis("pair", 2)
        row, column = self._row(at(half)), at(i) * 8 + self.lane % 4 * 2 + at(pair)
        total = Load(self.sums, (at(i), at(half) * 2 + at(pair)))
        share = apply(Fn.DIVIDE, total, Load(self.total, (at(half),)))
        store = self.second.with_sum(self.second.axes_at(self.batch, row, column), share)
        inside = limits((row, self.limits[0]), (column, self.second.sizes[2]))
        return unrolled((i, half, pair), *under(inside, store))


def _literal(value: float) -> Literal:
    return Literal(value, DType.FLOAT32)


def _extents(axes: tuple[Axis, ...]) -> Mapping[int, int]:
    return dict(enumerate(axis.extent for axis in axes if axis.extent > 1))
