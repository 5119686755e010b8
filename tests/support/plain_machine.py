"""The instruction set once more, one Python integer at a time: the functional simulator's oracle.

Written from the docstrings of `codesign.accel.isa` and `docs/numbers.md`; it shares no arithmetic
with `codesign.accel.arithmetic`, `codesign.accel.tiles` or `codesign.sim`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction

from codesign.accel.config import AccelConfig, Memory
from codesign.accel.isa import (
    Destination,
    Gemm,
    Instruction,
    Load,
    Reduce,
    Store,
    Sync,
    Vector,
    VectorOp,
    XSource,
    YSource,
)

Tile = list[int]


def signed(value: int, bits: int) -> int:
    value %= 1 << bits
    return value - (1 << bits) if value >= 1 << (bits - 1) else value


def clamp(value: int, bits: int) -> int:
    return max(-(1 << (bits - 1)), min((1 << (bits - 1)) - 1, value))


class PlainMachine:
    """Tiles are flat lists of integers, row by row; None where nothing was written."""

    def __init__(self, config: AccelConfig, dram: bytearray, bases: Sequence[int]) -> None:
        self.config = config
        self.dram = dram
        self.bases = bases
        self.tiles: dict[Memory, list[Tile | None]] = {m: [None] * config.depth(m) for m in Memory}
        self.saturations = 0

    def run(self, instructions: Sequence[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case Sync():
                    pass
                case Load():
                    self._load(instruction)
                case Gemm():
                    self._gemm(instruction)
                case Vector():
                    self._vector(instruction)
                case Store():
                    self._store(instruction)

    def _tile(self, memory: Memory, index: int) -> Tile:
        tile = self.tiles[memory][index]
        assert tile is not None, f"tile {index} of {memory.name} was never written"
        return tile

    # --- DRAM -----------------------------------------------------------------------------------

    def _format(self, memory: Memory) -> tuple[int, int]:
        """Return elements of a tile and bits of an element."""
        config = self.config
        match memory:
            case Memory.INP:
                return config.batch * config.block_in, config.inp_bits
            case Memory.WGT:
                return config.block_out * config.block_in, config.wgt_bits
            case Memory.VEC | Memory.OUT:
                return config.batch * config.block_out, config.inp_bits
            case Memory.PARAM:
                return config.block_out, 64
            case Memory.LUT:
                return 1, config.inp_bits
            case Memory.ACC:
                raise AssertionError("acc is not in DRAM")

    def _box(self, box: Load | Store, memory: Memory) -> Iterator[tuple[int, int, int, int]]:
        """Yield z, y, x and the byte address of every tile."""
        count, bits = self._format(memory)
        beats = -(-count * bits // self.config.bus_bits)
        for z, y, x in itertools.product(*map(range, box.size)):
            beat = box.address + z * box.stride[0] + y * box.stride[1] + x * beats
            yield z, y, x, self.bases[box.segment] + beat * (self.config.bus_bits // 8)

    def _load(self, load: Load) -> None:
        count, bits = self._format(load.memory)
        _, size_y, size_x = load.size
        top, bottom, left, right = load.pad
        height, width = top + size_y + bottom, left + size_x + right
        for index in range(load.size[0] * height * width):
            self.tiles[load.memory][load.sram + index] = [load.pad_value] * count
        for z, y, x, address in self._box(load, load.memory):
            size = -(-count * bits // 8)
            word = int.from_bytes(self.dram[address : address + size], "little")
            tile = [signed(word >> (bits * element), bits) for element in range(count)]
            place = load.sram + (z * height + top + y) * width + left + x
            self.tiles[load.memory][place] = tile

    def _store(self, store: Store) -> None:
        count, bits = self._format(Memory.OUT)
        beats = -(-count * bits // self.config.bus_bits)
        for index, (_, _, _, address) in enumerate(self._box(store, Memory.OUT)):
            word = 0
            for element, value in enumerate(self._tile(Memory.OUT, store.sram + index)):
                word |= (value % (1 << bits)) << (bits * element)
            size = beats * self.config.bus_bits // 8
            self.dram[address : address + size] = word.to_bytes(size, "little")

    # --- gemm -----------------------------------------------------------------------------------

    def _gemm(self, gemm: Gemm) -> None:
        for counters in itertools.product(*map(range, gemm.extents)):
            acc, inp, wgt = (
                base + sum(c * s for c, s in zip(counters, strides, strict=True))
                for base, strides in (
                    (gemm.acc, gemm.acc_strides),
                    (gemm.inp, gemm.inp_strides),
                    (gemm.wgt, gemm.wgt_strides),
                )
            )
            first = all(not (gemm.reduce >> loop & 1 and c) for loop, c in enumerate(counters))
            fresh = first and not gemm.accumulate
            before = None if fresh else self._tile(Memory.ACC, acc)
            self.tiles[Memory.ACC][acc] = self._product(inp, wgt, before)

    def _product(self, inp: int, wgt: int, before: Tile | None) -> Tile:
        config = self.config
        rows, columns = self._tile(Memory.INP, inp), self._tile(Memory.WGT, wgt)
        result = []
        for n in range(config.batch):
            for o in range(config.block_out):
                total = 0 if before is None else before[n * config.block_out + o]
                for i in range(config.block_in):
                    total += rows[n * config.block_in + i] * columns[o * config.block_in + i]
                if config.acc_bits == 16:
                    self.saturations += total != clamp(total, 16)
                    total = clamp(total, 16)
                result.append(signed(total, 32))
        return result

    # --- vector ---------------------------------------------------------------------------------

    def _vector(self, vector: Vector) -> None:
        split = len(vector.extents) - vector.reduce_loops
        outer, inner = vector.extents[:split], vector.extents[split:]
        for counters in itertools.product(*map(range, outer)):
            lanes: Tile = []
            for lane in range(self.config.batch * self.config.block_out):
                total: int | None = None
                for more in itertools.product(*map(range, inner)):
                    total = self._combined(vector, (*counters, *more), lane, total)
                assert total is not None
                lanes.append(self._result(vector, (*counters, *[0] * len(inner)), lane, total))
            place = self._index(vector.dst, vector.dst_strides, (*counters, *[0] * len(inner)))
            memory = Memory.ACC if vector.destination is Destination.ACC else Memory.OUT
            self.tiles[memory][place] = lanes

    @staticmethod
    def _index(base: int, strides: Sequence[int], counters: Sequence[int]) -> int:
        return base + sum(c * s for c, s in zip(counters, strides, strict=True))

    def _combined(
        self, vector: Vector, counters: Sequence[int], lane: int, before: int | None
    ) -> int:
        term = self._term(vector, counters, lane)
        if before is None:
            return term
        match vector.reduce:
            case Reduce.SUM:
                return clamp(before + term, 32)
            case Reduce.MIN:
                return min(before, term)
            case Reduce.MAX:
                return max(before, term)
            case Reduce.NONE:
                raise AssertionError("two terms without a reduction")

    def _term(self, vector: Vector, counters: Sequence[int], lane: int) -> int:
        place = self._index(vector.x, vector.x_strides, counters)
        if vector.x_source is XSource.ACC:
            x = self._tile(Memory.ACC, place)[lane]
        else:
            x = self._tile(Memory.VEC, place)[lane] - vector.vec_zero_point
        if vector.op is VectorOp.PASS:
            return x
        y = self._y(vector, counters, lane)
        match vector.op:
            case VectorOp.ADD:
                return clamp(x + y, 32)
            case VectorOp.SUB:
                return clamp(x - y, 32)
            case VectorOp.MUL:
                return clamp(signed(x, self.config.inp_bits + 1) * signed(y, 16), 32)
            case VectorOp.MIN:
                return min(x, y)
            case VectorOp.MAX:
                return max(x, y)

    def _y(self, vector: Vector, counters: Sequence[int], lane: int) -> int:
        place = self._index(vector.y, vector.y_strides, counters)
        match vector.y_source:
            case YSource.IMMEDIATE:
                return vector.immediate
            case YSource.PARAM:
                word = self._tile(Memory.PARAM, place // 4)[lane % self.config.block_out]
                return signed(word >> (16 * (place % 4)), 16)
            case YSource.ACC:
                return self._tile(Memory.ACC, place)[lane]
            case YSource.VEC:
                return self._tile(Memory.VEC, place)[lane] - vector.vec_zero_point

    def _result(self, vector: Vector, counters: Sequence[int], lane: int, total: int) -> int:
        if vector.requantize:
            q = self._index(vector.q, vector.q_strides, counters)
            word = self._tile(Memory.PARAM, q)[lane % self.config.block_out]
            exact = (total + signed(word, 32)) * signed(word >> 32, 24)
            if vector.residual:
                y = self._y(vector, counters, lane)
                exact += y * vector.immediate * 2**vector.residual_shift
            total = clamp(round(Fraction(exact, 2 ** ((word >> 56) & 0xFF))), 32)
        if vector.destination is Destination.ACC:
            return clamp(total, self.config.acc_bits)
        result = min(max(total + vector.zero_point, vector.low), vector.high)
        if vector.lookup:
            return self._tile(Memory.LUT, vector.lut_base + result % 256)[0]
        return result
