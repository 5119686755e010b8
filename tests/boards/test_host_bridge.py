"""The bridge answers frames as the protocol says; frames are written out byte by byte here."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from amaranth.sim import Simulator

from codesign.accel.presets import EDGE
from codesign.accel.serial_protocol import BoardInfo, Command, ReplyStatus
from hardware.shells.host_bridge import HostBridge

SILENCE = 400
BYTE_CYCLES = 32
MEMORY_BYTES = 4096
INFO = BoardInfo(memory_bytes=MEMORY_BYTES, bus_bytes=8, clock_hz=50_000_000)


def _crc(data: bytes) -> bytes:
    """CRC-16, polynomial 0x1021, from 0xFFFF, bit by bit."""
    value = 0xFFFF
    for byte in data:
        value ^= byte << 8
        for _ in range(8):
            value = (value << 1 ^ (0x1021 if value & 0x8000 else 0)) & 0xFFFF
    return struct.pack(">H", value)


def _request(
    command: int, sequence: int, address: int, length: int, data: bytes | None = None
) -> bytes:
    head = struct.pack("<BBIH", command, sequence, address, length)
    frame = b"\xa5" + head + _crc(head)
    return frame if data is None else frame + data + _crc(data)


def _reply(sequence: int, status: ReplyStatus, data: bytes = b"") -> bytes:
    body = bytes([sequence, status]) + data
    return b"\x5a" + body + _crc(body)


@dataclass
class _World:
    """Registers and memory behind a bridge, and what the bridge said."""

    registers: dict[int, int] = field(default_factory=dict)
    memory: dict[int, int] = field(default_factory=dict)
    register_writes: list[tuple[int, int]] = field(default_factory=list)
    memory_writes: list[tuple[int, int]] = field(default_factory=list)
    said: bytearray = field(default_factory=bytearray)


def _converse(frames: Sequence[bytes | int], world: _World) -> bytes:
    """Send frames, each after the answer to the one before; an int is a pause in cycles."""
    bridge = HostBridge(EDGE, INFO, silence_cycles=SILENCE)

    async def host(ctx) -> None:
        for frame in frames:
            if isinstance(frame, int):
                await ctx.tick().repeat(frame)
                continue
            for byte in frame:
                ctx.set(bridge.rx_valid, 1)
                ctx.set(bridge.rx_byte, byte)
                await ctx.tick()
                ctx.set(bridge.rx_valid, 0)
                await ctx.tick().repeat(BYTE_CYCLES - 1)
            await ctx.tick().repeat(200)

    async def listener(ctx) -> None:
        ctx.set(bridge.tx_ready, 1)
        async for _, _, valid, byte in ctx.tick().sample(bridge.tx_valid, bridge.tx_byte):
            if valid:
                world.said.append(byte)

    async def memory(ctx) -> None:
        cycle, read = 0, None
        async for _, _, valid, ready, write, beat, data in ctx.tick().sample(
            bridge.memory_valid,
            bridge.memory_ready,
            bridge.memory_write,
            bridge.memory_beat,
            bridge.memory_wdata,
        ):
            if valid and ready and write:
                world.memory[beat] = data
                world.memory_writes.append((beat, data))
            # Wrong but two cycles after an access that was taken.
            ctx.set(bridge.memory_rdata, 0xBAD if read is None else read)
            taken = valid and ready and not write
            read = world.memory.get(beat, 0) if taken else None
            cycle += 1
            ctx.set(bridge.memory_ready, cycle % 3 == 0)

    async def registers(ctx) -> None:
        address, word = None, None
        async for values in ctx.tick().sample(
            bridge.axil_awvalid,
            bridge.axil_awready,
            bridge.axil_awaddr,
            bridge.axil_wvalid,
            bridge.axil_wready,
            bridge.axil_wdata,
            bridge.axil_arvalid,
            bridge.axil_arready,
            bridge.axil_araddr,
        ):
            awvalid, awready, awaddr, wvalid, wready, wdata, arvalid, arready, araddr = values[2:]
            address = awaddr if awvalid and awready else address
            word = wdata if wvalid and wready else word
            done = address is not None and word is not None
            if done:
                world.registers[address] = word
                world.register_writes.append((address, word))
                address, word = None, None
            ctx.set(bridge.axil_bvalid, done)
            read = arvalid and arready
            ctx.set(bridge.axil_rvalid, read)
            ctx.set(bridge.axil_rdata, world.registers.get(araddr, 0) if read else 0xBAD)
            # The address is taken in another cycle than the word.
            ctx.set(bridge.axil_awready, awvalid and not awready)
            ctx.set(bridge.axil_wready, 1)
            ctx.set(bridge.axil_arready, arvalid and not arready)

    simulator = Simulator(bridge)
    simulator.add_clock(1e-6)
    simulator.add_testbench(host)
    for background in (listener, memory, registers):
        simulator.add_testbench(background, background=True)
    simulator.run()
    return bytes(world.said)


def test_checksum_is_the_catalogued_one() -> None:
    """CRC-16/IBM-3740 of the catalogue's check string."""
    assert _crc(b"123456789") == b"\x29\xb1"


def test_info_says_what_the_board_is() -> None:
    words = struct.pack("<6I", 0x0C0DB0A7, 1, MEMORY_BYTES, 8, 50_000_000, 0)
    said = _converse([_request(0x10, 3, 0, 24)], _World())
    assert said == _reply(3, ReplyStatus.OK, words)


def test_memory_is_written_and_read_in_beats() -> None:
    data = bytes(range(1, 25))
    world = _World()
    said = _converse(
        [_request(0x31, 1, 4096 - 24, 24, data), _request(0x30, 2, 4096 - 16, 16)], world
    )
    assert said == _reply(1, ReplyStatus.OK) + _reply(2, ReplyStatus.OK, data[8:])
    assert world.memory_writes == [
        (509 + index, int.from_bytes(data[8 * index : 8 * index + 8], "little"))
        for index in range(3)
    ]


def test_registers_are_written_one_by_one_and_read_in_rows() -> None:
    world = _World(registers={0x104: 0x01020304})
    frames = [
        _request(0x21, 1, 0x100, 4, b"\x78\x56\x34\x12"),
        _request(0x20, 2, 0x100, 8),
    ]
    said = _converse(frames, world)
    data = struct.pack("<2I", 0x12345678, 0x01020304)
    assert said == _reply(1, ReplyStatus.OK) + _reply(2, ReplyStatus.OK, data)
    assert world.register_writes == [(0x100, 0x12345678)]


def test_repeated_write_is_answered_and_not_done_again() -> None:
    world = _World()
    frame = _request(0x21, 9, 0x0C, 4, b"\x01\0\0\0")
    said = _converse([frame, frame, _request(0x21, 10, 0x0C, 4, b"\x01\0\0\0")], world)
    assert said == 2 * _reply(9, ReplyStatus.OK) + _reply(10, ReplyStatus.OK)
    assert world.register_writes == [(0x0C, 1), (0x0C, 1)]


def test_register_is_not_written_from_damaged_data() -> None:
    world = _World()
    frame = _request(0x21, 4, 0x0C, 4, b"\x01\0\0\0")
    damaged = frame[:-4] + bytes([frame[-4] ^ 0x10]) + frame[-3:]
    said = _converse([damaged, frame], world)
    assert said == _reply(4, ReplyStatus.DAMAGED) + _reply(4, ReplyStatus.OK)
    assert world.register_writes == [(0x0C, 1)]


@pytest.mark.parametrize(
    ("command", "address", "length"),
    [
        (0x30, 4, 8),  # not a beat's address
        (0x30, 0, 12),  # not whole beats
        (0x30, 0, 0),
        (0x30, MEMORY_BYTES, 8),
        (0x30, MEMORY_BYTES - 8, 16),
        (0x30, 0xFFFF_FFF8, 16),
        (0x20, 2, 4),
        (0x20, 4092, 8),
        (0x10, 0, 20),
        (0x44, 0, 8),  # no such command
    ],
)
def test_reads_that_make_no_sense_are_refused(command: int, address: int, length: int) -> None:
    said = _converse([_request(command, 1, address, length), _request(0x20, 2, 0, 4)], _World())
    assert said == _reply(1, ReplyStatus.REFUSED) + _reply(2, ReplyStatus.OK, bytes(4))


@pytest.mark.parametrize(
    ("command", "address", "length"),
    [
        (0x31, MEMORY_BYTES, 8),
        (0x31, 0, 4),
        (0x31, 0, 0),
        (0x21, 0, 8),
        (0x21, 4096, 4),
        (0x45, 0, 4),
    ],
)
def test_writes_that_make_no_sense_are_swallowed(command: int, address: int, length: int) -> None:
    world = _World()
    frames = [_request(command, 1, address, length, bytes(length)), _request(0x20, 2, 0, 4)]
    assert _converse(frames, world) == (
        _reply(1, ReplyStatus.REFUSED) + _reply(2, ReplyStatus.OK, bytes(4))
    )
    assert not world.memory_writes
    assert not world.register_writes


def _bad_head(good: bytes) -> list[bytes | int]:
    return [good[:3] + bytes([good[3] ^ 1]) + good[4:], good, SILENCE, good]


def _broken_head(good: bytes) -> list[bytes | int]:
    return [good[:6], SILENCE, good]


def _broken_data(good: bytes) -> list[bytes | int]:
    return [_request(0x31, 1, 0, 16, bytes(16))[:-7], SILENCE, good]


def _noise(good: bytes) -> list[bytes | int]:
    return [b"\x00\xff\x5a", good]


@pytest.mark.parametrize("spoil", [_bad_head, _broken_head, _broken_data, _noise])
def test_bridge_recovers_after_silence(spoil: Callable[[bytes], list[bytes | int]]) -> None:
    good = _request(0x20, 7, 0, 4)
    assert _converse(spoil(good), _World()) == _reply(7, ReplyStatus.OK, bytes(4))


def test_commands_that_bring_data_are_odd() -> None:
    assert {each for each in Command if each & 1} == {Command.WRITE_REGISTER, Command.WRITE_MEMORY}
