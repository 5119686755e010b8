"""The hand-blocked kernel of convolutions and matrix products.

A tile of pixels by channel vectors stays in registers over the whole reduction. In each step of it
one element of every pixel is spread over a vector and multiplied with the vectors of weights. int8
data lies as int16, two channels at a time (`multiply_pairs`), which is exact in 32 bits.
Where sums have 16 bits it lies as it is and is multiplied as unsigned bytes, 128 more each
(`multiply_bytes`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, final

from codesign.compiler.backends.llvm.pairs import multiply_bytes, multiply_pairs
from codesign.compiler.backends.llvm.scalar import ScalarEmitter
from codesign.compiler.backends.llvm.target import CpuTarget
from codesign.compiler.backends.llvm.text import FunctionText
from codesign.compiler.backends.llvm.walk import LARGE_BYTES, next_direction, turned
from codesign.compiler.schedule.packing import Channels, channels_of, vector_runs
from codesign.compiler.schedule.tiles import split_evenly
from codesign.dtypes import DType
from codesign.ir.tensor.compute import Load
from codesign.ir.tensor.index import at
from codesign.ir.tensor.kernel import Contraction
from codesign.ir.tensor.layout import Buffer

_CACHE_BYTES: Final = 1 << 17
"""Weights up to this size are read again for every row, rather than rows for every weight."""


def contraction_operands(kernel: Contraction) -> tuple[Buffer, ...]:
    """Return the buffers of the function's pointers, in order."""
    initial = () if kernel.initial is None else (kernel.initial,)
    return (*kernel.operands, kernel.data, kernel.weight, *initial, kernel.target)


def emit_contraction(kernel: Contraction, text: FunctionText, target: CpuTarget) -> None:
    """Write the body of a contraction's function; its operands are `%p0`, `%p1` and on."""
    _Emission(kernel, text, target).run()


@final
@dataclass(frozen=True, slots=True)
class _Run:
    """`count` runs of `vectors` channel vectors, from vector `first`; the last may be partial."""

    first: int
    count: int
    vectors: int
    is_partial: bool = False


@final
@dataclass(slots=True)
class _Spot:
    """Where a tile is: pointers to its first pixel and to its run's weights."""

    data: str
    weight: str
    pixels: int
    vectors: int
    sums: list[str] = field(default_factory=list)


@final
class _Emission:
    def __init__(self, kernel: Contraction, text: FunctionText, target: CpuTarget) -> None:
        self.kernel = kernel
        self.text = text
        self.target = target
        self.lanes = kernel.axes[4].extent
        self.takes_bytes = kernel.data.storage is DType.INT8
        self.is_integer = self.takes_bytes or kernel.data.storage is DType.INT16
        pointers = {
            buffer: f"%p{place}" for place, buffer in enumerate(contraction_operands(kernel))
        }
        self.data = pointers[kernel.data]
        self.weight = pointers[kernel.weight]
        self.emitter = ScalarEmitter(text, pointers)
        self.per_group = kernel.data.shape[1] // kernel.groups
        self.outputs = kernel.target.shape[1] // kernel.groups
        self.channels: Channels = channels_of(self.per_group, kernel.data.layout.block)
        n, _, rows, columns = (axis.extent for axis in kernel.axes[:4])
        self.size = (n, rows, columns)
        self.element = {DType.INT8: "i16", DType.INT16: "i32"}.get(kernel.data.storage, "float")
        self.vector = f"<{self.lanes} x {self.element}>"
        half = "i8" if self.takes_bytes else "i16"
        self.wide = f"<{2 * self.lanes} x {half}>" if self.is_integer else self.vector
        self.data_bytes = kernel.data.storage.size_bytes
        self.vector_bytes = (2 if self.takes_bytes else 4) * self.lanes
        self.depth = self._depth()
        vectors = -(-self.outputs // self.lanes)
        self.weight_bytes = self.depth * self.vector_bytes * vectors * kernel.groups

    def _depth(self) -> int:
        """Return the steps of the reduction; a step is one channel, or a pair of them."""
        height, width = self.kernel.window.size
        per_block = [self.channels.lanes] * self.channels.blocks
        if self.channels.rest:
            per_block.append(self.channels.rest)
        unit = 2 if self.is_integer else 1
        return sum(-(-lanes // unit) for lanes in per_block) * height * width

    # ---- loops around tiles

    def run(self) -> None:
        kernel, emitter = self.kernel, self.emitter
        emitter.lanes, emitter.vector_axis = self.lanes, kernel.axes[4]
        emitter.axes[kernel.axes[4]] = "0"
        rows_first = self.weight_bytes <= _CACHE_BYTES
        with self.text.loop(self.size[0]) as (n, _):
            emitter.axes[kernel.axes[0]] = n
            if rows_first:
                with self.text.loop(self.size[1]) as (y, _):
                    for_each_run = self._runs()
                    for run in for_each_run:
                        self._groups(run, n, y)
            else:
                for run in self._runs():
                    self._groups(run, n, None)

    def _runs(self) -> tuple[_Run, ...]:
        vectors = -(-self.outputs // self.lanes)
        sizes = vector_runs(vectors, self.kernel.tile_vectors)
        block = self.kernel.target.layout.block
        is_partial = self.outputs % self.lanes != 0 and block % self.lanes != 0
        runs: list[_Run] = []
        full = [size for size in sizes if size == self.kernel.tile_vectors]
        rest = list(sizes[len(full) :])
        last_full = is_partial and not rest
        count = len(full) - (1 if last_full else 0)
        if count:
            runs.append(_Run(0, count, self.kernel.tile_vectors))
        if last_full:
            rest = [self.kernel.tile_vectors]
        if rest:
            first = count * self.kernel.tile_vectors
            runs.append(_Run(first, 1, rest[0], is_partial))
        return tuple(runs)

    def _groups(self, run: _Run, n: str, y: str | None) -> None:
        vectors = -(-self.outputs // self.lanes)
        turns = run.count > 1 and self.size == (1, 1, 1) and self.weight_bytes >= LARGE_BYTES
        direction = next_direction(self.text, self.weight) if turns else None
        with (
            self.text.loop(self.kernel.groups) as (group, _),
            self.text.loop(run.count) as (index, _),
        ):
            place = index
            if direction is not None:
                place = turned(self.text, index, run.count, direction)
            inside = self._sum(self._times(place, run.vectors), run.first)
            first = self._plus(inside, self._times(group, vectors))
            offset = self._times(first, self.depth * self.vector_bytes)
            weight = self._moved(self.weight, offset)
            if y is not None:
                self._row(run, n, y, group, first, weight)
                return
            with self.text.loop(self.size[1]) as (row, _):
                self._row(run, n, row, group, first, weight)

    def _row(self, run: _Run, n: str, y: str, group: str, first: str, weight: str) -> None:
        kernel = self.kernel
        self.emitter.axes[kernel.axes[2]] = y
        batch, block, row, _ = kernel.data.strides
        per_group_blocks = (
            self.per_group
            if kernel.data.layout.block == 1
            else (self.per_group // kernel.data.layout.block)
        )
        top, left, _, _ = kernel.data.layout.halo
        origin = (top - kernel.window.before[0]) * row
        column = kernel.data.strides[3]
        origin += (left - kernel.window.before[1]) * column
        offset = self._plus(self._times(n, batch), self._times(group, per_group_blocks * block))
        offset = self._plus(offset, self._times(y, kernel.window.strides[0] * row))
        offset = self._sum(offset, origin)
        data = self._moved(self.data, self._times(offset, self.data_bytes))
        done = 0
        for count, pixels in split_evenly(self.size[2], kernel.tile_pixels):
            with self.text.loop(count) as (tile, _):
                x = self._sum(self._times(tile, pixels), done)
                step = kernel.window.strides[1] * column * self.data_bytes
                spot = _Spot(self._moved(data, self._times(x, step)), weight, pixels, run.vectors)
                self._tile(run, spot, x, first)
            done += count * pixels

    # ---- one tile

    def _tile(self, run: _Run, spot: _Spot, x: str, first: str) -> None:
        spot.sums = self._starts(first, spot.vectors) * spot.pixels
        self._reduce(spot)
        emitter, kernel = self.emitter, self.kernel
        for pixel in range(spot.pixels):
            emitter.axes[kernel.axes[3]] = self._sum(x, pixel)
            for vector in range(spot.vectors):
                emitter.axes[kernel.axes[1]] = self._sum(first, vector)
                is_last = run.is_partial and vector == spot.vectors - 1
                emitter.mask = self._mask() if is_last else None
                emitter.accumulator = spot.sums[pixel * spot.vectors + vector]
                n, block, y, x_axis, lane = (at(axis) for axis in kernel.axes)
                index = (n, block * self.lanes + lane, y, x_axis)
                emitter.store(kernel.target, index, kernel.epilogue)
                emitter.mask = None

    def _mask(self) -> str:
        present = self.outputs % self.lanes
        bits = ", ".join(
            f"i1 {'true' if lane < present else 'false'}" for lane in range(self.lanes)
        )
        return f"<{bits}>"

    def _starts(self, first: str, vectors: int) -> list[str]:
        initial = self.kernel.initial
        if initial is None:
            return ["zeroinitializer"] * vectors
        block, lane = self.kernel.axes[1], self.kernel.axes[4]
        starts = []
        for vector in range(vectors):
            self.emitter.axes[block] = self._sum(first, vector)
            place = at(block) * self.lanes + at(lane)
            starts.append(self.emitter.evaluate(Load(initial, (place,))))
        return starts

    def _reduce(self, spot: _Spot) -> None:
        channels = self.channels
        _, block, _, _ = self.kernel.data.strides
        if channels.blocks == 1:
            self._window(spot, channels.lanes)
        else:
            per_block = self._window_steps(channels.lanes) * self.vector_bytes * spot.vectors
            with self._carrying(channels.blocks, spot) as (index, inner):
                inner.data = self._moved(spot.data, self._times(index, block * self.data_bytes))
                inner.weight = self._moved(spot.weight, self._times(index, per_block))
                self._window(inner, channels.lanes)
        if channels.rest:
            done = channels.blocks * self._window_steps(channels.lanes)
            rest = _Spot(
                self._moved(spot.data, str(channels.blocks * block * self.data_bytes)),
                self._moved(spot.weight, str(done * self.vector_bytes * spot.vectors)),
                spot.pixels,
                spot.vectors,
                spot.sums,
            )
            self._window(rest, channels.rest)
            spot.sums = rest.sums

    def _window_steps(self, lanes: int) -> int:
        height, width = self.kernel.window.size
        return height * width * (-(-lanes // 2) if self.is_integer else lanes)

    def _carrying(self, extent: int, spot: _Spot) -> _Carrying:
        return _Carrying(self, extent, spot)

    def _window(self, spot: _Spot, lanes: int) -> None:
        kernel = self.kernel
        height, width = kernel.window.size
        _, _, row, column = kernel.data.strides
        down, right = kernel.window.dilation
        per_column = self._window_steps(lanes) // (height * width)
        weight_step = per_column * self.vector_bytes * spot.vectors
        with self._carrying(height, spot) as (ky, outer):
            outer.data = self._moved(spot.data, self._times(ky, down * row * self.data_bytes))
            outer.weight = self._moved(spot.weight, self._times(ky, width * weight_step))
            with self._carrying(width, outer) as (kx, inner):
                step = right * column * self.data_bytes
                inner.data = self._moved(outer.data, self._times(kx, step))
                inner.weight = self._moved(outer.weight, self._times(kx, weight_step))
                self._lanes(inner, per_column)

    def _lanes(self, spot: _Spot, steps: int) -> None:
        unroll = 4 if spot.pixels * spot.vectors > 2 else 8
        full = steps // unroll * unroll
        if full:
            with self._carrying(full // unroll, spot) as (index, inner):
                inner.data = self._moved(spot.data, self._times(index, unroll * self._lane_bytes()))
                inner.weight = self._moved(
                    spot.weight, self._times(index, unroll * self.vector_bytes * spot.vectors)
                )
                for step in range(unroll):
                    self._multiply(inner, step)
        rest = _Spot(
            self._moved(spot.data, str(full * self._lane_bytes())),
            self._moved(spot.weight, str(full * self.vector_bytes * spot.vectors)),
            spot.pixels,
            spot.vectors,
            spot.sums,
        )
        for step in range(steps - full):
            self._multiply(rest, step)
        spot.sums = rest.sums

    def _lane_bytes(self) -> int:
        """From one step's data to the next one's."""
        if self.is_integer:
            return 2 * self.data_bytes
        data = self.kernel.data
        return (data.strides[1] if data.layout.block == 1 else 1) * self.data_bytes

    def _multiply(self, spot: _Spot, step: int) -> None:
        text = self.text
        weights = []
        for vector in range(spot.vectors):
            place = (step * spot.vectors + vector) * self.vector_bytes
            pointer = self._moved(spot.weight, str(place))
            weights.append(text.op(f"load {self.wide}, ptr {pointer}, align 4"))
        step_x = self.kernel.window.strides[1] * self.kernel.data.strides[3] * self.data_bytes
        sums = list(spot.sums)
        for pixel in range(spot.pixels):
            pointer = self._moved(spot.data, str(pixel * step_x + step * self._lane_bytes()))
            value = self._spread(pointer)
            for vector in range(spot.vectors):
                place = pixel * spot.vectors + vector
                sums[place] = self._accumulate(sums[place], value, weights[vector])
        spot.sums = sums

    def _spread(self, pointer: str) -> str:
        value = self.text.op(f"load {self.element}, ptr {pointer}, align {self.data_bytes}")
        first = self.text.op(f"insertelement {self.vector} poison, {self.element} {value}, i64 0")
        spread = self.text.op(
            f"shufflevector {self.vector} {first}, {self.vector} poison, "
            f"<{self.lanes} x i32> zeroinitializer"
        )
        if not self.is_integer:
            return spread
        pairs = self.text.op(f"bitcast {self.vector} {spread} to {self.wide}")
        if not self.takes_bytes:
            return pairs
        raised = ", ".join(["i8 -128"] * (2 * self.lanes))
        return self.text.op(f"xor {self.wide} {pairs}, <{raised}>")

    def _accumulate(self, total: str, value: str, weight: str) -> str:
        if self.is_integer:
            multiply = multiply_bytes if self.takes_bytes else multiply_pairs
            product = multiply(self.text, self.target, self.lanes, value, weight)
            return self.text.op(f"add {self.vector} {total}, {product}")
        kind = self.vector
        return self.text.call(
            kind, f"llvm.fma.v{self.lanes}f32", (kind, value), (kind, weight), (kind, total)
        )

    # ---- arithmetic on names

    def _times(self, value: str, factor: int) -> str:
        if value == "0" or factor == 0:
            return "0"
        if value.isdigit():
            return str(int(value) * factor)
        return value if factor == 1 else self.text.op(f"mul nsw i64 {value}, {factor}")

    def _plus(self, lhs: str, rhs: str) -> str:
        if lhs == "0":
            return rhs
        return lhs if rhs == "0" else self.text.op(f"add nsw i64 {lhs}, {rhs}")

    def _sum(self, value: str, number: int) -> str:
        if number == 0:
            return value
        if value.isdigit():
            return str(int(value) + number)
        return self.text.op(f"add nsw i64 {value}, {number}")

    def _moved(self, pointer: str, offset: str) -> str:
        if offset == "0":
            return pointer
        return self.text.op(f"getelementptr i8, ptr {pointer}, i64 {offset}")


@final
class _Carrying:
    """A loop that hands a tile's sums from turn to turn: `with … as (index, spot)`."""

    def __init__(self, emission: _Emission, extent: int, spot: _Spot) -> None:
        self.spot = spot
        self.loop = emission.text.loop(
            extent, tuple((emission.vector, total) for total in spot.sums)
        )

    def __enter__(self) -> tuple[str, _Spot]:
        index, self.state = self.loop.__enter__()
        spot = self.spot
        sums = list(self.state.current)
        self.inner = _Spot(spot.data, spot.weight, spot.pixels, spot.vectors, sums)
        return index, self.inner

    def __exit__(self, *_: object) -> None:
        self.state.next = self.inner.sums
        self.loop.__exit__(None, None, None)
        self.spot.sums = list(self.state.current)
