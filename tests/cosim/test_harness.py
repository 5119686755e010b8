"""The C harness against a bus master that breaks one AXI rule at a time."""

from __future__ import annotations

import ctypes
import shutil
from pathlib import Path

import numpy as np
import pytest

from hardware.verilate import build_library
from tests.support.cosim import CACHE

pytestmark = pytest.mark.needs_verilator

MASTER = Path(__file__).with_name("misbehaving.sv")
DIGEST = "no configuration"
FAILED = 2
INTERRUPT = 1

RULES = {
    2: "read burst at 0xff0 of 4 beats crosses a 4 KiB boundary",
    3: "read burst at 0x104 is not aligned",
    4: "read burst at 0xf000 of 32 bytes lies outside DRAM of 8192 bytes",
    5: "read burst at 0x100 has burst type 0 and beat size code 3",
    6: "W data for 0x200 is late: its slot is now",
    7: "wlast is 1 with 2 beats left",
    8: "W changed before it was taken",
    9: "rready is 0 with a beat to give",
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("harness")
    (folder / "rtl").mkdir()
    shutil.copy(MASTER, folder / "rtl")
    CACHE.mkdir(parents=True, exist_ok=True)
    loaded = ctypes.CDLL(str(build_library(folder, DIGEST, CACHE, lambda _: None)))
    loaded.accel_new.restype = ctypes.c_void_p
    loaded.accel_error.restype = ctypes.c_char_p
    loaded.accel_digest.restype = ctypes.c_char_p
    return loaded


def run(library: ctypes.CDLL, mode: int, dram: np.ndarray) -> tuple[int, str, int]:
    words = ctypes.c_uint64 * 8
    memory = words(dram.ctypes.data, dram.size, 0, 1 << 20, 0)
    timing = words(10, 1, 0, 8192, 0, 1, 4)
    machine = ctypes.c_void_p(library.accel_new(memory, timing))
    try:
        library.accel_write(machine, 0, mode)
        outcome = library.accel_run(machine, ctypes.c_uint64(200))
        text = library.accel_error(machine).decode()
        value = ctypes.c_uint32()
        library.accel_read(machine, 0, ctypes.byref(value))
        return outcome, text, value.value
    finally:
        library.accel_free(machine)


def memory() -> np.ndarray:
    dram = np.zeros(8192, dtype=np.uint8)
    dram[0x100:0x120].view(np.uint64)[:] = (1, 20, 300, 4000)
    return dram


def test_a_good_master_reads_and_writes(library: ctypes.CDLL) -> None:
    dram = memory()
    assert run(library, 1, dram) == (INTERRUPT, "", 4321)
    assert dram[0x200:0x210].view(np.uint64).tolist() == [4321, 4322]
    assert library.accel_digest().decode() == DIGEST


@pytest.mark.parametrize("mode", RULES)
def test_a_broken_rule_is_named(library: ctypes.CDLL, mode: int) -> None:
    outcome, text, _ = run(library, mode, memory())
    assert outcome == FAILED
    assert text.endswith(RULES[mode])
