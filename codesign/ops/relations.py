"""What type relations share: arity, element types, broadcasting, and mistakes with a place."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final, TypeVar

from codesign.diagnostics import CodesignError, Problem
from codesign.dtypes import DType
from codesign.ir.relay.expr import Attrs, Call, OpRef
from codesign.ir.relay.types import UNKNOWN, Dim, TensorType, Type, type_text
from codesign.ops.operator import Relation, Work

FLOATS: Final = frozenset(dtype for dtype in DType if dtype.is_float)
INTEGERS: Final = frozenset(dtype for dtype in DType if dtype.is_integer)
NUMBERS: Final = FLOATS | INTEGERS
ALL_DTYPES: Final = frozenset(DType)

AttrsT = TypeVar("AttrsT", bound=Attrs)


def operator_name(call: Call) -> str:
    """Return the name of the operator that is called."""
    return call.callee.name if isinstance(call.callee, OpRef) else "call"


def mistake(
    call: Call,
    what: str,
    found: str = "",
    help: str | None = None,  # noqa: A002
) -> CodesignError:
    """Return an error that names the operator and carries the call's span."""
    title = f"{operator_name(call)} {what}"
    return CodesignError(Problem(what=title, found=found, span=call.span, help=help))


def attributes(call: Call, kind: type[AttrsT]) -> AttrsT:
    """Return the call's attributes as `kind`; refuse others."""
    if not isinstance(call.attrs, kind):
        found = "none" if call.attrs is None else type(call.attrs).__name__
        raise mistake(call, "has the wrong attributes", f"found {found}, expected {kind.__name__}")
    return call.attrs


def tensors(call: Call, types: tuple[Type, ...], count: int) -> tuple[TensorType, ...]:
    """Return the argument types, which must be `count` tensors."""
    if len(types) != count:
        raise mistake(
            call,
            "takes another number of arguments",
            f"found {len(types)}, expected {count}",
        )
    found = tuple(each for each in types if isinstance(each, TensorType))
    if len(found) != count:
        wrong = next(i for i, each in enumerate(types) if not isinstance(each, TensorType))
        raise mistake(call, "takes tensors", f"argument {wrong} is {spelled(types[wrong])}")
    return found


def static_tensors(call: Call, types: tuple[Type, ...], count: int) -> tuple[TensorType, ...]:
    """Return the argument types, which must be `count` tensors of known shapes."""
    found = tensors(call, types, count)
    for index, each in enumerate(found):
        if any(dim is UNKNOWN for dim in each.shape):
            raise mistake(
                call, "needs shapes that are known", f"argument {index} is {spelled(each)}"
            )
    return found


def spelled(type_: Type) -> str:
    """Return a tensor type in the short form of messages, `int8[2, 3]`; others as Relay text."""
    if isinstance(type_, TensorType):
        return f"{type_.dtype}[{', '.join(str(dim) for dim in type_.shape)}]"
    return type_text(type_)


def require_dtype(
    call: Call,
    tensor: TensorType,
    allowed: frozenset[DType],
    what: str = "argument",
) -> None:
    """Refuse an element type that the operator has no meaning for."""
    if tensor.dtype not in allowed:
        expected = " or ".join(sorted(allowed))
        raise mistake(
            call,
            f"has no meaning for {tensor.dtype}",
            f"the {what} is {spelled(tensor)}, expected {expected}",
        )


def require_same_dtype(call: Call, found: Sequence[TensorType]) -> None:
    """Refuse operands of different element types."""
    if len({each.dtype for each in found}) > 1:
        dtypes = " and ".join(str(each.dtype) for each in found)
        raise mistake(call, "takes one element type", f"found {dtypes}", help="insert a cast")


def require_rank(call: Call, tensor: TensorType, rank: int, what: str) -> None:
    """Refuse a tensor of another rank."""
    if len(tensor.shape) != rank:
        raise mistake(
            call,
            f"takes {what} of rank {rank}",
            f"found {spelled(tensor)} of rank {len(tensor.shape)}",
        )


def require_shape(call: Call, tensor: TensorType, shape: tuple[int, ...], what: str) -> None:
    """Refuse a tensor of another shape."""
    if tensor.shape != shape:
        expected = f"[{', '.join(map(str, shape))}]"
        raise mistake(
            call, f"takes {what} of another shape", f"found {spelled(tensor)}, expected {expected}"
        )


def normal_axis(call: Call, axis: int, rank: int) -> int:
    """Return the axis counted from the front; refuse one that does not exist."""
    if not -rank <= axis < rank:
        raise mistake(call, "names an axis that does not exist", f"axis {axis}, the rank is {rank}")
    return axis % rank


def broadcast(call: Call, shapes: Sequence[tuple[Dim, ...]]) -> tuple[Dim, ...]:
    """Return the shape to which all shapes broadcast, aligned at the last axis."""
    rank = max(len(shape) for shape in shapes)
    aligned = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return tuple(_broadcast_dim(call, dims, shapes) for dims in zip(*aligned, strict=True))


def _broadcast_dim(call: Call, dims: Sequence[Dim], shapes: Sequence[tuple[Dim, ...]]) -> Dim:
    known = {dim for dim in dims if dim is not UNKNOWN and dim != 1}
    if len(known) > 1:
        found = " and ".join(f"[{', '.join(map(str, shape))}]" for shape in shapes)
        raise mistake(
            call,
            "has operands that do not broadcast",
            f"shapes {found}: an axis has lengths {' and '.join(map(str, dims))}",
            help="aligned at the last axis, lengths must be equal or 1",
        )
    if known:
        return known.pop()
    return UNKNOWN if UNKNOWN in dims else 1


def elementwise(allowed: frozenset[DType]) -> Relation:
    """Return the relation of one tensor to a tensor of the same type."""

    def relation(call: Call, types: tuple[Type, ...]) -> Type:
        (data,) = tensors(call, types, 1)
        require_dtype(call, data, allowed)
        return data

    return relation


def elements(type_: Type) -> int:
    """Return the number of elements of a tensor of known shape."""
    assert isinstance(type_, TensorType), f"a tensor has elements, {type_} has not"
    return prod(type_.static_shape)


def per_element(operations: int) -> Work:
    """Return the work of so many arithmetic operations for each element of the result."""

    def work(call: Call, types: tuple[Type, ...], result: Type) -> int:
        return operations * elements(result)

    return work


def per_input_element(operations: int) -> Work:
    """Return the work of so many arithmetic operations for each element of the first argument."""

    def work(call: Call, types: tuple[Type, ...], result: Type) -> int:
        return operations * elements(types[0])

    return work


def no_work(call: Call, types: tuple[Type, ...], result: Type) -> int:
    """Return zero: the operator moves data and computes nothing."""
    return 0


def require_positive(call: Call, values: Sequence[int], what: str) -> None:
    """Refuse a count, stride or the like that is not at least 1."""
    if any(value < 1 for value in values):
        raise mistake(call, f"needs {what} of at least 1", f"found {what} {tuple(values)}")


HOST_FLOAT: Final = "the accelerator computes on int8; this operator is on floating point"
"""Why a floating-point operator stays on the host."""

HOST_MOVES: Final = "the accelerator has no unit that rearranges tensors; the host does it"
"""Why an operator that moves data stays on the host."""
