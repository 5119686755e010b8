"""An executable as one file: a zip of a manifest and raw members, each with its SHA-256.

Nothing is unpickled, and nothing is written when a file is read. A file holds native code: run only
those whose origin you trust, as with any program.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, Final, final

import numpy as np

from codesign.accel.config import AccelConfig
from codesign.accel.program import Program
from codesign.diagnostics import CodesignError
from codesign.dtypes import Array, DType
from codesign.ir.executable.accel_kernel import AccelKernel, LayerRecord
from codesign.ir.executable.codec import decode, encode
from codesign.ir.executable.cpu_kernel import CpuKernel
from codesign.ir.executable.executable import (
    AccelStep,
    CpuStep,
    Executable,
    GpuStep,
    OperatorPlacement,
    Port,
    Step,
)
from codesign.ir.executable.gpu_kernel import DeviceMemory, GpuKernel, KernelLaunch
from codesign.ir.executable.layout import Placement
from codesign.ir.relay.types import TensorType

FORMAT: Final = "codesign executable"
VERSION: Final = 2
MANIFEST: Final = "manifest.json"
LIMIT_BYTES: Final = 1 << 32
"""Greatest size of all members together."""

_EPOCH: Final = (1980, 1, 1, 0, 0, 0)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Cpu:
    symbol: str
    triple: str
    cpu: str
    features: str
    workspace_bytes: int
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    checks: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Gpu:
    architecture: str
    launches: tuple[KernelLaunch, ...]
    workspace_bytes: int
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    checks: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Accel:
    config: str
    activation_bytes: int
    inputs: tuple[tuple[Placement, ...], ...]
    outputs: tuple[Placement, ...]
    tensors: tuple[Placement, ...]
    layers: tuple[LayerRecord, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    cpu: _Cpu | None
    gpu: _Gpu | None
    accel: _Accel | None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Manifest:
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    results: tuple[str, ...]
    steps: tuple[_Step, ...]
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
    members = _Members()
    steps = tuple(_step_out(index, step, members) for index, step in enumerate(executable.steps))
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
        port.name: _array(members, f"constants/{index}.bin", port.type, source)
        for index, port in enumerate(manifest.constants)
    }
    executable = Executable(
        inputs=manifest.inputs,
        outputs=manifest.outputs,
        results=manifest.results,
        steps=tuple(
            _step_in(index, step, members, source) for index, step in enumerate(manifest.steps)
        ),
        constants=constants,
        placements=manifest.placements,
    )
    _check_names(executable, source)
    return executable


@final
@dataclass(slots=True)
class _Members:
    data: dict[str, bytes] = field(default_factory=dict)

    def add(self, name: str, data: bytes) -> None:
        self.data[name] = data

    def digests(self) -> dict[str, str]:
        return {name: hashlib.sha256(data).hexdigest() for name, data in self.data.items()}


def _write(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, data)


def _step_out(index: int, step: Step, members: _Members) -> _Step:
    folder = f"steps/{index}"
    cpu: _Cpu | None = None
    gpu: _Gpu | None = None
    accel: _Accel | None = None
    match step:
        case CpuStep(kernel=kernel):
            members.add(f"{folder}/code.o", kernel.object_code)
            members.add(f"{folder}/constants.bin", kernel.constants)
            cpu = _Cpu(
                symbol=kernel.symbol,
                triple=kernel.triple,
                cpu=kernel.cpu,
                features=kernel.features,
                workspace_bytes=kernel.workspace_bytes,
                inputs=kernel.inputs,
                outputs=kernel.outputs,
                checks=kernel.checks,
            )
        case GpuStep(kernel=kernel):
            members.add(f"{folder}/kernels.ptx", kernel.ptx.encode())
            members.add(f"{folder}/constants.bin", kernel.constants)
            gpu = _Gpu(
                architecture=kernel.architecture,
                launches=kernel.launches,
                workspace_bytes=kernel.workspace_bytes,
                inputs=kernel.inputs,
                outputs=kernel.outputs,
                checks=kernel.checks,
            )
        case AccelStep(kernel=kernel):
            members.add(f"{folder}/program.bin", kernel.program.to_bytes(kernel.config))
            members.add(f"{folder}/constants.bin", kernel.constants)
            accel = _Accel(
                config=kernel.config.to_toml(),
                activation_bytes=kernel.activation_bytes,
                inputs=kernel.inputs,
                outputs=kernel.outputs,
                tensors=kernel.tensors,
                layers=kernel.layers,
            )
    return _Step(
        name=step.name, inputs=step.inputs, outputs=step.outputs, cpu=cpu, gpu=gpu, accel=accel
    )


def _step_in(index: int, step: _Step, members: Mapping[str, bytes], source: str) -> Step:
    folder = f"steps/{index}"
    if sum(side is not None for side in (step.cpu, step.gpu, step.accel)) != 1:
        raise CodesignError.of(f"{source}: step {index} runs in one place: host, GPU, accelerator")
    constants = _member(members, f"{folder}/constants.bin", source)
    if step.cpu is not None:
        cpu = step.cpu
        cpu_kernel = CpuKernel(
            object_code=_member(members, f"{folder}/code.o", source),
            symbol=cpu.symbol,
            triple=cpu.triple,
            cpu=cpu.cpu,
            features=cpu.features,
            constants=constants,
            workspace_bytes=cpu.workspace_bytes,
            inputs=cpu.inputs,
            outputs=cpu.outputs,
            checks=cpu.checks,
        )
        return CpuStep(name=step.name, kernel=cpu_kernel, inputs=step.inputs, outputs=step.outputs)
    if step.gpu is not None:
        text = _member(members, f"{folder}/kernels.ptx", source)
        gpu_kernel = _gpu_in(step.gpu, constants, text, source)
        return GpuStep(name=step.name, kernel=gpu_kernel, inputs=step.inputs, outputs=step.outputs)
    assert step.accel is not None, "a step is on one of the three"
    kernel = _accel_in(step.accel, constants, _member(members, f"{folder}/program.bin", source))
    _check_placements(kernel, source)
    return AccelStep(name=step.name, kernel=kernel, inputs=step.inputs, outputs=step.outputs)


def _gpu_in(gpu: _Gpu, constants: bytes, text: bytes, source: str) -> GpuKernel:
    rooms = {
        DeviceMemory.CONSTANTS: max(len(constants), 1),
        DeviceMemory.WORKSPACE: max(gpu.workspace_bytes, 1),
        DeviceMemory.INPUT: len(gpu.inputs),
        DeviceMemory.OUTPUT: len(gpu.outputs) + len(gpu.checks),
    }
    for launch in gpu.launches:
        if any(not 0 <= each.place < rooms[each.memory] for each in launch.operands):
            raise CodesignError.of(f"{source}: launch {launch.label!r} reaches out of its memory")
    try:
        ptx = text.decode("ascii")
    except UnicodeDecodeError as error:
        raise CodesignError.of(f"{source}: the PTX is no text", found=str(error)) from None
    return GpuKernel(
        ptx=ptx,
        architecture=gpu.architecture,
        launches=gpu.launches,
        constants=constants,
        workspace_bytes=gpu.workspace_bytes,
        inputs=gpu.inputs,
        outputs=gpu.outputs,
        checks=gpu.checks,
    )


def _accel_in(accel: _Accel, constants: bytes, program: bytes) -> AccelKernel:
    config = AccelConfig.from_toml(accel.config)
    return AccelKernel(
        config=config,
        program=Program.from_bytes(program, config),
        constants=constants,
        activation_bytes=accel.activation_bytes,
        inputs=accel.inputs,
        outputs=accel.outputs,
        tensors=accel.tensors,
        layers=accel.layers,
    )


def _check_placements(kernel: AccelKernel, source: str) -> None:
    if kernel.program.segments != (len(kernel.constants), kernel.activation_bytes):
        raise CodesignError.of(f"{source}: the program's segments are not those of its data")
    every = [*kernel.outputs, *kernel.tensors, *(p for group in kernel.inputs for p in group)]
    for place in every:
        end = place.address * kernel.config.bus_bytes + place.bytes
        if place.segment != 1 or place.address < 0 or end > kernel.activation_bytes:
            raise CodesignError.of(f"{source}: tensor {place.name!r} lies outside its segment")


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
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError) as error:
        raise CodesignError.of(f"{source} is no {FORMAT}", found=str(error)) from None


def _head(members: Mapping[str, bytes], source: str) -> dict[str, Any]:
    try:
        head = json.loads(_member(members, MANIFEST, source))
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
    digests = _Members({name: raw for name, raw in members.items() if name != MANIFEST}).digests()
    if head["sha256"] != digests:
        raise CodesignError.of(f"{source} is damaged", found="a member is not what was written")
    return head


def _member(members: Mapping[str, bytes], name: str, source: str) -> bytes:
    if name not in members:
        raise CodesignError.of(f"{source} has no member {name!r}")
    return members[name]


def _array(members: Mapping[str, bytes], name: str, type_: TensorType, source: str) -> Array:
    raw = _member(members, name, source)
    if prod(type_.static_shape) * type_.dtype.size_bytes != len(raw):
        raise CodesignError.of(f"{source}: constant {name!r} has {len(raw)} bytes")
    return np.frombuffer(raw, type_.dtype.numpy).reshape(type_.static_shape)
