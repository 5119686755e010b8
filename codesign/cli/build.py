"""From a subject and a target's name to an executable."""

from __future__ import annotations

from codesign.accel.config import AccelConfig
from codesign.cli.options import TargetName
from codesign.compiler.partition.costs import ByCost
from codesign.ir.executable.executable import Executable
from experiments.road.build import (
    GpuChoice,
    compile_accel,
    compile_fp32,
    compile_gpu,
    compile_int8,
    quantize_subject,
)
from experiments.road.devices import Say
from experiments.road.subject import Subject


def executable_for(
    subject: Subject,
    target: TargetName,
    config: AccelConfig,
    gpu: GpuChoice,
    say: Say,
    *,
    placement: ByCost | None = None,
) -> Executable:
    """Return a network compiled for a target.

    `config` and `placement` are the accelerator's, `gpu` the GPU's.

    Raises
    ------
    CodesignError
        The network cannot be quantized or compiled.
    """
    match target:
        case TargetName.CPU:
            return compile_fp32(subject, say)
        case TargetName.INT8:
            return compile_int8(subject, quantize_subject(subject, say), say)
        case TargetName.GPU:
            return compile_gpu(subject, gpu, say)
        case TargetName.ACCEL:
            return compile_accel(subject, quantize_subject(subject, say), config, say, placement)
