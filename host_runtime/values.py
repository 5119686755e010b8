"""Values as flat words and bytes, the form in which they cross into compiled programs and back.

Going in, a value comes before its fields and the last field first, so that the program, which reads
backwards, sees fields before what holds them. Coming out, fields come first, and what several
objects hold is written once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final, TypeAlias, final

import numpy as np

from codesign.diagnostics import CodesignError
from codesign.dtypes import Array, DType
from codesign.ir.executable.heap import (
    DTYPES,
    REFERENCE,
    SHARED_FLAG,
    Kind,
    node_class,
    tensor_class,
    tensor_word,
    word,
)
from codesign.ir.executable.native_program import NativeProgram
from codesign.ir.executable.values import DataValue
from codesign.ir.relay.type_algebra import substitute_type
from codesign.ir.relay.types import UNKNOWN, TensorType, TupleType, Type, TypeCall, type_text

Value: TypeAlias = "Array | tuple[Value, ...] | DataValue"
"""What crosses: tensors, tuples, and what constructors made."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Converted:
    """An argument in the form in which it crosses, for calls of one program; see `ValueWriter`.

    `words` is None where the value is so large that calls look for what it holds several times.
    """

    program: NativeProgram
    type_: Type
    value: Value
    words: tuple[int, ...] | None
    data: bytes


_MANY_VALUES: Final = 1 << 20
"""Values after which it is looked for what is held several times."""


@final
@dataclass(slots=True, eq=False)
class _Shape:
    """What a value of one type must be, and how it is written."""

    type_: Type
    shape: tuple[int, ...] | None = None
    dtype: np.dtype[Any] | None = None
    words: tuple[int, ...] = ()
    fields: tuple[_Shape, ...] = ()
    constructors: dict[str, tuple[int, int, tuple[_Shape, ...]]] | None = None


@final
@dataclass(slots=True)
class ValueWriter:
    """Writes the arguments of one program's `main`."""

    program: NativeProgram
    _shapes: dict[Type, _Shape] = field(default_factory=dict)

    def write(self, args: Sequence[Value | Converted]) -> tuple[list[int], bytes]:
        """Return words and bytes of arguments.

        Raises
        ------
        CodesignError
            The number of arguments is another one, or an argument has another type.
        """
        params = self.program.params
        if len(args) != len(params):
            raise CodesignError.of(
                f"main takes {len(params)} arguments", found=f"{len(args)} were passed"
            )
        values: list[Any] = list(args)
        if any(type(each) is Converted for each in values):
            return self._write_spliced(values)
        written = self._write_plainly(list(values), [self._shape(each) for each in params])
        return self._write_once(values) if written is None else written

    def convert(self, number: int, value: Value) -> Converted:
        """Return an argument as it crosses, so that calls with it need not write it again.

        What the value holds must not change afterwards: the copy is taken here.

        Raises
        ------
        CodesignError
            There is no such parameter, or the value is not of its type.
        """
        params = self.program.params
        if not 0 <= number < len(params):
            raise CodesignError.of(f"main has no parameter {number}", found=f"it has {len(params)}")
        written = self._write_plainly([value], [self._shape(params[number])])
        words, data = (None, b"") if written is None else (tuple(written[0]), written[1])
        return Converted(self.program, params[number], value, words, data)

    def _write_spliced(self, args: Sequence[Any]) -> tuple[list[int], bytes]:
        """Write arguments of which some are written already."""
        words: list[int] = []
        data: list[bytes] = []
        plain = [each.value if type(each) is Converted else each for each in args]
        for arg, param in reversed(list(zip(args, self.program.params, strict=True))):
            if type(arg) is not Converted:
                written = self._write_plainly([arg], [self._shape(param)])
            elif arg.program is not self.program or arg.type_ != param:
                raise CodesignError.of(
                    "a converted argument belongs to another parameter or program",
                    found=f"it is {type_text(arg.type_)}, expected {type_text(param)}",
                )
            else:
                written = None if arg.words is None else (list(arg.words), arg.data)
            if written is None:
                return self._write_once(plain)
            words += written[0]
            data.append(written[1])
        return words, b"".join(data)

    def _write_plainly(
        self, values: list[Any], shapes: list[_Shape]
    ) -> tuple[list[int], bytes] | None:
        """Return words and bytes of values; None where there are very many of them."""
        words: list[int] = []
        data: list[Array] = []
        for _ in range(_MANY_VALUES):
            if not values:
                break
            value, shape = values.pop(), shapes.pop()
            if shape.constructors is not None:
                if type(value) is not DataValue:
                    raise _misfit(value, shape)
                entry = shape.constructors.get(value.constructor)
                if entry is None or entry[1] != len(value.fields):
                    raise _misfit(value, shape)
                words.append(entry[0])
                values.extend(value.fields)
                if entry[1]:
                    shapes.extend(entry[2] or self._fields(shape, value.constructor))
            elif shape.dtype is not None:
                if (
                    type(value) is not np.ndarray
                    or value.shape != shape.shape
                    or value.dtype != shape.dtype
                ):
                    value, own = _other_tensor(value, shape)
                    words.extend(own)
                else:
                    words.extend(shape.words)
                data.append(value)
            else:
                if not isinstance(value, tuple) or len(value) != len(shape.fields):
                    raise _misfit(value, shape)
                words.extend(shape.words)
                values.extend(value)
                shapes.extend(shape.fields)
        else:
            return None
        return words, _joined(data)

    def _write_once(self, args: Sequence[Value]) -> tuple[list[int], bytes]:
        """Do what `write` does for values that may hold others many times: each is written once.

        Made in the order in which the program reads, and then turned round.
        """
        entries: list[Sequence[int]] = []
        data: list[Array] = []
        numbers: dict[tuple[int, int], int] = {}
        params = [self._shape(each) for each in self.program.params]
        waiting = [(value, shape, False) for value, shape in zip(args, params, strict=True)][::-1]
        while waiting:
            value, shape, is_complete = waiting.pop()
            key = id(value), id(shape)
            if key in numbers:
                entries.append((REFERENCE << 32 | numbers[key],))
                continue
            own, parts, tensor = self._taken_apart(value, shape)
            if tensor is not None:
                data.append(tensor)
                entries.append(own)
            elif not parts:
                entries.append(own)
            elif is_complete:
                numbers[key] = len(numbers)
                entries.append((own[0] | SHARED_FLAG,))
            else:
                waiting.append((value, shape, True))
                waiting += [(each, kind, False) for each, kind in reversed(parts)]
        words = [word_ for entry in reversed(entries) for word_ in entry]
        return words, _joined(data[::-1])

    def _taken_apart(
        self, value: Any, shape: _Shape
    ) -> tuple[Sequence[int], list[tuple[Any, _Shape]], Array | None]:
        """Return the words of a value, its fields with what they must be, and its elements."""
        if shape.constructors is not None:
            entry = None
            if type(value) is DataValue:
                entry = shape.constructors.get(value.constructor)
            if entry is None or entry[1] != len(value.fields):
                raise _misfit(value, shape)
            kinds = entry[2] or self._fields(shape, value.constructor)
            return (entry[0],), list(zip(value.fields, kinds, strict=True)), None
        if shape.dtype is not None:
            tensor, own = _other_tensor(value, shape)
            return own, [], tensor
        if not isinstance(value, tuple) or len(value) != len(shape.fields):
            raise _misfit(value, shape)
        return shape.words, list(zip(value, shape.fields, strict=True)), None

    def _shape(self, type_: Type) -> _Shape:
        known = self._shapes.get(type_)
        if known is None:
            known = _Shape(type_)
            self._shapes[type_] = known
            self._fill(known)
        return known

    def _fill(self, shape: _Shape) -> None:
        match shape.type_:
            case TensorType(dims, dtype):
                shape.dtype = dtype.numpy
                if UNKNOWN not in dims:
                    shape.shape = shape.type_.static_shape
                    shape.words = _tensor_words(shape.shape, dtype)
            case TupleType(fields):
                shape.fields = tuple(self._shape(each) for each in fields)
                size = len(fields)
                shape.words = (word(Kind.TUPLE, node_class(size), size, 0),)
            case TypeCall(name):
                (definition,) = [d for d in self.program.data_types if d.name == name]
                shape.constructors = {}
                for each in definition.constructors:
                    size = len(each.fields)
                    own = word(Kind.DATA, node_class(size), size, each.tag)
                    shape.constructors[each.name] = own, size, ()
            case other:
                raise AssertionError(f"a value of type {other} does not cross")

    def _fields(self, shape: _Shape, constructor: str) -> tuple[_Shape, ...]:
        """Return what a constructor's fields are; found when the first value needs it."""
        assert isinstance(shape.type_, TypeCall), "only data types have constructors"
        assert shape.constructors is not None, "only data types have constructors"
        name = shape.type_.name
        (definition,) = [d for d in self.program.data_types if d.name == name]
        values: Mapping[Any, Type] = dict(
            zip(definition.type_params, shape.type_.args, strict=True)
        )
        (found,) = [each for each in definition.constructors if each.name == constructor]
        fields = tuple(self._shape(substitute_type(each, values)) for each in found.fields)
        own, size, _ = shape.constructors[constructor]
        shape.constructors[constructor] = own, size, fields
        return fields


def _tensor_words(shape: tuple[int, ...], dtype: DType) -> tuple[int, ...]:
    size = prod(shape) * dtype.size_bytes
    rank = len(shape)
    return (*shape, size, tensor_word(dtype, rank, tensor_class(rank, size)))


def _other_tensor(value: object, shape: _Shape) -> tuple[Array, tuple[int, ...]]:
    """Return what is no plain array of the known shape as one, with its words; refuse misfits."""
    assert isinstance(shape.type_, TensorType), "only tensors come here"
    if not isinstance(value, np.ndarray | np.generic | bool | int | float):
        raise _misfit(value, shape)
    array = np.asarray(value)
    if isinstance(value, bool | int | float):
        array = array.astype(shape.dtype)
    fits = array.dtype == shape.dtype and len(array.shape) == len(shape.type_.shape)
    if not fits or any(
        want is not UNKNOWN and want != dim
        for want, dim in zip(shape.type_.shape, array.shape, strict=True)
    ):
        raise _misfit(value, shape)
    return array, _tensor_words(array.shape, shape.type_.dtype)


def _joined(arrays: Sequence[Array]) -> bytes:
    """Return the elements of arrays, one after the other."""
    buffers: Sequence[Any] = arrays
    try:
        return b"".join(buffers)
    except (TypeError, BufferError):  # one of them is not dense
        return b"".join([np.ascontiguousarray(each).data for each in arrays])


def _misfit(value: object, shape: _Shape) -> CodesignError:
    match value:
        case np.ndarray():
            found = f"{value.dtype} of shape {list(value.shape)}"
        case DataValue(constructor, fields):
            found = f"a value of constructor {constructor} with {len(fields)} fields"
        case tuple():
            found = f"a tuple of {len(value)}"
        case _:
            found = f"a {type(value).__name__}"
    return CodesignError.of(
        "an argument does not fit its parameter",
        found=f"found {found}, expected {type_text(shape.type_)}",
    )


@final
class Reader:
    """Reads the result of one program."""

    def __init__(self, program: NativeProgram) -> None:
        self._names = {
            each.tag: each.name for data in program.data_types for each in data.constructors
        }
        self._single = {tag: DataValue(name) for tag, name in self._names.items()}
        self._dtypes = tuple(each.numpy for each in DTYPES)

    def read(self, words: Sequence[int], content: Array) -> Value:
        """Return the value of words and bytes that a program wrote."""
        stack: list[Any] = []
        shared: list[Any] = []
        place, end = 0, len(words)
        while place < end:
            head = words[place]
            place += 1
            kind = head >> 32 & 0x7F
            if kind == Kind.TENSOR:
                rank = head >> 56
                shape = tuple(words[place : place + rank])
                stack.append(
                    np.ndarray(shape, self._dtypes[head >> 48 & 0xFF], content, words[place + rank])
                )
                place += rank + 1
            elif kind == REFERENCE:
                stack.append(shared[head & 0xFFFFFFFF])
                continue
            else:
                size = head >> 48
                tag = head & 0xFFFFFFFF
                if size == 0:
                    stack.append(() if kind == Kind.TUPLE else self._single[tag])
                    continue
                fields = tuple(stack[-size:])
                del stack[-size:]
                stack.append(fields if kind == Kind.TUPLE else DataValue(self._names[tag], fields))
            if head & SHARED_FLAG:
                shared.append(stack[-1])
        result: Value
        (result,) = stack
        return result
