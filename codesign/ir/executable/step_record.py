"""Steps of an executable as records of its manifest and members of its file, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never, final

from codesign.accel.config import AccelConfig
from codesign.accel.program import Program
from codesign.diagnostics import CodesignError
from codesign.ir.control.program import Site
from codesign.ir.executable.accel_kernel import AccelKernel, LayerRecord
from codesign.ir.executable.cpu_kernel import CpuKernel
from codesign.ir.executable.executable import AccelStep, CpuStep, GpuStep, NativeStep, Step
from codesign.ir.executable.gpu_kernel import DeviceMemory, GpuKernel, KernelLaunch
from codesign.ir.executable.layout import Placement
from codesign.ir.executable.members import Members, member
from codesign.ir.executable.native_program import DataType, NativeProgram
from codesign.ir.relay.type_algebra import data_names
from codesign.ir.relay.types import TensorType, Type


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
class _Native:
    triple: str
    cpu: str
    features: str
    workspace_bytes: int
    params: tuple[Type, ...]
    result: Type
    data_types: tuple[DataType, ...]
    sites: tuple[Site, ...]
    is_split: bool


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """A step as the manifest has it: exactly one of the kinds is there."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    cpu: _Cpu | None
    gpu: _Gpu | None
    accel: _Accel | None
    native: _Native | None


def step_out(index: int, step: Step, members: Members) -> StepRecord:
    folder = f"steps/{index}"
    cpu: _Cpu | None = None
    gpu: _Gpu | None = None
    accel: _Accel | None = None
    native: _Native | None = None
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
        case NativeStep(kernel=kernel):
            members.add(f"{folder}/heap.o", kernel.heap_code)
            members.add(f"{folder}/control.o", kernel.control_code)
            members.add(f"{folder}/kernels.o", kernel.kernel_code)
            members.add(f"{folder}/constants.bin", kernel.constants)
            native = _Native(
                triple=kernel.triple,
                cpu=kernel.cpu,
                features=kernel.features,
                workspace_bytes=kernel.workspace_bytes,
                params=kernel.params,
                result=kernel.result,
                data_types=kernel.data_types,
                sites=kernel.sites,
                is_split=step.is_split,
            )
        case _:
            assert_never(step)
    return StepRecord(
        name=step.name,
        inputs=step.inputs,
        outputs=step.outputs,
        cpu=cpu,
        gpu=gpu,
        accel=accel,
        native=native,
    )


def step_in(index: int, step: StepRecord, members: Mapping[str, bytes], source: str) -> Step:
    folder = f"steps/{index}"
    if [step.cpu, step.gpu, step.accel, step.native].count(None) != 3:
        raise CodesignError.of(f"{source}: step {index} is of one kind")
    constants = member(members, f"{folder}/constants.bin", source)
    if step.cpu is not None:
        cpu = step.cpu
        cpu_kernel = CpuKernel(
            object_code=member(members, f"{folder}/code.o", source),
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
        text = member(members, f"{folder}/kernels.ptx", source)
        gpu_kernel = _gpu_in(step.gpu, constants, text, source)
        return GpuStep(name=step.name, kernel=gpu_kernel, inputs=step.inputs, outputs=step.outputs)
    if step.native is not None:
        return _native_in(step, step.native, constants, folder, members, source)
    assert step.accel is not None, "a step is of one kind"
    kernel = _accel_in(step.accel, constants, member(members, f"{folder}/program.bin", source))
    _check_placements(kernel, source)
    return AccelStep(name=step.name, kernel=kernel, inputs=step.inputs, outputs=step.outputs)


def _gpu_in(gpu: _Gpu, constants: bytes, text: bytes, source: str) -> GpuKernel:
    rooms = {
        DeviceMemory.CONSTANTS: max(len(constants), 1),
        DeviceMemory.WORKSPACE: max(gpu.workspace_bytes, 1),
        DeviceMemory.INPUT: len(gpu.inputs),
        DeviceMemory.OUTPUT: len(gpu.outputs) + len(gpu.checks),
    }
    for number, launch in enumerate(gpu.launches):
        if any(not 0 <= earlier < number for earlier in launch.after):
            raise CodesignError.of(
                f"{source}: launch {launch.label!r} follows launches that are not before it",
                found=f"launch {number} follows {', '.join(map(str, launch.after))}",
            )
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


def _native_in(
    step: StepRecord,
    native: _Native,
    constants: bytes,
    folder: str,
    members: Mapping[str, bytes],
    source: str,
) -> NativeStep:
    known = {data.name for data in native.data_types}
    mentioned = {
        name
        for type_ in (*native.params, native.result, *_field_types(native.data_types))
        for name in data_names(type_)
    }
    if not mentioned <= known or len(step.inputs) != len(native.params):
        raise CodesignError.of(f"{source}: step {step.name!r} has types that nothing defines")
    program = NativeProgram(
        heap_code=member(members, f"{folder}/heap.o", source),
        control_code=member(members, f"{folder}/control.o", source),
        kernel_code=member(members, f"{folder}/kernels.o", source),
        triple=native.triple,
        cpu=native.cpu,
        features=native.features,
        constants=constants,
        workspace_bytes=native.workspace_bytes,
        params=native.params,
        result=native.result,
        data_types=native.data_types,
        sites=native.sites,
    )
    return NativeStep(
        name=step.name,
        kernel=program,
        inputs=step.inputs,
        outputs=step.outputs,
        is_split=native.is_split,
    )


def _field_types(data_types: tuple[DataType, ...]) -> list[Type]:
    return [
        field
        for data in data_types
        for constructor in data.constructors
        for field in constructor.fields
    ]


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
