"""The AXI4-Lite register map: 32-bit registers, word-aligned, in a window of 4 KiB."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, IntFlag, StrEnum
from typing import Final, final

from codesign.accel.config import SEGMENTS, AccelConfig
from codesign.accel.counters import COUNTER_NAMES

IDENTITY: Final = 0xC0DE5160
"""What register `id` reads."""

ABI_VERSION: Final = 2
"""What register `version` reads; rises whenever instruction words or registers change meaning."""

WINDOW_BITS: Final = 12
"""Width of an AXI4-Lite address."""

UNIT_NONE: Final = 0xF
"""Register `waiting`: no unit."""


class Control(IntFlag):
    """Bits of register `control`; START and ABORT act on the write and read as 0."""

    START = 1
    ABORT = 2
    INTERRUPT_ENABLE = 4


class Status(IntFlag):
    """Low bits of register `status`; bits 8 to 11 hold the `ErrorCode`."""

    RUNNING = 1
    DONE = 2


ERROR_SHIFT: Final = 8
"""First bit of the error code in register `status`."""


class ErrorCode(IntEnum):
    """Why a run ended early."""

    NONE = 0
    READ = 1
    WRITE = 2
    OPCODE = 3
    WATCHDOG = 4


class Access(StrEnum):
    """What the host may do with a register; a write to a READ register changes nothing."""

    READ = "read"
    WRITE = "read and write"


@final
@dataclass(frozen=True, slots=True)
class Register:
    """One register: its name, byte offset in the window, access and meaning."""

    name: str
    offset: int
    access: Access
    doc: str


def digest_word(config: AccelConfig) -> int:
    """Return what register `digest` reads: the first 32 bits of the configuration's digest."""
    return int(config.digest[:8], 16)


SEGMENT_OFFSET: Final = 0x80
COUNTER_OFFSET: Final = 0x100


_ERROR_ADDRESS: Final = (
    "address of the burst that failed; after an opcode or watchdog error, of the first instruction "
    "that was not dispatched"
)


def _fixed() -> list[Register]:
    read, write = Access.READ, Access.WRITE
    rows = (
        ("id", read, f"constant {IDENTITY:#x}"),
        ("version", read, f"constant {ABI_VERSION}: the version of words and registers"),
        ("digest", read, "first 32 bits of the configuration's digest"),
        ("control", write, "bit 0 start, bit 1 abort, bit 2 interrupt enable"),
        (
            "status",
            read,
            "bit 0 running, until no burst is in flight; bit 1 done; bits 8 to 11 error code; "
            "start, which is ignored while running, clears both",
        ),
        ("instructions", write, "instructions of the program"),
        ("program_lo", write, "address of the program, a multiple of 4096: bits 0 to 31"),
        ("program_hi", write, "address of the program: bits 32 and up"),
        ("watchdog", write, "cycles without progress that end a run; 0: for ever"),
        ("error_lo", read, f"{_ERROR_ADDRESS}: bits 0 to 31"),
        ("error_hi", read, f"{_ERROR_ADDRESS}: bits 32 and up"),
        ("waiting", read, "unit that the watchdog found waiting (code of `Unit`), or 15"),
    )
    return [
        Register(name, 4 * index, access, doc) for index, (name, access, doc) in enumerate(rows)
    ]


def _segments() -> list[Register]:
    return [
        Register(
            f"segment{index}_{half}",
            SEGMENT_OFFSET + 8 * index + 4 * (half == "hi"),
            Access.WRITE,
            f"address of segment {index}, a multiple of the beat: {bits}",
        )
        for index in range(SEGMENTS)
        for half, bits in (("lo", "bits 0 to 31"), ("hi", "bits 32 and up"))
    ]


def _counters() -> list[Register]:
    return [
        Register(
            f"{name}_{half}",
            COUNTER_OFFSET + 8 * index + 4 * (half == "hi"),
            Access.READ,
            f"counter {name}: {bits}",
        )
        for index, name in enumerate(COUNTER_NAMES)
        for half, bits in (("lo", "bits 0 to 31"), ("hi", "bits 32 to 63"))
    ]


REGISTERS: Final = (*_fixed(), *_segments(), *_counters())
"""The whole map, by rising offset; what lies between reads as 0."""

OFFSETS: Final[dict[str, int]] = {register.name: register.offset for register in REGISTERS}
"""Byte offset of every register."""
