"""Instruction words and assembly: inverse to each other, and strict about what does not fit."""

from __future__ import annotations

from dataclasses import MISSING, fields, replace
from typing import Any

import numpy as np
import pytest

from codesign.accel.assembly import assemble, disassemble, format_instruction
from codesign.accel.config import AccelConfig
from codesign.accel.encoding import (
    decode,
    decode_program,
    encode,
    encode_program,
    instruction_beats,
    instruction_bytes,
    layout,
)
from codesign.accel.isa import (
    INSTRUCTIONS,
    Gemm,
    Instruction,
    Load,
    Memory,
    Opcode,
    Store,
    Sync,
    Unit,
)
from codesign.accel.presets import PRESETS
from codesign.diagnostics import CodesignError
from tests.support.programs import random_config

BASE = PRESETS["base"]
STORE = Store(sram=3, segment=1, address=77, size=(1, 2, 3), stride=(9, 8))


def random_instruction(rng: np.random.Generator, config: AccelConfig) -> Instruction:
    """Return an instruction with any value in every field, legal or not."""
    opcode = Opcode(int(rng.integers(len(Opcode))))
    values: dict[str, Any] = {}
    for slot in layout(opcode, config):
        edges = (slot.low, slot.high, int(rng.integers(slot.low, slot.high + 1)))
        elements = tuple(edges[int(rng.integers(3))] for _ in range(slot.declared.count))
        values[slot.name] = elements if slot.declared.count > 1 else elements[0]
        if slot.declared.units:
            values[slot.name] = frozenset(u for u in Unit if rng.integers(2))
        elif slot.declared.flag:
            values[slot.name] = bool(rng.integers(2))
        elif slot.declared.enum is not None:
            values[slot.name] = slot.declared.enum(int(rng.integers(len(slot.declared.enum))))
    instruction: Instruction = INSTRUCTIONS[opcode](**values)
    return instruction


@pytest.mark.parametrize("seed", range(40))
def test_words_and_text_are_inverse_for_random_instructions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    config = random_config(rng)
    program = tuple(random_instruction(rng, config) for _ in range(25))
    assert decode_program(encode_program(program, config), config) == program
    assert assemble(disassemble(program)) == program


@pytest.mark.parametrize("opcode", Opcode)
@pytest.mark.parametrize("name", PRESETS)
def test_fields_follow_each_other_without_gap_or_overlap(name: str, opcode: Opcode) -> None:
    slots = layout(opcode, PRESETS[name])
    assert slots[0].offset == 3
    assert [slot.offset for slot in slots[1:]] == [slot.end for slot in slots[:-1]]
    assert all(slot.width >= 1 for slot in slots)


@pytest.mark.parametrize("seed", range(20))
def test_word_is_the_least_power_of_two_that_holds_every_instruction(seed: int) -> None:
    config = random_config(np.random.default_rng(seed))
    size = instruction_bytes(config)
    longest = max(layout(opcode, config)[-1].end for opcode in Opcode)
    assert size & (size - 1) == 0
    assert size * 8 >= longest
    assert size // 2 * 8 < longest or size == max(8, config.bus_bytes)
    assert instruction_beats(config) * config.bus_bytes == size


def test_store_has_the_bits_that_a_hand_count_gives() -> None:
    """Opcode 4; no tokens; sram 11 bits, segment 3, address 29, size 3 x 11, stride 2 x 24."""
    expected, offset = 4, 3 + 4 + 4
    pieces = [(3, 11), (1, 3), (77, 29), (0, 11), (1, 11), (2, 11), (9, 24), (8, 24)]
    for value, width in pieces:
        expected |= value << offset
        offset += width
    assert encode(STORE, BASE) == expected
    assert encode_program([STORE], BASE) == expected.to_bytes(64, "little")


def test_values_that_do_not_fit_are_all_named_with_their_limits() -> None:
    store = replace(STORE, sram=2048, size=(0, 1, 2049))
    with pytest.raises(CodesignError) as error:
        encode(store, BASE)
    assert [diagnostic.title_text() for diagnostic in error.value.diagnostics] == [
        "Store.sram must be from 0 to 2047, not 2048",
        "Store.size must be from 1 to 2048, not 0",
        "Store.size must be from 1 to 2048, not 2049",
    ]


def test_wrong_count_and_wrong_type_are_named() -> None:
    with pytest.raises(CodesignError, match=r"Store\.size has 3 elements, not 2"):
        encode(replace(STORE, size=(1, 2)), BASE)  # type: ignore[arg-type]
    with pytest.raises(CodesignError, match=r"Store\.sram cannot be \[\]"):
        encode(replace(STORE, sram=[]), BASE)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        (7, "no instruction has opcode 7"),
        (1 << 200, "sync has bits set behind its last field"),
        (Opcode.LOAD | 7 << 11, "memory has no code 7"),
    ],
)
def test_words_that_mean_nothing_are_refused(word: int, message: str) -> None:
    with pytest.raises(CodesignError, match=message):
        decode(word, BASE)


def test_program_bytes_that_are_cut_off_are_refused() -> None:
    with pytest.raises(CodesignError, match="130 bytes are no whole number of 64-byte instruc"):
        decode_program(bytes(130), BASE)


def test_every_field_says_what_it_means() -> None:
    for kind in INSTRUCTIONS.values():
        for each in fields(kind):
            assert len(each.metadata["field"].doc) > 5, each.name
        assert any(each.default is MISSING for each in fields(kind))


def test_text_of_an_instruction_is_short_and_readable() -> None:
    gemm = Gemm(
        wait=frozenset({Unit.VECTOR, Unit.LOAD}),
        push=frozenset({Unit.VECTOR}),
        reduce=7,
        extents=(1, 1, 1, 2, 3, 3),
        acc=4,
        acc_strides=(0, 0, 0, 1, 0, 0),
        inp=0,
        inp_strides=(0, 0, 0, 8, 4, 1),
        wgt=9,
        wgt_strides=(0, 0, 0, 0, 3, 1),
    )
    assert format_instruction(gemm) == (
        "gemm wait=load,vector push=vector reduce=7 extents=[1,1,1,2,3,3] acc=4[0,0,0,1,0,0] "
        "inp=0[0,0,0,8,4,1] wgt=9[0,0,0,0,3,1]"
    )


def test_comments_and_empty_lines_are_skipped_and_defaults_filled() -> None:
    load = "  load memory=inp sram=0 segment=2 address=4 size=[1,1,8] # first"
    text = f"# a program\n\n{load}\nsync unit=store\n"
    assert assemble(text) == (
        Load(memory=Memory.INP, sram=0, segment=2, address=4, size=(1, 1, 8)),
        Sync(unit=Unit.STORE),
    )


@pytest.mark.parametrize(
    ("line", "message", "column"),
    [
        ("jump to=5", "no instruction is called 'jump'", 1),
        ("sync unit=fetch", "'fetch' is not a Unit", 6),
        ("sync", "sync lacks unit", 1),
        ("sync unit=load unit=load", "unit stands twice", 16),
        ("sync unit=load size=[1]", "the instruction has no field 'size'", 16),
        ("store sram=x", "'x' is not an integer", 7),
        ("store size=1", "'size=1' needs a list in brackets", 7),
        ("gemm accumulate=1", "a flag takes no value", 6),
        ("sync unit==[", "is not of the form field=value", 6),
    ],
)
def test_malformed_lines_are_located(line: str, message: str, column: int) -> None:
    with pytest.raises(CodesignError) as error:
        assemble(f"sync unit=load\n{line}\n", source="p.s")
    text = str(error.value)
    assert message in text
    assert f"p.s:2:{column}" in text
