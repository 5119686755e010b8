"""How control calls regions: memory for results, kernels, checks, and what dies."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from codesign.compiler.backends.llvm.text import FunctionText
from codesign.compiler.backends.native.library import Library
from codesign.compiler.backends.native.objects import ObjectWriter
from codesign.compiler.backends.native.regions import RegionCode
from codesign.compiler.backends.native.tensors import (
    TensorWriter,
    has_same_room,
    size_bytes,
    size_class,
    tensor_type,
)
from codesign.compiler.backends.native.unknown_calls import UnknownCalls
from codesign.compiler.native.unknown import simpler
from codesign.dtypes import Array
from codesign.ir.control.program import Operator, Region, Site, Value
from codesign.ir.executable.heap import Slot
from codesign.ir.relay.types import UNKNOWN


@final
class RegionCalls:
    """Writes regions into one function; `allocas` are the lines that its entry begins with.

    `require(condition, site)` makes a run fail where a condition is false.
    """

    def __init__(
        self,
        text: FunctionText,
        objects: ObjectWriter,
        library: Library,
        require: Callable[[str, Site], None],
    ) -> None:
        self.text = text
        self.names = objects.names
        self.objects = objects
        self.library = library
        self.allocas: list[str] = []
        self.tensors = TensorWriter(text)
        self.unknown = UnknownCalls(text, library.unknown, require)
        self._require = require

    def literal(self, array: Array) -> str:
        """Return a tensor that is known at compile time."""
        base = self.objects.slot(Slot.CONSTANTS)
        return self.text.op(f"getelementptr i8, ptr {base}, i64 {self.library.literal(array)}")

    def _one_by_one(self, region: Region) -> None:
        """Write the operators of a region each for itself; nothing that they share is fused."""
        made: list[Value] = []
        for whole in region.operators:
            is_whole = not _is_unknown(whole) or self.library.regions.compile(_alone(whole, region))
            for operator in (whole,) if is_whole else simpler(whole):
                self._alone(operator, region)
                made += operator.results
        for value in made:
            if value not in region.results:
                self._drop_input(value, None)
            elif value in region.flags:
                tensor = self.names[value]
                self.names[value] = self.objects.byte(tensor)
                self.text.do(f"call void @rt.drop(ptr %heap, ptr {tensor})")
        for value in region.inputs:
            if value in region.dying:
                self._drop_input(value, None)

    def _alone(self, operator: Operator, region: Region) -> None:
        own = _alone(operator, region)
        code = self.library.regions.compile(own)
        if code is not None:
            self._call_region(own, code)
            return
        for value, array in own.literals.items():
            self.names[value] = self.literal(array)
        for value in own.inputs:
            self._check_input(value, operator)
        made = self.unknown.call(operator, [self.names[value] for value in operator.inputs])
        for result, name in zip(operator.results, made, strict=True):
            self.unknown.check(name, tensor_type(result), self._misfit(operator))
            self.names[result] = name

    def _check_input(self, value: Value, operator: Operator) -> None:
        """Fail where a tensor has not the extents that are known of it, as `?` lets happen."""
        if self.library.has_unknown:
            self.unknown.check(self.names[value], tensor_type(value), self._misfit(operator))

    def _misfit(self, operator: Operator) -> Site:
        what = f"a tensor has another shape than {operator.operator} was compiled for"
        return Site(what, span=operator.span)

    def write(self, region: Region) -> None:
        """Write a region: allocate its results, call its kernel, drop what dies."""
        code = self.library.regions.compile(region)
        if code is None:
            self._one_by_one(region)
        else:
            self._call_region(region, code)

    def _call_region(self, region: Region, code: RegionCode) -> None:
        text = self.text
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
        constants, workspace = self.objects.slot(Slot.CONSTANTS), self.objects.slot(Slot.WORKSPACE)
        pointers = [constants, workspace, *inputs, *outputs, *found]
        operands = ", ".join(f"ptr {each}" for each in pointers)
        types = ", ".join("ptr" for _ in pointers)
        if rows is not None:
            operands, types = f"{operands}, i64 {rows}", f"{types}, i64"
        self.library.declarations.add(f"declare void @{code.name}({types})")
        text.do(f"call void @{code.name}({operands})")
        self._after_region(region, code.checks, found, outputs)
        for value in free:
            self._drop_input(value, taken.get(value))

    def _after_region(
        self, region: Region, checks: tuple[str, ...], found: list[str], outputs: list[str]
    ) -> None:
        span = next((each.span for each in region.operators if each.span is not None), None)
        for mistake, place in zip(checks, found, strict=True):
            flag = self.text.op(f"load i8, ptr {place}")
            good = self.text.op(f"icmp eq i8 {flag}, 0")
            self._require(good, Site(mistake, span=span))
        for result, pointer in zip(region.results, outputs, strict=True):
            if result in region.flags:
                truth = self.text.op(f"load i8, ptr {pointer}")
                self.names[result] = self.text.op(f"icmp ne i8 {truth}, 0")

    def _alloca(self, name: str, kind: str) -> str:
        self.allocas.append(f"  {name} = alloca {kind}, align 16")
        return name

    def _new_tensor(self, value: Value) -> str:
        type_ = tensor_type(value)
        return self.objects.new(size_class(type_), size_bytes(type_))

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
        owners = self.text.op(f"load i32, ptr {name}")
        alone = self.text.op(f"icmp eq i32 {owners}, 1")
        made = self.text.choose(alone, "ptr", lambda: name, lambda: self._new_tensor(result))
        return made, alone

    def _drop_input(self, value: Value, taken: str | None) -> None:
        text = self.text
        if taken is None:
            text.do(f"call void @rt.drop(ptr %heap, ptr {self.names[value]})")
            return

        def drop() -> str:
            text.do(f"call void @rt.drop(ptr %heap, ptr {self.names[value]})")
            return "null"

        text.choose(taken, "ptr", lambda: "null", drop)


def _alone(operator: Operator, region: Region) -> Region:
    """Return an operator of a region as a region of its own, in which nothing dies."""
    literals = {v: array for v, array in region.literals.items() if v in operator.inputs}
    inputs = tuple(v for v in dict.fromkeys(operator.inputs) if v not in literals)
    return Region(operator.results, inputs, (operator,), literals)


def _is_unknown(operator: Operator) -> bool:
    """Whether the shape of an operand or of a result is not known."""
    return any(UNKNOWN in tensor_type(v).shape for v in (*operator.inputs, *operator.results))


def _has_room(source: Value, result: Value) -> bool:
    return has_same_room(tensor_type(source), tensor_type(result))
