"""Instruction words as Amaranth layouts: the only converter from `codesign.accel` to views."""

from __future__ import annotations

from amaranth.hdl import ShapeLike, signed, unsigned
from amaranth.lib import data

from codesign.accel.config import AccelConfig
from codesign.accel.encoding import OPCODE_BITS, layout
from codesign.accel.isa import INSTRUCTIONS, Opcode, Unit


def instruction_layout(config: AccelConfig, opcode: Opcode) -> data.StructLayout:
    """Return the layout of an instruction word, lowest field first.

    Values are raw: what `isa.Field.minimum` subtracted is not added again.
    """
    members: dict[str, ShapeLike] = {"opcode": unsigned(OPCODE_BITS)}
    for slot in layout(opcode, config):
        element = signed(slot.width) if slot.declared.signed else unsigned(slot.width)
        count = slot.declared.count
        members[slot.name] = element if count == 1 else data.ArrayLayout(element, count)
    return data.StructLayout(members)


def queue_bits(config: AccelConfig, unit: Unit) -> int:
    """Return the width of a unit's command queue: its longest instruction."""
    opcodes = [Opcode.SYNC]
    opcodes += [opcode for opcode, kind in INSTRUCTIONS.items() if vars(kind).get("unit") is unit]
    return max(instruction_layout(config, opcode).size for opcode in opcodes)


def beat_address_bits(config: AccelConfig) -> int:
    """Return the width of a DRAM address in beats."""
    return config.address_bits - (config.bus_bytes - 1).bit_length()


def burst_layout(config: AccelConfig) -> data.StructLayout:
    """Return the layout of a burst request: address in beats, and beats less one."""
    return data.StructLayout(
        {
            "address": unsigned(beat_address_bits(config)),
            "last": unsigned(max(1, (config.burst_beats - 1).bit_length())),
        }
    )
