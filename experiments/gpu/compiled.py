"""Networks compiled for the device before it is needed: PTX, and machine code where ptxas is."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.backends.gpu.compile import compile_gpu
from codesign.compiler.backends.gpu.device import DeviceModel
from codesign.compiler.pipelines import optimize
from codesign.ir.executable.gpu_kernel import GpuKernel
from codesign.ir.relay.expr import Function
from codesign.ir.relay.module import Module

_CUDA: Final = "/usr/local/cuda/bin"
"""Where CUDA's own installer puts its tools."""


@final
@dataclass(frozen=True)
class Compiled:
    """A kernel for a GPU, and machine code for the very device, if it could be assembled here."""

    kernel: GpuKernel
    image: bytes | None


def compiled(function: Function, device: DeviceModel, level: int = 2) -> Compiled:
    """Return a function compiled, and assembled where NVIDIA's assembler is on the path."""
    module = optimize(Module({"main": function}), level)
    kernel = compile_gpu(module.main, infer_types(module), device)
    return Compiled(kernel, _assembled(kernel.ptx, device.architecture))


def _assembled(ptx: str, architecture: str) -> bytes | None:
    """Return machine code: many processes assemble at once, where the driver does so in turn."""
    assembler = shutil.which("ptxas") or shutil.which("ptxas", path=_CUDA)
    if assembler is None or ".entry" not in ptx:
        return None
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder) / "kernels.ptx", Path(folder) / "kernels.cubin"
        source.write_text(ptx, encoding="utf-8")
        command = [assembler, f"-arch={architecture}", str(source), "-o", str(result)]
        done = subprocess.run(command, capture_output=True, check=False, timeout=600)
        return result.read_bytes() if done.returncode == 0 else None
