"""The functional simulator: against the plain machine, and against NumPy on hand-made layers."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from codesign.accel.config import AccelConfig, Memory
from codesign.accel.isa import Destination, Gemm, Load, Store, Unit, Vector, VectorOp, XSource
from codesign.accel.program import Program, check_program
from codesign.accel.tiles import pack_tiles
from codesign.diagnostics import CodesignError, InternalError
from codesign.sim.functional import FunctionalSimulator
from tests.support.plain_machine import PlainMachine
from tests.support.programs import random_config, random_program
from tests.support.reorder import greedy_order

SMALL = AccelConfig(
    block_in=4,
    block_out=4,
    vector_lanes=4,
    bus_bits=32,
    inp_depth=64,
    wgt_depth=64,
    vec_depth=64,
    acc_depth=64,
    out_depth=64,
    param_depth=16,
    lut_depth=256,
    burst_beats=16,
)


@pytest.mark.parametrize("seed", range(30))
def test_functional_equals_plain_machine(seed: int) -> None:
    rng = np.random.default_rng(seed)
    config = random_config(rng)
    program, dram, bases = random_program(rng, config)
    plain = PlainMachine(config, bytearray(dram.tobytes()), bases)
    plain.run(program.instructions)
    simulator = FunctionalSimulator(config)
    counters = simulator.run(program, dram, bases)
    assert dram.tobytes() == bytes(plain.dram)
    for memory in Memory:
        for index, tile in enumerate(plain.tiles[memory]):
            if tile is not None:
                held = simulator.state.whole(memory)[index].ravel().astype(object)
                expected = [value % 2**64 for value in tile] if memory is Memory.PARAM else tile
                assert held.tolist() == expected, (memory, index)
    assert counters.saturations == plain.saturations


@pytest.mark.parametrize("seed", range(6))
def test_random_programs_have_one_answer_in_every_order_that_tokens_allow(seed: int) -> None:
    rng = np.random.default_rng(seed)
    config = random_config(rng)
    program, dram, bases = random_program(rng, config)
    serial = dram.copy()
    FunctionalSimulator(config).run(program, serial, bases)
    orders = set()
    for priority in itertools.permutations(Unit):
        order = greedy_order(program.instructions, priority)
        orders.add(order)
        other = dram.copy()
        FunctionalSimulator(config).run(replace(program, instructions=order), other, bases)
        assert (other == serial).all(), priority
    assert len(orders) > 4


def test_random_programs_reach_every_kind_of_work() -> None:
    seen = set()
    for seed in range(40):
        rng = np.random.default_rng(seed)
        config = random_config(rng)
        program, _, _ = random_program(rng, config)
        for each in program.instructions:
            seen |= {("wait", each.unit, giver) for giver in each.wait}
            match each:
                case Vector():
                    seen |= {each.op, ("x", each.x_source), ("y", each.y_source)}
                    seen |= {("reduce", each.reduce), ("to", each.destination)}
                    seen |= {("residual", each.residual), ("lookup", each.lookup)}
                case Load():
                    seen |= {("load", each.memory), ("pad", any(each.pad))}
                case Gemm():
                    seen |= {("accumulate", each.accumulate)}
    assert {("lookup", True), ("residual", True), ("pad", True), *VectorOp} <= seen
    assert sum(isinstance(each, tuple) and each[0] == "wait" for each in seen) == 10
    assert sum(isinstance(each, tuple) and each[0] == "load" for each in seen) == 5


def _program(config: AccelConfig, *instructions: object, size: int = 4096) -> Program:
    program = Program(instructions=tuple(instructions), digest=config.digest, segments=(size,))  # type: ignore[arg-type]
    check_program(program, config)
    return program


def _drain(config: AccelConfig, count: int, address: int) -> tuple[Vector, Store]:
    half = 1 << (config.inp_bits - 1)
    drain = Vector(
        op=VectorOp.PASS,
        x_source=XSource.ACC,
        destination=Destination.OUT,
        extents=(1, 1, 1, 1, count),
        dst=0,
        dst_strides=(0, 0, 0, 0, 1),
        x=0,
        x_strides=(0, 0, 0, 0, 1),
        low=-half,
        high=half - 1,
        wait=frozenset({Unit.GEMM}),
        push=frozenset({Unit.STORE}),
    )
    store = Store(
        sram=0, segment=0, address=address, size=(1, 1, count), wait=frozenset({Unit.VECTOR})
    )
    return drain, store


@pytest.mark.parametrize("block", [4, 8, 16, 32])
def test_products_into_one_accumulator_in_consecutive_cycles(block: int) -> None:
    """Eight products, 0 to 7, into one row give 28; into two rows in turn 12 and 16."""
    config = AccelConfig(block_in=block, block_out=block, vector_lanes=block, bus_bits=32)
    inp = np.zeros((8, 1, block), np.int8)
    inp[:, 0, 0] = range(8)
    wgt = np.zeros((1, block, block), np.int8)
    wgt[:, :, 0] = 1
    dram = np.zeros(4096, np.uint8)
    image = pack_tiles(inp, Memory.INP, config).ravel()
    dram[: image.size] = image
    dram[1024 : 1024 + block * block] = pack_tiles(wgt, Memory.WGT, config).ravel()
    loads = (
        Load(memory=Memory.INP, sram=0, segment=0, address=0, size=(1, 1, 8)),
        Load(
            memory=Memory.WGT,
            sram=0,
            segment=0,
            address=256,
            size=(1, 1, 1),
            push=frozenset({Unit.GEMM}),
        ),
    )
    zeros = (0,) * 6
    one_row = Gemm(
        reduce=32,
        extents=(1, 1, 1, 1, 1, 8),
        acc=0,
        acc_strides=zeros,
        inp=0,
        inp_strides=(0, 0, 0, 0, 0, 1),
        wgt=0,
        wgt_strides=zeros,
        wait=frozenset({Unit.LOAD}),
    )
    two_rows = Gemm(
        reduce=16,
        extents=(1, 1, 1, 1, 4, 2),
        acc=1,
        acc_strides=(0, 0, 0, 0, 0, 1),
        inp=0,
        inp_strides=(0, 0, 0, 0, 2, 1),
        wgt=0,
        wgt_strides=zeros,
        push=frozenset({Unit.VECTOR}),
    )
    program = _program(config, *loads, one_row, two_rows, *_drain(config, 3, 512))
    FunctionalSimulator(config).run(program, dram, [0])
    out = dram[2048 : 2048 + 3 * block].reshape(3, block)
    assert (out == np.array([[28], [12], [16]])).all()


def test_reading_a_tile_that_nothing_wrote_names_instruction_and_tile() -> None:
    zeros = (0,) * 6
    gemm = Gemm(
        extents=(1,) * 6, acc=0, acc_strides=zeros, inp=3, inp_strides=zeros, wgt=0,
        wgt_strides=zeros,
    )  # fmt: skip
    program = _program(SMALL, gemm)
    with pytest.raises(CodesignError, match=r"instruction 0: tile 3 of inp is read, but nothing"):
        FunctionalSimulator(SMALL).run(program, np.zeros(4096, np.uint8), [0])


@pytest.mark.parametrize(
    ("memory", "message"),
    [
        (Memory.VEC, "instruction 4: tile 7 of vec is read"),
        (Memory.PARAM, "instruction 4: tile 3 of param is read"),
        (Memory.LUT, "instruction 4: tile 200 of lut is read"),
        (Memory.OUT, "instruction 5: tile 6 of out is read"),
    ],
)
def test_every_memory_refuses_tiles_that_nothing_wrote(memory: Memory, message: str) -> None:
    """One tile is missing in turn: elements of vec are -56, the table's entry 200."""
    dram = np.zeros(4096, np.uint8)
    dram[:64] = -56 % 256
    counts = {Memory.VEC: 8, Memory.PARAM: 4, Memory.LUT: 256, Memory.OUT: 6}
    if memory in (Memory.VEC, Memory.PARAM):
        counts[memory] -= 1
    if memory is Memory.LUT:
        counts[memory] = 200
    if memory is Memory.OUT:
        counts[memory] = 7
    loads = (
        _load(Memory.VEC, 0, 0, counts[Memory.VEC]),
        _load(Memory.PARAM, 0, 64, counts[Memory.PARAM]),
        _load(Memory.LUT, 0, 128, 16),
        _load(Memory.LUT, 16, 128, counts[Memory.LUT] - 16, frozenset({Unit.VECTOR})),
    )
    vector = Vector(
        op=VectorOp.PASS,
        x_source=XSource.VEC,
        destination=Destination.OUT,
        requantize=True,
        lookup=True,
        extents=(1, 1, 1, 1, 6),
        dst=0,
        dst_strides=(0, 0, 0, 0, 1),
        x=2,
        x_strides=(0, 0, 0, 0, 1),
        q=3,
        q_strides=(0,) * 5,
        low=-56,
        high=-56,
        wait=frozenset({Unit.LOAD}),
        push=frozenset({Unit.STORE}),
    )
    store = Store(
        sram=0,
        segment=0,
        address=512,
        size=(1, 1, counts[Memory.OUT]),
        wait=frozenset({Unit.VECTOR}),
    )
    program = _program(SMALL, *loads, vector, store)
    with pytest.raises(CodesignError, match=message):
        FunctionalSimulator(SMALL).run(program, dram, [0])


def _load(
    memory: Memory, sram: int, address: int, count: int, push: frozenset[Unit] = frozenset()
) -> Load:
    rows = -(-count // 60)
    assert count % rows == 0
    beats = SMALL.beats(memory)
    return Load(
        memory=memory,
        sram=sram,
        segment=0,
        address=address,
        size=(1, rows, count // rows),
        stride=(0, beats * count // rows),
        push=push,
    )


def test_a_param_word_that_shifts_too_far_is_refused() -> None:
    dram = np.full(4096, 0xFF, np.uint8)
    loads = (
        _load(Memory.VEC, 0, 0, 1),
        _load(Memory.PARAM, 0, 64, 1, frozenset({Unit.VECTOR})),
    )
    vector = Vector(
        op=VectorOp.PASS,
        x_source=XSource.VEC,
        destination=Destination.OUT,
        requantize=True,
        extents=(1,) * 5,
        dst=0,
        dst_strides=(0,) * 5,
        x=0,
        x_strides=(0,) * 5,
        low=-1,
        high=1,
        wait=frozenset({Unit.LOAD}),
    )
    program = _program(SMALL, *loads, vector)
    with pytest.raises(CodesignError, match=r"instruction 2: a param word shifts by 255 bits"):
        FunctionalSimulator(SMALL).run(program, dram, [0])


def test_one_simulator_runs_programs_in_turn_from_empty_scratchpads() -> None:
    rng = np.random.default_rng(5)
    config = random_config(rng)
    runs = [random_program(rng, config) for _ in range(3)]
    simulator = FunctionalSimulator(config)
    for program, dram, bases in (*runs, *runs[::-1]):
        changed = rng.permutation(dram[-4096:])
        first, second = dram.copy(), dram.copy()
        first[-4096:] = second[-4096:] = changed
        assert simulator.run(program, first, bases) == FunctionalSimulator(config).run(
            program, second, bases
        )
        assert (first == second).all()


def test_a_program_that_leaves_a_scratchpad_is_not_run() -> None:
    load = Load(memory=Memory.INP, sram=60, segment=0, address=0, size=(1, 1, 8))
    program = Program(instructions=(load,), digest=SMALL.digest, segments=(4096,))
    with pytest.raises(InternalError, match="leaves a scratchpad"):
        FunctionalSimulator(SMALL).run(program, np.zeros(4096, np.uint8), [0])


def test_program_of_another_configuration_is_refused() -> None:
    program = Program(instructions=(), digest=AccelConfig(batch=2).digest, segments=())
    with pytest.raises(CodesignError, match="the program is for another configuration"):
        FunctionalSimulator(SMALL).run(program, np.zeros(8, np.uint8), [])


@pytest.mark.parametrize(
    ("base", "message"),
    [(2, "no multiple of 4 bytes"), (4, "segment 0 lies outside the memory"), (-4096, "outside")],
)
def test_segments_must_lie_in_memory_on_whole_beats(base: int, message: str) -> None:
    program = _program(SMALL)
    with pytest.raises(CodesignError, match=message):
        FunctionalSimulator(SMALL).run(program, np.zeros(4096, np.uint8), [base])
