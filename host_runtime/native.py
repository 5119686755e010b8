"""Run a `NativeProgram`: values in, one call, a value out; counts what a run leaves behind."""

from __future__ import annotations

import ctypes
import weakref
from collections import deque
from dataclasses import replace
from typing import Any, Final, final

import numpy as np

from codesign.diagnostics import CodesignError, Problem
from codesign.ir.executable.heap import HEAP_BYTES, OUT_OF_MEMORY, OUT_OF_STACK, Slot
from codesign.ir.executable.native_program import NativeProgram
from host_runtime.array_call import address_of
from host_runtime.cpu import aligned_bytes, load_objects
from host_runtime.values import Converted, Reader, Value, ValueWriter

STACK_BYTES: Final = 1 << 30
"""Stack of a run that nothing else is said about; only what is used takes memory."""

_New: Final = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_Run: Final = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
_Delete: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_Slots: Final = ctypes.c_int64 * (HEAP_BYTES // 8)


@final
class NativeFunction:
    """A loaded program: call it with arrays, tuples and `DataValue`s, get one of them.

    It may be called from several threads at once: each call has a heap and a stack of its own.

    Parameters
    ----------
    program
        What the compiler made.
    stack_bytes
        How deep a recursion may be; a deeper one is an error. Address space is taken for all of
        it, memory for what is used.

    Attributes
    ----------
    live_objects
        Objects that the last run left behind, but for its result: 0, unless cells hold each other
        in a circle or the run ended with an error. Their memory is free again either way.

    Examples
    --------
    `NativeFunction(compile_native(module, types))(np.float32(1))` gives what main makes of 1.
    """

    def __init__(self, program: NativeProgram, *, stack_bytes: int = STACK_BYTES) -> None:
        self.program = program
        self.live_objects = 0
        self._stack_bytes = stack_bytes
        self._library = load_objects(
            (program.heap_code, program.control_code, program.kernel_code),
            ("heap_new", "heap_run", "heap_delete"),
            program.triple,
            program.cpu,
            program.features,
        )
        self._new = _New(self._library["heap_new"])
        self._run = _Run(self._library["heap_run"])
        self._delete = _Delete(self._library["heap_delete"])
        self._constants = aligned_bytes(len(program.constants))
        self._constants[:] = np.frombuffer(program.constants, dtype=np.uint8)
        self._writer = ValueWriter(program)
        self._reader = Reader(program)
        self._idle: deque[_Heap] = deque()

    def convert(self, parameter: int, value: Value) -> Converted:
        """Return a value in the form in which it crosses, to be passed again and again.

        A list of many elements is then taken apart once, not at each call. The form is that of one
        parameter, which counts from 0, of this program; it holds a copy of what the value is now.

        Raises
        ------
        CodesignError
            There is no such parameter, or the value is not of its type.
        """
        return self._writer.convert(parameter, value)

    def __call__(self, *args: Value | Converted) -> Value:
        """Return what `main` makes of its arguments, each of them a value or converted before.

        Raises
        ------
        CodesignError
            An argument is not of its parameter's type; or the program makes a mistake: an index
            outside of a tensor, a match that no clause fits, a shape that an annotation excludes,
            a recursion that is too deep.
        """
        words, data = self._writer.write(args)
        heap = self._take_heap()
        try:
            slots = heap.slots
            buffer = np.array(words, dtype=np.uint64)
            source = np.frombuffer(data, dtype=np.uint8)
            first = address_of(buffer)
            slots[Slot.INPUT_WORDS] = first
            slots[Slot.INPUT_END] = first + 8 * len(words)
            slots[Slot.INPUT_DATA] = address_of(source) + len(data)
            site = self._run(heap.address)
            self.live_objects = slots[Slot.LEFT]
            if site:
                raise self._mistake(site, slots[Slot.DETAIL])
            return self._result(slots)
        finally:
            self._idle.append(heap)

    def _result(self, slots: Any) -> Value:
        count = slots[Slot.WORD_COUNT]
        words = (ctypes.c_uint64 * count).from_address(slots[Slot.WORDS])[:]
        content = np.empty(slots[Slot.BYTE_COUNT], dtype=np.uint8)
        if len(content):
            ctypes.memmove(address_of(content), slots[Slot.BYTES], len(content))
        return self._reader.read(words, content)

    def _mistake(self, site: int, detail: int) -> CodesignError:
        if site == OUT_OF_STACK:
            return CodesignError.of(
                "the recursion is too deep",
                found=f"the stack has {self._stack_bytes:,} bytes",
                help="a call in tail position needs no stack; or give the session a larger one",
            )
        if site == OUT_OF_MEMORY:
            return CodesignError.of(
                "there is no memory left", found=f"{detail:,} bytes were asked for"
            )
        found = self.program.sites[site - 1]
        problem = Problem(what=found.what, found=found.found, span=found.span)
        return CodesignError(replace(problem, help=found.help or None))

    def _take_heap(self) -> _Heap:
        try:
            return self._idle.pop()
        except IndexError:
            pass
        address = self._new(
            address_of(self._constants), self.program.workspace_bytes, self._stack_bytes
        )
        if not address:
            raise CodesignError.of(
                "the system gives no stack for the program",
                found=f"{self._stack_bytes:,} bytes of address space were asked for",
                help="give the session a smaller one",
            )
        return _Heap(address, self._delete, self._library)


@final
class _Heap:
    """A heap of one run at a time; freed with this object."""

    def __init__(self, address: int, delete: Any, library: Any) -> None:
        self.address = address
        self.slots = _Slots.from_address(address)
        # The registry of finalizers keeps the library: a __del__ might run after it is unloaded.
        weakref.finalize(self, _free, address, delete, library).atexit = False


def _free(address: int, delete: Any, library: Any) -> None:
    """Free a heap while its library is still loaded."""
    assert library is not None, "the caller keeps the library"
    delete(address)
