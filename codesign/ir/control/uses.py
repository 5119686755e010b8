"""What instructions define, borrow and give away, and where blocks lead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar, assert_never

from codesign.ir.control.program import (
    Branch,
    BranchNull,
    CallClosure,
    CallFunction,
    CheckLength,
    CheckShape,
    Discard,
    Drop,
    Dup,
    End,
    Fail,
    FunctionValue,
    GetField,
    Instruction,
    Jump,
    Literal,
    MakeCell,
    MakeClosure,
    MakeData,
    MakeTuple,
    Null,
    Operator,
    ReadCell,
    Region,
    Return,
    Switch,
    TailCall,
    TailCallClosure,
    Unpack,
    Value,
    WriteCell,
)


def results(instruction: Instruction) -> tuple[Value, ...]:
    """Return the values that an instruction defines."""
    match instruction:
        case Operator() | Region():
            return instruction.results
        case Unpack():
            token = () if instruction.token is None else (instruction.token,)
            return (*instruction.results, *token)
        case WriteCell() | CheckShape() | CheckLength() | Dup() | Drop() | Discard():
            return ()
        case (
            Literal()
            | Null()
            | FunctionValue()
            | MakeClosure()
            | MakeTuple()
            | MakeData()
            | MakeCell()
            | GetField()
            | ReadCell()
            | CallFunction()
            | CallClosure()
        ):
            return (instruction.result,)
        case _:
            assert_never(instruction)


def given(instruction: Instruction) -> tuple[Value, ...]:
    """Return the values that an instruction takes ownership of, once for each time."""
    match instruction:
        case MakeClosure(captured=fields) | MakeTuple(fields=fields) | MakeData(fields=fields):
            token = () if instruction.reuse is None else (instruction.reuse,)
            return (*fields, *token)
        case MakeCell(_, content) | WriteCell(_, content):
            return (content,)
        case CallFunction(_, _, closure, args):
            return args if closure is None else (closure, *args)
        case CallClosure(_, closure, args):
            return (closure, *args)
        case Drop(value) | Unpack(value=value) | Discard(value):
            return (value,)
        case (
            Literal()
            | Null()
            | FunctionValue()
            | GetField()
            | ReadCell()
            | Operator()
            | Region()
            | CheckShape()
            | CheckLength()
            | Dup()
        ):
            return ()
        case _:
            assert_never(instruction)


def borrowed(instruction: Instruction) -> tuple[Value, ...]:
    """Return the values that an instruction looks at and leaves with their owner."""
    match instruction:
        case GetField(value=value):
            return (value,)
        case ReadCell(_, cell) | WriteCell(cell, _):
            return (cell,)
        case Operator() | Region():
            return tuple(dict.fromkeys(instruction.inputs))
        case CheckShape(value) | Dup(value):
            return (value,)
        case CheckLength(value, _, other, _):
            return (value,) if value is other else (value, other)
        case (
            Literal()
            | Null()
            | FunctionValue()
            | MakeClosure()
            | MakeTuple()
            | MakeData()
            | MakeCell()
            | CallFunction()
            | CallClosure()
            | Drop()
            | Unpack()
            | Discard()
        ):
            return ()
        case _:
            assert_never(instruction)


def is_removable(instruction: Instruction) -> bool:
    """Whether an instruction may be left out where nobody needs its results."""
    match instruction:
        case (
            Literal()
            | Null()
            | FunctionValue()
            | MakeClosure()
            | MakeTuple()
            | MakeData()
            | MakeCell()
            | GetField()
            | ReadCell()
            | Operator()
            | Region()
        ):
            return True
        case (
            WriteCell()
            | CallFunction()
            | CallClosure()
            | CheckShape()
            | CheckLength()
            | Dup()
            | Drop()
            | Unpack()
            | Discard()
        ):
            return False
        case _:
            assert_never(instruction)


def end_given(end: End) -> tuple[Value, ...]:
    """Return the values that the end of a block gives away."""
    match end:
        case Jump(_, args):
            return args
        case Return(value):
            return (value,)
        case TailCall(_, closure, args):
            return args if closure is None else (closure, *args)
        case TailCallClosure(closure, args):
            return (closure, *args)
        case Branch() | BranchNull() | Switch() | Fail():
            return ()
        case _:
            assert_never(end)


def end_borrowed(end: End) -> tuple[Value, ...]:
    """Return the values that the end of a block looks at."""
    match end:
        case Branch(value) | BranchNull(value) | Switch(value):
            return (value,)
        case Jump() | Return() | TailCall() | TailCallClosure() | Fail():
            return ()
        case _:
            assert_never(end)


def successors(end: End) -> tuple[int, ...]:
    """Return the labels of the blocks that may follow."""
    match end:
        case Jump(target):
            return (target,)
        case Branch(_, one, other) | BranchNull(_, one, other):
            return (one, other)
        case Switch(_, cases, default):
            targets = tuple(dict.fromkeys(target for _, target in cases))
            return targets if default is None else (*targets, default)
        case Return() | TailCall() | TailCallClosure() | Fail():
            return ()
        case _:
            assert_never(end)


_Item = TypeVar("_Item", bound=Instruction | End)


def renamed(item: _Item, names: Mapping[Value, Value]) -> _Item:
    """Return an instruction or an end with values replaced, its results too."""
    changes: dict[str, Any] = {}
    for field in fields(item):
        match getattr(item, field.name):
            case Value() as value if value in names:
                changes[field.name] = names[value]
            case tuple() as values if any(isinstance(v, Value) and v in names for v in values):
                changes[field.name] = tuple(names.get(value, value) for value in values)
            case _:
                pass
    return replace(item, **changes) if changes else item
