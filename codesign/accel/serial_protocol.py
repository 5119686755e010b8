"""How a host speaks to a board over a serial line: 8 data bits, no parity, one stop bit.

The host sends a request and the board answers it; all numbers are little-endian but for checksums.

    request   REQUEST_MARK, command, sequence, address (4), bytes (2), checksum (2)
              and, for writes, that many bytes and their checksum (2)
    reply     REPLY_MARK, sequence, status
              and, for reads with status OK, the bytes; then the checksum (2) of all but the mark

A checksum is CRC-16 with polynomial 0x1021 from 0xFFFF, high byte first: the CRC of a part and its
checksum is 0. The head's begins behind the mark.

- A head with a wrong checksum is not answered: its length cannot be trusted. The board then ignores
  what it hears until the line has been silent for SILENCE_CYCLES. A request that breaks off is
  forgotten after the same silence.
- Data with a wrong checksum is answered with DAMAGED. Memory may then hold a part of it; a register
  is never written.
- A request with the sequence number of the last answered one is a repetition: a write is answered
  and not done again, a read is done again. INFO may have any number.
- The mark of a reply is followed by the status at once; the bytes come as they are read.
"""

from __future__ import annotations

import binascii
import struct
from dataclasses import astuple, dataclass
from enum import IntEnum
from typing import Final, final

PROTOCOL_VERSION: Final = 1
"""Rises when frames or the words of INFO change."""

PROTOCOL_IDENTITY: Final = 0x0C0D_B0A7
"""First word of INFO."""

REQUEST_MARK: Final = 0xA5
REPLY_MARK: Final = 0x5A

CRC_POLYNOMIAL: Final = 0x1021
CRC_START: Final = 0xFFFF

SILENCE_CYCLES: Final = 1 << 20
"""Cycles of the board's clock without a byte that end a request that broke off: 21 ms at 50 MHz."""

LENGTH_MAX: Final = 0xFFFF
"""Greatest number of bytes in a request."""

WORD_BYTES: Final = 4
"""Bytes of a register."""


class Command(IntEnum):
    """What the host asks for; the lowest bit says that data comes with the request."""

    INFO = 0x10
    """Read the words of `BoardInfo`; address 0, as many bytes as it has."""
    READ_REGISTERS = 0x20
    """Read registers one after another: address and bytes are multiples of a word."""
    WRITE_REGISTER = 0x21
    """Write one register: 4 bytes."""
    READ_MEMORY = 0x30
    """Read the memory: address and bytes are multiples of a beat, bytes is not 0."""
    WRITE_MEMORY = 0x31
    """Write the memory, likewise."""


class ReplyStatus(IntEnum):
    """What became of a request."""

    OK = 0
    DAMAGED = 1
    """The checksum of its data is wrong: send it again."""
    REFUSED = 2
    """No such command, not aligned, or outside the memory."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BoardInfo:
    """What INFO reads, a word each, in this order.

    `faults` counts beats of write data that the accelerator gave too late: always 0.
    """

    identity: int = PROTOCOL_IDENTITY
    version: int = PROTOCOL_VERSION
    memory_bytes: int
    bus_bytes: int
    clock_hz: int
    faults: int = 0

    def to_bytes(self) -> bytes:
        """Return the words as the board sends them."""
        return struct.pack("<6I", *astuple(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> BoardInfo:
        """Return what the board sent; `data` has INFO_BYTES bytes."""
        identity, version, memory_bytes, bus_bytes, clock_hz, faults = struct.unpack("<6I", data)
        return cls(
            identity=identity,
            version=version,
            memory_bytes=memory_bytes,
            bus_bytes=bus_bytes,
            clock_hz=clock_hz,
            faults=faults,
        )


INFO_BYTES: Final = 24

HEAD_BYTES: Final = 8
"""Bytes of a request's head between its mark and its checksum."""

CHECKSUM_BYTES: Final = 2


def checksum(part: bytes) -> bytes:
    """Return the checksum of a part of a frame.

    Examples
    --------
    >>> checksum(b"123456789").hex()
    '29b1'
    """
    return binascii.crc_hqx(part, CRC_START).to_bytes(CHECKSUM_BYTES, "big")


def is_whole(part: bytes) -> bool:
    """Return whether a part that ends with its checksum is undamaged."""
    return binascii.crc_hqx(part, CRC_START) == 0


def request(
    command: Command, sequence: int, address: int, length: int, data: bytes | None = None
) -> bytes:
    """Return the frame of a request; `data` of `length` bytes for writes only."""
    head = struct.pack("<BBIH", command, sequence, address, length)
    frame = bytes([REQUEST_MARK]) + head + checksum(head)
    return frame if data is None else frame + data + checksum(data)
