"""What every board has in common: the accelerator, its memory in block RAM, a serial host link."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, final

from amaranth.back import verilog
from amaranth.hdl import ClockDomain, Instance, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from codesign.accel.config import PAGE_BYTES, AccelConfig
from codesign.accel.resources import BLOCK_RAM_SHAPES, PARTS, estimate
from codesign.accel.serial_protocol import SILENCE_CYCLES, BoardInfo
from codesign.diagnostics import CodesignError
from hardware.generate import TOP_NAME, ArmName, generate, without_zeros
from hardware.rtl.accelerator import accelerator_members
from hardware.rtl.axi_master import axi_members
from hardware.rtl.registers import axi_lite_members
from hardware.shells.block_memory import TIMING, BlockMemory
from hardware.shells.host_bridge import HostBridge
from hardware.shells.uart import Receiver, Transmitter

BOARD_NAME: Final = "board"
"""Name of the module that `write_board` makes."""

DEFAULT_PRESET: Final = "tiny"
"""What is on a board where nothing else is asked for."""

ROUTABLE: Final = 0.75
"""Share of a part's block RAM up to which nextpnr places and routes a board in minutes.

On an LFE5U-85F a board with 51 % was placed in minutes; one with 91 % was not routed in half an
hour.
"""

LEAST_DIVISOR: Final = 4
"""Cycles of a serial bit below which the receiver does not find a bit's middle."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BoardPlan:
    """The free parameters of a board: what is on it and how fast its serial line is."""

    config: AccelConfig
    memory_bytes: int
    clock_hz: int
    baud: int
    silence_cycles: int = SILENCE_CYCLES

    @property
    def divisor(self) -> int:
        """Cycles of a serial bit."""
        return round(self.clock_hz / self.baud)

    @property
    def timed_config(self) -> AccelConfig:
        """The configuration with the board's memory: a simulator of it takes the board's cycles."""
        return replace(self.config, dram=TIMING)

    @property
    def info(self) -> BoardInfo:
        """What the board says about itself."""
        return BoardInfo(
            memory_bytes=self.memory_bytes,
            bus_bytes=self.config.bus_bytes,
            clock_hz=self.clock_hz,
        )

    def check(self) -> BoardPlan:
        """Return the plan itself.

        Raises
        ------
        CodesignError
            Memory that is not whole pages or has none, or a serial line too fast for the clock or
            more than 2 % off its speed.
        """
        self.config.check()
        if self.memory_bytes % PAGE_BYTES or self.memory_bytes <= 0:
            raise CodesignError.of(
                "a board's memory is whole pages of 4096 bytes",
                found=f"found {self.memory_bytes} bytes",
            )
        if self.divisor < LEAST_DIVISOR:
            raise CodesignError.of(
                "the serial line is too fast for the clock",
                found=f"{self.baud} baud at {self.clock_hz} Hz are {self.divisor} cycles to a bit",
                help=f"leave at least {LEAST_DIVISOR}",
            )
        wrong = abs(self.clock_hz / self.divisor / self.baud - 1)
        if wrong > 0.02:
            raise CodesignError.of(
                "the serial line's speed cannot be had from the clock",
                found=f"{self.divisor} cycles to a bit are {wrong:.1%} off {self.baud} baud",
                help="choose a speed that divides the clock",
            )
        return self


def memory_left(config: AccelConfig, part_name: str) -> int:
    """Return the bytes of memory that the block RAM left by the accelerator makes on a part.

    The greatest power of two with which `ROUTABLE` of the part's blocks are used; 0 where not even
    a page is left.

    Raises
    ------
    CodesignError
        The part is not known.
    """
    if part_name not in PARTS:
        raise CodesignError.of(
            f"there is no data of part {part_name!r}", help=f"known are {', '.join(PARTS)}"
        )
    part = PARTS[part_name]
    left = int(ROUTABLE * part.available.block_ram) - estimate(config, part.family).block_ram
    size = 0
    candidate = PAGE_BYTES
    while _blocks(config, candidate) <= left:
        size, candidate = candidate, 2 * candidate
    return size


def _blocks(config: AccelConfig, size_bytes: int) -> int:
    words = size_bytes // config.bus_bytes
    return min(
        -(-words // depth) * -(-config.bus_bits // width) for depth, width in BLOCK_RAM_SHAPES
    )


class Board(wiring.Component):
    """A whole machine but for clock generation and pins.

    The accelerator is an instance of the module that hardware.generate writes.

    Members
    -------
    aclk, rst : In
        Clock; synchronous reset, active high.
    rx, tx : In, Out
        The serial line, as the host sends and hears it.
    done : Out
        The accelerator's interrupt.
    """

    def __init__(self, plan: BoardPlan) -> None:
        self._plan = plan.check()
        super().__init__(
            {
                "aclk": In(1),
                "rst": In(1),
                "rx": In(1, init=1),
                "tx": Out(1, init=1),
                "done": Out(1),
            }
        )

    def elaborate(self, _platform: object) -> Module:
        plan = self._plan
        m = Module()
        m.domains.sync = domain = ClockDomain()
        m.submodules.receiver = receiver = Receiver(plan.divisor)
        m.submodules.transmitter = transmitter = Transmitter(plan.divisor)
        m.submodules.bridge = bridge = HostBridge(plan.config, plan.info, plan.silence_cycles)
        m.submodules.memory = memory = BlockMemory(plan.config, plan.memory_bytes)
        m.d.comb += [
            domain.clk.eq(self.aclk),
            domain.rst.eq(self.rst),
            receiver.rx.eq(self.rx),
            bridge.rx_valid.eq(receiver.valid),
            bridge.rx_byte.eq(receiver.byte),
            transmitter.valid.eq(bridge.tx_valid),
            transmitter.byte.eq(bridge.tx_byte),
            bridge.tx_ready.eq(transmitter.ready),
            self.tx.eq(transmitter.tx),
            memory.host_valid.eq(bridge.memory_valid),
            memory.host_write.eq(bridge.memory_write),
            memory.host_beat.eq(bridge.memory_beat),
            memory.host_wdata.eq(bridge.memory_wdata),
            bridge.memory_ready.eq(memory.host_ready),
            bridge.memory_rdata.eq(memory.host_rdata),
            bridge.faults.eq(memory.faults),
        ]
        self._accelerator(m, bridge, memory)
        return m

    def _accelerator(self, m: Module, bridge: HostBridge, memory: BlockMemory) -> None:
        members = accelerator_members(self._plan.config)
        pins = {name: Signal(member.shape, name=name) for name, member in members.items()}
        directions = {name: "o" if member.flow is Out else "i" for name, member in members.items()}
        m.submodules.accelerator = Instance(
            TOP_NAME,
            i_aclk=self.aclk,
            i_aresetn=~self.rst,
            **{f"{directions[name]}_{name}": signal for name, signal in pins.items()},
        )
        for outer, prefix, port, names in (
            ("m_axi_", "axi_", memory, axi_members(self._plan.config, "")),
            ("s_axi_", "axil_", bridge, axi_lite_members("")),
        ):
            for name in names:
                pin, inner = pins[f"{outer}{name}"], getattr(port, f"{prefix}{name}")
                is_driven = directions[f"{outer}{name}"] == "o"
                m.d.comb += inner.eq(pin) if is_driven else pin.eq(inner)
        m.d.comb += self.done.eq(pins["interrupt"])


def write_board(plan: BoardPlan, folder: Path, arm: ArmName = "fpga") -> tuple[Path, Path]:
    """Write the accelerator's Verilog and `board.v` into a folder; return their paths.

    Raises
    ------
    CodesignError
        The plan or its configuration breaks a rule.
    """
    board = Board(plan)
    accelerator, *_ = generate(plan.config, folder, arm)
    # Block RAM begins with zeros by itself; written out, they cost Yosys minutes.
    with without_zeros():
        text = verilog.convert(board, name=BOARD_NAME, emit_src=False, strip_internal_attrs=True)
    source = folder / "board.v"
    source.write_text(text, encoding="utf-8")
    return accelerator, source
