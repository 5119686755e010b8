"""Tensors as objects: how generated code makes them and finds their elements."""

from __future__ import annotations

from math import prod
from typing import final

from codesign.compiler.backends.llvm.text import FunctionText
from codesign.ir.control.program import Value
from codesign.ir.executable.heap import data_offset, tensor_class, tensor_word
from codesign.ir.relay.types import TensorType


def tensor_type(value: Value) -> TensorType:
    """Return the type of a value that is a tensor."""
    assert value.tensor is not None, f"{value.name} is a tensor; the types have seen to it"
    return value.tensor


def data_bytes(type_: TensorType) -> int:
    """Return the bytes of a tensor's elements."""
    return prod(type_.static_shape) * type_.dtype.size_bytes


def size_bytes(type_: TensorType) -> int:
    """Return the bytes of a tensor as an object."""
    return data_offset(len(type_.shape)) + data_bytes(type_)


def size_class(type_: TensorType) -> int:
    """Return the size class of a tensor."""
    return tensor_class(len(type_.shape), data_bytes(type_))


def has_same_room(one: TensorType, other: TensorType) -> bool:
    """Whether a tensor fits exactly into the memory of another one."""
    return size_class(one) == size_class(other) and size_bytes(one) == size_bytes(other)


@final
class TensorWriter:
    """Writes what concerns the inside of tensors."""

    def __init__(self, text: FunctionText) -> None:
        self._text = text

    def data(self, tensor: str, type_: TensorType) -> str:
        """Return the pointer to a tensor's elements."""
        return self._text.op(f"getelementptr i8, ptr {tensor}, i64 {data_offset(len(type_.shape))}")

    def extent(self, tensor: str, axis: int) -> str:
        """Return an extent of a tensor, an i64."""
        return self._text.op(f"load i64, ptr {self.extent_place(tensor, axis)}")

    def extent_place(self, tensor: str, axis: int) -> str:
        """Return the pointer to an extent of a tensor."""
        return self._text.op(f"getelementptr i8, ptr {tensor}, i64 {8 + 8 * axis}")

    def describe(self, tensor: str, type_: TensorType) -> str:
        """Write word and extents of a new tensor; return the pointer to its elements."""
        rank = len(type_.shape)
        head = tensor_word(type_.dtype, rank, size_class(type_))
        self._text.do(f"store i64 {head}, ptr {tensor}")
        for axis, extent in enumerate(type_.static_shape):
            place = self._text.op(f"getelementptr i8, ptr {tensor}, i64 {8 + 8 * axis}")
            self._text.do(f"store i64 {extent}, ptr {place}")
        return self.data(tensor, type_)
