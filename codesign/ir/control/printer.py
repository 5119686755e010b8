"""Control programs as text, one line for each instruction.

function map(f, xs) {
0():
switch xs { Cons -> 1, Nil -> 2 }
1():
unpack xs in xs.memory { x = .0, rest = .1 }
…
}
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never, final

from codesign.ir.control.program import (
    Block,
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
    Function,
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
    Program,
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
from codesign.ir.relay.types import type_text


def print_program(program: Program) -> str:
    """Return a program as text; a dying input of a region is marked with `!`."""
    return "\n\n".join(_Printer(program.constructors).function(f) for f in program.functions) + "\n"


def _list(values: Iterable[Value]) -> str:
    return ", ".join(value.name for value in values)


@final
class _Printer:
    def __init__(self, constructors: tuple[str, ...]) -> None:
        self._constructors = constructors

    def function(self, function: Function) -> str:
        own = () if function.self is None else (function.self,)
        head = f"function {function.name}({_list((*own, *function.params))}) {{"
        return "\n".join([head, *(self._block(block) for block in function.blocks), "}"])

    def _block(self, block: Block) -> str:
        lines = [f"  {block.label}({_list(block.params)}):"]
        lines += [f"    {self._instruction(each)}" for each in block.body]
        return "\n".join([*lines, f"    {self._end(block.end)}"])

    def _instruction(self, instruction: Instruction) -> str:
        match instruction:
            case Literal(result, array):
                return f"{result.name} = literal {array.dtype}{list(array.shape)}"
            case Null(result):
                return f"{result.name} = null"
            case FunctionValue(result, function):
                return f"{result.name} = function {function}"
            case MakeClosure(result, function, captured, reuse):
                made = f"{result.name} = closure {function}({_list(captured)})"
                return made + _in(reuse)
            case MakeTuple(result, fields, reuse):
                return f"{result.name} = ({_list(fields)})" + _in(reuse)
            case MakeData(result, tag, fields, reuse):
                name = self._constructors[tag]
                return f"{result.name} = {name}({_list(fields)})" + _in(reuse)
            case MakeCell(result, content):
                return f"{result.name} = cell {content.name}"
            case GetField(result, value, index):
                return f"{result.name} = {value.name}.{index}"
            case ReadCell(result, cell):
                return f"{result.name} = read {cell.name}"
            case WriteCell(cell, content):
                return f"write {cell.name} {content.name}"
            case CallFunction(result, function, closure, args):
                own = () if closure is None else (closure,)
                return f"{result.name} = call {function}({_list((*own, *args))})"
            case CallClosure(result, closure, args):
                return f"{result.name} = call closure {closure.name}({_list(args)})"
            case Operator(results, operator, _, inputs):
                return f"{_list(results)} = {operator}({_list(inputs)})"
            case Region():
                return self._region(instruction)
            case CheckShape(value, expected, _):
                return f"check {value.name}: {type_text(expected)}"
            case CheckLength(value, axis, other, other_axis, _):
                return f"check {value.name}[{axis}] = {other.name}[{other_axis}]"
            case Dup(value):
                return f"dup {value.name}"
            case Drop(value):
                return f"drop {value.name}"
            case Unpack(results, indices, value, _, token):
                pairs = zip(results, indices, strict=True)
                shown = ", ".join(f"{result.name} = .{index}" for result, index in pairs)
                return f"unpack {value.name}{_in(token)} {{ {shown} }}"
            case Discard(token):
                return f"discard {token.name}"
            case _:
                assert_never(instruction)

    def _region(self, region: Region) -> str:
        inputs = ", ".join(f"{v.name}{'!' if v in region.dying else ''}" for v in region.inputs)
        operators = "; ".join(self._instruction(each) for each in region.operators)
        return f"{_list(region.results)} = region({inputs}) {{ {operators} }}"

    def _end(self, end: End) -> str:
        match end:
            case Jump(target, args):
                return f"jump {target}({_list(args)})"
            case Branch(condition, then, otherwise):
                return f"branch {condition.name} {then} {otherwise}"
            case BranchNull(value, absent, present):
                return f"branch {value.name} is null {absent} {present}"
            case Switch(value, cases, default):
                ways = [f"{self._constructors[tag]} -> {label}" for tag, label in cases]
                ways += [] if default is None else [f"else -> {default}"]
                return f"switch {value.name} {{ {', '.join(ways)} }}"
            case Return(value):
                return f"return {value.name}"
            case TailCall(function, closure, args):
                own = () if closure is None else (closure,)
                return f"return call {function}({_list((*own, *args))})"
            case TailCallClosure(closure, args):
                return f"return call closure {closure.name}({_list(args)})"
            case Fail(site):
                return f"fail {site}"
            case _:
                assert_never(end)


def _in(token: Value | None) -> str:
    return "" if token is None else f" in {token.name}"
