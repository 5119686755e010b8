"""Control to LLVM: one function for each, called by `tailcc`, so that tail calls cost no stack.

    tailcc ptr @f.name(heap, closure, argument, …)      owns what it is given; never returns null

A mistake leaves the run at once (`rt.fail`): nobody looks at results for it.
"""

from __future__ import annotations

from typing import assert_never, final

import numpy as np

from codesign.compiler.backends.llvm.text import FunctionText
from codesign.compiler.backends.native.regions import ConstantPool, RegionCode, RegionCompiler
from codesign.compiler.backends.native.tensors import (
    TensorWriter,
    has_same_room,
    size_bytes,
    size_class,
    tensor_type,
)
from codesign.compiler.backends.native.unknown import UnknownKernels
from codesign.compiler.backends.native.unknown_calls import UnknownCalls
from codesign.compiler.native.simplify import blocks_backward
from codesign.compiler.native.unknown import simpler
from codesign.dtypes import Array, DType
from codesign.ir.control.program import (
    Block,
    Branch,
    BranchNull,
    CallClosure,
    CallFunction,
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
    Site,
    Switch,
    TailCall,
    TailCallClosure,
    Unpack,
    Value,
    WriteCell,
)
from codesign.ir.control.uses import results
from codesign.ir.executable.heap import (
    FIELDS_OFFSET,
    FOREVER,
    LARGE,
    Kind,
    Slot,
    data_offset,
    node_class,
    tensor_word,
    word,
)
from codesign.ir.relay.types import UNKNOWN


@final
class ProgramWriter:
    """What functions share while their text is written."""

    def __init__(self, program: Program, regions: RegionCompiler, pool: ConstantPool) -> None:
        self.program = program
        self.regions = regions
        self.pool = pool
        self.sites = list(program.sites)
        self.declarations: set[str] = set()
        self.closures: set[str] = set()
        self.unknown = UnknownKernels(regions.target)
        self.has_unknown = any(map(_has_unknown, program.functions))
        self._literals: dict[int, tuple[Array, int]] = {}

    def site(self, site: Site) -> int:
        """Return the number of a mistake."""
        self.sites.append(site)
        return len(self.sites)

    def literal(self, array: Array) -> int:
        """Return where among the constants an array lies as an object."""
        known = self._literals.get(id(array))
        if known is None:
            known = array, self.pool.add(_image(array))
            self._literals[id(array)] = known
        return known[1]

    def text(self) -> str:
        """Return all functions and the closures of those that are used as values."""
        functions = [_FunctionWriter(self, each).text() for each in self.program.functions]
        closures = [
            f"{closure_name(name)} = internal constant {{ i64, ptr }} "
            f"{{ i64 {word(Kind.CLOSURE, 0, 0, FOREVER)}, ptr {function_name(name)} }}"
            for name in sorted(self.closures)
        ]
        return "\n".join([*sorted(self.declarations), *closures, *functions, self._main()])

    def _main(self) -> str:
        """Return what runs on the program's own stack: values in, `main`, the value out."""
        entry = next(f for f in self.program.functions if f.name == self.program.entry)
        text = FunctionText()
        args = text.op("call ptr @rt.build(ptr %heap)")
        loaded = []
        for place in range(len(entry.params)):
            slot = text.op(f"getelementptr ptr, ptr {args}, i64 {place}")
            loaded.append(text.op(f"load ptr, ptr {slot}"))
        operands = "".join(f", ptr {each}" for each in loaded)
        result = text.op(
            f"call tailcc ptr {function_name(entry.name)}(ptr %heap, ptr null{operands})"
        )
        text.do(f"call void @rt.write(ptr %heap, ptr {result})")
        text.do(f"call void @rt.drop(ptr %heap, ptr {result})")
        lines = "\n".join(text.lines)
        return f"define internal void @rt.main(ptr %heap) nounwind {{\n{lines}\n  ret void\n}}"


def _has_unknown(function: Function) -> bool:
    """Whether the shape of any tensor of a function is not known."""
    values = {value for block in function.blocks for each in block.body for value in results(each)}
    values.update(function.params)
    values.update(value for block in function.blocks for value in block.params)
    return any(value.tensor is not None and UNKNOWN in value.tensor.shape for value in values)


def function_name(name: str) -> str:
    """Return LLVM's name of a function."""
    return f'@"f.{name}"'


def closure_name(name: str) -> str:
    """Return LLVM's name of the closure that exists once."""
    return f'@"c.{name}"'


def _image(array: Array) -> bytes:
    """Return a tensor as an object that exists once."""
    data = np.ascontiguousarray(array).reshape(array.shape)
    head = tensor_word(DType.of(array.dtype), array.ndim, 0, FOREVER).to_bytes(8, "little")
    extents = b"".join(extent.to_bytes(8, "little") for extent in array.shape)
    return (head + extents).ljust(data_offset(array.ndim), b"\0") + data.tobytes()


@final
class _FunctionWriter:
    def __init__(self, shared: ProgramWriter, function: Function) -> None:
        self.shared = shared
        self.function = function
        self.text_ = FunctionText()
        self.names: dict[Value, str] = {}
        self.allocas: list[str] = []
        self.phis: dict[int, list[tuple[str, tuple[Value, ...]]]] = {}
        self.ends: dict[int, str] = {}
        self.tensors = TensorWriter(self.text_)
        self.unknown = UnknownCalls(
            self.text_,
            shared.unknown,
            lambda good, site: self._require(good, shared.site(site)),
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
        begin = ["entry:", *self.allocas]
        if any(isinstance(i, CallFunction | CallClosure) for b in function.blocks for i in b.body):
            begin.append("  call void @rt.check_stack(ptr %heap)")
        begin.append(f"  br label %b{function.blocks[0].label}")
        self.shared.declarations |= text.declarations
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
                base = self._slot(Slot.CONSTANTS)
                offset = self.shared.literal(array)
                self.names[result] = text.op(f"getelementptr i8, ptr {base}, i64 {offset}")
            case Null(result):
                self.names[result] = "null"
            case FunctionValue(result, name):
                self.shared.closures.add(name)
                self.names[result] = closure_name(name)
            case MakeClosure(result, name, captured, reuse):
                code = f"ptr {function_name(name)}"
                self.names[result] = self._node(Kind.CLOSURE, code, captured, reuse)
            case MakeTuple(result, ()):
                self.names[result] = "@rt.unit"
            case MakeTuple(result, fields, reuse):
                self.names[result] = self._node(Kind.TUPLE, "i64 0", fields, reuse)
            case MakeData(result, tag, ()):
                self.names[result] = f"getelementptr ({{ i64, i64 }}, ptr @rt.single, i64 {tag})"
            case MakeData(result, tag, fields, reuse):
                self.names[result] = self._node(Kind.DATA, f"i64 {tag}", fields, reuse)
            case MakeCell(result, content):
                self.names[result] = self._node(Kind.CELL, "i64 0", (content,), None)
            case GetField(result, value, index):
                self.names[result] = self._field(value, index)
                text.do(f"call void @rt.dup(ptr {self.names[result]})")
            case ReadCell(result, cell):
                self.names[result] = self._field(cell, 0)
                text.do(f"call void @rt.dup(ptr {self.names[result]})")
            case WriteCell(cell, content):
                place = self._place(cell, 0)
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
                self._region(instruction)
            case CheckShape():
                self._check_shape(instruction)
            case Dup(value):
                maybe = "_maybe" if value.is_maybe else ""
                text.do(f"call void @rt.dup{maybe}(ptr {self.names[value]})")
            case Drop(value):
                maybe = "_maybe" if value.is_maybe else ""
                text.do(f"call void @rt.drop{maybe}(ptr %heap, ptr {self.names[value]})")
            case Unpack():
                self._unpack(instruction)
            case Discard(token):
                self._discard(token)
            case Operator():
                raise AssertionError("operators stand in regions by now")
            case _:
                assert_never(instruction)

    def _slot(self, slot: Slot) -> str:
        place = self.text_.op(f"getelementptr i8, ptr %heap, i64 {8 * slot}")
        return self.text_.op(f"load ptr, ptr {place}")

    def _place(self, value: Value, index: int) -> str:
        offset = FIELDS_OFFSET + 8 * index
        return self.text_.op(f"getelementptr i8, ptr {self.names[value]}, i64 {offset}")

    def _field(self, value: Value, index: int) -> str:
        return self.text_.op(f"load ptr, ptr {self._place(value, index)}")

    def _node(self, kind: Kind, own: str, fields: tuple[Value, ...], reuse: Value | None) -> str:
        """Write a new object with fields, in the memory of a token that is not null."""
        text = self.text_
        room = node_class(len(fields))
        if reuse is None:
            made = self._new(room, FIELDS_OFFSET + 8 * len(fields))
        else:
            token = self.names[reuse]
            none = text.op(f"icmp eq ptr {token}, null")
            made = text.choose(none, "ptr", lambda: self._new(room, 0), lambda: token)
        text.do(f"store i64 {word(kind, room, len(fields))}, ptr {made}")
        place = text.op(f"getelementptr i8, ptr {made}, i64 8")
        text.do(f"store {own}, ptr {place}")
        for index, field in enumerate(fields):
            place = text.op(f"getelementptr i8, ptr {made}, i64 {FIELDS_OFFSET + 8 * index}")
            text.do(f"store ptr {self.names[field]}, ptr {place}")
        return made

    def _new(self, room: int, needed_bytes: int) -> str:
        """Write the memory of an object of a size class; large ones say their size."""
        if room == LARGE:
            return self.text_.op(f"call ptr @rt.new_large(ptr %heap, i64 {needed_bytes})")
        return self.text_.op(f"call ptr @rt.new(ptr %heap, i64 {room})")

    def _call(self, code: str, closure: Value | None, args: tuple[Value, ...]) -> str:
        own = "null" if closure is None else self.names[closure]
        operands = "".join(f", ptr {self.names[arg]}" for arg in args)
        return f"tailcc ptr {code}(ptr %heap, ptr {own}{operands})"

    def _code(self, closure: Value) -> str:
        place = self.text_.op(f"getelementptr i8, ptr {self.names[closure]}, i64 8")
        return self.text_.op(f"load ptr, ptr {place}")

    def _unpack(self, unpack: Unpack) -> None:
        text = self.text_
        value = self.names[unpack.value]
        for result, index in zip(unpack.results, unpack.indices, strict=True):
            self.names[result] = self._field(unpack.value, index)
        others = [
            self._field(unpack.value, index)
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

    def _discard(self, token: Value) -> None:
        text = self.text_
        name = self.names[token]
        none = text.op(f"icmp eq ptr {name}, null")

        def free() -> str:
            text.do(f"call void @rt.release(ptr %heap, ptr {name})")
            return "null"

        text.choose(none, "ptr", lambda: "null", free)

    def _check_shape(self, check: CheckShape) -> None:
        value = self.names[check.value]
        good = "true"
        for axis, extent in enumerate(check.expected.shape):
            if extent is not UNKNOWN:
                found = self.tensors.extent(value, axis)
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

    def _one_by_one(self, region: Region) -> None:
        """Write the operators of a region each for itself; nothing that they share is fused."""
        made: list[Value] = []
        for whole in region.operators:
            for operator in simpler(whole) if _is_unknown(whole) else (whole,):
                self._alone(operator, region)
                made += operator.results
        for value in made:
            if value not in region.results:
                self._drop_input(value, None)
            elif value in region.flags:
                tensor = self.names[value]
                self.names[value] = self._byte(tensor)
                self.text_.do(f"call void @rt.drop(ptr %heap, ptr {tensor})")
        for value in region.inputs:
            if value in region.dying:
                self._drop_input(value, None)

    def _alone(self, operator: Operator, region: Region) -> None:
        literals = {v: array for v, array in region.literals.items() if v in operator.inputs}
        inputs = tuple(v for v in dict.fromkeys(operator.inputs) if v not in literals)
        own = Region(operator.results, inputs, (operator,), literals)
        code = self.shared.regions.compile(own)
        if code is not None:
            self._call_region(own, code)
            return
        for value, array in literals.items():
            self._instruction(Literal(value, array))
        for value in inputs:
            self._check_input(value, operator)
        made = self.unknown.call(operator, [self.names[value] for value in operator.inputs])
        for result, name in zip(operator.results, made, strict=True):
            self.unknown.check(name, tensor_type(result), self._misfit(operator))
            self.names[result] = name

    def _check_input(self, value: Value, operator: Operator) -> None:
        """Fail where a tensor has not the extents that are known of it, as `?` lets happen."""
        if self.shared.has_unknown:
            self.unknown.check(self.names[value], tensor_type(value), self._misfit(operator))

    def _misfit(self, operator: Operator) -> Site:
        what = f"a tensor has another shape than {operator.operator} was compiled for"
        return Site(what, span=operator.span)

    def _region(self, region: Region) -> None:
        code = self.shared.regions.compile(region)
        if code is None:
            self._one_by_one(region)
        else:
            self._call_region(region, code)

    def _call_region(self, region: Region, code: RegionCode) -> None:
        text = self.text_
        for value in region.inputs:
            user = next(each for each in region.operators if value in each.inputs)
            self._check_input(value, user)
        free = {value: place for place, value in enumerate(region.inputs) if value in region.dying}
        rows = None
        if code.rows is not None:
            rows = self.tensors.extent(self.names[region.inputs[code.rows]], 0)
        taken: dict[Value, str] = {}
        outputs = []
        for number, result in enumerate(region.results):
            if rows is not None:
                outputs.append(self._new_rows(result, rows))
                continue
            if result in region.flags:
                outputs.append(self._alloca(f"%flag{len(self.allocas)}", "i8"))
                continue
            over = [
                value
                for value, place in free.items()
                if place in code.over[number] and value not in taken and _has_room(value, result)
            ]
            if over:
                self.names[result], taken[over[0]] = self._new_over(result, over[0])
            else:
                self.names[result] = self._new_tensor(result)
            outputs.append(self.tensors.describe(self.names[result], tensor_type(result)))
        inputs = [self.tensors.data(self.names[v], tensor_type(v)) for v in region.inputs]
        inputs += [
            self.tensors.extent_place(self.names[region.inputs[place]], 0) for place in code.lengths
        ]
        found = [self._alloca(f"%check{len(self.allocas)}", "i8") for _ in code.checks]
        constants, workspace = self._slot(Slot.CONSTANTS), self._slot(Slot.WORKSPACE)
        pointers = [constants, workspace, *inputs, *outputs, *found]
        operands = ", ".join(f"ptr {each}" for each in pointers)
        types = ", ".join("ptr" for _ in pointers)
        if rows is not None:
            operands, types = f"{operands}, i64 {rows}", f"{types}, i64"
        self.shared.declarations.add(f"declare void @{code.name}({types})")
        text.do(f"call void @{code.name}({operands})")
        self._after_region(region, code.checks, found, outputs)
        for value in free:
            self._drop_input(value, taken.get(value))

    def _after_region(
        self, region: Region, checks: tuple[str, ...], found: list[str], outputs: list[str]
    ) -> None:
        span = next((each.span for each in region.operators if each.span is not None), None)
        for mistake, place in zip(checks, found, strict=True):
            flag = self.text_.op(f"load i8, ptr {place}")
            good = self.text_.op(f"icmp eq i8 {flag}, 0")
            self._require(good, self.shared.site(Site(mistake, span=span)))
        for result, pointer in zip(region.results, outputs, strict=True):
            if result in region.flags:
                truth = self.text_.op(f"load i8, ptr {pointer}")
                self.names[result] = self.text_.op(f"icmp ne i8 {truth}, 0")

    def _alloca(self, name: str, kind: str) -> str:
        self.allocas.append(f"  {name} = alloca {kind}, align 16")
        return name

    def _new_tensor(self, value: Value) -> str:
        type_ = tensor_type(value)
        return self._new(size_class(type_), size_bytes(type_))

    def _new_rows(self, value: Value, rows: str) -> str:
        """Write a new tensor with so many rows; return the pointer to its elements."""
        type_ = tensor_type(value)
        self.names[value] = self.unknown.new(type_, (rows, *map(str, type_.shape[1:])))
        return self.tensors.data(self.names[value], type_)

    def _new_over(self, result: Value, source: Value) -> tuple[str, str]:
        """Write a tensor in the place of one that nobody else holds, else a new one.

        Return it, and whether it is in that place.
        """
        name = self.names[source]
        owners = self.text_.op(f"load i32, ptr {name}")
        alone = self.text_.op(f"icmp eq i32 {owners}, 1")
        made = self.text_.choose(alone, "ptr", lambda: name, lambda: self._new_tensor(result))
        return made, alone

    def _drop_input(self, value: Value, taken: str | None) -> None:
        text = self.text_
        if taken is None:
            text.do(f"call void @rt.drop(ptr %heap, ptr {self.names[value]})")
            return

        def drop() -> str:
            text.do(f"call void @rt.drop(ptr %heap, ptr {self.names[value]})")
            return "null"

        text.choose(taken, "ptr", lambda: "null", drop)

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
        return self._byte(name)

    def _byte(self, tensor: str) -> str:
        """Write a scalar of bool as an i1."""
        data = self.text_.op(f"getelementptr i8, ptr {tensor}, i64 {data_offset(0)}")
        byte = self.text_.op(f"load i8, ptr {data}")
        return self.text_.op(f"icmp ne i8 {byte}, 0")

    def _switch(self, switch: Switch) -> None:
        text = self.text_
        place = text.op(f"getelementptr i8, ptr {self.names[switch.value]}, i64 8")
        tag = text.op(f"load i64, ptr {place}")
        cases, default = switch.cases, switch.default
        if default is None:
            *cases, (_, default) = cases
        targets = " ".join(f"i64 {number}, label %b{label}" for number, label in cases)
        text.do(f"switch i64 {tag}, label %b{default} [ {targets} ]")


def _is_unknown(operator: Operator) -> bool:
    """Whether the shape of an operand or of a result is not known."""
    return any(UNKNOWN in tensor_type(v).shape for v in (*operator.inputs, *operator.results))


def _has_room(source: Value, result: Value) -> bool:
    return has_same_room(tensor_type(source), tensor_type(result))
