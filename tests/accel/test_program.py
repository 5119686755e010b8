"""Static checks and the file format of programs: each rule broken alone, and files that lie."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codesign.accel.config import AccelConfig, Memory
from codesign.accel.isa import (
    Destination,
    Gemm,
    Instruction,
    Load,
    Reduce,
    Store,
    Sync,
    Unit,
    Vector,
    VectorOp,
    XSource,
    YSource,
)
from codesign.accel.program import MAGIC, Program, check_program
from codesign.diagnostics import CodesignError
from tests.support.programs import random_config, random_program

CONFIG = AccelConfig(acc_depth=64, acc_banks=2, inp_depth=64, wgt_depth=64, vec_depth=64,
                     out_depth=64, param_depth=16, lut_depth=512)  # fmt: skip
LOAD = Load(memory=Memory.INP, sram=0, segment=0, address=0, size=(1, 1, 4))
GEMM = Gemm(extents=(1,) * 6, acc=0, acc_strides=(0,) * 6, inp=0, inp_strides=(0,) * 6, wgt=0,
            wgt_strides=(0,) * 6)  # fmt: skip
VECTOR = Vector(op=VectorOp.PASS, x_source=XSource.ACC, destination=Destination.OUT,
                extents=(1,) * 5, dst=0, dst_strides=(0,) * 5, x=0, x_strides=(0,) * 5, low=-128,
                high=127)  # fmt: skip
STORE = Store(sram=0, segment=0, address=0, size=(1, 1, 4))


def _program(*instructions: Instruction, segments: tuple[int, ...] = (4096,)) -> Program:
    return Program(instructions=instructions, digest=CONFIG.digest, segments=segments)


def _told(program: Program, config: AccelConfig = CONFIG) -> list[str]:
    try:
        check_program(program, config)
    except CodesignError as error:
        return [diagnostic.title_text() for diagnostic in error.diagnostics]
    return []


def test_plain_instructions_are_legal() -> None:
    assert _told(_program(LOAD, GEMM, VECTOR, STORE)) == []


@pytest.mark.parametrize(
    ("instruction", "change", "message"),
    [
        (LOAD, {"sram": 62}, "reaches inp tile 65; inp has 64 tiles"),
        (LOAD, {"pad": (0, 0, 61, 0)}, "reaches inp tile 64; inp has 64 tiles"),
        (LOAD, {"address": 505}, "reaches byte 4103 of segment 0, which has 4096 bytes"),
        (LOAD, {"segment": 1}, "uses segment 1; the program has 1"),
        (LOAD, {"memory": Memory.OUT}, "loads into out; only inp, wgt, vec, param, lut are loada"),
        (LOAD, {"memory": Memory.WGT, "size": (1, 1, 1), "pad": (1, 0, 0, 0)}, "pads wgt; only"),
        (LOAD, {"push": frozenset({Unit.LOAD})}, "load exchanges no tokens with load"),
        (GEMM, {"push": frozenset({Unit.STORE})}, "gemm exchanges no tokens with store"),
        (GEMM, {"extents": (1, 1, 1, 1, 2, 2), "inp_strides": (0, 0, 0, 0, 62, 2)}, "reaches inp"),
        (GEMM, {"extents": (1, 1, 1, 1, 2, 2), "acc_strides": (0, 0, 0, 0, 30, 2)},
         "touches accumulator banks 0 and 1; an instruction has one bank"),
        (GEMM, {"reduce": 1, "extents": (2, 1, 1, 1, 1, 1), "acc_strides": (3, 0, 0, 0, 0, 0)},
         "reduces over loop 0, which moves the accumulator by 3"),
        (VECTOR, {"reduce_loops": 1}, "has 1 reducing loops, but reduce=none"),
        (VECTOR, {"reduce_loops": 6, "reduce": Reduce.SUM}, "reduces over 6 loops of 5"),
        (VECTOR, {"reduce_loops": 1, "reduce": Reduce.SUM, "extents": (1, 1, 1, 1, 2),
                  "dst_strides": (0, 0, 0, 0, 1)}, "moves the destination in a reducing loop"),
        (VECTOR, {"op": VectorOp.ADD, "y_source": YSource.ACC}, "takes x and y from acc"),
        (VECTOR, {"op": VectorOp.ADD, "x_source": XSource.VEC, "y_source": YSource.VEC},
         "takes x and y from vec, which has one port"),
        (VECTOR, {"residual": True, "requantize": True}, "so it must be op=pass with y_source=vec"),
        (VECTOR, {"residual": True, "y_source": YSource.VEC}, "so it must requantize and not red"),
        (VECTOR, {"residual": True, "y_source": YSource.VEC, "requantize": True,
                  "residual_shift": 25}, "shifts the residual by 25, more than 24"),
        (VECTOR, {"y_source": YSource.PARAM}, "names a source of y, which op=pass does not read"),
        (VECTOR, {"low": 1, "high": 0}, "clips to 1 .. 0, which is empty"),
        (VECTOR, {"lookup": True, "lut_base": 128}, "has lut_base 128, which is no multiple"),
        (VECTOR, {"lookup": True, "destination": Destination.ACC}, "looks up a table for a dest"),
        (VECTOR, {"requantize": True, "q": 15, "extents": (2, 1, 1, 1, 1),
                  "q_strides": (1, 0, 0, 0, 0)}, "reaches param tile 16; param has 16 tiles"),
        (VECTOR, {"op": VectorOp.MUL, "y_source": YSource.PARAM, "y": 63,
                  "extents": (2, 1, 1, 1, 1), "y_strides": (1, 0, 0, 0, 0)}, "reaches param tile"),
        (VECTOR, {"destination": Destination.ACC, "x": 1, "extents": (1, 1, 1, 1, 2),
                  "x_strides": (0, 0, 0, 0, 1), "dst_strides": (0, 0, 0, 0, 1)},
         "reads x from accumulators that it also writes, other than tile by tile"),
        (VECTOR, {"destination": Destination.ACC, "dst": 40}, "touches accumulator banks 0 and 1"),
        (STORE, {"sram": 61}, "reaches out tile 64; out has 64 tiles"),
        (STORE, {"size": (1, 2, 4), "stride": (0, 7)}, "writes a box whose tiles overlap in DRAM"),
        (STORE, {"sram": 64}, "Store.sram must be from 0 to 63, not 64"),
    ],
)  # fmt: skip
def test_each_broken_rule_is_told_with_index_and_text(
    instruction: Instruction, change: dict[str, Any], message: str
) -> None:
    broken = replace(instruction, **change)
    with pytest.raises(CodesignError) as error:
        check_program(_program(Sync(unit=Unit.LOAD), broken), CONFIG)
    told = [diagnostic.title_text() for diagnostic in error.value.diagnostics]
    assert any(each.startswith("instruction 1: ") and message in each for each in told), told
    assert error.value.diagnostics[0].label_text().startswith(instruction.opcode.name.lower())


@pytest.mark.parametrize(
    ("change", "without", "message"),
    [
        ({"op": VectorOp.MUL}, {"has_multiplier": False}, "multiplies by y; the configuration c"),
        ({"lookup": True}, {"has_lut": False}, "looks up a table; the configuration has none"),
    ],
)
def test_optional_units_must_be_there(
    change: dict[str, Any], without: dict[str, Any], message: str
) -> None:
    config = replace(CONFIG, **without)
    program = replace(_program(replace(VECTOR, **change)), digest=config.digest)
    assert any(message in each for each in _told(program, config))


def test_in_place_work_on_accumulators_is_legal_tile_by_tile() -> None:
    strides = (0, 0, 0, 4, 1)
    vector = replace(
        VECTOR, destination=Destination.ACC, extents=(1, 1, 1, 4, 4), x_strides=strides,
        dst_strides=strides,
    )  # fmt: skip
    assert _told(_program(vector)) == []


def _sync(unit: Unit, wait: set[Unit] | None = None, push: set[Unit] | None = None) -> Sync:
    return Sync(unit=unit, wait=frozenset(wait or ()), push=frozenset(push or ()))


def test_tokens_that_nobody_takes_are_told() -> None:
    program = _program(_sync(Unit.LOAD, push={Unit.GEMM}))
    assert _told(program) == ["program: 1 tokens of load for gemm are never taken"]


def test_a_wait_that_would_deadlock_is_told() -> None:
    program = _program(
        _sync(Unit.GEMM, wait={Unit.LOAD}, push={Unit.LOAD}),
        _sync(Unit.LOAD, wait={Unit.GEMM}, push={Unit.GEMM}),
    )
    assert _told(program)[0] == (
        "instruction 0: waits for a token of load that nothing before gives"
    )


def test_255_tokens_may_wait_and_256_may_not() -> None:
    def program(count: int) -> Program:
        pushes = [_sync(Unit.LOAD, push={Unit.GEMM})] * count
        return _program(*pushes, *[_sync(Unit.GEMM, wait={Unit.LOAD})] * count)

    assert _told(program(255)) == []
    assert _told(program(256)) == ["instruction 255: may be the 256th token that waits at gemm"]


def test_tokens_that_a_lagging_queue_has_not_taken_count_as_waiting() -> None:
    pushes = [_sync(Unit.LOAD, push={Unit.GEMM})] * 255
    takes = [_sync(Unit.GEMM, wait={Unit.LOAD})] * 255
    program = _program(*pushes, takes[0], pushes[0], *takes)
    assert _told(program) == ["instruction 256: may be the 256th token that waits at gemm"]


def test_a_long_report_is_cut() -> None:
    told = _told(_program(*[replace(LOAD, segment=1)] * 50))
    assert len(told) == 21
    assert told[-1] == "and 30 problems more"


def test_another_configuration_and_too_many_segments_are_refused() -> None:
    program = _program(LOAD)
    assert _told(program, AccelConfig()) == ["the program is for another configuration"]
    assert _told(_program(segments=(8,) * 9)) == ["the program has 9 segments of 8"]


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_saved_programs_load_again(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    config = random_config(rng)
    program, _, _ = random_program(rng, config)
    program.save(tmp_path / "program", config)
    assert Program.load(tmp_path / "program", config) == program
    assert [path.name for path in tmp_path.iterdir()] == ["program"]


def _signed(body: bytes) -> bytes:
    return MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def _changed(old: bytes, new: bytes) -> bytes:
    """Return a program file that was changed on purpose: its checksum agrees."""
    body = _program(LOAD).to_bytes(CONFIG)[len(MAGIC) :].partition(b"\n")[2]
    assert old in body
    return _signed(body.replace(old, new))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "this is no accelerator program"),
        (b"PK\x03\x04", "this is no accelerator program"),
        (MAGIC, "its checksum does not agree"),
        (_program(LOAD).to_bytes(CONFIG)[:-1], "its checksum does not agree"),
        (_signed(b""), "header is malformed"),
        (_signed(b"[1]\n"), "header is malformed"),
        (_signed(b"{}\n"), "header is malformed"),
        (_signed(b"[" * 100_000), "header is malformed"),
        (_changed(b'"abi": ', b'"abi": 9'), "of another version"),
        (_changed(b"[4096]", b"[-096]"), "malformed"),
        (_changed(b"[4096]", b"[true]"), "has segments"),
        (_changed(b"[4096]", b"[  16]"), "reaches byte 63 of segment 0, which has 16 bytes"),
        (_changed(b'tions": 1,', b'tions": 2,'), "its count does not agree"),
        (_changed(b'"digest": "', b'"digest": "0'), "for another configuration"),
        (_changed(b'"digest": "', b'"digest": 5, "x": "'), "header is malformed"),
    ],
)
def test_files_that_lie_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(CodesignError, match=message):
        Program.from_bytes(data, CONFIG)


def test_absent_file_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(CodesignError, match="cannot read program"):
        Program.load(tmp_path / "absent", CONFIG)


def test_a_folder_that_is_not_there_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(CodesignError, match="cannot write program"):
        _program(LOAD).save(tmp_path / "absent" / "program", CONFIG)


@pytest.mark.parametrize("seed", range(8))
def test_damaged_files_are_refused_and_never_misread(seed: int) -> None:
    rng = np.random.default_rng(seed)
    program = _program(LOAD, GEMM, VECTOR, STORE)
    data = program.to_bytes(CONFIG)
    for _ in range(60):
        damaged = bytearray(data)
        start = int(rng.integers(len(data)))
        damaged[start : start + int(rng.integers(3))] = rng.bytes(int(rng.integers(3)))
        try:
            assert Program.from_bytes(bytes(damaged), CONFIG) == program
        except CodesignError:
            continue
