"""Work: arithmetic operations and bytes of every operator call of an expression.

Operations are counted by the operators themselves (a multiply-accumulate is two). Bytes are those
of the arguments and the result, each once, as if nothing stayed in a cache. Intensity is their
quotient.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import assert_never, final

from codesign.diagnostics import CodesignError, Problem
from codesign.ir.relay.expr import Call, Expr, OpRef
from codesign.ir.relay.types import (
    UNKNOWN,
    FuncType,
    Hole,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
    type_text,
)
from codesign.ir.relay.visit import post_order
from codesign.ops.table import operator


@final
@dataclass(frozen=True, slots=True)
class Work:
    """Arithmetic operations and bytes moved."""

    operations: int
    bytes: int

    def __add__(self, other: Work) -> Work:
        return Work(self.operations + other.operations, self.bytes + other.bytes)

    @property
    def intensity_op_per_byte(self) -> float:
        """Operations for each byte; 0 where nothing moves."""
        return self.operations / self.bytes if self.bytes else 0.0


def work_of_calls(expr: Expr, types: Mapping[Expr, Type]) -> dict[Call, Work]:
    """Return the work of every operator call under an expression, in the order of evaluation.

    A call that is shared is counted once; bodies of functions count once, however often they run.

    Raises
    ------
    CodesignError
        A call works on a shape that is not known.
    """
    return {
        node: _work_of_call(node, types)
        for node in post_order(expr)
        if isinstance(node, Call) and isinstance(node.callee, OpRef)
    }


def total_work(expr: Expr, types: Mapping[Expr, Type]) -> Work:
    """Return the sum of `work_of_calls`."""
    return sum(work_of_calls(expr, types).values(), Work(0, 0))


def size_bytes(type_: Type) -> int:
    """Return the bytes of a value of a type whose shape is known; a function has none."""
    match type_:
        case TensorType(_, dtype):
            return prod(type_.static_shape) * dtype.size_bytes
        case TupleType(fields):
            return sum(map(size_bytes, fields))
        case FuncType():
            return 0
        case TypeCall() | RefType() | TypeVar() | Hole():
            raise CodesignError.of(
                "only tensors and tuples have a size in bytes", found=f"found {type_text(type_)}"
            )
        case _:
            assert_never(type_)


def _work_of_call(call: Call, types: Mapping[Expr, Type]) -> Work:
    assert isinstance(call.callee, OpRef), "work is that of operators"
    args, result = tuple(types[arg] for arg in call.args), types[call]
    unknown = next((each for each in (*args, result) if not _is_static(each)), None)
    if unknown is not None:
        what = f"the work of {call.callee.name} depends on a shape that is not known"
        found = f"found {type_text(unknown)}"
        raise CodesignError(Problem(what=what, found=found, span=call.span))
    operations = operator(call.callee.name, call.span).work(call, args, result)
    distinct = {arg: types[arg] for arg in call.args}
    return Work(operations, sum(map(size_bytes, distinct.values())) + size_bytes(result))


def _is_static(type_: Type) -> bool:
    match type_:
        case TensorType(shape):
            return UNKNOWN not in shape
        case TupleType(fields):
            return all(map(_is_static, fields))
        case FuncType():
            return True
        case TypeCall() | RefType() | TypeVar() | Hole():
            return False
        case _:
            assert_never(type_)
