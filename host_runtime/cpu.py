"""Run a `CpuKernel` on the processor of this process."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, TypeGuard, final

import llvmlite.binding as llvm
import numpy as np

from codesign.diagnostics import CodesignError
from codesign.dtypes import Array
from codesign.ir.executable.cpu_kernel import ALIGNMENT, CpuKernel

_Entry: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@final
class _Frame:
    """What one call at a time needs: a workspace, the checks' bytes, and all pointers in order."""

    __slots__ = ("address", "found", "pointers", "workspace")

    def __init__(self, kernel: CpuKernel, constants: Array) -> None:
        count = 2 + len(kernel.inputs) + len(kernel.outputs)
        self.workspace = _aligned(kernel.workspace_bytes)
        self.found = np.zeros(len(kernel.checks), dtype=np.int8)
        self.pointers = (ctypes.c_void_p * (count + len(kernel.checks)))()
        self.pointers[0], self.pointers[1] = address_of(constants), address_of(self.workspace)
        for place in range(len(kernel.checks)):
            self.pointers[count + place] = address_of(self.found) + place
        self.address = ctypes.addressof(self.pointers)


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
        self._idle: deque[_Frame] = deque()

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
        return self.run_dense(
            [
                array if is_dense(array, shape, dtype) else self._checked(number, array)
                for number, (array, (shape, dtype)) in enumerate(
                    zip(arrays, self._inputs, strict=True)
                )
            ]
        )

    def run_dense(self, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """Return the outputs for inputs of which `is_dense` holds; the caller vouches for it.

        Raises CodesignError where an operator refuses their values.
        """
        try:
            frame = self._idle.pop()
        except IndexError:
            frame = _Frame(self.kernel, self._constants)
        pointers = frame.pointers
        place = 2
        for array in arrays:
            pointers[place] = address_of(array)
            place += 1
        outputs = tuple([np.empty(shape, dtype) for shape, dtype in self._outputs])
        for array in outputs:
            pointers[place] = address_of(array)
            place += 1
        self._entry(frame.address)
        mistake = frame.found.argmax() if frame.found.size and frame.found.any() else None
        self._idle.append(frame)
        if mistake is not None:
            raise CodesignError.of(self.kernel.checks[int(mistake)])
        return outputs

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


def is_dense(array: object, shape: tuple[int, ...], dtype: np.dtype[Any]) -> TypeGuard[Array]:
    """Whether native code may read the array as it is: a plain array of this type, row by row."""
    return (
        type(array) is np.ndarray
        and array.shape == shape
        and array.dtype == dtype
        and array.flags.c_contiguous
    )


def _interface_address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _header_address(array: Array) -> int:
    """Read the first field of NumPy's array object, a tenth of the interface's time."""
    return _pointer_at(id(array) + _HEADER_BYTES).value or 0


_pointer_at: Final = ctypes.c_void_p.from_address
_HEADER_BYTES: Final = object.__basicsize__
_PROBE: Final = np.zeros(1, dtype=np.uint8)

address_of: Final = (
    _header_address
    if _pointer_at(id(_PROBE) + _HEADER_BYTES).value == _interface_address(_PROBE)
    else _interface_address
)
"""Return where an array's first element lies."""


def _aligned(size_bytes: int) -> Array:
    """Return zeroed bytes at an address that is a multiple of `ALIGNMENT`."""
    room = np.zeros(size_bytes + ALIGNMENT, dtype=np.uint8)
    offset = -address_of(room) % ALIGNMENT
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
