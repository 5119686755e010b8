"""What a configuration costs on an FPGA: an estimate in microseconds, not a synthesis.

Multipliers and block RAMs follow from the shapes of arrays and memories, as synthesis infers them.
LUTs and flip-flops are sums over adders, loop counters, multiplexers and pipeline registers with
factors fitted to the synthesis of `tiny` alone (Yosys 0.70, synth_ecp5: 43 multipliers, 42 block
RAMs, 19.3 k LUTs with carry and memory, 9.5 k flip-flops): expect them within a half elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final, final

from codesign.accel.arithmetic import LANE_BITS
from codesign.accel.config import GEMM_LOOPS, VECTOR_LOOPS, AccelConfig, Memory
from codesign.accel.encoding import instruction_bytes
from codesign.accel.isa import IMMEDIATE_BITS, MULTIPLIER_BITS, Unit
from codesign.accel.timing import FETCH_BUFFER
from codesign.diagnostics import CodesignError

BLOCK_RAM_SHAPES: Final = ((512, 36), (1024, 18), (2048, 9), (4096, 4), (8192, 2), (16384, 1))
"""Words and bits of an 18-kbit block with one read and one write port (ECP5, Xilinx 7)."""

LUT_RAM_WORDS: Final = 64
"""Memories of up to so many words are built of LUTs."""


@final
@dataclass(frozen=True, slots=True)
class Resources:
    """Amounts: multiplier blocks, block RAMs of 18 kbit, LUTs, flip-flops."""

    dsp: int
    block_ram: int
    lut: int
    ff: int


class Family(Enum):
    """FPGA families; the value is the widths of the signed factors of one multiplier block."""

    ECP5 = (18, 18)
    XILINX = (25, 18)


@final
@dataclass(frozen=True, slots=True)
class Part:
    """One device and what it has."""

    name: str
    family: Family
    available: Resources


def _xilinx(name: str, dsp: int, ramb36: int, lut: int) -> Part:
    return Part(name, Family.XILINX, Resources(dsp, 2 * ramb36, lut, 2 * lut))


PARTS: Final[Mapping[str, Part]] = MappingProxyType(
    {
        part.name: part
        for part in (
            Part("LFE5U-25F", Family.ECP5, Resources(28, 56, 24_288, 24_288)),
            Part("LFE5U-45F", Family.ECP5, Resources(72, 108, 43_848, 43_848)),
            Part("LFE5U-85F", Family.ECP5, Resources(156, 208, 83_640, 83_640)),
            _xilinx("XC7Z020", 220, 140, 53_200),
            _xilinx("XC7A100T", 240, 135, 63_400),
            _xilinx("XC7A200T", 740, 365, 133_800),
            _xilinx("XCZU3EG", 360, 216, 70_560),
            _xilinx("XCZU9EG", 2520, 912, 274_080),
        )
    }
)
"""Devices by name. Sources: Lattice FPGA-DS-02012, Xilinx DS180, DS190, DS891."""


@final
@dataclass(frozen=True, slots=True)
class Fit:
    """An estimate held against one part."""

    part: Part
    needed: Resources

    @property
    def usage(self) -> dict[str, float]:
        """Needed over available, by resource; above 1 does not fit."""
        available = asdict(self.part.available)
        return {name: amount / available[name] for name, amount in asdict(self.needed).items()}

    @property
    def fits(self) -> bool:
        """Whether the part has enough of everything, by this estimate."""
        return max(self.usage.values()) <= 1.0


def fit(config: AccelConfig, part_name: str) -> Fit:
    """Return the estimate for a part.

    Raises
    ------
    CodesignError
        The part is not in `PARTS`.
    """
    if part_name not in PARTS:
        raise CodesignError.of(
            f"there is no data of part {part_name!r}", help=f"known are {', '.join(PARTS)}"
        )
    part = PARTS[part_name]
    return Fit(part, estimate(config, part.family))


def estimate(config: AccelConfig, family: Family = Family.ECP5) -> Resources:
    """Return the estimated resources of the whole accelerator without its host bridge."""
    return Resources(
        dsp=_multipliers(config, family),
        block_ram=sum(_memory_blocks(config)),
        lut=_luts(config),
        ff=_flip_flops(config),
    )


# --- multipliers ----------------------------------------------------------------------------------


def _blocks_of_product(width_a: int, width_b: int, family: Family) -> int:
    wide, narrow = family.value
    return min(
        _pieces(width_a, wide) * _pieces(width_b, narrow),
        _pieces(width_a, narrow) * _pieces(width_b, wide),
    )


def _pieces(width: int, block: int) -> int:
    """Return the parts of a signed factor: all but the highest lose the sign bit."""
    return 1 if width <= block else 1 + -(-(width - block) // (block - 1))


def _multipliers(config: AccelConfig, family: Family) -> int:
    gemm = config.macs * _blocks_of_product(config.inp_bits, config.wgt_bits, family)
    lane = _blocks_of_product(LANE_BITS + 1, MULTIPLIER_BITS, family)
    if config.has_multiplier:
        lane += 2 * _blocks_of_product(config.inp_bits + 1, IMMEDIATE_BITS, family)
    return gemm + config.vector_lanes * lane


# --- memories -------------------------------------------------------------------------------------


def block_rams(words: int, bits: int) -> int:
    """Return the 18-kbit blocks of a memory with one read and one write port.

    Examples
    --------
    >>> block_rams(2048, 64), block_rams(512, 512), block_rams(32, 512)
    (8, 15, 0)
    """
    if words <= LUT_RAM_WORDS:
        return 0
    return min(-(-words // depth) * -(-bits // width) for depth, width in BLOCK_RAM_SHAPES)


def _memories(config: AccelConfig) -> list[tuple[int, int, int, int]]:
    """Return copies, words, bits, and bits that are written together, of every memory.

    A further reader is a further copy.
    """
    bus, passes = config.bus_bits, config.vector_passes
    tile = config.tile_bits
    memories = [
        (1, config.inp_depth, tile(Memory.INP), bus),
        (1, config.wgt_depth, tile(Memory.WGT), bus),
        (1, config.vec_depth, tile(Memory.VEC), bus),
        (2, config.param_depth, tile(Memory.PARAM), bus),
        (1, config.out_depth, tile(Memory.OUT), tile(Memory.OUT) // passes),
        (config.acc_banks, config.acc_bank_depth, tile(Memory.ACC), tile(Memory.ACC) // passes),
    ]
    if config.has_lut:
        memories.append((config.vector_lanes, config.lut_depth, config.inp_bits, bus))
    return memories


def _memory_blocks(config: AccelConfig) -> list[int]:
    blocks = []
    for copies, words, bits, granule in _memories(config):
        together = min(bits, granule)
        blocks.append(copies * (bits // together) * block_rams(words, together))
    return blocks


def _lut_memory(config: AccelConfig) -> int:
    """Return the LUTs of memories that are too small for blocks: 16 words x 1 bit to a LUT."""
    small = sum(
        copies * bits * -(-words // 16)
        for copies, words, bits, _ in _memories(config)
        if words <= LUT_RAM_WORDS
    )
    word = instruction_bytes(config) * 8
    queues = len(Unit) * word * -(-config.queue_depth // 16)
    return small + queues + word * -(-FETCH_BUFFER // 16)


# --- logic ----------------------------------------------------------------------------------------

LUTS_PER_LANE: Final = 1100
FLIP_FLOPS_PER_LANE: Final = 700
LUTS_PER_COUNTER_BIT: Final = 3
CONTROL_LUTS: Final = 9500
CONTROL_FLIP_FLOPS: Final = 3500


def _sum_bits(config: AccelConfig) -> int:
    """Bits of all adders of the gemm array, the accumulating one included."""
    product = config.inp_bits + config.wgt_bits
    tree, terms, width = 0, config.block_in, product
    while terms > 1:
        terms //= 2
        width += 1
        tree += terms * width
    return config.tile_lanes * (tree + config.acc_bits)


def _counter_bits(config: AccelConfig) -> int:
    """Bits of loop counters and running indices of gemm and vector."""
    index = max(config.index_bits(memory) for memory in Memory)
    return index * (GEMM_LOOPS * (1 + 3) + VECTOR_LOOPS * (1 + 4))


def _luts(config: AccelConfig) -> int:
    wide = config.wgt_tile_bits + config.inp_tile_bits + 2 * config.acc_tile_bits
    return (
        _sum_bits(config)
        + config.vector_lanes * LUTS_PER_LANE
        + LUTS_PER_COUNTER_BIT * _counter_bits(config)
        + _lut_memory(config)
        + wide
        + CONTROL_LUTS
    )


def _flip_flops(config: AccelConfig) -> int:
    products = config.macs * (config.inp_bits + config.wgt_bits)
    wide = config.wgt_tile_bits + config.inp_tile_bits + 3 * config.acc_tile_bits
    return (
        products
        + _sum_bits(config)
        + config.vector_lanes * FLIP_FLOPS_PER_LANE
        + LUTS_PER_COUNTER_BIT * _counter_bits(config)
        + 2 * instruction_bytes(config) * 8
        + wide
        + CONTROL_FLIP_FLOPS
    )
