"""A way from Python into a kernel that takes NumPy arrays as they are, in a tenth of ctypes' time.

`array_call()` is a function of Python, made of native code: it compares each input's element type
and shape with what the kernel was compiled for, collects the arrays' addresses, and calls the
kernel without Python's lock. It reads NumPy's array objects in memory, as C code that includes
NumPy's headers does; `is_available` says whether they lie as those headers say.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, final

import llvmlite.binding as llvm
import numpy as np

from codesign.dtypes import Array

_HEADER: Final = object.__basicsize__
"""Bytes of a Python object before its own fields; then data, nd, dimensions, strides, base, …"""

_DATA: Final = _HEADER
_RANK: Final = _HEADER + 8
_SHAPE: Final = _HEADER + 16
_TYPE: Final = _HEADER + 40
_FLAGS: Final = _HEADER + 48
_C_CONTIGUOUS: Final = 1
_METH_FASTCALL: Final = 0x80

_FIRST: Final = 3
"""Words of a frame before the kernel's pointers: its entry, the inputs' types, their number."""

_MODULE: Final = f"""
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @Py_IncRef(ptr)
declare i32 @memcmp(ptr, ptr, i64)
@_Py_TrueStruct = external global i8
@_Py_FalseStruct = external global i8

define ptr @call(ptr %self, ptr %args, i64 %count) {{
entry:
  %frame.object = load ptr, ptr %args
  %frame.at = getelementptr i8, ptr %frame.object, i64 {_DATA}
  %frame = load ptr, ptr %frame.at
  %kernel = load ptr, ptr %frame
  %types.at = getelementptr ptr, ptr %frame, i64 1
  %types = load ptr, ptr %types.at
  %inputs.at = getelementptr i64, ptr %frame, i64 2
  %inputs = load i64, ptr %inputs.at
  %pointers = getelementptr ptr, ptr %frame, i64 {_FIRST}
  br label %next
next:
  %i = phi i64 [ 1, %entry ], [ %following, %keep ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %look, label %run
look:
  %object.at = getelementptr ptr, ptr %args, i64 %i
  %object = load ptr, ptr %object.at
  %is.output = icmp sgt i64 %i, %inputs
  br i1 %is.output, label %keep, label %check
check:
  %number = sub i64 %i, 1
  %expected = getelementptr {{ ptr, ptr, i64, ptr }}, ptr %types, i64 %number
  %class.at = getelementptr i8, ptr %object, i64 {_HEADER - 8}
  %class = load ptr, ptr %class.at
  %ndarray = load ptr, ptr %expected
  %is.array = icmp eq ptr %class, %ndarray
  br i1 %is.array, label %array, label %refuse
array:
  %type.at = getelementptr i8, ptr %object, i64 {_TYPE}
  %type = load ptr, ptr %type.at
  %wanted.at = getelementptr ptr, ptr %expected, i64 1
  %wanted = load ptr, ptr %wanted.at
  %same.type = icmp eq ptr %type, %wanted
  %rank.at = getelementptr i8, ptr %object, i64 {_RANK}
  %rank.narrow = load i32, ptr %rank.at
  %rank = sext i32 %rank.narrow to i64
  %depth.at = getelementptr i64, ptr %expected, i64 2
  %depth = load i64, ptr %depth.at
  %same.rank = icmp eq i64 %rank, %depth
  %flags.at = getelementptr i8, ptr %object, i64 {_FLAGS}
  %flags = load i32, ptr %flags.at
  %dense.bit = and i32 %flags, {_C_CONTIGUOUS}
  %is.dense = icmp ne i32 %dense.bit, 0
  %both = and i1 %same.type, %same.rank
  %all = and i1 %both, %is.dense
  br i1 %all, label %measure, label %refuse
measure:
  %shape.at = getelementptr i8, ptr %object, i64 {_SHAPE}
  %shape = load ptr, ptr %shape.at
  %lengths.at = getelementptr ptr, ptr %expected, i64 3
  %lengths = load ptr, ptr %lengths.at
  %bytes = shl i64 %depth, 3
  %difference = call i32 @memcmp(ptr %shape, ptr %lengths, i64 %bytes)
  %same.shape = icmp eq i32 %difference, 0
  br i1 %same.shape, label %keep, label %refuse
keep:
  %data.at = getelementptr i8, ptr %object, i64 {_DATA}
  %data = load ptr, ptr %data.at
  %place = add i64 %i, 1
  %pointer.at = getelementptr ptr, ptr %pointers, i64 %place
  store ptr %data, ptr %pointer.at
  %following = add i64 %i, 1
  br label %next
run:
  %thread = call ptr @PyEval_SaveThread()
  call void %kernel(ptr %pointers)
  call void @PyEval_RestoreThread(ptr %thread)
  call void @Py_IncRef(ptr @_Py_TrueStruct)
  ret ptr @_Py_TrueStruct
refuse:
  call void @Py_IncRef(ptr @_Py_FalseStruct)
  ret ptr @_Py_FalseStruct
}}
"""


@final
class _MethodDef(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("method", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


@final
class _InputType(ctypes.Structure):
    """An input's class, element type, rank and lengths, as addresses."""

    _fields_ = (
        ("kind", ctypes.c_void_p),
        ("dtype", ctypes.c_void_p),
        ("rank", ctypes.c_int64),
        ("shape", ctypes.c_void_p),
    )


@final
class InputTypes:
    """What the arrays of a call must be; lives as long as frames that point to it."""

    def __init__(self, types: Sequence[tuple[tuple[int, ...], np.dtype[Any]]]) -> None:
        self._dtypes = [dtype for _, dtype in types]
        self._shapes = [(ctypes.c_int64 * len(shape))(*shape) for shape, _ in types]
        rows = [
            _InputType(id(np.ndarray), id(dtype), len(shape), ctypes.addressof(shape))
            for dtype, shape in zip(self._dtypes, self._shapes, strict=True)
        ]
        self._table = (_InputType * len(rows))(*rows)
        self.address = ctypes.addressof(self._table)
        self.count = len(rows)


def frame_words(
    entry: int, types: InputTypes, before: Sequence[int], arrays: int, after: Sequence[int]
) -> Array:
    """Return a frame: the kernel, its inputs' types, then its pointers in order.

    Between the two pointers `before` those of the arrays and the ones `after` them is room for as
    many as a call passes.
    """
    words = np.zeros(_FIRST + len(before) + arrays + len(after), dtype=np.uint64)
    words[:_FIRST] = entry, types.address, types.count
    words[_FIRST : _FIRST + len(before)] = before
    words[_FIRST + len(before) + arrays :] = after
    return words


def pointers_of(words: Array) -> Array:
    """Return the part of a frame that a kernel takes."""
    return words[_FIRST:]


def _by_interface(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


@cache
def is_available() -> bool:
    """Whether array objects of this NumPy lie in memory as `array_call` reads them."""
    probe = np.arange(6, dtype=np.int16).reshape(2, 3)[:, :2]
    words = (ctypes.c_uint64 * 9).from_address(id(probe))
    place = _HEADER // 8
    shape = (ctypes.c_int64 * 2).from_address(words[place + 2])
    dense = (ctypes.c_int32).from_address(id(np.zeros(1)) + _FLAGS)
    sparse = (ctypes.c_int32).from_address(id(probe) + _FLAGS)
    return (
        words[place] == _by_interface(probe)
        and words[place + 1] & 0xFFFFFFFF == 2
        and tuple(shape) == (2, 2)
        and words[place + 5] == id(probe.dtype)
        and bool(dense.value & _C_CONTIGUOUS)
        and not sparse.value & _C_CONTIGUOUS
    )


def _by_header(array: Array) -> int:
    return _pointer_at(id(array) + _DATA).value or 0


_pointer_at: Final = ctypes.c_void_p.from_address

address_of: Final[Callable[[Array], int]] = _by_header if is_available() else _by_interface
"""Return where an array's elements lie; the header tells it in a fifth of the interface's time."""


def array_call() -> Callable[..., bool]:
    """Return `call(frame, *inputs, *outputs)`: False, and nothing done, where an input is not fit.

    `frame` comes of `frame_words`; the outputs are not looked at. Needs `is_available()`.
    """
    return _loaded().function


@final
@dataclass(frozen=True, slots=True)
class _Loaded:
    """The function of Python, and the code and description that it points to."""

    function: Callable[..., bool]
    library: Any
    method: _MethodDef


@cache
def _loaded() -> _Loaded:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    parsed = llvm.parse_assembly(_MODULE)
    code = target.create_target_machine(opt=2, reloc="pic").emit_object(parsed)
    library = (
        llvm.JITLibraryBuilder()
        .add_object_img(code)
        .add_current_process()
        .export_symbol("call")
        .link(
            llvm.create_lljit_compiler(target.create_target_machine(jit=True), use_jit_link=True),
            "array_call",
        )
    )
    method = _MethodDef(b"call", library["call"], _METH_FASTCALL, b"")
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3
    return _Loaded(new(ctypes.addressof(method), None, None), library, method)
