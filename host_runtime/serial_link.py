"""A board at the end of a serial line: its registers and memory, with checksums and repetition."""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol, Self, final

import serial

from codesign.accel.registers import ABI_VERSION, IDENTITY, OFFSETS
from codesign.accel.serial_protocol import (
    CHECKSUM_BYTES,
    INFO_BYTES,
    PROTOCOL_IDENTITY,
    PROTOCOL_VERSION,
    REPLY_MARK,
    WORD_BYTES,
    BoardInfo,
    Command,
    ReplyStatus,
    is_whole,
    request,
)
from codesign.diagnostics import CodesignError

BLOCK_BYTES: Final = 1024
"""Bytes of memory in one request: what a damaged one costs to repeat."""

BAUD: Final = 1_000_000

REPLY_SECONDS: Final = 1.0
"""Longest wait for a byte of an answer."""

ATTEMPTS: Final = 4
"""How often a request is sent until the line counts as broken."""

SETTLE_SECONDS: Final = 0.1
"""Wait before a repetition: several times the silence that ends a request at 50 MHz."""

SEQUENCES: Final = 256


class Line(Protocol):
    """What the link needs of a serial line; reading ends early where bytes stay out."""

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes."""

    def write(self, data: bytes) -> int | None:
        """Send bytes."""

    def reset_input_buffer(self) -> None:
        """Forget what was received and not read."""

    def close(self) -> None:
        """Let go of the line."""


def open_line(port: str, baud: int = BAUD, reply_seconds: float = REPLY_SECONDS) -> Line:
    """Return the serial line of a port, such as /dev/ttyUSB0.

    Raises
    ------
    CodesignError
        The port is not there, or somebody else holds it.
    """
    try:
        line: Line = serial.Serial(
            port, baud, timeout=reply_seconds, write_timeout=60 * reply_seconds, exclusive=True
        )
    except (serial.SerialException, ValueError, OSError) as error:
        raise CodesignError.of(
            f"cannot open serial port {port!r}",
            found=str(error),
            help="connect the board; `python -m serial.tools.list_ports` lists the ports",
        ) from None
    return line


@final
@dataclass(frozen=True, slots=True)
class _Silent(Exception):  # noqa: N818 - an attempt's outcome, not an error of the user's
    """An attempt that brought no whole answer, and why."""

    reason: str


@final
class SerialLink:
    """Reads and writes a board's registers and memory.

    Parameters
    ----------
    line
        Where the board listens; `open_line` opens one. The link closes it.

    Attributes
    ----------
    info
        What the board says about itself.
    repetitions
        Requests that had to be sent again so far.

    Raises
    ------
    CodesignError
        No answer, damaged ones time and again, or no board of this protocol.
    """

    def __init__(self, line: Line) -> None:
        self._line = line
        self._sequence = 0
        self.repetitions = 0
        self.info = self._hello()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the line."""
        self._line.close()

    def read_register(self, name: str) -> int:
        """Return a register of codesign.accel.registers."""
        data = self._ask(Command.READ_REGISTERS, OFFSETS[name], WORD_BYTES)
        return int.from_bytes(data, "little")

    def read_registers(self, offset: int, count: int) -> tuple[int, ...]:
        """Return `count` registers from a byte offset on."""
        data = self._ask(Command.READ_REGISTERS, offset, count * WORD_BYTES)
        return tuple(
            int.from_bytes(data[at : at + WORD_BYTES], "little")
            for at in range(0, len(data), WORD_BYTES)
        )

    def write_register(self, name: str, value: int) -> None:
        """Write the low 32 bits of a value to a register."""
        data = (value & 0xFFFF_FFFF).to_bytes(WORD_BYTES, "little")
        self._ask(Command.WRITE_REGISTER, OFFSETS[name], WORD_BYTES, data)

    def read_memory(self, address: int, size: int) -> bytes:
        """Return memory; address and size are multiples of a beat."""
        return b"".join(
            self._ask(Command.READ_MEMORY, at, min(BLOCK_BYTES, address + size - at))
            for at in range(address, address + size, BLOCK_BYTES)
        )

    def write_memory(self, address: int, data: bytes) -> None:
        """Write memory; address and size are multiples of a beat."""
        for start in range(0, len(data), BLOCK_BYTES):
            block = data[start : start + BLOCK_BYTES]
            self._ask(Command.WRITE_MEMORY, address + start, len(block), block)

    # --- frames -----------------------------------------------------------------------------------

    def _hello(self) -> BoardInfo:
        info = BoardInfo.from_bytes(self._ask(Command.INFO, 0, INFO_BYTES))
        if info.identity != PROTOCOL_IDENTITY or info.version != PROTOCOL_VERSION:
            raise CodesignError.of(
                "what answers at the serial port is no board of this version",
                found=f"identity {info.identity:#010x}, version {info.version}; expected "
                f"{PROTOCOL_IDENTITY:#010x}, version {PROTOCOL_VERSION}",
                help="load the bitstream of this version with `make bitstream`",
            )
        found = self.read_register("id"), self.read_register("version")
        if found != (IDENTITY, ABI_VERSION):
            raise CodesignError.of(
                "the board's accelerator is not of this version",
                found=f"identity {found[0]:#010x}, version {found[1]}; expected "
                f"{IDENTITY:#010x}, version {ABI_VERSION}",
                help="load the bitstream of this version with `make bitstream`",
            )
        return info

    def _ask(self, command: Command, address: int, length: int, data: bytes | None = None) -> bytes:
        self._sequence = (self._sequence + 1) % SEQUENCES
        frame = request(command, self._sequence, address, length, data)
        expected = length if data is None else 0
        reasons: list[str] = []
        for _ in range(ATTEMPTS):
            try:
                return self._attempt(frame, expected)
            except _Silent as silent:
                reasons.append(silent.reason)
                self.repetitions += 1
                self._settle()
        raise CodesignError.of(
            f"the board does not answer a request ({command.name.lower()})",
            found=f"{ATTEMPTS} attempts: {'; '.join(dict.fromkeys(reasons))}",
            help="check port, cable, power and speed of the line, and that the bitstream is loaded",
        )

    def _attempt(self, frame: bytes, expected: int) -> bytes:
        try:
            self._line.write(frame)
            head = self._read(3)
            mark, sequence, code = head
            if mark != REPLY_MARK or sequence != frame[2]:
                raise _Silent("an answer to something else")
            has_data = code == ReplyStatus.OK
            rest = self._read((expected if has_data else 0) + CHECKSUM_BYTES)
        except (serial.SerialException, OSError) as error:
            raise CodesignError.of("the serial line is gone", found=str(error)) from None
        if not is_whole(head[1:] + rest):
            raise _Silent("an answer with a wrong checksum")
        match code:
            case ReplyStatus.OK:
                return rest[:-CHECKSUM_BYTES]
            case ReplyStatus.DAMAGED:
                raise _Silent("the board received a wrong checksum")
            case _:
                raise CodesignError.of(
                    "the board refuses a request",
                    found=f"status {code} to {frame[1:9].hex()}",
                )

    def _read(self, size: int) -> bytes:
        data = self._line.read(size)
        if len(data) < size:
            raise _Silent(f"{len(data)} of {size} bytes came in time" if data else "no answer")
        return data

    def _settle(self) -> None:
        """Wait until the board has forgotten a broken request and nothing more comes from it."""
        time.sleep(SETTLE_SECONDS)
        self._line.reset_input_buffer()
