"""Objects with fields as generated code makes them, reads them and takes them apart."""

from __future__ import annotations

from typing import final

from codesign.compiler.backends.llvm.text import FunctionText
from codesign.ir.control.program import Unpack, Value
from codesign.ir.executable.heap import (
    FIELDS_OFFSET,
    LARGE,
    Kind,
    Slot,
    data_offset,
    node_class,
    word,
)


@final
class ObjectWriter:
    """Writes into one function; `names` are the registers of its values."""

    def __init__(self, text: FunctionText, names: dict[Value, str]) -> None:
        self.text = text
        self.names = names

    def slot(self, slot: Slot) -> str:
        """Return what a field of the heap points to."""
        place = self.text.op(f"getelementptr i8, ptr %heap, i64 {8 * slot}")
        return self.text.op(f"load ptr, ptr {place}")

    def place(self, value: Value, index: int) -> str:
        """Return the pointer to a field of an object."""
        offset = FIELDS_OFFSET + 8 * index
        return self.text.op(f"getelementptr i8, ptr {self.names[value]}, i64 {offset}")

    def field(self, value: Value, index: int) -> str:
        """Return a field of an object, borrowed."""
        return self.text.op(f"load ptr, ptr {self.place(value, index)}")

    def node(self, kind: Kind, own: str, fields: tuple[Value, ...], reuse: Value | None) -> str:
        """Write a new object with fields, in the memory of a token that is not null."""
        text = self.text
        room = node_class(len(fields))
        if reuse is None:
            made = self.new(room, FIELDS_OFFSET + 8 * len(fields))
        else:
            token = self.names[reuse]
            none = text.op(f"icmp eq ptr {token}, null")
            made = text.choose(none, "ptr", lambda: self.new(room, 0), lambda: token)
        text.do(f"store i64 {word(kind, room, len(fields))}, ptr {made}")
        place = text.op(f"getelementptr i8, ptr {made}, i64 8")
        text.do(f"store {own}, ptr {place}")
        for index, field in enumerate(fields):
            place = text.op(f"getelementptr i8, ptr {made}, i64 {FIELDS_OFFSET + 8 * index}")
            text.do(f"store ptr {self.names[field]}, ptr {place}")
        return made

    def new(self, room: int, needed_bytes: int) -> str:
        """Write the memory of an object of a size class; large ones say their size."""
        if room == LARGE:
            return self.text.op(f"call ptr @rt.new_large(ptr %heap, i64 {needed_bytes})")
        return self.text.op(f"call ptr @rt.new(ptr %heap, i64 {room})")

    def unpack(self, unpack: Unpack) -> None:
        """Write how an object is given away for its fields."""
        text = self.text
        value = self.names[unpack.value]
        for result, index in zip(unpack.results, unpack.indices, strict=True):
            self.names[result] = self.field(unpack.value, index)
        others = [
            self.field(unpack.value, index)
            for index in range(unpack.size)
            if index not in unpack.indices
        ]
        owners = text.op(f"load i32, ptr {value}")
        alone = text.op(f"icmp eq i32 {owners}, 1")

        def mine() -> str:
            for other in others:
                text.do(f"call void @rt.drop(ptr %heap, ptr {other})")
            if unpack.token is None:
                text.do(f"call void @rt.release(ptr %heap, ptr {value})")
            return value

        def shared() -> str:
            for result in unpack.results:
                text.do(f"call void @rt.dup(ptr {self.names[result]})")
            text.do(f"call void @rt.drop(ptr %heap, ptr {value})")
            return "null"

        token = text.choose(alone, "ptr", mine, shared)
        if unpack.token is not None:
            self.names[unpack.token] = token

    def discard(self, token: Value) -> None:
        """Write how the memory of a token is freed."""
        text = self.text
        name = self.names[token]
        none = text.op(f"icmp eq ptr {name}, null")

        def free() -> str:
            text.do(f"call void @rt.release(ptr %heap, ptr {name})")
            return "null"

        text.choose(none, "ptr", lambda: "null", free)

    def byte(self, tensor: str) -> str:
        """Write a scalar of bool as an i1."""
        data = self.text.op(f"getelementptr i8, ptr {tensor}, i64 {data_offset(0)}")
        byte = self.text.op(f"load i8, ptr {data}")
        return self.text.op(f"icmp ne i8 {byte}, 0")
