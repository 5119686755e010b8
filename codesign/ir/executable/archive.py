"""An executable as one file: a zip of a manifest and raw members, each with its SHA-256.

Nothing is unpickled, and nothing is written when a file is read. A file holds native code: run only
those whose origin you trust, as with any program.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Final, final

import numpy as np

from codesign.diagnostics import CodesignError
from codesign.dtypes import Array, DType
from codesign.ir.executable.codec import decode, encode
from codesign.ir.executable.executable import (
    Executable,
    OperatorPlacement,
    Port,
)
from codesign.ir.executable.members import Members, member
from codesign.ir.executable.step_record import StepRecord, step_in, step_out
from codesign.ir.relay.types import TensorType

FORMAT: Final = "codesign executable"
VERSION: Final = 4
MANIFEST: Final = "manifest.json"
LIMIT_BYTES: Final = 1 << 32
"""Greatest size of all members together."""

_UNREADABLE: Final = (
    *(zipfile.BadZipFile, zlib.error),
    *(NotImplementedError, RuntimeError, EOFError, ValueError),
)
"""What Python's zip reader raises on bytes that are no archive."""

_EPOCH: Final = (1980, 1, 1, 0, 0, 0)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Manifest:
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    results: tuple[str, ...]
    steps: tuple[StepRecord, ...]
    constants: tuple[Port, ...]
    placements: tuple[OperatorPlacement, ...]


def save(executable: Executable, path: Path) -> None:
    """Write an executable, whole or not at all.

    Raises
    ------
    CodesignError
        The file cannot be written.
    """
    data = to_bytes(executable)
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise CodesignError.of(f"cannot write {str(path)!r}", found=str(error)) from None
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        Path(temporary).replace(path)
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        raise CodesignError.of(f"cannot write {str(path)!r}", found=str(error)) from None


def load(path: Path) -> Executable:
    """Return the executable of a file.

    Raises
    ------
    CodesignError
        The file cannot be read, is no executable, is damaged, or holds an illegal program.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise CodesignError.of(f"cannot read {str(path)!r}", found=str(error)) from None
    return from_bytes(data, source=str(path))


def to_bytes(executable: Executable) -> bytes:
    """Return the bytes of the file; equal executables give equal bytes."""
    members = Members()
    steps = tuple(step_out(index, step, members) for index, step in enumerate(executable.steps))
    constants = []
    for index, (name, array) in enumerate(executable.constants.items()):
        constants.append(Port(name, TensorType(array.shape, DType.of(array.dtype))))
        members.add(f"constants/{index}.bin", np.ascontiguousarray(array).tobytes())
    manifest = _Manifest(
        inputs=executable.inputs,
        outputs=executable.outputs,
        results=executable.results,
        steps=steps,
        constants=tuple(constants),
        placements=executable.placements,
    )
    head = {
        "format": FORMAT,
        "version": VERSION,
        "sha256": members.digests(),
        "executable": encode(manifest),
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        _write(archive, MANIFEST, json.dumps(head, indent=1).encode())
        for name, data in members.data.items():
            _write(archive, name, data)
    return buffer.getvalue()


def from_bytes(data: bytes, *, source: str = "the file") -> Executable:
    """Return the executable of a file's bytes; raise CodesignError where they are none."""
    members = _read_members(data, source)
    head = _head(members, source)
    manifest: _Manifest = decode(_Manifest, head["executable"], f"{source}: manifest")
    constants = {
        port.name: _array(members, f"constants/{index}.bin", port.tensor, source)
        for index, port in enumerate(manifest.constants)
    }
    executable = Executable(
        inputs=manifest.inputs,
        outputs=manifest.outputs,
        results=manifest.results,
        steps=tuple(
            step_in(index, step, members, source) for index, step in enumerate(manifest.steps)
        ),
        constants=constants,
        placements=manifest.placements,
    )
    _check_names(executable, source)
    return executable


def _write(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, data)


def _check_names(executable: Executable, source: str) -> None:
    known = {port.name for port in executable.inputs} | set(executable.constants)
    for step in executable.steps:
        missing = [name for name in step.inputs if name not in known]
        if missing:
            raise CodesignError.of(f"{source}: step {step.name!r} reads {missing[0]!r} too early")
        known.update(step.outputs)
    missing = [name for name in executable.results if name not in known]
    if missing or len(executable.results) != len(executable.outputs):
        raise CodesignError.of(f"{source}: a result is never computed")


def _read_members(data: bytes, source: str) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(info.file_size for info in archive.infolist()) > LIMIT_BYTES:
                raise CodesignError.of(f"{source} unpacks to more than {LIMIT_BYTES} bytes")
            return {info.filename: archive.read(info) for info in archive.infolist()}
    except _UNREADABLE as error:
        raise CodesignError.of(f"{source} is no {FORMAT}", found=str(error)) from None


def _head(members: Mapping[str, bytes], source: str) -> dict[str, Any]:
    try:
        head = json.loads(member(members, MANIFEST, source))
    except ValueError as error:
        raise CodesignError.of(f"{source}: the manifest is not JSON", found=str(error)) from None
    names = {"format", "version", "sha256", "executable"}
    if not isinstance(head, dict) or set(head) != names or head["format"] != FORMAT:
        raise CodesignError.of(f"{source} is no {FORMAT}")
    if head["version"] != VERSION:
        raise CodesignError.of(
            f"{source} has format version {head['version']!r}",
            found=f"this version reads {VERSION}",
            help="compile the network again",
        )
    digests = Members({name: raw for name, raw in members.items() if name != MANIFEST}).digests()
    if head["sha256"] != digests:
        raise CodesignError.of(f"{source} is damaged", found="a member is not what was written")
    return head


def _array(members: Mapping[str, bytes], name: str, type_: TensorType, source: str) -> Array:
    raw = member(members, name, source)
    if prod(type_.static_shape) * type_.dtype.size_bytes != len(raw):
        raise CodesignError.of(f"{source}: constant {name!r} has {len(raw)} bytes")
    return np.frombuffer(raw, type_.dtype.numpy).reshape(type_.static_shape)
