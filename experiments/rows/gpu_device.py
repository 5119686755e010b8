"""gpu-device and gpu-matmul: what only a device can show; without one they say why."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from codesign.diagnostics import CodesignError
from experiments.gpu.bench import opened
from experiments.gpu.measure import battery, matmul, networks
from experiments.rows.measurement import CONSOLE, Measurement

_OUT: Final = Path("build/gpu")
_LIMIT_S: Final = 540.0


def gpu_device() -> Measurement:
    """Mean speed at batch 1 as a multiple of PyTorch's better one; a failing operator ends it.

    Raises
    ------
    CodesignError
        There is no device or no PyTorch, or an operator is wrong on the device.
    """
    with opened(_OUT / "gpu-device.json", _LIMIT_S) as bench:
        _require_torch(bench.torch)
        failures = battery(bench)
        if failures:
            raise CodesignError.of(f"{failures} operators are wrong on the device")
        ratios = networks(bench, np.dtype(np.float16))
    for batch, ratio in ratios.items():
        CONSOLE.print(f"batch {batch}: {ratio:.2f} times as fast as PyTorch")
    return Measurement(value=ratios[1], unit="times PyTorch at batch 1", digits=2)


def gpu_matmul() -> Measurement:
    """Speed of a product of 4096 x 4096 matrices of float16 in percent of PyTorch's.

    Raises
    ------
    CodesignError
        There is no device or no PyTorch, or the product is wrong.
    """
    with opened(_OUT / "gpu-matmul.json", _LIMIT_S) as bench:
        _require_torch(bench.torch)
        share = matmul(bench)
    assert share is not None, "PyTorch is there"
    return Measurement(value=share, unit="percent of PyTorch", digits=1)


def _require_torch(torch: object | None) -> None:
    if torch is None:
        raise CodesignError.of(
            "PyTorch with CUDA is missing, which the figure compares with",
            help="pip install torch, or run make test-gpu, which leaves it out",
        )
