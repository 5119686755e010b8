"""What the compiler hands to the runtime: steps on the host, a GPU and the accelerator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, final

from codesign.dtypes import Array
from codesign.ir.executable.accel_kernel import AccelKernel
from codesign.ir.executable.cpu_kernel import CpuKernel
from codesign.ir.executable.gpu_kernel import GpuKernel
from codesign.ir.executable.native_program import NativeProgram
from codesign.ir.relay.types import TensorType, Type


@final
@dataclass(frozen=True, slots=True)
class Port:
    """An input or output: its name and type, a tensor's unless a `NativeStep` takes or gives it."""

    name: str
    type: Type

    @property
    def tensor(self) -> TensorType:
        """The type of a tensor."""
        assert isinstance(self.type, TensorType), f"{self.name} is a tensor"
        return self.type


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorPlacement:
    """One row of the placement table: where a call runs, and why there.

    `unit` is gemm, vector, host, gpu, or none where no data moves; `reason` is empty on the
    accelerator, but where costs have chosen it.
    """

    name: str
    operator: str
    unit: str
    step: str
    reason: str = ""


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CpuStep:
    """Call a native function on values; its results get the names of `outputs`."""

    name: str
    kernel: CpuKernel
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AccelStep:
    """Run a program on values; its results get the names of `outputs`."""

    name: str
    kernel: AccelKernel
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GpuStep:
    """Launch kernels on a GPU; inputs are copied there and results back, under their names."""

    name: str
    kernel: GpuKernel
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NativeStep:
    """Call a native program on values of any type.

    Its result gets the name of the only output; the fields of a result that is a tuple get those
    of `outputs` where `is_split`.
    """

    name: str
    kernel: NativeProgram
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    is_split: bool


Step: TypeAlias = CpuStep | GpuStep | AccelStep | NativeStep


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Executable:
    """A compiled network.

    Values have names: those of `inputs`, those of `constants`, and what steps give. `results[i]`
    is the value of `outputs[i]`.
    """

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    results: tuple[str, ...]
    steps: tuple[Step, ...]
    constants: Mapping[str, Array] = field(default_factory=dict)
    placements: tuple[OperatorPlacement, ...] = ()

    @property
    def accel_steps(self) -> tuple[AccelStep, ...]:
        """The steps on the accelerator."""
        return tuple(step for step in self.steps if isinstance(step, AccelStep))
