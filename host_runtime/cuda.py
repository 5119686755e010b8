"""The CUDA driver, by the optional package cuda-bindings: which devices there are, and calls."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, final

from codesign.diagnostics import CodesignError


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GpuDevice:
    """A device: its name, its architecture as LLVM names it, and what a block may have at most."""

    number: int
    name: str
    architecture: str
    multiprocessors: int
    shared_bytes: int


def open_driver() -> Any:
    """Return the driver's module, initialized.

    Raises
    ------
    CodesignError
        The package or the driver is missing, or the driver refuses to start.
    """
    try:
        driver = importlib.import_module("cuda.bindings.driver")
    except ImportError as error:
        raise CodesignError.of(
            "no GPU can be used: the package cuda-bindings is missing",
            found=str(error),
            help="pip install 'codesign[gpu]'",
        ) from None
    try:
        call(driver, "cuInit", 0)
    except RuntimeError as error:
        raise CodesignError.of(
            "no GPU can be used: there is no CUDA driver on this machine",
            found=str(error).splitlines()[0],
            help="install NVIDIA's display driver, or compile only: --target gpu writes PTX",
        ) from None
    return driver


def call(driver: Any, name: str, *arguments: Any) -> Any:
    """Call a function of the driver and return its result: None, one value, or a tuple.

    Raises
    ------
    CodesignError
        The driver answers with an error; the message has its text.
    """
    status, *results = getattr(driver, name)(*arguments)
    if int(status) != 0:
        _, text = driver.cuGetErrorString(status)
        shown = text.decode() if isinstance(text, bytes) else str(status)
        raise CodesignError.of(f"the CUDA driver refuses {name}", found=shown)
    return None if not results else results[0] if len(results) == 1 else tuple(results)


def devices(driver: Any) -> tuple[GpuDevice, ...]:
    """Return the devices that the driver sees."""
    attribute = driver.CUdevice_attribute
    found = []
    for number in range(call(driver, "cuDeviceGetCount")):
        handle = call(driver, "cuDeviceGet", number)
        major, minor, multiprocessors, shared = (
            call(
                driver,
                "cuDeviceGetAttribute",
                getattr(attribute, f"CU_DEVICE_ATTRIBUTE_{name}"),
                handle,
            )
            for name in (
                "COMPUTE_CAPABILITY_MAJOR",
                "COMPUTE_CAPABILITY_MINOR",
                "MULTIPROCESSOR_COUNT",
                "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
            )
        )
        name = call(driver, "cuDeviceGetName", 256, handle)
        found.append(
            GpuDevice(
                number=number,
                name=name.rstrip(b"\0").decode(),
                architecture=f"sm_{major}{minor}",
                multiprocessors=multiprocessors,
                shared_bytes=shared,
            )
        )
    return tuple(found)
