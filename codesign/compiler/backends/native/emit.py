"""Control to LLVM: one function for each, called by `tailcc`, so that tail calls cost no stack.

    tailcc ptr @f.name(heap, closure, argument, …)      owns what it is given; never returns null

A mistake leaves the run at once (`rt.fail`): nobody looks at results for it.
"""

from __future__ import annotations

from typing import assert_never, final

from codesign.compiler.backends.llvm.text import FunctionText
from codesign.compiler.backends.native.library import Library, closure_name, function_name
from codesign.compiler.backends.native.objects import ObjectWriter
from codesign.compiler.backends.native.region_calls import RegionCalls
from codesign.compiler.native.simplify import blocks_backward
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
from codesign.ir.executable.heap import (
    Kind,
)
from codesign.ir.relay.types import UNKNOWN


def program_text(program: Program, library: Library) -> str:
    """Return all functions and the closures of those that are used as values."""
    functions = [_FunctionWriter(library, each).text() for each in program.functions]
    declarations = sorted(library.declarations)
    return "\n".join([*declarations, *library.closure_texts(), *functions, _main(program)])


def _main(program: Program) -> str:
    """Return what runs on the program's own stack: values in, `main`, the value out."""
    entry = next(f for f in program.functions if f.name == program.entry)
    text = FunctionText()
    args = text.op("call ptr @rt.build(ptr %heap)")
    loaded = []
    for place in range(len(entry.params)):
        slot = text.op(f"getelementptr ptr, ptr {args}, i64 {place}")
        loaded.append(text.op(f"load ptr, ptr {slot}"))
    operands = "".join(f", ptr {each}" for each in loaded)
    result = text.op(f"call tailcc ptr {function_name(entry.name)}(ptr %heap, ptr null{operands})")
    text.do(f"call void @rt.write(ptr %heap, ptr {result})")
    text.do(f"call void @rt.drop(ptr %heap, ptr {result})")
    lines = "\n".join(text.lines)
    return f"define void @rt.main(ptr %heap) nounwind {{\n{lines}\n  ret void\n}}"


@final
class _FunctionWriter:
    def __init__(self, library: Library, function: Function) -> None:
        self.library = library
        self.function = function
        self.text_ = FunctionText()
        self.names: dict[Value, str] = {}
        self.phis: dict[int, list[tuple[str, tuple[Value, ...]]]] = {}
        self.objects = ObjectWriter(self.text_, self.names)
        self.regions = RegionCalls(
            self.text_,
            self.objects,
            library,
            lambda good, site: self._require(good, library.site(site)),
        )
        self.flags = {
            flag
            for block in function.blocks
            for each in block.body
            if isinstance(each, Region)
            for flag in each.flags
        }

    def text(self) -> str:
        """Return the function's definition."""
        function, text = self.function, self.text_
        own = "%self" if function.self is not None else "%unused"
        if function.self is not None:
            self.names[function.self] = own
        for number, param in enumerate(function.params):
            self.names[param] = f"%arg{number}"
        for block in function.blocks:
            for value in block.params:
                self.names[value] = f"%b{block.label}.{len(self.names)}"
        bodies = [(block, self._block(block)) for block in reversed(blocks_backward(function))]
        lines = []
        for block, body in bodies:
            lines.append(f"b{block.label}:")
            lines += self._phis(block)
            lines += body
        params = "".join(f", ptr {self.names[param]}" for param in function.params)
        head = (
            f"define internal tailcc ptr {function_name(function.name)}"
            f"(ptr %heap, ptr {own}{params}) nounwind {{"
        )
        begin = ["entry:", *self.regions.allocas]
        if any(isinstance(i, CallFunction | CallClosure) for b in function.blocks for i in b.body):
            begin.append("  call void @rt.check_stack(ptr %heap)")
        begin.append(f"  br label %b{function.blocks[0].label}")
        self.library.declarations |= text.declarations
        return "\n".join([head, *begin, *lines, "}"])

    def _block(self, block: Block) -> list[str]:
        """Write a block; return its lines. Its label in LLVM may change on the way."""
        text = self.text_
        text.lines = []
        text.block = f"b{block.label}"
        for instruction in block.body:
            self._instruction(instruction)
        self._end(block.end)
        return text.lines

    def _phis(self, block: Block) -> list[str]:
        incoming = self.phis.get(block.label, [])
        return [
            f"  {self.names[param]} = phi ptr "
            + ", ".join(f"[ {self.names[args[place]]}, %{source} ]" for source, args in incoming)
            for place, param in enumerate(block.params)
        ]

    # --- instructions -----------------------------------------------------------------------------

    def _instruction(self, instruction: Instruction) -> None:
        text = self.text_
        match instruction:
            case Literal(result, array):
                self.names[result] = self.regions.literal(array)
            case Null(result):
                self.names[result] = "null"
            case FunctionValue(result, name):
                self.library.closures.add(name)
                self.names[result] = closure_name(name)
            case MakeClosure(result, name, captured, reuse):
                code = f"ptr {function_name(name)}"
                self.names[result] = self.objects.node(Kind.CLOSURE, code, captured, reuse)
            case MakeTuple(result, ()):
                self.names[result] = "@rt.unit"
            case MakeTuple(result, fields, reuse):
                self.names[result] = self.objects.node(Kind.TUPLE, "i64 0", fields, reuse)
            case MakeData(result, tag, ()):
                self.names[result] = f"getelementptr ({{ i64, i64 }}, ptr @rt.single, i64 {tag})"
            case MakeData(result, tag, fields, reuse):
                self.names[result] = self.objects.node(Kind.DATA, f"i64 {tag}", fields, reuse)
            case MakeCell(result, content):
                self.names[result] = self.objects.node(Kind.CELL, "i64 0", (content,), None)
            case GetField(result, value, index):
                self.names[result] = self.objects.field(value, index)
                text.do(f"call void @rt.dup(ptr {self.names[result]})")
            case ReadCell(result, cell):
                self.names[result] = self.objects.field(cell, 0)
                text.do(f"call void @rt.dup(ptr {self.names[result]})")
            case WriteCell(cell, content):
                place = self.objects.place(cell, 0)
                before = text.op(f"load ptr, ptr {place}")
                text.do(f"store ptr {self.names[content]}, ptr {place}")
                text.do(f"call void @rt.drop(ptr %heap, ptr {before})")
            case CallFunction(result, name, closure, args):
                call = self._call(function_name(name), closure, args)
                self.names[result] = text.op(f"call {call}")
            case CallClosure(result, closure, args):
                call = self._call(self._code(closure), closure, args)
                self.names[result] = text.op(f"call {call}")
            case Region():
                self.regions.write(instruction)
            case CheckShape():
                self._check_shape(instruction)
            case CheckLength(value, axis, other, other_axis, site):
                one = self.regions.tensors.extent(self.names[value], axis)
                two = self.regions.tensors.extent(self.names[other], other_axis)
                self._require(text.op(f"icmp eq i64 {one}, {two}"), site)
            case Dup(value):
                maybe = "_maybe" if value.is_maybe else ""
                text.do(f"call void @rt.dup{maybe}(ptr {self.names[value]})")
            case Drop(value):
                maybe = "_maybe" if value.is_maybe else ""
                text.do(f"call void @rt.drop{maybe}(ptr %heap, ptr {self.names[value]})")
            case Unpack():
                self.objects.unpack(instruction)
            case Discard(token):
                self.objects.discard(token)
            case Operator():
                raise AssertionError("operators stand in regions by now")
            case _:
                assert_never(instruction)

    def _call(self, code: str, closure: Value | None, args: tuple[Value, ...]) -> str:
        own = "null" if closure is None else self.names[closure]
        operands = "".join(f", ptr {self.names[arg]}" for arg in args)
        return f"tailcc ptr {code}(ptr %heap, ptr {own}{operands})"

    def _code(self, closure: Value) -> str:
        place = self.text_.op(f"getelementptr i8, ptr {self.names[closure]}, i64 8")
        return self.text_.op(f"load ptr, ptr {place}")

    def _check_shape(self, check: CheckShape) -> None:
        value = self.names[check.value]
        good = "true"
        for axis, extent in enumerate(check.expected.shape):
            if extent is not UNKNOWN:
                found = self.regions.tensors.extent(value, axis)
                same = self.text_.op(f"icmp eq i64 {found}, {extent}")
                good = self.text_.op(f"and i1 {good}, {same}")
        self._require(good, check.site)

    def _require(self, good: str, site: int) -> None:
        """Fail at a site unless a condition holds."""
        text = self.text_
        refuse, go = text.fresh(), text.fresh()
        text.do(f"br i1 {good}, label %{go}, label %{refuse}")
        text.label(refuse)
        self._fail(site)
        text.label(go)

    def _fail(self, site: int) -> None:
        self.text_.do(f"call void @rt.fail(ptr %heap, i64 {site}, i64 0)")
        self.text_.do("unreachable")

    # --- regions ----------------------------------------------------------------------------------

    # --- ends -------------------------------------------------------------------------------------

    def _end(self, end: End) -> None:
        text = self.text_
        match end:
            case Jump(target, args):
                self.phis.setdefault(target, []).append((text.block, args))
                text.do(f"br label %b{target}")
            case Branch(condition, then, otherwise):
                truth = self._truth(condition)
                text.do(f"br i1 {truth}, label %b{then}, label %b{otherwise}")
            case BranchNull(value, absent, present):
                none = text.op(f"icmp eq ptr {self.names[value]}, null")
                text.do(f"br i1 {none}, label %b{absent}, label %b{present}")
            case Switch():
                self._switch(end)
            case Return(value):
                text.do(f"ret ptr {self.names[value]}")
            case TailCall(name, closure, args):
                self._leave(self._call(function_name(name), closure, args))
            case TailCallClosure(closure, args):
                self._leave(self._call(self._code(closure), closure, args))
            case Fail(site):
                self._fail(site)
            case _:
                assert_never(end)

    def _leave(self, call: str) -> None:
        # Not musttail: LLVM 22 forgets to store its arguments that no register has room for.
        result = self.text_.op(f"tail call {call}")
        self.text_.do(f"ret ptr {result}")

    def _truth(self, condition: Value) -> str:
        name = self.names[condition]
        if condition in self.flags:
            return name
        return self.objects.byte(name)

    def _switch(self, switch: Switch) -> None:
        text = self.text_
        place = text.op(f"getelementptr i8, ptr {self.names[switch.value]}, i64 8")
        tag = text.op(f"load i64, ptr {place}")
        cases, default = list(switch.cases), switch.default
        if default is None:
            _, default = cases.pop()
        targets = " ".join(f"i64 {number}, label %b{label}" for number, label in cases)
        text.do(f"switch i64 {tag}, label %b{default} [ {targets} ]")
