"""The device of this machine, ready to be measured."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from codesign.compiler.backends.gpu.device import device_for
from experiments.gpu.compiled import Compiled
from experiments.gpu.measure import Bench
from experiments.gpu.peer import torch_module
from experiments.gpu.progress import Progress
from experiments.rows.measurement import CONSOLE
from host_runtime.cuda import devices, open_driver
from host_runtime.gpu import GpuFunction


@contextmanager
def opened(results: Path, limit_s: float) -> Iterator[Bench]:
    """Yield the first device, with processes that compile for it.

    Raises
    ------
    CodesignError
        There is no device: the message says why.
    """
    driver = open_driver()
    found = devices(driver)[0]
    model = device_for(found.architecture, found.multiprocessors, found.shared_bytes)
    torch = torch_module()
    CONSOLE.print(f"{found.name}, {found.architecture}, PyTorch {_version(torch)}")

    def load(made: Compiled) -> GpuFunction:
        return GpuFunction(made.kernel, driver, made.image)

    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        yield Bench(model, load, torch, pool, Progress(results, limit_s))


def _version(torch: Any | None) -> str:
    return "is not there" if torch is None else str(torch.__version__)
