"""Run a `GpuKernel` on the first CUDA device."""

from __future__ import annotations

import ctypes
from itertools import pairwise
from typing import Any, final

import numpy as np

from codesign.diagnostics import CodesignError
from codesign.dtypes import Array
from codesign.ir.executable.gpu_kernel import DeviceMemory, DevicePointer, GpuKernel, KernelLaunch
from host_runtime.cuda import call, devices, open_driver


@final
class GpuFunction:
    """A loaded kernel: call it with arrays, get a tuple of new arrays.

    Constants, workspace, inputs and outputs have their places on the device for as long as the
    function lives; a call copies the inputs there and the outputs back. The launches are made into
    one graph once; those of which none waits for the other may run side by side. `image` is
    machine code of the same kernels, if they were assembled already.

    Raises
    ------
    CodesignError
        There is no device, it is older than what the kernel was compiled for, its memory does not
        suffice, or the driver refuses the code.
    """

    def __init__(self, kernel: GpuKernel, driver: Any = None, image: bytes | None = None) -> None:
        self.kernel = kernel
        self._driver = open_driver() if driver is None else driver
        self._memory: list[Any] = []
        self._select_device()
        self._module = self._call("cuModuleLoadData", image or kernel.ptx.encode() + b"\0")
        self._stream = self._call("cuStreamCreate", 0)
        self._constants = self._allocate(len(kernel.constants))
        self._workspace = self._allocate(kernel.workspace_bytes)
        self._inputs = [self._allocate(_size(shape)) for shape in map(_room, kernel.inputs)]
        outputs = [*map(_room, kernel.outputs), *[((1,), np.dtype(np.int8))] * len(kernel.checks)]
        self._rooms = outputs
        self._outputs = [self._allocate(_size(room)) for room in outputs]
        self._to_device(self._constants, np.frombuffer(kernel.constants, np.uint8))
        self._clear_inputs()
        self._graph = self._graph_of_launches()

    def __call__(self, *arrays: Array) -> tuple[Array, ...]:
        """Return the outputs for these inputs.

        Raises CodesignError where the number, a shape or an element type of the inputs is not the
        kernel's, where an operator refuses their values, and where the driver fails.
        """
        if len(arrays) != len(self.kernel.inputs):
            raise CodesignError.of(
                f"the function takes {len(self.kernel.inputs)} inputs",
                found=f"{len(arrays)} arrays were passed",
            )
        given = [np.asarray(array, order="C") for array in arrays]
        for pointer, array, kind in zip(self._inputs, given, self.kernel.inputs, strict=True):
            shape, dtype = _room(kind)
            if array.shape != shape or array.dtype != dtype:
                raise CodesignError.of(
                    "an input does not fit",
                    found=f"found {array.dtype}{array.shape}, expected {dtype}{shape}",
                )
            self._to_device(pointer, array)
        self._call("cuGraphLaunch", self._graph, self._stream)
        results = tuple(np.empty(shape, dtype) for shape, dtype in self._rooms)
        for pointer, array in zip(self._outputs, results, strict=True):
            if array.nbytes:
                address = array.ctypes.data
                self._call("cuMemcpyDtoHAsync", address, pointer, array.nbytes, self._stream)
        self._call("cuStreamSynchronize", self._stream)
        count = len(self.kernel.outputs)
        for flag, mistake in zip(results[count:], self.kernel.checks, strict=True):
            if flag[0]:
                raise CodesignError.of(mistake)
        return results[:count]

    def durations_ms(self, runs: int) -> list[float]:
        """Return how long each of some runs took on the device, by its events.

        Nothing is copied: each run takes the inputs of the last call, or zeros before the first.
        """
        flag = self._driver.CUevent_flags.CU_EVENT_DEFAULT
        events = [self._call("cuEventCreate", flag) for _ in range(runs + 1)]
        self._call("cuEventRecord", events[0], self._stream)
        for event in events[1:]:
            self._call("cuGraphLaunch", self._graph, self._stream)
            self._call("cuEventRecord", event, self._stream)
        self._call("cuStreamSynchronize", self._stream)
        found = [
            float(self._call("cuEventElapsedTime", before, after))
            for before, after in pairwise(events)
        ]
        for event in events:
            self._call("cuEventDestroy", event)
        return found

    def close(self) -> None:
        """Give back what the device holds; the function cannot be called afterwards."""
        self._call("cuGraphExecDestroy", self._graph)
        self._call("cuStreamDestroy", self._stream)
        self._call("cuModuleUnload", self._module)
        for pointer in self._memory:
            self._call("cuMemFree", pointer)
        self._memory.clear()

    def _call(self, name: str, *arguments: Any) -> Any:
        return call(self._driver, name, *arguments)

    def _select_device(self) -> None:
        found = devices(self._driver)
        if not found:
            raise CodesignError.of("no GPU can be used", found="the CUDA driver sees no device")
        device = self._device = found[0]
        needed = self.kernel.architecture
        if _capability(device.architecture) < _capability(needed):
            raise CodesignError.of(
                "the kernel was compiled for a newer GPU",
                found=f"{device.name} is {device.architecture}, the code needs {needed}",
                help=f"compile for {device.architecture}",
            )
        handle = self._call("cuDeviceGet", device.number)
        self._call("cuCtxSetCurrent", self._call("cuDevicePrimaryCtxRetain", handle))

    def _allocate(self, size_bytes: int) -> Any:
        pointer = self._call("cuMemAlloc", max(size_bytes, 1))
        self._memory.append(pointer)
        return pointer

    def _to_device(self, pointer: Any, array: Array) -> None:
        if array.nbytes:
            self._call("cuMemcpyHtoDAsync", pointer, array.ctypes.data, array.nbytes, self._stream)

    def _clear_inputs(self) -> None:
        """Give every input its first value, zeros, so that no run reads what was never written."""
        for pointer, (shape, dtype) in zip(
            self._inputs, map(_room, self.kernel.inputs), strict=True
        ):
            self._to_device(pointer, np.zeros(shape, dtype))
        self._call("cuStreamSynchronize", self._stream)

    def _graph_of_launches(self) -> Any:
        functions = {
            symbol: self._call("cuModuleGetFunction", self._module, symbol.encode())
            for symbol in {launch.symbol for launch in self.kernel.launches}
        }
        graph = self._call("cuGraphCreate", 0)
        nodes: list[Any] = []
        for launch in self.kernel.launches:
            function = functions[launch.symbol]
            self._allow(function, launch)
            followed = [nodes[number] for number in launch.after]
            node = self._node(function, launch)
            nodes.append(self._call("cuGraphAddKernelNode", graph, followed, len(followed), node))
        ready = self._call("cuGraphInstantiate", graph, 0)
        self._call("cuGraphDestroy", graph)
        return ready

    def _allow(self, function: Any, launch: KernelLaunch) -> None:
        """Ask the driver for a block's shared memory where it is more than any kernel may have."""
        if not launch.shared_bytes:
            return
        if launch.shared_bytes > self._device.shared_bytes:
            raise CodesignError.of(
                f"{launch.label} needs {launch.shared_bytes} bytes of shared memory in a block",
                found=f"{self._device.name} allows {self._device.shared_bytes} bytes",
                help=f"compile for {self._device.architecture}",
            )
        attribute = self._driver.CUfunction_attribute
        name = attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self._call("cuFuncSetAttribute", function, name, launch.shared_bytes)

    def _node(self, function: Any, launch: KernelLaunch) -> Any:
        pointers = tuple(int(self._pointer(operand)) for operand in launch.operands)
        node = self._driver.CUDA_KERNEL_NODE_PARAMS()
        node.func = function
        node.gridDimX, node.gridDimY, node.gridDimZ = launch.blocks, 1, 1
        node.blockDimX, node.blockDimY, node.blockDimZ = launch.threads, 1, 1
        node.sharedMemBytes = launch.shared_bytes
        node.kernelParams = (pointers, (ctypes.c_void_p,) * len(pointers))
        return node

    def _pointer(self, operand: DevicePointer) -> int:
        match operand.memory:
            case DeviceMemory.CONSTANTS:
                return int(self._constants) + operand.place
            case DeviceMemory.WORKSPACE:
                return int(self._workspace) + operand.place
            case DeviceMemory.INPUT:
                return int(self._inputs[operand.place])
            case DeviceMemory.OUTPUT:
                return int(self._outputs[operand.place])


def _room(kind: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    return kind.static_shape, kind.dtype.numpy


def _size(room: tuple[tuple[int, ...], np.dtype[Any]]) -> int:
    shape, dtype = room
    return int(np.prod(shape, dtype=np.int64)) * dtype.itemsize


def _capability(architecture: str) -> int:
    return int("".join(letter for letter in architecture if letter.isdigit()))
