"""How control calls an operator whose shapes are known at run time only.

The extents of the result come from the shape function, its memory from the heap; what the operator
demands of values (an index inside of its tensor, a divisor other than zero) is looked at before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, final

from codesign.compiler.backends.llvm.arithmetic import Arithmetic, literal_text, memory_type
from codesign.compiler.backends.llvm.text import FunctionText
from codesign.compiler.backends.native.extents import COPYING, Extents, ShapeWriter
from codesign.compiler.backends.native.lengths import FILLING, TOLD, collapsed, told_extents
from codesign.compiler.backends.native.pieces import VIEWING, views
from codesign.compiler.backends.native.tensors import TensorWriter, tensor_type
from codesign.compiler.backends.native.unknown import UnknownKernels, has_rule
from codesign.compiler.backends.native.views import copy_view, element_at, sum_view
from codesign.diagnostics import CodesignError, Problem
from codesign.dtypes import DType
from codesign.ir.control.program import Operator, Site
from codesign.ir.executable.heap import data_offset, tensor_word
from codesign.ir.relay.types import UNKNOWN, TensorType
from codesign.ops.axis import AxisAttrs
from codesign.ops.reduce import ReduceAttrs

_BY_HAND: Final = frozenset(
    {
        *("concatenate", "cpu.count", "shape_of", "collapse_sum_to", "collapse_sum_like"),
        *VIEWING,
        *TOLD,
    }
)
"""Operators that are written here and have no kernel."""

_MOST_ELEMENTS: Final = literal_text(1 << 48, DType.FLOAT64)
"""Elements that no tensor has; products of extents below it do not wrap around."""


@final
class UnknownCalls:
    """Writes calls into one function; `require(condition, site)` fails where a condition is false.

    `declarations` collects what the function calls in the module of kernels.
    """

    def __init__(
        self,
        text: FunctionText,
        kernels: UnknownKernels,
        require: Callable[[str, Site], None],
    ) -> None:
        self._text = text
        self._kernels = kernels
        self._require = require
        self._tensors = TensorWriter(text)

    def extents(self, tensor: str, type_: TensorType) -> Extents:
        """Return the extents of a tensor: numbers where the type knows them, else registers."""
        return tuple(
            self._tensors.extent(tensor, axis) if extent is UNKNOWN else str(extent)
            for axis, extent in enumerate(type_.shape)
        )

    def check(self, tensor: str, type_: TensorType, site: Site) -> None:
        """Fail unless a tensor has the extents that its type knows."""
        good = "true"
        for axis, extent in enumerate(type_.shape):
            if extent is not UNKNOWN:
                found = self._tensors.extent(tensor, axis)
                same = self._text.op(f"icmp eq i64 {found}, {extent}")
                good = self._text.op(f"and i1 {good}, {same}")
        if good != "true":
            self._require(good, site)

    def call(self, operator: Operator, operands: Sequence[str]) -> tuple[str, ...]:
        """Write an operator's call; return its results, new objects.

        Raises
        ------
        CodesignError
            The operator has no native code for shapes that are not known.
        """
        text = self._text
        types = [tensor_type(value) for value in operator.inputs]
        result_type = tensor_type(operator.results[0])
        if not self._is_known(operator):
            raise CodesignError(
                Problem(
                    what=f"{operator.operator} is not compiled for shapes that are not known",
                    span=operator.span,
                    help="give the lengths of its operands, or run it in the interpreter",
                )
            )
        shapes = [self.extents(name, t) for name, t in zip(operands, types, strict=True)]
        shape = ShapeWriter(text, lambda good, what: self._fail_unless(good, what, operator))
        if operator.operator in VIEWING:
            source = self._tensors.data(operands[0], types[0])
            return self._views(operator, source, shapes[0], shape)
        if operator.operator in TOLD:
            told = self._tensors.data(operands[-1], types[-1])
            rank, first = len(result_type.shape), shapes[0] if len(shapes) > 1 else ()
            dtype = types[-1].dtype
            found = told_extents(operator.operator, first, told, dtype, rank, shape)
        else:
            found = shape.result(operator, shapes)
        total = shape.product(found)
        self._demand(operator, operands, shapes, shape)
        result = self.new(result_type, found)
        offset = data_offset(len(found))
        out = text.op(f"getelementptr i8, ptr {result}, i64 {offset}")
        data = [self._tensors.data(n, t) for n, t in zip(operands, types, strict=True)]
        if operator.operator in COPYING or operator.operator == "dyn.reshape":
            self._copy(out, data[0], total, result_type)
        elif operator.operator == "concatenate":
            self._concatenate(operator, out, data, shapes, shape)
        elif operator.operator == "cpu.count":
            self._count(operator, out, shapes[0], shape)
        elif operator.operator == "shape_of":
            self._shape_of(out, shapes[0], result_type.dtype)
        elif operator.operator in FILLING:
            self._fill(operator, out, data, total, result_type.dtype)
        elif operator.operator in ("collapse_sum_to", "collapse_sum_like"):
            outer, inner = collapsed(operator.operator, shapes[0], found, shape)
            sum_view(text, out, data[0], outer, inner, result_type.dtype)
        else:
            if operator.operator == "dyn.broadcast_to":
                types, data, shapes = types[:1], data[:1], shapes[:1]
            kernel = self._kernels.kernel(operator, tuple(types), result_type)
            numbers = [total, *found, *(each for extents in shapes for each in extents)]
            pointers = ", ".join(f"ptr {each}" for each in (out, *data))
            integers = ", ".join(f"i64 {each}" for each in numbers)
            kinds = ", ".join(["ptr"] * (1 + len(data)) + ["i64"] * len(numbers))
            text.declarations.add(f"declare void @{kernel}({kinds})")
            text.do(f"call void @{kernel}({pointers}, {integers})")
        return (result,)

    def _is_known(self, operator: Operator) -> bool:
        return operator.operator in COPYING | _BY_HAND or has_rule(operator)

    def _views(
        self, operator: Operator, data: str, extents: Extents, shape: ShapeWriter
    ) -> tuple[str, ...]:
        """Copy what an operator reads of a tensor into new ones."""
        made = []
        for result, (found, view) in zip(
            operator.results, views(operator, extents, shape), strict=True
        ):
            type_ = tensor_type(result)
            made.append(self.new(type_, found))
            copy_view(self._text, self._tensors.data(made[-1], type_), data, view, type_.dtype)
        return tuple(made)

    def _shape_of(self, out: str, extents: Extents, dtype: DType) -> None:
        kind = memory_type(dtype)
        for axis, extent in enumerate(extents):
            value = Arithmetic(self._text).converted(extent, DType.INT64, dtype)
            place = element_at(self._text, kind, out, str(axis))
            self._text.do(f"store {kind} {value}, ptr {place}")

    def _fill(
        self, operator: Operator, out: str, data: Sequence[str], total: str, dtype: DType
    ) -> None:
        """Store the first operand, what the operator's name says, or each place's number."""
        kind = memory_type(dtype)
        if operator.operator == "dyn.full":
            value = self._text.op(f"load {kind}, ptr {data[0]}")
        elif dtype is DType.BOOL:
            value = str(int(operator.operator == "dyn.ones"))
        else:
            value = literal_text(int(operator.operator == "dyn.ones"), dtype)
        self._text.extents[-1] = total
        with self._text.loop(-1) as (index, _):
            place = element_at(self._text, kind, out, index)
            stored = index if operator.operator == "dyn.arange" else value
            self._text.do(f"store {kind} {stored}, ptr {place}")

    def _count(self, operator: Operator, out: str, extents: Extents, shape: ShapeWriter) -> None:
        """Store the number of elements that each place of a reduction's result comes from."""
        assert isinstance(operator.attrs, ReduceAttrs), "the attributes of mean"
        axes = operator.attrs.axis or tuple(range(len(extents)))
        total = shape.product(tuple(extents[axis] for axis in axes))
        dtype = tensor_type(operator.results[0]).dtype
        values = Arithmetic(self._text)
        number = values.converted(total, DType.INT64, DType.FLOAT64)
        kind = memory_type(dtype)
        value = values.converted(number, DType.FLOAT64, dtype)
        self._text.do(f"store {kind} {value}, ptr {out}")

    def _fail_unless(self, good: str, what: str, operator: Operator) -> None:
        self._require(good, Site(what, span=operator.span))

    def new(self, type_: TensorType, extents: Extents) -> str:
        """Write a new tensor with its extents."""
        text = self._text
        rank = len(extents)
        total, estimate = "1", "1.0"
        for extent in extents:
            total = text.op(f"mul i64 {total}, {extent}")
            wide = text.op(f"uitofp i64 {extent} to double")
            estimate = text.op(f"fmul double {estimate}, {wide}")
        fits = text.op(f"fcmp olt double {estimate}, {_MOST_ELEMENTS}")
        self._require(fits, Site("a tensor would have more elements than memory holds"))
        size = text.op(f"mul i64 {total}, {type_.dtype.size_bytes}")
        if rank == 0:
            room = data_offset(0) + type_.dtype.size_bytes
            result = text.op(f"call ptr @rt.new(ptr %heap, i64 {-(-room // 16)})")
            head = tensor_word(type_.dtype, 0, -(-room // 16))
            text.do(f"store i64 {head}, ptr {result}")
            return result
        head = tensor_word(type_.dtype, rank, 0)
        result = text.op(
            f"call ptr @rt.new_tensor(ptr %heap, i64 {head}, i64 {data_offset(rank)}, i64 {size})"
        )
        for axis, extent in enumerate(extents):
            place = text.op(f"getelementptr i8, ptr {result}, i64 {8 + 8 * axis}")
            text.do(f"store i64 {extent}, ptr {place}")
        return result

    def _copy(self, target: str, source: str, total: str, type_: TensorType) -> None:
        size = self._text.op(f"mul i64 {total}, {type_.dtype.size_bytes}")
        self._text.do(
            f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)"
        )

    def _concatenate(
        self,
        operator: Operator,
        out: str,
        data: Sequence[str],
        shapes: Sequence[Extents],
        shape: ShapeWriter,
    ) -> None:
        """Copy the pieces of each row one after the other."""
        text = self._text
        assert isinstance(operator.attrs, AxisAttrs), "concatenate has an axis"
        axis = operator.attrs.axis % len(shapes[0])
        type_ = tensor_type(operator.results[0])
        rows = shape.product(shapes[0][:axis])
        lengths = [shape.product(extents[axis:]) for extents in shapes]
        sizes = [text.op(f"mul i64 {each}, {type_.dtype.size_bytes}") for each in lengths]
        text.extents[-1] = rows
        with text.loop(-1, (("ptr", out),)) as (row, state):
            place = state.current[0]
            for source, size in zip(data, sizes, strict=True):
                offset = text.op(f"mul i64 {row}, {size}")
                piece = text.op(f"getelementptr i8, ptr {source}, i64 {offset}")
                text.do(
                    f"call void @llvm.memcpy.p0.p0.i64(ptr {place}, ptr {piece}, "
                    f"i64 {size}, i1 false)"
                )
                place = text.op(f"getelementptr i8, ptr {place}, i64 {size}")
            state.next[0] = place

    # --- what operators demand of values ----------------------------------------------------------

    def _demand(
        self,
        operator: Operator,
        operands: Sequence[str],
        shapes: Sequence[Extents],
        shape: ShapeWriter,
    ) -> None:
        match operator.operator, operator.attrs:
            case "take", AxisAttrs(axis=axis):
                self._demand_places(operator, operands[1], shapes, [shapes[0][axis]], shape)
            case "gather_elements", AxisAttrs(axis=axis):
                self._demand_places(operator, operands[1], shapes, [shapes[0][axis]], shape)
            case "gather_nd", _:
                depth = int(shapes[1][-1])
                self._demand_places(operator, operands[1], shapes, shapes[0][:depth], shape)
            case "divide", _ if tensor_type(operator.inputs[1]).dtype.is_integer:
                type_ = tensor_type(operator.inputs[1])
                divisors = self._tensors.data(operands[1], type_)
                bad = self._any(divisors, shape.product(shapes[1]), type_.dtype, self._is_zero)
                what = "divide has an integer divisor of zero"
                self._fail_unless(self._not(bad), what, operator)
            case (("max" | "min" | "cpu.count"), ReduceAttrs(axis=axes)):
                over = axes or tuple(range(len(shapes[0])))
                count = shape.product(tuple(shapes[0][axis] for axis in over))
                some = self._text.op(f"icmp ne i64 {count}, 0")
                name = operator.operator.replace("cpu.count", "mean")
                what = f"{name} has no value over an empty axis"
                self._fail_unless(some, what, operator)
            case _:
                pass

    def _demand_places(
        self,
        operator: Operator,
        indices: str,
        shapes: Sequence[Extents],
        lengths: Sequence[str],
        shape: ShapeWriter,
    ) -> None:
        """Require indices to lie in axes of these lengths, in turn."""
        type_ = tensor_type(operator.inputs[1])
        data = self._tensors.data(indices, type_)
        count = shape.product(shapes[1])
        if len(lengths) > 1:
            count = shape.product(shapes[1][:-1])
        for place, length in enumerate(lengths):
            test = self._outside(length)
            bad = self._any(data, count, type_.dtype, test, (place, len(lengths)))
            what = f"{operator.operator} reads outside of its axis"
            self._fail_unless(self._not(bad), what, operator)

    def _not(self, truth: str) -> str:
        return self._text.op(f"xor i1 {truth}, true")

    def _any(
        self,
        data: str,
        count: str,
        dtype: DType,
        test: Callable[[str], str],
        every: tuple[int, int] = (0, 1),
    ) -> str:
        """Write whether a test holds for any of so many integers: from a place on, in steps."""
        text = self._text
        kind = memory_type(dtype)
        extension = "zext" if dtype.minimum == 0 else "sext"
        text.extents[-1] = count
        with text.loop(-1, (("i1", "false"),)) as (index, state):
            if every != (0, 1):
                index = text.op(f"mul i64 {index}, {every[1]}")
                index = text.op(f"add i64 {index}, {every[0]}")
            place = text.op(f"getelementptr {kind}, ptr {data}, i64 {index}")
            value = text.op(f"load {kind}, ptr {place}")
            wide = value if dtype.bits == 64 else text.op(f"{extension} {kind} {value} to i64")
            state.next[0] = text.op(f"or i1 {state.current[0]}, {test(wide)}")
        return state.current[0]

    def _outside(self, length: str) -> Callable[[str], str]:
        def test(value: str) -> str:
            text = self._text
            least = text.op(f"sub i64 0, {length}")
            below = text.op(f"icmp slt i64 {value}, {least}")
            above = text.op(f"icmp sge i64 {value}, {length}")
            return text.op(f"or i1 {below}, {above}")

        return test

    def _is_zero(self, value: str) -> str:
        return self._text.op(f"icmp eq i64 {value}, 0")
