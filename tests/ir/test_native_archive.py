"""A compiled program as one file: loaded where no compiler is, refused where it is not whole."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from codesign.compiler.driver import compile as compile_module
from codesign.diagnostics import CodesignError
from codesign.ir.executable.archive import from_bytes, load, save, to_bytes
from codesign.ir.executable.executable import Executable, NativeStep
from host_runtime.session import Session
from tests.support.relay_values import module_of, relay_list, to_python

TEXT = """
def @main(%xs: List[Tensor[(?, 2), float32]], %p: (int32, bool)) {
  let %k = if (%p.1) { %p.0 } else { 0 - %p.0 };
  (%k, @map(fn (%x: Tensor[(?, 2), float32]) { nn.relu(%x) }, %xs), @hd(%xs))
}
"""

LOADER = """
import sys


class NoCompiler:
    def find_spec(self, name, path=None, target=None):
        if name.startswith(("codesign.compiler", "codesign.ops", "hardware", "amaranth", "onnx")):
            raise ImportError(name)


sys.meta_path.insert(0, NoCompiler())
import numpy as np

import codesign
from codesign.diagnostics import CodesignError
from codesign.ir.executable.values import DataValue
from host_runtime.session import Session

session = Session(codesign.load(sys.argv[1]))
one = np.array([[1, -2]], np.float32)
run = {"xs": DataValue("Cons", (one, DataValue("Nil"))), "p": (np.asarray(3, np.int32), True)}
found = session.run(run)
print(int(found["output0"]), found["output1"].fields[0].tolist(), found["output2"].tolist())
try:
    session.run({**run, "xs": DataValue("Nil")})
except CodesignError as error:
    print(error.diagnostics[0].title_text(), error.diagnostics[0].span)
"""


@pytest.fixture(scope="module")
def executable() -> Executable:
    return compile_module(module_of(TEXT))


def test_a_process_without_the_compiler_runs_it(executable: Executable, tmp_path: Path) -> None:
    path = tmp_path / "program.codesign"
    save(executable, path)
    done = subprocess.run(
        [sys.executable, "-c", LOADER, str(path)], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    first, second = done.stdout.splitlines()
    assert first == "3 [[1.0, 0.0]] [[1.0, -2.0]]"
    assert second.startswith("no clause of a match fits prelude.relay:")


def test_the_file_says_what_the_executable_says(executable: Executable) -> None:
    data = to_bytes(executable)
    again = from_bytes(data)
    assert to_bytes(again) == data
    assert again.inputs == executable.inputs
    assert again.outputs == executable.outputs
    (step,), (other,) = again.steps, executable.steps
    assert isinstance(step, NativeStep)
    assert isinstance(other, NativeStep)
    assert step.kernel == other.kernel


def test_a_damaged_or_shortened_file_is_refused(executable: Executable, tmp_path: Path) -> None:
    data = to_bytes(executable)
    path = tmp_path / "program.codesign"
    for place in range(200, len(data), len(data) // 7):
        damaged = bytearray(data)
        damaged[place] ^= 0x55
        path.write_bytes(damaged)
        with pytest.raises(CodesignError, match=r"program\.codesign"):
            load(path)
    for length in (0, 10, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(CodesignError, match=r"program\.codesign"):
            load(path)


def _changed(executable: Executable, **changes: object) -> Executable:
    (step,) = executable.steps
    assert isinstance(step, NativeStep)
    kernel = replace(step.kernel, **changes)  # type: ignore[arg-type]
    return replace(executable, steps=(replace(step, kernel=kernel),))


def test_another_processor_is_refused(executable: Executable) -> None:
    wanted = _changed(executable, features="+avx2,+nothing_has_this")
    with pytest.raises(CodesignError, match="instructions that this processor does not have"):
        Session(from_bytes(to_bytes(wanted)))
    wanted = _changed(executable, triple="aarch64-unknown-linux-gnu")
    with pytest.raises(CodesignError, match="compiled for another processor"):
        Session(from_bytes(to_bytes(wanted)))


def test_types_that_nothing_defines_are_refused(executable: Executable) -> None:
    with pytest.raises(CodesignError, match="types that nothing defines"):
        from_bytes(to_bytes(_changed(executable, data_types=())))
    with pytest.raises(CodesignError, match="types that nothing defines"):
        from_bytes(to_bytes(_changed(executable, params=())))


def test_the_placement_table_names_the_operators(executable: Executable) -> None:
    rows = {(row.operator, row.unit, row.reason) for row in executable.placements}
    assert ("nn.relu", "host", "the target is the host") in rows
    wanted = compile_module(module_of(TEXT), target="accel")
    assert {row.reason for row in wanted.placements} == {
        "control flow and local functions stay on the host"
    }


def test_a_session_names_inputs_and_outputs(executable: Executable) -> None:
    session = Session(executable)
    one = np.array([[1, -2]], np.float32)
    inputs = {"xs": relay_list([one, one]), "p": (np.asarray(3, np.int32), np.asarray(False))}
    found = session.run(inputs)
    assert list(found) == ["output0", "output1", "output2"]
    assert to_python(found["output1"]) == [[[1.0, 0.0]], [[1.0, 0.0]]]
    assert found["output0"] == -3
    assert session.profile is not None
    with pytest.raises(CodesignError, match="input 'p' is missing"):
        session.run({"xs": inputs["xs"]})
    with pytest.raises(CodesignError, match="there is no input 'q'"):
        session.run({**inputs, "q": one})
