"""A CUDA driver of this machine's own memory, for the runtime's calls; kernels run in step.

The nodes of a graph run one at a time, each time in another of the orders that its edges allow.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

import numpy as np

from codesign.compiler.backends.gpu.nvptx import dynamic_bytes
from codesign.ir.simt.kernel import SimtKernel
from tests.support.fake_graph import FakeGraph, Node


class Attribute(IntEnum):
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97


class FunctionAttribute(IntEnum):
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8


class EventFlags(IntEnum):
    CU_EVENT_DEFAULT = 0


class NodeParams:
    """What a node launches; fields that are not set are zeros, as in the driver."""

    def __init__(self) -> None:
        self.func: SimtKernel | None = None
        self.gridDimX = self.gridDimY = self.gridDimZ = 0
        self.blockDimX = self.blockDimY = self.blockDimZ = 0
        self.sharedMemBytes = 0
        self.kernelParams: tuple[tuple[int, ...], tuple[Any, ...]] = ((), ())

    @property
    def grid(self) -> tuple[int, int, int]:
        return self.gridDimX, self.gridDimY, self.gridDimZ

    @property
    def block(self) -> tuple[int, int, int]:
        return self.blockDimX, self.blockDimY, self.blockDimZ


_OK, _INVALID_IMAGE, _OUT_OF_MEMORY = 0, 200, 2
_TEXTS = {_INVALID_IMAGE: b"device kernel image is invalid", _OUT_OF_MEMORY: b"out of memory"}


class FakeDriver:
    """The functions that the runtime calls, each with the driver's arguments and results."""

    CUdevice_attribute = Attribute
    CUDA_KERNEL_NODE_PARAMS = NodeParams
    CUfunction_attribute = FunctionAttribute
    CUevent_flags = EventFlags

    def __init__(
        self,
        kernels: Mapping[str, SimtKernel],
        *,
        count: int = 1,
        capability: tuple[int, int] = (9, 0),
        limit_bytes: int = 1 << 30,
        shared_bytes: int = 227 * 1024,
        seed: int = 0,
    ) -> None:
        self.kernels = kernels
        self.count = count
        self.capability = capability
        self.left = limit_bytes
        self.shared_bytes = shared_bytes
        self.allowed: dict[SimtKernel, int] = {}
        self.calls: list[str] = []
        self.events = 0
        self.memory: dict[int, np.ndarray[Any, Any]] = {}
        self.graphs: list[FakeGraph] = []
        self.rng = np.random.default_rng(seed)

    def cuGetErrorString(self, status: int) -> tuple[int, bytes]:  # noqa: N802
        return _OK, _TEXTS[status]

    def cuDeviceGetCount(self) -> tuple[int, int]:  # noqa: N802
        return _OK, self.count

    def cuDeviceGet(self, number: int) -> tuple[int, int]:  # noqa: N802
        return _OK, number

    def cuDeviceGetName(self, length: int, device: int) -> tuple[int, bytes]:  # noqa: N802
        return _OK, f"fake {device}".encode().ljust(length, b"\0")

    def cuDeviceGetAttribute(  # noqa: N802
        self, attribute: Attribute, device: int
    ) -> tuple[int, int]:
        match attribute.name.rsplit("_", 1)[-1]:
            case "MAJOR":
                return _OK, self.capability[0]
            case "MINOR":
                return _OK, self.capability[1]
            case "OPTIN":
                return _OK, self.shared_bytes
            case _:
                return _OK, 100 + device

    def cuDevicePrimaryCtxRetain(self, device: int) -> tuple[int, str]:  # noqa: N802
        return _OK, f"context {device}"

    def cuCtxSetCurrent(self, context: str) -> tuple[int]:  # noqa: N802
        assert context.startswith("context")
        return (_OK,)

    def cuModuleLoadData(self, image: bytes) -> tuple[int, str]:  # noqa: N802
        if b".target" not in image or not image.endswith(b"\0"):
            return _INVALID_IMAGE, ""
        return _OK, "module"

    def cuModuleGetFunction(self, module: str, name: bytes) -> tuple[int, SimtKernel]:  # noqa: N802
        assert module == "module"
        return _OK, self.kernels[name.decode()]

    def cuFuncSetAttribute(  # noqa: N802
        self, kernel: SimtKernel, attribute: FunctionAttribute, size: int
    ) -> tuple[int]:
        assert size <= self.shared_bytes
        self.allowed[kernel] = size
        return (_OK,)

    def cuEventCreate(self, flags: EventFlags) -> tuple[int, list[int]]:  # noqa: N802
        return _OK, []

    def cuEventRecord(self, event: list[int], stream: str) -> tuple[int]:  # noqa: N802
        self.events += 1
        event.append(self.events)
        return (_OK,)

    def cuEventElapsedTime(self, begin: list[int], end: list[int]) -> tuple[int, float]:  # noqa: N802
        return _OK, float(end[0] - begin[0])

    def cuEventDestroy(self, event: list[int]) -> tuple[int]:  # noqa: N802
        event.clear()
        return (_OK,)

    def cuGraphExecDestroy(self, graph: FakeGraph) -> tuple[int]:  # noqa: N802
        self.graphs.remove(graph)
        return (_OK,)

    def cuStreamDestroy(self, stream: str) -> tuple[int]:  # noqa: N802
        assert stream == "stream"
        return (_OK,)

    def cuModuleUnload(self, module: str) -> tuple[int]:  # noqa: N802
        assert module == "module"
        return (_OK,)

    def cuStreamCreate(self, flags: int) -> tuple[int, str]:  # noqa: N802
        assert flags == 0
        return _OK, "stream"

    def cuMemAlloc(self, size: int) -> tuple[int, int]:  # noqa: N802
        if size > self.left:
            return _OUT_OF_MEMORY, 0
        self.left -= size
        block = np.zeros(size + 64, np.uint8)
        self.memory[block.ctypes.data] = block
        return _OK, block.ctypes.data

    def cuMemFree(self, pointer: int) -> tuple[int]:  # noqa: N802
        del self.memory[pointer]
        return (_OK,)

    def cuMemcpyHtoDAsync(  # noqa: N802
        self, target: int, source: int, size: int, stream: str
    ) -> tuple[int]:
        self.calls.append("cuMemcpyHtoDAsync")
        self._inside(target, size)
        ctypes.memmove(target, source, size)
        return (_OK,)

    def cuMemcpyDtoHAsync(  # noqa: N802
        self, target: int, source: int, size: int, stream: str
    ) -> tuple[int]:
        self.calls.append("cuMemcpyDtoHAsync")
        self._inside(source, size)
        ctypes.memmove(target, source, size)
        return (_OK,)

    def cuStreamSynchronize(self, stream: str) -> tuple[int]:  # noqa: N802
        self.calls.append("cuStreamSynchronize")
        return (_OK,)

    def cuGraphCreate(self, flags: int) -> tuple[int, FakeGraph]:  # noqa: N802
        assert flags == 0
        self.graphs.append(FakeGraph())
        return _OK, self.graphs[-1]

    def cuGraphAddKernelNode(  # noqa: N802
        self, graph: FakeGraph, followed: list[int], count: int, params: NodeParams
    ) -> tuple[int, int]:
        kernel = params.func
        assert kernel is not None, "a node has a function"
        assert params.grid == (kernel.block.extent, 1, 1)
        assert params.block == (kernel.thread.extent, 1, 1)
        assert params.sharedMemBytes == dynamic_bytes(kernel)
        assert params.sharedMemBytes <= self.allowed.get(kernel, 48 * 1024)
        pointers, types = params.kernelParams
        assert types == (ctypes.c_void_p,) * len(kernel.operands)
        for buffer, pointer in zip(kernel.operands, pointers, strict=True):
            self._inside(pointer, buffer.size_bytes)
        assert count == len(followed) == len(set(followed))
        return _OK, graph.add(Node(kernel, pointers), followed)

    def cuGraphInstantiate(  # noqa: N802
        self, graph: FakeGraph, flags: int
    ) -> tuple[int, FakeGraph]:
        assert flags == 0
        graph.check()
        self.graphs.append(FakeGraph(list(graph.nodes), list(graph.followed)))
        return _OK, self.graphs[-1]

    def cuGraphDestroy(self, graph: FakeGraph) -> tuple[int]:  # noqa: N802
        self.graphs.remove(graph)
        return (_OK,)

    def cuGraphLaunch(self, graph: FakeGraph, stream: str) -> tuple[int]:  # noqa: N802
        assert any(graph is each for each in self.graphs), "the graph was not destroyed"
        self.calls.append("cuGraphLaunch")
        for node in graph.in_some_order(self.rng):
            node.run()
        return (_OK,)

    def _inside(self, pointer: int, size: int) -> None:
        assert any(
            base <= pointer and pointer + size <= base + len(block)
            for base, block in self.memory.items()
        ), "the device's memory is left"
