"""A board as the host sees it: answers frames like the bridge, runs programs functionally."""

from __future__ import annotations

import binascii
import struct
from collections.abc import Callable

import numpy as np

from codesign.accel.config import AccelConfig
from codesign.accel.encoding import decode_program, instruction_bytes
from codesign.accel.program import Program
from codesign.accel.registers import ABI_VERSION, IDENTITY, OFFSETS, Control, digest_word
from codesign.sim.functional import FunctionalSimulator

MARKS = (0xA5, 0x5A)


def _crc(data: bytes) -> bytes:
    return struct.pack(">H", binascii.crc_hqx(data, 0xFFFF))


class FakeBoard:
    """A serial line with a board at its end.

    `spoil_request` and `spoil_reply` may change or swallow what passes, given its number from 0.
    """

    def __init__(self, config: AccelConfig, memory_bytes: int = 1 << 17) -> None:
        self.config = config
        self.memory = np.zeros(memory_bytes, np.uint8)
        self.registers = {
            OFFSETS["id"]: IDENTITY,
            OFFSETS["version"]: ABI_VERSION,
            OFFSETS["digest"]: digest_word(config),
            OFFSETS["status"]: 0,
        }
        self.identity = 0x0C0DB0A7
        self.status_after_run = 2
        self.starts = 0
        self.requests = 0
        self.is_closed = False
        self.spoil_request: Callable[[int, bytes], bytes] = lambda _, frame: frame
        self.spoil_reply: Callable[[int, bytes], bytes] = lambda _, frame: frame
        self._answer = b""
        self._last: int | None = None

    # --- the host's side of the line --------------------------------------------------------------

    def write(self, data: bytes) -> int:
        number, self.requests = self.requests, self.requests + 1
        frame = self.spoil_request(number, data)
        reply = self._reply(frame) if frame else b""
        self._answer += self.spoil_reply(number, reply) if reply else b""
        return len(data)

    def read(self, size: int) -> bytes:
        found, self._answer = self._answer[:size], self._answer[size:]
        return found

    def reset_input_buffer(self) -> None:
        self._answer = b""

    def close(self) -> None:
        self.is_closed = True

    # --- the board's ------------------------------------------------------------------------------

    def _reply(self, frame: bytes) -> bytes:
        mark, head, check = frame[0], frame[1:9], frame[9:11]
        if mark != MARKS[0] or _crc(head) != check:
            return b""
        command, sequence, address, length = struct.unpack("<BBIH", head)
        data, is_repetition = frame[11:-2], sequence == self._last
        if command & 1 and _crc(data) != frame[-2:]:
            return self._said(sequence, 1)
        self._last = sequence
        match command:
            case 0x10:
                words = (self.identity, 1, self.memory.size, self.config.bus_bytes, 50_000_000, 0)
                return self._said(sequence, 0, struct.pack("<6I", *words))
            case 0x20:
                offsets = range(address, address + length, 4)
                words = [self.registers.get(offset, 0) for offset in offsets]
                return self._said(sequence, 0, struct.pack(f"<{len(words)}I", *words))
            case 0x21:
                if not is_repetition:
                    self._write_register(address, int.from_bytes(data, "little"))
                return self._said(sequence, 0)
            case 0x30 if address + length <= self.memory.size:
                return self._said(sequence, 0, self.memory[address : address + length].tobytes())
            case 0x31 if address + length <= self.memory.size:
                self.memory[address : address + length] = np.frombuffer(data, np.uint8)
                return self._said(sequence, 0)
            case _:
                return self._said(sequence, 2)

    def _said(self, sequence: int, status: int, data: bytes = b"") -> bytes:
        body = bytes([sequence, status]) + data
        return bytes([MARKS[1]]) + body + _crc(body)

    def _write_register(self, offset: int, value: int) -> None:
        self.registers[offset] = value
        if offset == OFFSETS["control"] and value & Control.START:
            self.starts += 1
            if self.status_after_run == 2:
                self._run()
            self.registers[OFFSETS["status"]] = self.status_after_run

    def _wide(self, name: str) -> int:
        low, high = OFFSETS[f"{name}_lo"], OFFSETS[f"{name}_hi"]
        return self.registers.get(low, 0) | self.registers.get(high, 0) << 32

    def _run(self) -> None:
        base = self._wide("program")
        size = self.registers[OFFSETS["instructions"]] * instruction_bytes(self.config)
        image = self.memory[base : base + size].tobytes()
        bases = tuple(self._wide(f"segment{index}") for index in range(8))
        program = Program(
            instructions=decode_program(image, self.config),
            digest=self.config.digest,
            segments=tuple(self.memory.size - each for each in bases),
        )
        counters = FunctionalSimulator(self.config).run(program, self.memory, bases)
        for name, value in counters.as_dict().items():
            self.registers[OFFSETS[f"{name}_lo"]] = value & 0xFFFF_FFFF
            self.registers[OFFSETS[f"{name}_hi"]] = value >> 32
