"""The instruction set: one frozen dataclass per instruction, one declaration per field.

Loops run from the outermost (first) to the innermost (last). An operand's tile index is its base
plus the sum over loops of loop counter times stride. Unused loops have extent 1.
"""

# ruff: noqa: RUF009  (the fields are declared through functions that return dataclasses.field)
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar, Final, TypeAlias, final

from codesign.accel.config import (
    GEMM_LOOPS,
    SEGMENTS,
    VECTOR_LOOPS,
    AccelConfig,
    Memory,
)


class Unit(IntEnum):
    """The units with a command queue; the value is the code in instruction words."""

    LOAD = 0
    GEMM = 1
    VECTOR = 2
    STORE = 3


NEIGHBOURS: Final[dict[Unit, tuple[Unit, ...]]] = {
    Unit.LOAD: (Unit.GEMM, Unit.VECTOR, Unit.STORE),
    Unit.GEMM: (Unit.LOAD, Unit.VECTOR),
    Unit.VECTOR: (Unit.LOAD, Unit.GEMM, Unit.STORE),
    Unit.STORE: (Unit.LOAD, Unit.VECTOR),
}
"""Which units exchange tokens; every pair in both directions."""

TOKEN_BITS: Final = 8
"""Width of a token counter: at most 255 tokens wait in one direction of one pair."""


class Opcode(IntEnum):
    """The first field of every instruction."""

    SYNC = 0
    LOAD = 1
    GEMM = 2
    VECTOR = 3
    STORE = 4


class VectorOp(IntEnum):
    """What the vector unit computes from operands x and y."""

    PASS = 0
    ADD = 1
    SUB = 2
    MUL = 3
    MIN = 4
    MAX = 5


class Reduce(IntEnum):
    """How results of the reducing loops are combined."""

    NONE = 0
    SUM = 1
    MIN = 2
    MAX = 3


class XSource(IntEnum):
    """Where operand x of the vector unit comes from."""

    ACC = 0
    VEC = 1


class YSource(IntEnum):
    """Where operand y of the vector unit comes from."""

    IMMEDIATE = 0
    PARAM = 1
    ACC = 2
    VEC = 3


class Destination(IntEnum):
    """Where the vector unit writes."""

    OUT = 0
    ACC = 1


# --- field declarations -------------------------------------------------------------------------

Width: TypeAlias = Callable[[AccelConfig], int]


@final
@dataclass(frozen=True, slots=True)
class Field:
    """One field of an instruction word: its width, sign, repetition and meaning.

    `minimum` is subtracted before encoding (an extent of 1 is stored as 0); a field with `count`
    above 1 is a tuple, stored first element lowest. Of a field with one element, the value is a
    member of `enum`, a truth value (`flag`), a set of units (`units`), or an integer.
    """

    width: Width
    doc: str
    signed: bool = False
    minimum: int = 0
    count: int = 1
    enum: type[IntEnum] | None = None
    flag: bool = False
    units: bool = False


def _fixed(bits: int) -> Width:
    return lambda _: bits


def _index(*memories: Memory) -> Width:
    return lambda config: max(config.index_bits(memory) for memory in memories)


def _extent(config: AccelConfig) -> int:
    return max(config.index_bits(memory) for memory in Memory if memory is not Memory.LUT)


def _address(config: AccelConfig) -> int:
    return config.address_bits - (config.bus_bytes - 1).bit_length()


def _declare(
    width: Width | int,
    doc: str,
    *,
    signed: bool = False,
    minimum: int = 0,
    count: int = 1,
    enum: type[IntEnum] | None = None,
    default: Any = None,
) -> Any:
    declared = Field(
        width=_fixed(width) if isinstance(width, int) else width,
        doc=doc,
        signed=signed,
        minimum=minimum,
        count=count,
        enum=enum,
        flag=isinstance(default, bool),
        units=isinstance(default, frozenset),
    )
    metadata = {"field": declared}
    if default is None:
        return field(metadata=metadata)
    return field(default=default, metadata=metadata)


def _units(doc: str) -> Any:
    return _declare(len(Unit), doc, default=frozenset())


def _wait() -> Any:
    return _units("units whose token is taken before the start; one bit per unit code")


def _push() -> Any:
    return _units("units that get a token at the end; one bit per unit code")


MULTIPLIER_BITS: Final = 24
SHIFT_MAX: Final = 56
IMMEDIATE_BITS: Final = 16
RESIDUAL_SHIFT_MAX: Final = 24


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """Take and give tokens, in the order of the unit's queue; move no data."""

    opcode: ClassVar[Opcode] = Opcode.SYNC

    wait: frozenset[Unit] = _wait()
    push: frozenset[Unit] = _push()
    unit: Unit = _declare(2, "whose queue the instruction enters", enum=Unit)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Read a box of tiles from DRAM into a scratchpad, with padding around y and x.

    Action
        for z < size[0], y < top + size[1] + bottom, x < left + size[2] + right, in this order:
        memory[sram + running index] = pad_value in every element, where y or x lies in the padding,
        else the tile at beat `address + z * stride[0] + y' * stride[1] + x' * beats(memory)`
        of the segment, y' = y - top, x' = x - left.
        Only inp and vec take padding. Data of a load may arrive after the padding of the next one
        is written: between two loads into the same tiles stands a SYNC, or a token of a reader.
    """

    opcode: ClassVar[Opcode] = Opcode.LOAD
    unit: ClassVar[Unit] = Unit.LOAD

    wait: frozenset[Unit] = _wait()
    push: frozenset[Unit] = _push()
    memory: Memory = _declare(
        3, "scratchpad that is written: inp, wgt, vec, param or lut", enum=Memory
    )
    sram: int = _declare(_index(*Memory), "first tile of the scratchpad")
    segment: int = _declare((SEGMENTS - 1).bit_length(), "DRAM segment")
    address: int = _declare(_address, "first beat in the segment")
    size: tuple[int, int, int] = _declare(_extent, "tiles along z, y, x", minimum=1, count=3)
    stride: tuple[int, int] = _declare(
        24, "beats from one z, y to the next", count=2, default=(0, 0)
    )
    pad: tuple[int, int, int, int] = _declare(
        6, "tiles of padding: top, bottom, left, right", count=4, default=(0, 0, 0, 0)
    )
    pad_value: int = _declare(
        lambda config: config.inp_bits,
        "value of every element of a padding tile",
        signed=True,
        default=0,
    )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Gemm:
    """Multiply input tiles by weight tiles into one accumulator bank, one tile product a cycle.

    Action
        for every iteration of the loops:
        acc[a][n, o] += sum over i of inp[x][n, i] * wgt[w][o, i]
        where the first visit of the reducing loops overwrites unless `accumulate`.
        Visits follow the order of the loops; "first" means that every reducing counter is 0.
        acc_bits = 32: sums are modulo 2**32; acc_bits = 16: every addition of a tile product
        (itself exact) saturates, and each element that does is counted.
    """

    opcode: ClassVar[Opcode] = Opcode.GEMM
    unit: ClassVar[Unit] = Unit.GEMM

    wait: frozenset[Unit] = _wait()
    push: frozenset[Unit] = _push()
    accumulate: bool = _declare(
        1, "add to what the accumulators hold from the first visit on", default=False
    )
    reduce: int = _declare(GEMM_LOOPS, "mask of the loops that reduce: bit l for loop l", default=0)
    extents: tuple[int, ...] = _declare(
        _extent, "iterations of each loop", minimum=1, count=GEMM_LOOPS
    )
    acc: int = _declare(_index(Memory.ACC), "base tile in the accumulators; names the bank")
    acc_strides: tuple[int, ...] = _declare(_index(Memory.ACC), "tiles per loop", count=GEMM_LOOPS)
    inp: int = _declare(_index(Memory.INP), "base tile in inp")
    inp_strides: tuple[int, ...] = _declare(_index(Memory.INP), "tiles per loop", count=GEMM_LOOPS)
    wgt: int = _declare(_index(Memory.WGT), "base tile in wgt")
    wgt_strides: tuple[int, ...] = _declare(_index(Memory.WGT), "tiles per loop", count=GEMM_LOOPS)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """One pass over tiles: combine x and y, reduce, requantize, look up, clip, write.

    Action
        x = acc tile, or vec tile - vec_zero_point
        y = immediate, 16-bit field of a param word, acc tile, or vec tile - vec_zero_point
        s = x op y, reduced over the innermost `reduce_loops` loops by `reduce`
        if requantize: s = half_even(((s + bias) * multiplier
                              + (residual: y * immediate * 2**residual_shift)) / 2**shift)
                       with bias, multiplier, shift of param tile `q`
        s = saturate(s + zero_point), clipped to low .. high
        if lookup: s = lut[lut_base + (s as unsigned byte)]
        destination tile = s
        `docs/numbers.md` and `accel.arithmetic` state every width. x and y are never both in acc,
        nor both in vec; all accumulators of one instruction lie in one bank. `dst_strides` and
        `q_strides` of reducing loops are 0. With `residual` there is no reduction, the op is PASS
        and y is a vec tile. Destination ACC skips zero_point, clip and lookup, and saturates to
        acc_bits; where it overlaps x or y in acc, it has their base and strides and no tile is
        visited twice.
    """

    opcode: ClassVar[Opcode] = Opcode.VECTOR
    unit: ClassVar[Unit] = Unit.VECTOR

    wait: frozenset[Unit] = _wait()
    push: frozenset[Unit] = _push()
    op: VectorOp = _declare(3, "x op y", enum=VectorOp)
    reduce: Reduce = _declare(
        2, "how reducing iterations combine", enum=Reduce, default=Reduce.NONE
    )
    reduce_loops: int = _declare(3, "how many innermost loops reduce", default=0)
    x_source: XSource = _declare(1, "where x comes from", enum=XSource)
    y_source: YSource = _declare(2, "where y comes from", enum=YSource, default=YSource.IMMEDIATE)
    destination: Destination = _declare(1, "where the result goes", enum=Destination)
    requantize: bool = _declare(1, "scale by param tile q", default=False)
    residual: bool = _declare(
        1, "add y * immediate * 2**residual_shift before the shift", default=False
    )
    lookup: bool = _declare(1, "pass the clipped result through a table", default=False)
    extents: tuple[int, ...] = _declare(
        _extent, "iterations of each loop", minimum=1, count=VECTOR_LOOPS
    )
    dst: int = _declare(_index(Memory.ACC, Memory.OUT), "base tile of the destination")
    dst_strides: tuple[int, ...] = _declare(
        _index(Memory.ACC, Memory.OUT), "tiles per loop", count=VECTOR_LOOPS
    )
    x: int = _declare(_index(Memory.ACC, Memory.VEC), "base tile of x")
    x_strides: tuple[int, ...] = _declare(
        _index(Memory.ACC, Memory.VEC), "tiles per loop", count=VECTOR_LOOPS
    )
    y: int = _declare(
        lambda config: max(
            _index(Memory.ACC, Memory.VEC)(config), config.index_bits(Memory.PARAM) + 2
        ),
        "base of y: a tile, or in param 4 * tile + which 16 bits of the word",
        default=0,
    )
    y_strides: tuple[int, ...] = _declare(
        lambda config: max(
            _index(Memory.ACC, Memory.VEC)(config), config.index_bits(Memory.PARAM) + 2
        ),
        "tiles, or 16-bit fields, per loop",
        count=VECTOR_LOOPS,
        default=(0,) * VECTOR_LOOPS,
    )
    q: int = _declare(_index(Memory.PARAM), "base param tile of the requantization", default=0)
    q_strides: tuple[int, ...] = _declare(
        _index(Memory.PARAM),
        "param tiles per loop",
        count=VECTOR_LOOPS,
        default=(0,) * VECTOR_LOOPS,
    )
    immediate: int = _declare(
        IMMEDIATE_BITS, "operand y, or the residual's multiplier", signed=True, default=0
    )
    residual_shift: int = _declare(5, "0 to 24", default=0)
    vec_zero_point: int = _declare(
        lambda config: config.inp_bits, "subtracted from vec elements", signed=True, default=0
    )
    zero_point: int = _declare(
        lambda config: config.inp_bits, "added after scaling", signed=True, default=0
    )
    low: int = _declare(lambda config: config.inp_bits, "least result", signed=True)
    high: int = _declare(lambda config: config.inp_bits, "greatest result", signed=True)
    lut_base: int = _declare(
        _index(Memory.LUT), "first entry of the table: a multiple of 256", default=0
    )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Write consecutive tiles of `out` to a box in DRAM.

    Action
        for z < size[0], y < size[1], x < size[2], in this order:
        tile at beat `address + z * stride[0] + y * stride[1] + x * beats(out)`
        of the segment = out[sram + running index].
        No two tiles of the box are the same place in DRAM.
    """

    opcode: ClassVar[Opcode] = Opcode.STORE
    unit: ClassVar[Unit] = Unit.STORE

    wait: frozenset[Unit] = _wait()
    push: frozenset[Unit] = _push()
    sram: int = _declare(_index(Memory.OUT), "first tile of out")
    segment: int = _declare((SEGMENTS - 1).bit_length(), "DRAM segment")
    address: int = _declare(_address, "first beat in the segment")
    size: tuple[int, int, int] = _declare(_extent, "tiles along z, y, x", minimum=1, count=3)
    stride: tuple[int, int] = _declare(
        24, "beats from one z, y to the next", count=2, default=(0, 0)
    )


Instruction: TypeAlias = Sync | Load | Gemm | Vector | Store

INSTRUCTIONS: Final[dict[Opcode, type[Any]]] = {
    each.opcode: each for each in (Sync, Load, Gemm, Vector, Store)
}
