"""AXI4-Lite slave with the register map of codesign.accel.registers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from amaranth.hdl import Cat, Module, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from codesign.accel.config import SEGMENTS, AccelConfig
from codesign.accel.counters import COUNTER_NAMES
from codesign.accel.registers import (
    ABI_VERSION,
    ERROR_SHIFT,
    IDENTITY,
    OFFSETS,
    UNIT_NONE,
    WINDOW_BITS,
    Control,
    ErrorCode,
    digest_word,
)
from hardware.rtl.counters import COUNTER_BITS

WORD_BITS = 32
ERROR_BITS = max(ErrorCode).bit_length()
WAITING_BITS = UNIT_NONE.bit_length()


def axi_lite_members(prefix: str) -> dict[str, Any]:
    """Return the pins of an AXI4-Lite slave port with 32-bit data."""
    return {
        f"{prefix}awaddr": In(WINDOW_BITS),
        f"{prefix}awprot": In(3),
        f"{prefix}awvalid": In(1),
        f"{prefix}awready": Out(1),
        f"{prefix}wdata": In(WORD_BITS),
        f"{prefix}wstrb": In(WORD_BITS // 8),
        f"{prefix}wvalid": In(1),
        f"{prefix}wready": Out(1),
        f"{prefix}bresp": Out(2),
        f"{prefix}bvalid": Out(1),
        f"{prefix}bready": In(1),
        f"{prefix}araddr": In(WINDOW_BITS),
        f"{prefix}arprot": In(3),
        f"{prefix}arvalid": In(1),
        f"{prefix}arready": Out(1),
        f"{prefix}rdata": Out(WORD_BITS),
        f"{prefix}rresp": Out(2),
        f"{prefix}rvalid": Out(1),
        f"{prefix}rready": In(1),
    }


class Registers(wiring.Component):
    """The host's registers.

    Members
    -------
    axil_* : pins of an AXI4-Lite slave; all outputs are registers. Byte strobes are obeyed.
    start, abort : Out
        The host wrote these bits of `control`: one cycle each.
    interrupt_enable, instructions, program, watchdog, segments : Out
        What the host has written; addresses in bytes.
    running, done, error, error_address, waiting, counters : In
        What the host may read.

    Timing
    ------
    A write acts in the cycle after its address and data have both been taken.
    """

    def __init__(self, config: AccelConfig) -> None:
        self._config = config
        address = unsigned(config.address_bits)
        super().__init__(
            {
                **axi_lite_members("axil_"),
                "start": Out(1),
                "abort": Out(1),
                "interrupt_enable": Out(1),
                "instructions": Out(WORD_BITS),
                "program": Out(address),
                "watchdog": Out(WORD_BITS),
                "segments": Out(data.ArrayLayout(address, SEGMENTS)),
                "running": In(1),
                "done": In(1),
                "error": In(ERROR_BITS),
                "error_address": In(address),
                "waiting": In(WAITING_BITS),
                "counters": In(data.ArrayLayout(unsigned(COUNTER_BITS), len(COUNTER_NAMES))),
            }
        )

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        self._write_port(m)
        self._read_port(m)
        return m

    def _write_port(self, m: Module) -> None:
        offset_r = Signal(WINDOW_BITS, reset_less=True)
        word_r = Signal(WORD_BITS, reset_less=True)
        mask_r = Signal(WORD_BITS, reset_less=True)
        addressed_r, given_r = Signal(), Signal()
        write = Signal()
        address, word = Signal(), Signal()
        answered = self.axil_bvalid & self.axil_bready
        m.d.comb += [
            address.eq(self.axil_awvalid & self.axil_awready),
            word.eq(self.axil_wvalid & self.axil_wready),
            write.eq(addressed_r & given_r & ~self.axil_bvalid),
        ]
        # Ready only after the reset, so that nothing is taken during it.
        m.d.sync += [
            self.axil_awready.eq(~(address | addressed_r) | answered),
            self.axil_wready.eq(~(word | given_r) | answered),
        ]
        with m.If(address):
            m.d.sync += [offset_r.eq(self.axil_awaddr), addressed_r.eq(1)]
        with m.If(word):
            mask = Cat(strobe.replicate(8) for strobe in self.axil_wstrb)
            m.d.sync += [word_r.eq(self.axil_wdata), mask_r.eq(mask), given_r.eq(1)]
        with m.If(write):
            m.d.sync += self.axil_bvalid.eq(1)
        with m.If(answered):
            m.d.sync += [self.axil_bvalid.eq(0), addressed_r.eq(0), given_r.eq(0)]
        with m.If(write), m.Switch(offset_r[2:]):
            for name, register in self._writable().items():
                with m.Case(OFFSETS[name] >> 2):
                    bits = mask_r[: len(register)]
                    m.d.sync += register.eq((register & ~bits) | (word_r & bits))
        control = write & (offset_r[2:] == OFFSETS["control"] >> 2) & mask_r[0]
        m.d.comb += [
            self.start.eq(control & word_r[Control.START.bit_length() - 1]),
            self.abort.eq(control & word_r[Control.ABORT.bit_length() - 1]),
        ]
        with m.If(control):
            enable = word_r[Control.INTERRUPT_ENABLE.bit_length() - 1]
            m.d.sync += self.interrupt_enable.eq(enable)

    def _writable(self) -> dict[str, Value]:
        registers: dict[str, Value] = {
            "instructions": self.instructions,
            "watchdog": self.watchdog,
            **_halves("program", self.program),
        }
        for index in range(SEGMENTS):
            registers |= _halves(f"segment{index}", self.segments[index])
        return registers

    def _read_port(self, m: Module) -> None:
        offset_r = Signal(WINDOW_BITS, reset_less=True)
        word = Signal(WORD_BITS)
        asked_r, asks = Signal(), Signal()
        answered = self.axil_rvalid & self.axil_rready
        m.d.comb += asks.eq(self.axil_arvalid & self.axil_arready)
        m.d.sync += self.axil_arready.eq(~(asks | asked_r) | answered)
        with m.If(asks):
            m.d.sync += [offset_r.eq(self.axil_araddr), asked_r.eq(1)]
        with m.If(asked_r & ~self.axil_rvalid):
            m.d.sync += [self.axil_rdata.eq(word), self.axil_rvalid.eq(1)]
        with m.If(answered):
            m.d.sync += [self.axil_rvalid.eq(0), asked_r.eq(0)]
        readable = {
            "id": IDENTITY,
            "version": ABI_VERSION,
            "digest": digest_word(self._config),
            "control": self.interrupt_enable << (Control.INTERRUPT_ENABLE.bit_length() - 1),
            "status": Cat(self.running, self.done) | (self.error << ERROR_SHIFT),
            **_halves("error", self.error_address),
            "waiting": self.waiting,
            **self._writable(),
        }
        for index, name in enumerate(COUNTER_NAMES):
            readable |= _halves(name, self.counters[index])
        m.submodules.reader = reader = RegisterReader(readable)
        m.d.comb += [reader.enable.eq(asked_r), reader.offset.eq(offset_r), word.eq(reader.word)]
        for name, value in readable.items():
            m.d.comb += getattr(reader, name).eq(value)


class RegisterReader(wiring.Component):
    """Chooses the word at an offset: combinational, and wide, so it works only when enabled.

    Members
    -------
    enable, offset : In; word : Out
        The word at a byte offset; 0 where there is none, or while not enabled.
    <register> : In
        The register's value.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(names)
        super().__init__(
            {
                "enable": In(1),
                "offset": In(WINDOW_BITS),
                "word": Out(WORD_BITS),
                **{name: In(WORD_BITS) for name in self._names},
            }
        )

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        with m.If(self.enable), m.Switch(self.offset[2:]):
            for name in self._names:
                with m.Case(OFFSETS[name] >> 2):
                    m.d.comb += self.word.eq(getattr(self, name))
        return m


def _halves(name: str, value: Value) -> dict[str, Value]:
    halves = {f"{name}_lo": value[:WORD_BITS]}
    if len(value) > WORD_BITS:
        halves[f"{name}_hi"] = value[WORD_BITS:]
    return halves
