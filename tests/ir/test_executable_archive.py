"""Executables as files: the same after a round trip, refused when they are not what was written."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codesign.accel.presets import preset
from codesign.compiler.driver import compile as compile_network
from codesign.diagnostics import CodesignError
from codesign.dtypes import DType
from codesign.ir.executable.archive import from_bytes, load, save, to_bytes
from codesign.ir.executable.executable import Executable
from codesign.ir.relay.expr import Function, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType
from codesign.ops.table import call
from host_runtime.session import Session
from tests.support.networks import image, small_network
from tests.support.regions import Maker


@pytest.fixture(scope="module")
def executable() -> Executable:
    return compile_network(small_network(), target="accel", config=preset("tiny"))


@pytest.fixture(scope="module")
def data(executable: Executable) -> bytes:
    return to_bytes(executable)


def _edited(data: bytes, edit: Callable[[dict[str, bytes]], None]) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    edit(members)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    return buffer.getvalue()


def _manifest(data: bytes, edit: Callable[[dict[str, Any]], None]) -> bytes:
    def apply(members: dict[str, bytes]) -> None:
        head = json.loads(members["manifest.json"])
        edit(head)
        members["manifest.json"] = json.dumps(head).encode()

    return _edited(data, apply)


def test_a_file_gives_the_same_executable(executable: Executable, tmp_path: Path) -> None:
    path = tmp_path / "network.executable"
    save(executable, path)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    again = load(path)
    assert to_bytes(again) == to_bytes(executable)
    inputs = {"image": image()}
    expected = Session(executable).run(inputs)["output"]
    assert np.array_equal(Session(again).run(inputs)["output"], expected)


def test_every_truncation_is_refused(data: bytes) -> None:
    for length in (0, 1, 100, len(data) // 2, len(data) - 1):
        with pytest.raises(CodesignError):
            from_bytes(data[:length])


def test_a_changed_member_is_refused(data: bytes) -> None:
    def flip(members: dict[str, bytes]) -> None:
        code = bytearray(members["steps/1/program.bin"])
        code[-1] ^= 1
        members["steps/1/program.bin"] = bytes(code)

    with pytest.raises(CodesignError, match="is damaged"):
        from_bytes(_edited(data, flip))
    with pytest.raises(CodesignError, match="is damaged"):
        from_bytes(_edited(data, lambda members: members.update({"../evil": b"x"})))


def test_a_changed_manifest_is_refused(data: bytes) -> None:
    def wrong_version(head: dict[str, Any]) -> None:
        head["version"] = 99

    def outside(head: dict[str, Any]) -> None:
        head["executable"]["steps"][1]["accel"]["outputs"][0]["address"] = 1 << 30

    def wrong_kind(head: dict[str, Any]) -> None:
        head["executable"]["results"] = "output"

    def extra(head: dict[str, Any]) -> None:
        head["executable"]["steps"][0]["python"] = "import os"

    def early(head: dict[str, Any]) -> None:
        head["executable"]["steps"][0]["inputs"] = ["value1"]

    for edit, message in (
        (wrong_version, "has format version 99"),
        (outside, "lies outside its segment"),
        (wrong_kind, "results is malformed"),
        (extra, r"steps\[0\] is malformed"),
        (early, "reads 'value1' too early"),
    ):
        with pytest.raises(CodesignError, match=message):
            from_bytes(_manifest(data, edit))


def test_files_that_cannot_be_read_or_written_say_so(
    executable: Executable, tmp_path: Path
) -> None:
    with pytest.raises(CodesignError, match="cannot read"):
        load(tmp_path / "missing")
    with pytest.raises(CodesignError, match="cannot write"):
        save(executable, tmp_path / "missing" / "network")
    (tmp_path / "text").write_text("no zip")
    with pytest.raises(CodesignError, match="is no codesign executable"):
        load(tmp_path / "text")


def test_a_product_of_two_tensors_survives_the_file() -> None:
    maker = Maker(np.random.default_rng(0))
    shape = (2, 5, 5)
    x, y = maker.var(shape), maker.var(shape, "y")
    module = Module({"main": Function((x, y), maker.matmul(x, y, 5, 5, 3))})
    compiled = compile_network(module, target="accel", config=preset("tiny"))
    again = from_bytes(to_bytes(compiled))
    assert to_bytes(again) == to_bytes(compiled)
    given = {name: maker.data(shape) for name in "xy"}
    (want,), (found,) = Session(compiled).run(given).values(), Session(again).run(given).values()
    np.testing.assert_array_equal(found, want)


def test_checks_of_inputs_survive_the_file() -> None:
    data = Var("data", TensorType((4,), DType.FLOAT32))
    places = Var("places", TensorType((2,), DType.INT64))
    module = Module({"main": Function((data, places), call("take", data, places))})
    loaded = from_bytes(to_bytes(compile_network(module)))
    with pytest.raises(CodesignError, match="take reads outside of an axis of length 4"):
        Session(loaded).run({"data": np.zeros(4, np.float32), "places": np.array([0, 4])})
