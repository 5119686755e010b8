"""Instruction words: bits of every field, from the declarations in `isa`.

A word is the opcode, then the fields in the order of their declaration, from bit 0 upwards; the
rest is zero. All words of one configuration have one length.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from functools import lru_cache
from typing import Any, Final, final

from codesign.accel.config import AccelConfig
from codesign.accel.isa import INSTRUCTIONS, Field, Instruction, Opcode, Unit
from codesign.diagnostics import CodesignError, Problem

OPCODE_BITS: Final = 3
WORD_BITS: Final = 64


@final
@dataclass(frozen=True, slots=True)
class Slot:
    """Where one field lies in a word: `count` elements of `width` bits from `offset`."""

    name: str
    offset: int
    width: int
    declared: Field

    @property
    def low(self) -> int:
        """Least value of an element."""
        return -(1 << (self.width - 1)) if self.declared.signed else self.declared.minimum

    @property
    def high(self) -> int:
        """Greatest value of an element."""
        if self.declared.signed:
            return (1 << (self.width - 1)) - 1
        return self.declared.minimum + (1 << self.width) - 1

    @property
    def end(self) -> int:
        """First bit behind the field."""
        return self.offset + self.width * self.declared.count


@lru_cache(maxsize=1024)
def layout(opcode: Opcode, config: AccelConfig) -> tuple[Slot, ...]:
    """Return the fields of an instruction in the order of their bits; bits 0 to 2 are the opcode.

    Examples
    --------
    >>> [slot.offset for slot in layout(Opcode.SYNC, AccelConfig())]
    [3, 7, 11]
    """
    slots = []
    offset = OPCODE_BITS
    for each in fields(INSTRUCTIONS[opcode]):
        declared: Field = each.metadata["field"]
        slot = Slot(each.name, offset, declared.width(config), declared)
        slots.append(slot)
        offset = slot.end
    return tuple(slots)


@lru_cache(maxsize=256)
def instruction_bytes(config: AccelConfig) -> int:
    """Return the bytes of an instruction: a power of two, at least 8 and at least one beat.

    Examples
    --------
    >>> instruction_bytes(AccelConfig())
    64
    """
    longest = max(layout(opcode, config)[-1].end for opcode in Opcode)
    words = 1 << (-(-longest // WORD_BITS) - 1).bit_length()
    return max(words * WORD_BITS // 8, config.bus_bytes)


def instruction_beats(config: AccelConfig) -> int:
    """Return the beats that an instruction takes on the bus."""
    return instruction_bytes(config) // config.bus_bytes


def encode(instruction: Instruction, config: AccelConfig) -> int:
    """Return the instruction's word.

    Raises
    ------
    CodesignError
        Values that do not fit: each with instruction, field, value and limits.
    """
    problems = list(misfits(instruction, config))
    if problems:
        raise CodesignError(*problems)
    word = int(instruction.opcode)
    for slot in layout(instruction.opcode, config):
        mask = (1 << slot.width) - 1
        offset = slot.offset
        minimum = slot.declared.minimum
        for element in _elements(getattr(instruction, slot.name), slot.declared):
            word |= ((element - minimum) & mask) << offset
            offset += slot.width
    return word


def misfits(instruction: Instruction, config: AccelConfig) -> Iterable[Problem]:
    """Yield a problem for every value that its field cannot hold."""
    name = type(instruction).__name__
    for slot in layout(instruction.opcode, config):
        value = getattr(instruction, slot.name)
        try:
            elements = _elements(value, slot.declared)
        except TypeError:
            yield Problem(what=f"{name}.{slot.name} cannot be {value!r}", found=slot.declared.doc)
            continue
        if len(elements) != slot.declared.count:
            yield Problem(
                what=f"{name}.{slot.name} has {slot.declared.count} elements, not {len(elements)}"
            )
            continue
        low, high = slot.low, slot.high
        yield from (
            Problem(
                what=f"{name}.{slot.name} must be from {low} to {high}, not {element}",
                help="the field's width follows from the configuration",
            )
            for element in elements
            if not low <= element <= high
        )


def _elements(value: Any, declared: Field) -> Sequence[int]:
    if isinstance(value, frozenset):
        return (sum(1 << unit for unit in value),)
    if declared.count > 1:
        return tuple(map(int, value))
    return (int(value),)


def decode(word: int, config: AccelConfig) -> Instruction:
    """Return the instruction of a word; the inverse of `encode`.

    Raises
    ------
    CodesignError
        An unknown opcode, a code that no enumeration has, or bits behind the last field.
    """
    code = word & ((1 << OPCODE_BITS) - 1)
    if code not in INSTRUCTIONS:
        raise CodesignError.of(f"no instruction has opcode {code}", found=f"word {word:#x}")
    opcode = Opcode(code)
    slots = layout(opcode, config)
    if word >> slots[-1].end:
        raise CodesignError.of(
            f"{opcode.name.lower()} has bits set behind its last field", found=f"word {word:#x}"
        )
    values = {slot.name: _value(word, slot) for slot in slots}
    instruction: Instruction = INSTRUCTIONS[opcode](**values)
    return instruction


def _value(word: int, slot: Slot) -> Any:
    mask, declared = (1 << slot.width) - 1, slot.declared
    raw = [(word >> (slot.offset + index * slot.width)) & mask for index in range(declared.count)]
    if declared.signed:
        sign = 1 << (slot.width - 1)
        raw = [(element ^ sign) - sign for element in raw]
    raw = [element + declared.minimum for element in raw]
    if declared.count > 1:
        return tuple(raw)
    return _scalar(raw[0], slot)


def _scalar(value: int, slot: Slot) -> Any:
    declared = slot.declared
    if declared.units:
        return frozenset(unit for unit in Unit if value >> unit & 1)
    if declared.flag:
        return bool(value)
    if declared.enum is None:
        return value
    return _member(declared.enum, value, slot.name)


def _member(enum: type[IntEnum], value: int, name: str) -> IntEnum:
    try:
        return enum(value)
    except ValueError:
        legal = ", ".join(f"{int(each)} {each.name.lower()}" for each in enum)
        raise CodesignError.of(f"{name} has no code {value}", found=f"it has {legal}") from None


def encode_program(instructions: Sequence[Instruction], config: AccelConfig) -> bytes:
    """Return the words of all instructions, little-endian, one behind the other."""
    size = instruction_bytes(config)
    return b"".join(encode(each, config).to_bytes(size, "little") for each in instructions)


def decode_program(data: bytes, config: AccelConfig) -> tuple[Instruction, ...]:
    """Return the instructions of program bytes; the inverse of `encode_program`.

    Raises
    ------
    CodesignError
        A length that is not a whole number of instructions, or a word that `decode` refuses.
    """
    size = instruction_bytes(config)
    if len(data) % size:
        raise CodesignError.of(
            "the program is cut off",
            found=f"{len(data)} bytes are no whole number of {size}-byte instructions",
        )
    return tuple(
        decode(int.from_bytes(data[start : start + size], "little"), config)
        for start in range(0, len(data), size)
    )
