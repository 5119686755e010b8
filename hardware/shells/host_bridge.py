"""Requests of a host, as bytes, turned into accesses to registers and memory.

codesign/accel/serial_protocol.py states the frames.
"""

from __future__ import annotations

from dataclasses import astuple

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.crc.catalog import CRC16_IBM_3740
from amaranth.lib.wiring import In, Out

from codesign.accel.config import AccelConfig
from codesign.accel.registers import WINDOW_BITS
from codesign.accel.serial_protocol import (
    CHECKSUM_BYTES,
    HEAD_BYTES,
    INFO_BYTES,
    REPLY_MARK,
    REQUEST_MARK,
    SILENCE_CYCLES,
    WORD_BYTES,
    BoardInfo,
    Command,
    ReplyStatus,
)
from hardware.rtl.registers import WORD_BITS, axi_lite_members
from hardware.shells.block_memory import FAULT_BITS
from hardware.shells.uart import BYTE_BITS

HEAD_LAYOUT = data.StructLayout({"command": 8, "sequence": 8, "address": 32, "length": 16})
"""A request's head as it comes, the first byte lowest."""

OF_MEMORY = (Command.READ_MEMORY, Command.WRITE_MEMORY)


class HostBridge(wiring.Component):
    """Answers one request at a time.

    Parameters
    ----------
    config : AccelConfig
        Of the accelerator whose registers and memory these are.
    info : BoardInfo
        What INFO answers, but for `faults`.
    silence_cycles : int
        Cycles without a byte that end a request that broke off.

    Members
    -------
    rx_valid, rx_byte : In
        Bytes from the host, at least 32 cycles apart.
    tx_valid, tx_byte : Out; tx_ready : In
        Bytes to the host.
    axil_* : pins of an AXI4-Lite master, to the registers; responses are taken for good.
    memory_valid, memory_write, memory_beat, memory_wdata : Out; memory_ready, memory_rdata : In
        Accesses to the memory, as BlockMemory's host port.
    faults : In
        Last word of INFO.
    """

    def __init__(
        self, config: AccelConfig, info: BoardInfo, silence_cycles: int = SILENCE_CYCLES
    ) -> None:
        self._config, self._info, self._silence = config, info, silence_cycles
        self._beat_shift = (config.bus_bytes - 1).bit_length()
        beats = info.memory_bytes // config.bus_bytes
        pins = wiring.Signature(axi_lite_members("axil_")).flip().members
        super().__init__(
            {
                "rx_valid": In(1),
                "rx_byte": In(BYTE_BITS),
                "tx_valid": Out(1),
                "tx_byte": Out(BYTE_BITS),
                "tx_ready": In(1),
                **dict(pins.items()),
                "memory_valid": Out(1),
                "memory_write": Out(1),
                "memory_beat": Out((beats - 1).bit_length()),
                "memory_wdata": Out(config.bus_bits),
                "memory_ready": In(1),
                "memory_rdata": In(config.bus_bits),
                "faults": In(FAULT_BITS),
            }
        )
        self._head = Signal(HEAD_LAYOUT)
        # The next access's address, bytes left of this part of a frame, and of the unit less 1.
        self._address_r = Signal(32)
        self._left_r = Signal(16)
        self._unit_left_r = Signal(range(max(WORD_BYTES, config.bus_bytes)))
        self._shift_r = Signal(config.bus_bits, reset_less=True)
        # A beat that waits for the memory.
        self._pending_r = Signal()
        self._pending_beat_r = Signal((beats - 1).bit_length(), reset_less=True)
        self._status_r = Signal(BYTE_BITS)
        self._repeated_r = Signal()
        self._rx_crc = CRC16_IBM_3740(BYTE_BITS).create()
        self._tx_crc = CRC16_IBM_3740(BYTE_BITS).create()

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        m.submodules.rx_crc, m.submodules.tx_crc = self._rx_crc, self._tx_crc
        m.d.comb += [
            self._rx_crc.data.eq(self.rx_byte),
            self._tx_crc.data.eq(self.tx_byte),
            self.axil_awaddr.eq(self._address_r),
            self.axil_araddr.eq(self._address_r),
            self.axil_wdata.eq(self._shift_r[-WORD_BITS:]),
            self.axil_wstrb.eq(-1),
            self.axil_bready.eq(1),
            self.axil_rready.eq(1),
        ]
        silent = Signal()
        self._time_silence(m, silent)
        self._write_pending(m)
        # The number of the request that was answered last, and whether there was one.
        sequence_r, answered_r = Signal(BYTE_BITS, reset_less=True), Signal()
        repeated = answered_r & (sequence_r == self._head.sequence)
        answers = Signal()
        with m.If(answers):
            m.d.sync += [answered_r.eq(1), sequence_r.eq(self._head.sequence)]
        with m.FSM():
            self._head_states(m, silent, repeated)
            self._data_states(m, silent)
            self._reply_states(m, answers)
            self._read_states(m)
        return m

    def _time_silence(self, m: Module, silent: Signal) -> None:
        silence_r = Signal(range(self._silence + 1))
        m.d.comb += silent.eq(silence_r == self._silence)
        with m.If(self.rx_valid):
            m.d.sync += silence_r.eq(0)
        with m.Elif(~silent):
            m.d.sync += silence_r.eq(silence_r + 1)

    def _write_pending(self, m: Module) -> None:
        with m.If(self._pending_r):
            m.d.comb += [
                self.memory_valid.eq(1),
                self.memory_write.eq(1),
                self.memory_beat.eq(self._pending_beat_r),
            ]
            with m.If(self.memory_ready):
                m.d.sync += self._pending_r.eq(0)

    def _is(self, *commands: Command) -> Value:
        return Cat(self._head.command == command.value for command in commands).any()

    @property
    def _is_write(self) -> Value:
        return self._head.command[0]

    def _unit_last(self) -> Value:
        """Bytes of an access less 1."""
        return Mux(self._is(*OF_MEMORY), self._config.bus_bytes - 1, WORD_BYTES - 1)

    def _accepted(self) -> Value:
        """Whether command, address and length go together."""
        address, length = self._head.address, self._head.length
        end = address + length
        beat = (address | length)[: self._beat_shift]
        word = (address | length)[: (WORD_BYTES - 1).bit_length()]
        in_memory = ~beat.any() & (length != 0) & (end <= self._info.memory_bytes)
        in_registers = ~word.any() & (length != 0) & (end <= 1 << WINDOW_BITS)
        return (
            (self._is(*OF_MEMORY) & in_memory)
            | (self._is(Command.READ_REGISTERS) & in_registers)
            | (self._is(Command.WRITE_REGISTER) & in_registers & (length == WORD_BYTES))
            | (self._is(Command.INFO) & (address == 0) & (length == INFO_BYTES))
        )

    # --- hearing ----------------------------------------------------------------------------------

    def _head_states(self, m: Module, silent: Value, repeated: Value) -> None:
        head, left_r = self._head, self._left_r
        with m.State("IDLE"):
            m.d.comb += self._rx_crc.start.eq(1)
            with m.If(self.rx_valid & (self.rx_byte == REQUEST_MARK)):
                m.d.sync += left_r.eq(HEAD_BYTES + CHECKSUM_BYTES)
                m.next = "HEAD"
        with m.State("HEAD"):
            self._hear(m, silent, "DECODE")
            with m.If(self.rx_valid & (left_r > CHECKSUM_BYTES)):
                m.d.sync += head.eq(Cat(head.as_value()[BYTE_BITS:], self.rx_byte))
        with m.State("DECODE"):
            m.d.comb += self._rx_crc.start.eq(1)
            m.d.sync += [
                self._status_r.eq(Mux(self._accepted(), ReplyStatus.OK, ReplyStatus.REFUSED)),
                self._repeated_r.eq(repeated & ~self._is(Command.INFO)),
                self._address_r.eq(head.address),
                left_r.eq(head.length),
                self._unit_left_r.eq(self._unit_last()),
            ]
            with m.If(self._rx_crc.crc != 0):
                m.next = "DEAF"
            with m.Elif(~self._is_write):
                m.next = "MARK"
            with m.Elif(head.length == 0):
                m.d.sync += left_r.eq(CHECKSUM_BYTES)
                m.next = "CHECKSUM"
            with m.Else():
                m.next = "DATA"
        with m.State("DEAF"), m.If(silent):
            m.next = "IDLE"

    def _hear(self, m: Module, silent: Value, then: str) -> None:
        """Take the bytes of a part of a frame, then go on; give up where they stay out."""
        m.d.comb += self._rx_crc.valid.eq(self.rx_valid)
        with m.If(self.rx_valid):
            m.d.sync += self._left_r.eq(self._left_r - 1)
            with m.If(self._left_r == 1):
                m.next = then
        with m.Elif(silent):
            m.next = "IDLE"

    def _data_states(self, m: Module, silent: Value) -> None:
        does = (self._status_r == ReplyStatus.OK) & ~self._repeated_r
        with m.State("DATA"):
            self._hear(m, silent, "CHECKSUM")
            shifted = Cat(self._shift_r[BYTE_BITS:], self.rx_byte)
            with m.If(self.rx_valid):
                m.d.sync += [self._shift_r.eq(shifted), self._unit_left_r.eq(self._unit_left_r - 1)]
                with m.If(self._left_r == 1):
                    m.d.sync += self._left_r.eq(CHECKSUM_BYTES)
                with m.If((self._unit_left_r == 0) & self._is(Command.WRITE_MEMORY)):
                    m.d.sync += [
                        self._unit_left_r.eq(self._unit_last()),
                        self._address_r.eq(self._address_r + self._config.bus_bytes),
                        self._pending_beat_r.eq(self._address_r >> self._beat_shift),
                        self.memory_wdata.eq(shifted),
                        self._pending_r.eq(does),
                    ]
        with m.State("CHECKSUM"):
            self._hear(m, silent, "JUDGE")
        with m.State("JUDGE"), m.If(~self._pending_r):
            m.next = "MARK"
            with m.If(self._rx_crc.crc != 0):
                m.d.sync += self._status_r.eq(ReplyStatus.DAMAGED)
            with m.Elif(does & self._is(Command.WRITE_REGISTER)):
                m.d.sync += [self.axil_awvalid.eq(1), self.axil_wvalid.eq(1)]
                m.next = "WRITE_REGISTER"
        with m.State("WRITE_REGISTER"):
            with m.If(self.axil_awready):
                m.d.sync += self.axil_awvalid.eq(0)
            with m.If(self.axil_wready):
                m.d.sync += self.axil_wvalid.eq(0)
            with m.If(self.axil_bvalid):
                m.next = "MARK"

    # --- speaking ---------------------------------------------------------------------------------

    def _speak(self, m: Module, byte: Value | int) -> Value:
        """Offer a byte; return whether it is taken in this cycle."""
        m.d.comb += [self.tx_valid.eq(1), self.tx_byte.eq(byte)]
        return self.tx_ready

    def _reply_states(self, m: Module, answers: Signal) -> None:
        good = self._status_r == ReplyStatus.OK
        with m.State("MARK"):
            m.d.comb += self._tx_crc.start.eq(1)
            with m.If(self._speak(m, REPLY_MARK)):
                m.next = "SEQUENCE"
        with m.State("SEQUENCE"), m.If(self._speak(m, self._head.sequence)):
            m.d.comb += self._tx_crc.valid.eq(1)
            m.next = "STATUS"
        with m.State("STATUS"), m.If(self._speak(m, self._status_r)):
            m.d.comb += [self._tx_crc.valid.eq(1), answers.eq(good)]
            m.next = "HIGH"
            with m.If(good & ~self._is_write):
                m.next = "READ"
        with m.State("HIGH"), m.If(self._speak(m, self._tx_crc.crc[BYTE_BITS:])):
            m.next = "LOW"
        with m.State("LOW"), m.If(self._speak(m, self._tx_crc.crc[:BYTE_BITS])):
            m.next = "IDLE"

    def _read_states(self, m: Module) -> None:
        words = Array([*astuple(self._info)[:-1], self.faults])
        with m.State("READ"):
            m.d.sync += self._unit_left_r.eq(self._unit_last())
            with m.If(self._is(Command.READ_MEMORY)):
                m.d.comb += [
                    self.memory_valid.eq(1),
                    self.memory_beat.eq(self._address_r >> self._beat_shift),
                ]
                with m.If(self.memory_ready):
                    m.next = "AWAIT_MEMORY"
            with m.Elif(self._is(Command.READ_REGISTERS)):
                m.d.sync += self.axil_arvalid.eq(1)
                m.next = "READ_REGISTER"
            with m.Else():
                m.d.sync += self._shift_r.eq(words[self._address_r[2:5]])
                m.next = "BYTES"
        with m.State("AWAIT_MEMORY"):
            m.next = "READ_MEMORY"
        with m.State("READ_MEMORY"):
            m.d.sync += self._shift_r.eq(self.memory_rdata)
            m.next = "BYTES"
        with m.State("READ_REGISTER"):
            with m.If(self.axil_arready):
                m.d.sync += self.axil_arvalid.eq(0)
            with m.If(self.axil_rvalid):
                m.d.sync += self._shift_r.eq(self.axil_rdata)
                m.next = "BYTES"
        with m.State("BYTES"), m.If(self._speak(m, self._shift_r[:BYTE_BITS])):
            m.d.comb += self._tx_crc.valid.eq(1)
            m.d.sync += [
                self._left_r.eq(self._left_r - 1),
                self._unit_left_r.eq(self._unit_left_r - 1),
                self._shift_r.eq(self._shift_r >> BYTE_BITS),
            ]
            with m.If(self._left_r == 1):
                m.next = "HIGH"
            with m.Elif(self._unit_left_r == 0):
                m.d.sync += self._address_r.eq(self._address_r + self._unit_last() + 1)
                m.next = "READ"
