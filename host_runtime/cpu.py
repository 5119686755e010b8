"""Run a `CpuKernel` on the processor of this process."""

from __future__ import annotations

import ctypes
from collections import deque
from typing import Any, Final, final

import llvmlite.binding as llvm
import numpy as np

from codesign.diagnostics import CodesignError
from codesign.dtypes import Array
from codesign.ir.executable.cpu_kernel import ALIGNMENT, CpuKernel

_Entry: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@final
class CpuFunction:
    """A loaded kernel: call it with arrays, get a tuple of new arrays.

    It may be called from several threads at once. Code, constants and workspaces live as long as
    the function does.

    Examples
    --------
    `CpuFunction(compile_cpu(function, types))(image)` gives `(scores,)`.
    """

    def __init__(self, kernel: CpuKernel) -> None:
        self.kernel = kernel
        self._library = _load(kernel)
        self._entry = _Entry(self._library[kernel.symbol])
        self._constants = _aligned(len(kernel.constants))
        self._constants[:] = np.frombuffer(kernel.constants, dtype=np.uint8)
        self._inputs = tuple((t.static_shape, t.dtype.numpy) for t in kernel.inputs)
        self._outputs = tuple((t.static_shape, t.dtype.numpy) for t in kernel.outputs)
        count = 2 + len(self._inputs) + len(self._outputs) + len(kernel.checks)
        self._pointers = ctypes.c_void_p * count
        self._idle: deque[Array] = deque()

    def __call__(self, *arrays: Array) -> tuple[Array, ...]:
        """Return the outputs for these inputs.

        Raises CodesignError where the number, a shape or an element type of the inputs is not the
        kernel's, and where an operator refuses their values (an index outside of a tensor).
        """
        if len(arrays) != len(self._inputs):
            raise CodesignError.of(
                f"the function takes {len(self._inputs)} inputs",
                found=f"{len(arrays)} arrays were passed",
            )
        inputs = [
            array
            if type(array) is np.ndarray
            and array.shape == shape
            and array.dtype == dtype
            and array.flags.c_contiguous
            else self._checked(number, array)
            for number, (array, (shape, dtype)) in enumerate(zip(arrays, self._inputs, strict=True))
        ]
        outputs = tuple(np.empty(shape, dtype) for shape, dtype in self._outputs)
        found = np.zeros(len(self.kernel.checks), dtype=np.int8)
        workspace = self._take_workspace()
        addresses = self._pointers(
            _address(self._constants),
            _address(workspace),
            *[_address(array) for array in inputs],
            *[_address(array) for array in outputs],
            *[_address(found) + place for place in range(len(found))],
        )
        self._entry(ctypes.addressof(addresses))
        self._idle.append(workspace)
        if found.any():
            raise CodesignError.of(self.kernel.checks[int(found.argmax())])
        return outputs

    def _take_workspace(self) -> Array:
        try:
            return self._idle.pop()
        except IndexError:
            return _aligned(self.kernel.workspace_bytes)

    def _checked(self, number: int, array: Array) -> Array:
        shape, dtype = self._inputs[number]
        found = np.asarray(array)
        if found.shape != shape or found.dtype != dtype:
            raise CodesignError.of(
                f"input {number} does not have the type that the function was compiled for",
                found=f"found {found.dtype} of shape {list(found.shape)}, "
                f"expected {dtype} of shape {list(shape)}",
                help="convert the array, or compile the network for this type",
            )
        return np.ascontiguousarray(found).reshape(shape)


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _aligned(size_bytes: int) -> Array:
    """Return zeroed bytes at an address that is a multiple of `ALIGNMENT`."""
    room = np.zeros(size_bytes + ALIGNMENT, dtype=np.uint8)
    offset = -_address(room) % ALIGNMENT
    return room[offset : offset + size_bytes]


def _load(kernel: CpuKernel) -> Any:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(kernel.triple)
    own = llvm.get_process_triple()
    if target.name != llvm.Target.from_triple(own).name:
        raise CodesignError.of(
            "the kernel was compiled for another processor",
            found=f"its triple is {kernel.triple}, this process runs on {own}",
            help="compile the network on this machine",
        )
    missing = _missing_features(kernel)
    if missing:
        raise CodesignError.of(
            "the kernel uses instructions that this processor does not have",
            found=", ".join(missing),
            help="compile the network on this machine, or with fewer features",
        )
    machine = target.create_target_machine(cpu=kernel.cpu, features=kernel.features, jit=True)
    compiler = llvm.create_lljit_compiler(machine)
    return (
        llvm.JITLibraryBuilder()
        .add_object_img(kernel.object_code)
        .add_current_process()
        .export_symbol(kernel.symbol)
        .link(compiler, "codesign")
    )


def _missing_features(kernel: CpuKernel) -> list[str]:
    present = llvm.get_host_cpu_features()
    wanted = [name[1:] for name in kernel.features.split(",") if name.startswith("+")]
    return [name for name in wanted if not present.get(name, False)]
