"""Run a `CpuKernel` on the processor of this process."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, final

import llvmlite.binding as llvm
import numpy as np

from codesign.diagnostics import CodesignError
from codesign.dtypes import Array
from codesign.ir.executable.cpu_kernel import ALIGNMENT, CpuKernel
from host_runtime.array_call import (
    InputTypes,
    address_of,
    array_call,
    frame_words,
    is_available,
    pointers_of,
)

_Entry: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@final
class _Frame:
    """What one call at a time needs: a workspace, the checks' bytes, and all pointers in order."""

    __slots__ = ("found", "words", "workspace")

    def __init__(self, kernel: CpuKernel, constants: Array, entry: int, types: InputTypes) -> None:
        arrays = len(kernel.inputs) + len(kernel.outputs)
        self.workspace = aligned_bytes(kernel.workspace_bytes)
        self.found = np.zeros(len(kernel.checks), dtype=np.int8)
        before = (address_of(constants), address_of(self.workspace))
        checks = [address_of(self.found) + place for place in range(len(kernel.checks))]
        self.words = frame_words(entry, types, before, arrays, checks)


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
        self._library = load_objects(
            (kernel.object_code,),
            (kernel.symbol,),
            kernel.triple,
            kernel.cpu,
            kernel.features,
        )
        self._entry: int = self._library[kernel.symbol]
        self._constants = aligned_bytes(len(kernel.constants))
        self._constants[:] = np.frombuffer(kernel.constants, dtype=np.uint8)
        self._inputs = tuple((t.static_shape, t.dtype.numpy) for t in kernel.inputs)
        self._outputs = tuple((t.static_shape, t.dtype.numpy) for t in kernel.outputs)
        self._types = InputTypes(self._inputs)
        self._call = array_call() if is_available() else self._call_by_ctypes
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
        outputs = self.attempt(arrays)
        if outputs is None:
            outputs = self.attempt(
                [self._checked(number, array) for number, array in enumerate(arrays)]
            )
        assert outputs is not None, "checked inputs fit"
        return outputs

    def attempt(self, arrays: Sequence[object]) -> tuple[Array, ...] | None:
        """Return the outputs, or None where an input is not a dense array of its very type.

        There are as many inputs as the kernel has. Raises CodesignError where an operator refuses
        their values.
        """
        try:
            frame = self._idle.pop()
        except IndexError:
            frame = _Frame(self.kernel, self._constants, self._entry, self._types)
        outputs = tuple([np.empty(shape, dtype) for shape, dtype in self._outputs])
        fits = self._call(frame.words, *arrays, *outputs)
        mistakes = frame.found.nonzero()[0] if self.kernel.checks and fits else None
        self._idle.append(frame)
        if mistakes is not None and mistakes.size:
            raise CodesignError.of(self.kernel.checks[mistakes[0]])
        return outputs if fits else None

    def _call_by_ctypes(self, words: Array, *arrays: Any) -> bool:
        """Do what `array_call` does, where NumPy's arrays lie otherwise than it knows."""
        for array, (shape, dtype) in zip(arrays, self._inputs, strict=False):
            if not _is_dense(array, shape, dtype):
                return False
        pointers = pointers_of(words)
        pointers[2 : 2 + len(arrays)] = [address_of(array) for array in arrays]
        _Entry(self._entry)(address_of(pointers))
        return True

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


def _is_dense(array: object, shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    return (
        type(array) is np.ndarray
        and array.shape == shape
        and array.dtype == dtype
        and array.flags.c_contiguous
    )


def aligned_bytes(size_bytes: int) -> Array:
    """Return zeroed bytes at an address that is a multiple of `ALIGNMENT`."""
    room = np.zeros(size_bytes + ALIGNMENT, dtype=np.uint8)
    offset = -address_of(room) % ALIGNMENT
    return room[offset : offset + size_bytes]


def load_objects(
    objects: tuple[bytes, ...], symbols: tuple[str, ...], triple: str, cpu: str, features: str
) -> Any:
    """Return object files as a library of this process that gives addresses of symbols by name.

    Raises CodesignError where they were compiled for another processor than this one.
    """
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(triple)
    own = llvm.get_process_triple()
    if target.name != llvm.Target.from_triple(own).name:
        raise CodesignError.of(
            "the kernel was compiled for another processor",
            found=f"its triple is {triple}, this process runs on {own}",
            help="compile the network on this machine",
        )
    missing = _missing_features(features)
    if missing:
        raise CodesignError.of(
            "the kernel uses instructions that this processor does not have",
            found=", ".join(missing),
            help="compile the network on this machine, or with fewer features",
        )
    machine = target.create_target_machine(cpu=cpu, features=features, jit=True)
    compiler = llvm.create_lljit_compiler(machine, use_jit_link=True)
    builder = llvm.JITLibraryBuilder()
    for code in objects:
        builder = builder.add_object_img(code)
    builder = builder.add_current_process()
    for symbol in symbols:
        builder = builder.export_symbol(symbol)
    return builder.link(compiler, "codesign")


def _missing_features(features: str) -> list[str]:
    present = llvm.get_host_cpu_features()
    wanted = [name[1:] for name in features.split(",") if name.startswith("+")]
    return [name for name in wanted if not present.get(name, False)]
