"""The accelerator's free parameters, and every width that follows from them.

One `AccelConfig` is read by the compiler, the simulators, the RTL, the C++ harness and the runtime.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from dataclasses import asdict, dataclass, field, fields, replace
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from typing import Any, Final, final

from codesign.accel.rules import PAGE_BYTES, broken_rules
from codesign.diagnostics import CodesignError, Problem

SEGMENTS: Final = 8
"""DRAM segments a program may address, each with a base register."""

GEMM_LOOPS: Final = 6
VECTOR_LOOPS: Final = 5
__all__ = [
    "GEMM_LOOPS",
    "LOADABLE",
    "PAGE_BYTES",
    "SEGMENTS",
    "VECTOR_LOOPS",
    "AccelConfig",
    "DramTiming",
    "Memory",
]


class Memory(IntEnum):
    """The on-chip memories; the value is the code in instruction words."""

    INP = 0
    WGT = 1
    VEC = 2
    PARAM = 3
    LUT = 4
    ACC = 5
    OUT = 6


LOADABLE: Final = (Memory.INP, Memory.WGT, Memory.VEC, Memory.PARAM, Memory.LUT)


@final
@dataclass(frozen=True, kw_only=True)
class DramTiming:
    """What the memory behind the AXI port does; `accel.memory` states the rule.

    Members are cycles of the accelerator's clock and bytes.
    """

    latency_cycles: int = field(
        default=1, metadata={"doc": "cycles from a burst's address to its first beat"}
    )
    bytes_per_cycle: int = field(
        default=0, metadata={"doc": "bandwidth shared by reads and writes; 0: the width of the bus"}
    )
    banks: int = field(default=0, metadata={"doc": "DRAM banks; 0: no row timing"})
    row_bytes: int = field(default=8192, metadata={"doc": "bytes of one row of one bank"})
    miss_cycles: int = field(default=0, metadata={"doc": "extra cycles where the row is not open"})


def _knob(default: int, doc: str) -> Any:
    return field(default=default, metadata={"doc": doc})


@final
@dataclass(frozen=True, kw_only=True)
class AccelConfig:
    """The free parameters of the accelerator.

    Depths are in tiles of their memory. A tile of `inp` is batch x block_in elements, of `wgt`
    block_out x block_in, of `vec`, `acc` and `out` batch x block_out, of `param` block_out words of
    64 bits; an entry of `lut` is one element.

    Examples
    --------
    >>> AccelConfig().wgt_tile_bits
    2048
    """

    batch: int = _knob(1, "rows of a tile: independent samples or positions")
    block_in: int = _knob(16, "input channels of a tile")
    block_out: int = _knob(16, "output channels of a tile")
    inp_bits: int = _knob(8, "bits of an input or output element")
    wgt_bits: int = _knob(8, "bits of a weight")
    acc_bits: int = _knob(32, "bits of an accumulator")
    inp_depth: int = _knob(2048, "tiles in the input scratchpad")
    wgt_depth: int = _knob(1024, "tiles in the weight scratchpad")
    vec_depth: int = _knob(2048, "tiles in the vector unit's operand scratchpad")
    acc_depth: int = _knob(2048, "tiles in the accumulators, all banks together")
    out_depth: int = _knob(2048, "tiles in the output scratchpad")
    param_depth: int = _knob(512, "tiles of per-channel parameters")
    lut_depth: int = _knob(1024, "entries of lookup tables (256 to a table)")
    acc_banks: int = _knob(2, "accumulator banks: gemm fills one while vector drains another")
    vector_lanes: int = _knob(16, "elements the vector unit handles in a cycle")
    bus_bits: int = _knob(64, "width of the AXI data bus")
    burst_beats: int = _knob(32, "greatest length of an AXI burst, in beats")
    outstanding: int = _knob(8, "AXI bursts in flight in each direction")
    address_bits: int = _knob(32, "width of an AXI address")
    queue_depth: int = _knob(8, "instructions waiting before each unit")
    has_lut: bool = field(default=True, metadata={"doc": "whether the vector unit has tables"})
    has_multiplier: bool = field(
        default=True,
        metadata={"doc": "whether the vector unit multiplies (depthwise, scaled add, average)"},
    )
    clock_mhz: int = _knob(100, "clock that turns cycles into seconds")
    dram: DramTiming = field(
        default_factory=DramTiming, metadata={"doc": "timing of the memory behind the bus"}
    )

    # --- widths -----------------------------------------------------------------------------

    @property
    def inp_tile_bits(self) -> int:
        """Bits of an `inp` tile."""
        return self.batch * self.block_in * self.inp_bits

    @property
    def wgt_tile_bits(self) -> int:
        """Bits of a `wgt` tile."""
        return self.block_out * self.block_in * self.wgt_bits

    @property
    def vec_tile_bits(self) -> int:
        """Bits of a `vec` or `out` tile."""
        return self.batch * self.block_out * self.inp_bits

    @property
    def acc_tile_bits(self) -> int:
        """Bits of an `acc` tile."""
        return self.batch * self.block_out * self.acc_bits

    @property
    def param_tile_bits(self) -> int:
        """Bits of a `param` tile: one 64-bit word per output channel."""
        return self.block_out * 64

    def tile_bits(self, memory: Memory) -> int:
        """Bits of one tile of a memory."""
        match memory:
            case Memory.INP:
                return self.inp_tile_bits
            case Memory.WGT:
                return self.wgt_tile_bits
            case Memory.VEC | Memory.OUT:
                return self.vec_tile_bits
            case Memory.ACC:
                return self.acc_tile_bits
            case Memory.PARAM:
                return self.param_tile_bits
            case Memory.LUT:
                return self.inp_bits

    def depth(self, memory: Memory) -> int:
        """Tiles in a memory."""
        return int(getattr(self, f"{memory.name.lower()}_depth"))

    def index_bits(self, memory: Memory) -> int:
        """Bits of a tile index of a memory."""
        return (self.depth(memory) - 1).bit_length()

    def memory_bytes(self, memory: Memory) -> int:
        """Bytes of a memory, rounded up to whole bytes."""
        return -(-self.depth(memory) * self.tile_bits(memory) // 8)

    @property
    def bus_bytes(self) -> int:
        """Bytes of one beat."""
        return self.bus_bits // 8

    def beats(self, memory: Memory) -> int:
        """Beats that one tile of a memory takes on the bus and in DRAM: at least one."""
        return max(1, self.tile_bits(memory) // self.bus_bits)

    def dram_tile_bytes(self, memory: Memory) -> int:
        """Bytes that one tile of a memory takes in DRAM."""
        return self.beats(memory) * self.bus_bytes

    @property
    def acc_bank_depth(self) -> int:
        """Tiles in one accumulator bank."""
        return self.acc_depth // self.acc_banks

    @property
    def tile_lanes(self) -> int:
        """Elements of a `vec`, `acc` or `out` tile."""
        return self.batch * self.block_out

    @property
    def vector_passes(self) -> int:
        """Cycles the vector unit takes for one tile."""
        return self.tile_lanes // self.vector_lanes

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the gemm array in a cycle."""
        return self.batch * self.block_in * self.block_out

    @property
    def beat_interval(self) -> int:
        """Cycles from one beat of a burst to the next at the memory's bandwidth."""
        bandwidth = self.dram.bytes_per_cycle or self.bus_bytes
        return max(1, self.bus_bytes // bandwidth)

    # --- identity ---------------------------------------------------------------------------

    @cached_property
    def digest(self) -> str:
        """Identity of the hardware: SHA-256 of all knobs but clock and DRAM, 64 hex digits."""
        knobs = {k: v for k, v in asdict(self).items() if k not in ("clock_mhz", "dram")}
        return hashlib.sha256(json.dumps(knobs, sort_keys=True).encode()).hexdigest()

    # --- rules ------------------------------------------------------------------------------

    def problems(self) -> tuple[Problem, ...]:
        """Return every broken rule, each with the nearest legal value."""
        knobs = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "dram"}
        return broken_rules(knobs, asdict(self.dram))

    def check(self) -> AccelConfig:
        """Return the configuration itself; raise CodesignError with all broken rules at once."""
        problems = self.problems()
        if problems:
            raise CodesignError(*problems)
        return self

    # --- TOML -------------------------------------------------------------------------------

    @classmethod
    def from_toml(cls, text: str, *, source: str = "configuration") -> AccelConfig:
        """Return the configuration that TOML text states; knobs left out keep their default.

        Raises
        ------
        CodesignError
            Malformed TOML, an unknown knob, a value of the wrong type, or broken rules.
        """
        try:
            table = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise CodesignError.of(f"{source} is not TOML", found=str(error)) from None
        dram = table.pop("dram", {})
        if not isinstance(dram, dict):
            raise CodesignError.of(f"{source}: dram must be a table, not {dram!r}")
        wrong = [
            *_wrong_keys(cls, table, source),
            *_wrong_keys(DramTiming, dram, f"{source}: dram"),
        ]
        if wrong:
            raise CodesignError(*wrong)
        return cls(**table, dram=DramTiming(**dram)).check()

    @classmethod
    def from_file(cls, path: Path) -> AccelConfig:
        """Return the configuration of a TOML file."""
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise CodesignError.of(
                f"cannot read configuration {str(path)!r}", found=str(error)
            ) from None
        return cls.from_toml(text, source=str(path))

    def to_toml(self) -> str:
        """Return TOML text that `from_toml` reads back to an equal configuration."""
        lines = [
            f"{f.name} = {_toml(getattr(self, f.name))}  # {f.metadata['doc']}"
            for f in fields(self)
            if f.name != "dram"
        ]
        lines += ["", "[dram]"]
        lines += [
            f"{f.name} = {getattr(self.dram, f.name)}  # {f.metadata['doc']}"
            for f in fields(self.dram)
        ]
        return "\n".join(lines) + "\n"

    def with_dram(self, **timing: int) -> AccelConfig:
        """Return the same hardware in front of another memory."""
        return replace(self, dram=replace(self.dram, **timing))


def _toml(value: int) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _wrong_keys(cls: type, table: dict[str, Any], source: str) -> list[Problem]:
    known = {f.name: f for f in fields(cls) if f.name != "dram"}
    wrong = []
    for name, value in table.items():
        if name not in known:
            wrong.append(
                Problem(
                    what=f"{source} has no knob {name!r}", found=f"the knobs are {', '.join(known)}"
                )
            )
            continue
        expected = bool if known[name].type == "bool" else int
        if type(value) is not expected:
            wrong.append(
                Problem(what=f"{source}: {name} must be {expected.__name__}, not {value!r}")
            )
    return wrong
