"""The serial line's circuits, against bits written out by hand."""

from __future__ import annotations

import pytest
from amaranth.hdl import Module
from amaranth.sim import Simulator

from hardware.shells.uart import Receiver, Transmitter

PERIOD_S = 1e-6


def _frame(byte: int) -> list[int]:
    """Start bit, data from the lowest bit on, stop bit."""
    return [0, *(byte >> bit & 1 for bit in range(8)), 1]


def _run(design: object, bench: object) -> None:
    simulator = Simulator(design)
    simulator.add_clock(PERIOD_S)
    simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.parametrize("divisor", [4, 5, 50])
def test_receiver_hears_bytes_back_to_back(divisor: int) -> None:
    receiver, heard = Receiver(divisor), []
    sent = [0x00, 0xFF, 0xA5, 0x01, 0x80]
    line = [1] * 3 + [bit for byte in sent for bit in _frame(byte)] + [1] * 3

    async def bench(ctx) -> None:
        for bit in line:
            ctx.set(receiver.rx, bit)
            for _ in range(divisor):
                _, _, valid, byte = await ctx.tick().sample(receiver.valid, receiver.byte)
                if valid:
                    heard.append(byte)

    _run(receiver, bench)
    assert heard == sent


def test_receiver_drops_a_byte_without_stop_bit_and_a_spike() -> None:
    divisor = 8
    receiver, heard = Receiver(divisor), []
    broken = [*_frame(0x55)[:-1], 0, 1, 1]
    line = [bit for bit in [*broken, *_frame(0x3C), 1] for _ in range(divisor)]
    spike = [0] * 2 + [1] * 20

    async def bench(ctx) -> None:
        for bit in [*[1] * 5, *spike, *line]:
            ctx.set(receiver.rx, bit)
            _, _, valid, byte = await ctx.tick().sample(receiver.valid, receiver.byte)
            if valid:
                heard.append(byte)

    _run(receiver, bench)
    assert heard == [0x3C]


@pytest.mark.parametrize("divisor", [4, 7])
def test_transmitter_says_each_bit_for_divisor_cycles(divisor: int) -> None:
    transmitter, line = Transmitter(divisor), []
    sent = [0x00, 0xFF, 0x6B]

    async def bench(ctx) -> None:
        waiting = list(sent)
        for _ in range((len(sent) * 10 + 4) * divisor):
            ctx.set(transmitter.valid, bool(waiting))
            ctx.set(transmitter.byte, waiting[0] if waiting else 0)
            _, _, ready, tx = await ctx.tick().sample(transmitter.ready, transmitter.tx)
            line.append(tx)
            if ready and waiting:
                waiting.pop(0)

    _run(transmitter, bench)
    assert _bytes_of(line, divisor) == sent


def _bytes_of(line: list[int], divisor: int) -> list[int]:
    """Return the bytes of a line: in every frame each bit holds for `divisor` cycles."""
    found, at = [], 0
    while 0 in line[at:]:
        at = line.index(0, at)
        bits = [line[at + bit * divisor : at + (bit + 1) * divisor] for bit in range(10)]
        assert all(len(set(bit)) == 1 for bit in bits), bits
        assert (bits[0][0], bits[9][0]) == (0, 1)
        found.append(sum(bits[1 + bit][0] << bit for bit in range(8)))
        at += 10 * divisor
    return found


def test_module_of_both_is_transparent() -> None:
    """What one says, the other hears."""
    m = Module()
    m.submodules.transmitter = transmitter = Transmitter(6)
    m.submodules.receiver = receiver = Receiver(6)
    m.d.comb += receiver.rx.eq(transmitter.tx)
    heard = []

    async def bench(ctx) -> None:
        byte = 0
        for _ in range(64 * 62):
            ctx.set(transmitter.valid, byte < 64)
            ctx.set(transmitter.byte, byte & 0xFF)
            _, _, ready, valid, got = await ctx.tick().sample(
                transmitter.ready, receiver.valid, receiver.byte
            )
            byte += ready and byte < 64
            if valid:
                heard.append(got)

    _run(m, bench)
    assert heard == list(range(64))
