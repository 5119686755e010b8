"""What a configuration costs on an FPGA: an estimate in microseconds, not a synthesis.

Multipliers and block RAMs follow from the shapes of arrays and memories, as synthesis infers them.
LUTs and flip-flops are sums over the parts of the machine (lanes, adder trees, accumulators, loop
counters, bus, control), with factors that were read off the parts' shares in netlists of `tiny` and
`edge` (Yosys 0.70, synth_ecp5). `make show ROW=accel-estimate` holds the sums to synthesis.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final, final

from codesign.accel.arithmetic import LANE_BITS
from codesign.accel.config import AccelConfig, Memory
from codesign.accel.encoding import instruction_bytes, layout
from codesign.accel.isa import IMMEDIATE_BITS, MULTIPLIER_BITS, Opcode
from codesign.accel.timing import ADDER_LEVELS, FETCH_BUFFER
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


LOAD_MULTIPLIERS: Final = 3
"""The load unit multiplies rows by their widths, once for each instruction."""


def _multipliers(config: AccelConfig, family: Family) -> int:
    gemm = config.macs * _blocks_of_product(config.inp_bits, config.wgt_bits, family)
    lane = _blocks_of_product(LANE_BITS + 1, MULTIPLIER_BITS, family)
    if config.has_multiplier:
        lane += 2 * _blocks_of_product(config.inp_bits + 1, IMMEDIATE_BITS, family)
    return gemm + config.vector_lanes * lane + LOAD_MULTIPLIERS


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


def _lut_memory(config: AccelConfig) -> float:
    """Return the LUTs of memories that are too small for blocks, 16 words to a cell."""
    small = sum(
        copies * bits * -(-words // 16)
        for copies, words, bits, _ in _memories(config)
        if words <= LUT_RAM_WORDS
    )
    words = sum(layout(opcode, config)[-1].end for opcode in Opcode if opcode is not Opcode.SYNC)
    queues = words * -(-config.queue_depth // 16)
    buffer = FETCH_BUFFER * instruction_bytes(config) * 8 // 16
    return LUTS_PER_RAM_BIT * (small + queues + buffer)


# --- logic ----------------------------------------------------------------------------------------

PARAM_BITS: Final = 64
"""Bits of a channel's parameters."""

LUTS_PER_RAM_BIT: Final = 1.5
"""Six LUTs hold 16 words of 4 bits: four for the bits, two for the write port."""

LUTS_PER_LANE: Final = 1382
LUTS_PER_MULTIPLYING_LANE: Final = 330
LUTS_PER_TREE_BIT: Final = 2.15
LUTS_PER_ACC_BIT: Final = 5.4
LUTS_PER_BANK_BIT: Final = 2.03
LUTS_PER_PARAM_BIT: Final = 1.9
LUTS_PER_TABLE: Final = 76
LUTS_PER_INDEX_BIT: Final = 100
LUTS_PER_BUS_BIT: Final = 6.5
CONTROL_LUTS: Final = 7046

FLIP_FLOPS_PER_LANE: Final = 560
FLIP_FLOPS_PER_MULTIPLYING_LANE: Final = 99
FLIP_FLOPS_PER_ACC_BIT: Final = 2
FLIP_FLOPS_PER_BANK_BIT: Final = 2.5
FLIP_FLOPS_PER_TABLE: Final = 80
FLIP_FLOPS_PER_INDEX_BIT: Final = 94
FLIP_FLOPS_PER_BUS_BIT: Final = 5.8
CONTROL_FLIP_FLOPS: Final = 3685


def _tree_widths(config: AccelConfig) -> list[int]:
    """Return bits of the sums of each level of a lane's adder tree, all its adders together."""
    terms, width = config.block_in, config.inp_bits + config.wgt_bits
    levels = []
    while terms > 1:
        terms, width = terms // 2, width + 1
        levels.append(terms * width)
    return levels


def _index_bits(config: AccelConfig) -> int:
    return max(config.index_bits(memory) for memory in Memory if memory is not Memory.LUT)


def _slice_bits(config: AccelConfig) -> int:
    """Bits that are selected where the vector unit takes a tile in slices."""
    words = min(config.vector_lanes, config.block_out)
    of_lanes = config.vector_lanes * (config.acc_bits + config.inp_bits)
    return (config.vector_passes - 1) * (of_lanes + words * (PARAM_BITS + IMMEDIATE_BITS))


def _luts(config: AccelConfig) -> int:
    acc = config.acc_tile_bits
    lanes = config.vector_lanes
    tables = lanes if config.has_lut else 0
    multiplying = lanes if config.has_multiplier else 0
    return round(
        lanes * LUTS_PER_LANE
        + multiplying * LUTS_PER_MULTIPLYING_LANE
        + config.tile_lanes * sum(_tree_widths(config)) * LUTS_PER_TREE_BIT
        + acc * LUTS_PER_ACC_BIT
        + acc * (config.acc_banks * LUTS_PER_BANK_BIT + config.acc_banks - 1)
        + config.param_tile_bits * LUTS_PER_PARAM_BIT
        + tables * LUTS_PER_TABLE
        + _slice_bits(config)
        + _index_bits(config) * LUTS_PER_INDEX_BIT
        + config.bus_bits * LUTS_PER_BUS_BIT
        + _lut_memory(config)
        + CONTROL_LUTS
    )


def _flip_flops(config: AccelConfig) -> int:
    acc = config.acc_tile_bits
    products = config.macs * (config.inp_bits + config.wgt_bits)
    levels = _tree_widths(config)
    # A register behind every second level, and behind the last.
    sums = sum(levels[ADDER_LEVELS - 1 :: ADDER_LEVELS])
    if len(levels) % ADDER_LEVELS:
        sums += levels[-1]
    lanes = config.vector_lanes
    tables = lanes if config.has_lut else 0
    multiplying = lanes if config.has_multiplier else 0
    return round(
        lanes * FLIP_FLOPS_PER_LANE
        + multiplying * FLIP_FLOPS_PER_MULTIPLYING_LANE
        + products
        + config.tile_lanes * sums
        + config.inp_tile_bits
        + config.wgt_tile_bits
        + acc * FLIP_FLOPS_PER_ACC_BIT
        + acc * (1 + config.acc_banks * FLIP_FLOPS_PER_BANK_BIT)
        + tables * FLIP_FLOPS_PER_TABLE
        + _index_bits(config) * FLIP_FLOPS_PER_INDEX_BIT
        + config.bus_bits * FLIP_FLOPS_PER_BUS_BIT
        + CONTROL_FLIP_FLOPS
    )
