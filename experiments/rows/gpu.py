"""gpu-simt, gpu-ptxas and gpu-planted: the GPU backend is right without a GPU in reach."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.backends.gpu.compile import named_kernels
from codesign.compiler.backends.gpu.device import DEVICES, DeviceModel
from codesign.compiler.backends.gpu.execute import KernelFaultError
from codesign.compiler.backends.gpu.nvptx import ptx
from codesign.compiler.pipelines import optimize
from codesign.diagnostics import CodesignError
from codesign.ir.relay.module import Module
from codesign.ir.simt.kernel import SimtKernel
from experiments.networks.answers import recorded
from experiments.networks.packages import BUILD
from experiments.networks.registry import NETWORKS, Network
from experiments.road.subject import subject
from experiments.rows.measurement import CONSOLE, Measurement
from tests.support.gpu_battery import ON_GPU, OnGpu, call_of, disagreement, on_gpu
from tests.support.gpu_planted import planted
from tests.support.operator_cases import CASES

_SEEDS: Final = 12
_TOLERANCE: Final = 1e-4
_ASSEMBLED: Final = ("sm_80", "sm_90")


def gpu_simt() -> Measurement:
    """Count operators and networks that fail on the executor of threads, faults among them."""
    failures = 0
    for name in ON_GPU:
        wrong = [text for seed in range(_SEEDS) if (text := _operator(name, seed))]
        CONSOLE.print(f"{name}: {wrong[0] if wrong else f'{_SEEDS} cases'}")
        failures += bool(wrong)
    for network in _networks():
        text = _network(network)
        CONSOLE.print(f"{network.name}: {text or 'as onnxruntime says'}")
        failures += bool(text)
    return Measurement(value=failures, unit="operators and networks")


def gpu_ptxas() -> Measurement:
    """Count kernels that NVIDIA's assembler refuses, warns of or spills registers for."""
    assembler = ptxas()
    refused = 0
    for architecture in _ASSEMBLED:
        device = DEVICES[architecture]
        for name, kernels in _kernels(device):
            complaints = _complaints(assembler, kernels, device)
            for text in complaints:
                CONSOLE.print(f"{name} on {architecture}: {text}")
            refused += len(complaints)
        CONSOLE.print(f"{architecture}: done")
    return Measurement(value=refused, unit="kernels")


def gpu_planted() -> Measurement:
    """Count planted faults that the executor does not find, or calls by another name."""
    missed = 0
    for name, faulty in planted().items():
        found, detail = faulty.found()
        CONSOLE.print(f"{name}: {detail}")
        missed += found != faulty.kind
    return Measurement(value=missed, unit=f"of {len(planted())} faults")


def ptxas() -> Path:
    """Return NVIDIA's assembler as its package brings it.

    Raises
    ------
    CodesignError
        The package is missing.
    """
    try:
        files = importlib.metadata.files("nvidia-cuda-nvcc") or []
    except importlib.metadata.PackageNotFoundError:
        raise CodesignError.of(
            "ptxas is missing", help="pip install 'codesign[ptx]', which brings nvidia-cuda-nvcc"
        ) from None
    return next(Path(str(file.locate())) for file in files if file.name == "ptxas")


def _operator(name: str, seed: int) -> str:
    try:
        return disagreement(name, seed)
    except KernelFaultError as error:
        return str(error)


def _networks() -> Iterator[Network]:
    for network in NETWORKS:
        missing = network.missing(BUILD)
        if missing is None:
            yield network
        else:
            CONSOLE.print(f"{network.name} is left out: {missing}")


def _lowered(network: Network) -> OnGpu:
    module: Module = optimize(subject(network.name, samples=1).model.module)
    infer_types(module)
    return on_gpu(module.main.body, module.main.params)


def _network(network: Network) -> str:
    """Return how a network's first answer differs from onnxruntime's; empty where it does not."""
    judged = subject(network.name, samples=1)
    (sample,) = judged.evaluation
    expected = recorded(network, BUILD)[0].reshape(-1)
    try:
        found, *_ = _lowered(network).run(list(sample.values()))
    except KernelFaultError as error:
        return str(error)
    error_ = float(np.abs(found.reshape(-1) - expected).max() / np.abs(expected).max())
    return "" if error_ <= _TOLERANCE else f"relative error {error_:.1e}"


def _kernels(device: DeviceModel) -> Iterator[tuple[str, Mapping[str, SimtKernel]]]:
    for name in ON_GPU:
        for seed in range(3):
            body, params, _ = call_of(name, CASES[name](np.random.default_rng(seed)))
            yield f"{name} {seed}", named_kernels(on_gpu(body, params, device).program)
    for network in _networks():
        yield network.name, named_kernels(_lowered(network).program)


def _complaints(
    assembler: Path, kernels: Mapping[str, SimtKernel], device: DeviceModel
) -> list[str]:
    if not kernels:
        return []
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernels.ptx"
        source.write_text(ptx(kernels, device), encoding="utf-8")
        target = f"-arch={device.architecture}"
        command = [str(assembler), "-v", target, str(source), "-o", str(source.with_suffix(".o"))]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    text = done.stdout + done.stderr
    if done.returncode:
        return [text.strip()]
    spills = re.findall(r".*[1-9]\d* bytes (?:stack frame|spill stores|spill loads).*", text)
    return [*re.findall(r".*warning.*", text), *spills]
