"""A fault in one unit's data: the comparison names the first wrong instruction and address."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import Module, Mux, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import Out

from codesign.accel.config import Memory
from codesign.accel.isa import Opcode, Store
from hardware.generate import generate
from hardware.rtl import accelerator
from hardware.rtl.fetch import Fetch
from hardware.rtl.gemm import Gemm
from hardware.rtl.layouts import instruction_layout
from hardware.rtl.load import Load
from hardware.rtl.store import Store as StoreUnit
from hardware.rtl.vector import Vector
from hardware.verilate import build_library
from tests.support.campaign import SMALL
from tests.support.cosim import CACHE, Comparison, compare
from tests.support.layers import OUTPUTS, Convolutions, convolutions

pytestmark = [pytest.mark.slow, pytest.mark.needs_verilator]

CONFIG = replace(SMALL, inp_depth=128, wgt_depth=32, vec_depth=64, acc_depth=64, out_depth=64)
SHAPE = Convolutions(side=4, rounds=4)
TILE_BYTES = 8
"""A tile of `out` takes a beat of 64 bits, though it has 4 elements of 8 bits."""

FIRST_ROUND_OF_BANK_1 = 1


def faulty(unit: type[wiring.Component], port: str, fault: Callable[[Any], Value]) -> type:
    """Return a unit whose output `port` is the exclusive or of the true one and a fault."""

    class Faulty(wiring.Component):
        def __init__(self, *arguments: Any) -> None:
            self._inner = unit(*arguments)
            super().__init__(self._inner.signature)

        def elaborate(self, _platform: object) -> Module:
            m = Module()
            m.submodules.inner = inner = self._inner
            for name, member in inner.signature.members.items():
                ours, true = Value.cast(getattr(self, name)), Value.cast(getattr(inner, name))
                if member.flow is not Out:
                    m.d.comb += true.eq(ours)
                elif name == port:
                    m.d.comb += ours.eq(true ^ fault(inner))
                else:
                    m.d.comb += ours.eq(true)
            return m

    return Faulty


def in_bank_1(unit: Gemm) -> Value:
    return Mux(unit.acc_write_tile >= CONFIG.acc_bank_depth, 1 << 20, 0)


def in_weights(unit: Load) -> Value:
    """Return a bit of the second output channel's first weight, in each tile of wgt."""
    bit = Value.cast(unit.write).shape().width - len(unit.write.data) + 4 * CONFIG.wgt_bits + 6
    hit = (unit.write.memory == Memory.WGT.value) & (unit.write.beat == 0)
    return Mux(hit, 1 << bit, 0)


def in_vector_instructions_of_bank_1(unit: Fetch) -> Value:
    """Return a bit of the zero point of the vector instructions that read bank 1."""
    fields = instruction_layout(CONFIG, Opcode.VECTOR)
    vector = data.View(fields, unit.instruction[: fields.size])
    hit = (vector.opcode == Opcode.VECTOR.value) & (vector.x >= CONFIG.acc_bank_depth)
    return Mux(hit, 1 << fields["zero_point"].offset, 0)


def compared(folder: Path, name: str, broken: type) -> Comparison:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accelerator, name, broken)
        generate(CONFIG, folder / "rtl", arm="simulation")
    library = build_library(folder, CONFIG.digest, CACHE, lambda _: None)
    try:
        return compare(*convolutions(CONFIG, SHAPE), CONFIG, library)
    finally:
        shutil.rmtree(folder)


FAULTS = {
    "fetch": (
        "Fetch",
        faulty(Fetch, "instruction", in_vector_instructions_of_bank_1),
        FIRST_ROUND_OF_BANK_1,
        0,
    ),
    "load": ("Load", faulty(Load, "write", in_weights), 0, 1),
    "gemm": ("Gemm", faulty(Gemm, "acc_write", in_bank_1), FIRST_ROUND_OF_BANK_1, 0),
    "vector": ("Vector", faulty(Vector, "out_write", lambda _: Value.cast(1 << 9)), 0, 1),
    "store": ("Store", faulty(StoreUnit, "beat", lambda _: Value.cast(1 << 23)), 0, 2),
}
"""Name of the unit, the broken one, the first round it spoils, and the byte of the first tile."""


@pytest.mark.parametrize("unit", FAULTS)
def test_a_flipped_bit_is_traced_to_its_instruction(unit: str, tmp_path: Path) -> None:
    name, broken, spoiled, byte = FAULTS[unit]
    program, _, bases = convolutions(CONFIG, SHAPE)
    stores = [i for i, each in enumerate(program.instructions) if isinstance(each, Store)]
    found = compared(tmp_path / "build", name, broken)
    assert found.values_differ
    assert found.distance == 0
    sentence = found.differences[0]
    place = re.search(r"the first at (0x[0-9a-f]+) .*, which store (\d+) writes", sentence)
    assert place is not None, sentence
    assert int(place[2]) == stores[spoiled]
    round_bytes = SHAPE.side**2 * TILE_BYTES
    assert int(place[1], 16) == bases[OUTPUTS] + spoiled * round_bytes + byte


def test_a_unit_that_counts_wrongly_is_named(tmp_path: Path) -> None:
    broken = faulty(Vector, "wait_token", lambda unit: unit.busy)
    found = compared(tmp_path / "build", "Vector", broken)
    assert not found.values_differ
    assert any(s.startswith("counter vector_wait_token") for s in found.differences)
