"""Index notation to LLVM instructions, one element or one vector of elements at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, assert_never, final

from codesign.compiler.backends.llvm.arithmetic import (
    TRANSCENDENTAL,
    Arithmetic,
    element_type,
    memory_type,
)
from codesign.compiler.backends.llvm.text import FunctionText
from codesign.compiler.backends.llvm.vectorize import (
    may_overflow,
    reads_directly,
    table_element,
)
from codesign.dtypes import DType
from codesign.ir.tensor.compute import (
    Accumulator,
    Apply,
    Convert,
    Expr,
    Fn,
    Guarded,
    Literal,
    Load,
    Position,
    Reduce,
    Reduction,
)
from codesign.ir.tensor.index import Axis, Clamp, Element, FloorDiv, Index, Modulo
from codesign.ir.tensor.layout import Buffer
from codesign.ir.tensor.ranges import fits

_JOINS: Final = {
    Reduction.SUM: Fn.ADD,
    Reduction.PRODUCT: Fn.MULTIPLY,
    Reduction.MAXIMUM: Fn.MAXIMUM,
    Reduction.MINIMUM: Fn.MINIMUM,
}


@final
class ScalarEmitter:
    """Evaluates expressions at the current axes; with `lanes` > 1, for neighbours on `vector_axis`.

    `axes` gives each axis' i64 value (of the first lane). `mask`, where set, tells which lanes
    exist: it guards loads and stores of a partial vector. `accumulator` is the value of the node
    of that name.
    """

    def __init__(self, text: FunctionText, pointers: Mapping[Buffer, str]) -> None:
        self.text = text
        self.pointers = pointers
        self.axes: dict[Axis, str] = {}
        self.values = Arithmetic(text)
        self.vector_axis: Axis | None = None
        self.mask: str | None = None
        self.accumulator = ""
        self.strides: dict[Buffer, tuple[str, ...]] = {}
        """Elements from one index to the next, of buffers whose shape is known at run time only."""
        self._known: dict[Expr, str] = {}

    @property
    def lanes(self) -> int:
        """Elements that are computed at once."""
        return self.values.lanes

    @lanes.setter
    def lanes(self, lanes: int) -> None:
        self.values.lanes = lanes

    def evaluate(self, expr: Expr) -> str:
        """Write the instructions that compute an expression and return the value's name."""
        self._known = {}
        return self._expr(expr)

    def store(self, buffer: Buffer, index: tuple[Index, ...], expr: Expr) -> None:
        """Write an expression's evaluation and its store into a buffer."""
        self._known = {}
        storage = buffer.storage
        if isinstance(expr, Convert) and storage.is_integer and fits(expr.value, expr.dtype):
            value = self.values.converted(self._expr(expr.value), expr.value.dtype, storage)
        else:
            value = self.values.converted(self._expr(expr), expr.dtype, storage)
        kind = self.values.type_of(memory_type(storage))
        if storage is DType.BOOL:
            value = self.text.op(f"zext {self.values.type_of('i1')} {value} to {kind}")
        pointer = self.address(buffer, index)
        if self.mask is None or self.lanes == 1:
            self.text.do(f"store {kind} {value}, ptr {pointer}, align {storage.size_bytes}")
            return
        name = f"llvm.masked.store.{self.values.suffix(memory_type(storage))}.p0"
        boolean = self.values.type_of("i1")
        self.text.declarations.add(f"declare void @{name}({kind}, ptr, i32, {boolean})")
        self.text.do(
            f"call void @{name}({kind} {value}, ptr {pointer}, "
            f"i32 {storage.size_bytes}, {boolean} {self.mask})"
        )

    def address(self, buffer: Buffer, index: tuple[Index, ...]) -> str:
        """Write the pointer to an element (of the first lane)."""
        strides = self.strides.get(buffer)
        if strides is None:
            position = self.index(buffer.address(index))
        else:
            position = self._position_by(strides, index)
        kind = memory_type(buffer.storage)
        return self.text.op(f"getelementptr {kind}, ptr {self.pointers[buffer]}, i64 {position}")

    def _position_by(self, strides: tuple[str, ...], index: tuple[Index, ...]) -> str:
        total = "0"
        for each, stride in zip(index, strides, strict=True):
            part = self.text.op(f"mul i64 {self.index(each)}, {stride}")
            total = self.text.op(f"add i64 {total}, {part}")
        return total

    def index(self, index: Index) -> str:
        """Write an index as an i64 (of the first lane)."""
        text = self.text
        total: str | None = None
        for atom, factor in index.terms:
            match atom:
                case Axis():
                    value = self.axes[atom]
                case FloorDiv(inner, divisor):
                    value = self._floor_divide(inner, divisor)
                case Modulo(inner, divisor):
                    value = self._modulo(inner, divisor)
                case Clamp(inner, low, high):
                    value = self.index(inner)
                    value = text.call("i64", "llvm.smax.i64", ("i64", value), ("i64", str(low)))
                    value = text.call("i64", "llvm.smin.i64", ("i64", value), ("i64", str(high)))
                case Element(expr):
                    value = self._element(expr)
                case _:
                    assert_never(atom)
            if factor != 1:
                value = text.op(f"mul nsw i64 {value}, {factor}")
            total = value if total is None else text.op(f"add nsw i64 {total}, {value}")
        if total is None:
            return str(index.constant)
        return total if index.constant == 0 else text.op(f"add nsw i64 {total}, {index.constant}")

    def _floor_divide(self, inner: Index, divisor: int) -> str:
        value = self.index(inner)
        if inner.bounds()[0] >= 0:
            return self.text.op(f"udiv i64 {value}, {divisor}")
        quotient = self.text.op(f"sdiv i64 {value}, {divisor}")
        rest = self.text.op(f"srem i64 {value}, {divisor}")
        sign = self.text.op(f"ashr i64 {rest}, 63")
        return self.text.op(f"add i64 {quotient}, {sign}")

    def _modulo(self, inner: Index, divisor: int) -> str:
        value = self.index(inner)
        if inner.bounds()[0] >= 0:
            return self.text.op(f"urem i64 {value}, {divisor}")
        rest = self.text.op(f"srem i64 {value}, {divisor}")
        sign = self.text.op(f"ashr i64 {rest}, 63")
        correction = self.text.op(f"and i64 {sign}, {divisor}")
        return self.text.op(f"add i64 {rest}, {correction}")

    def _element(self, expr: object) -> str:
        assert isinstance(expr, Literal | Load | Apply | Convert | Position | Guarded | Reduce), (
            "an element of an index is a scalar expression"
        )
        lanes, known = self.lanes, self._known
        self.lanes, self._known = 1, {}
        value = self.values.converted(self._expr(expr), expr.dtype, DType.INT64)
        self.lanes, self._known = lanes, known
        return value

    def _expr(self, expr: Expr) -> str:
        known = self._known.get(expr)
        if known is None:
            known = self._fresh(expr)
            self._known[expr] = known
        return known

    def _fresh(self, expr: Expr) -> str:
        match expr:
            case Literal(value, dtype):
                return self.values.literal(value, dtype)
            case Load():
                return self._load(expr, expr.dtype)
            case Convert(Load() as load, dtype) if reads_directly(load, dtype):
                return self._load(load, dtype)
            case Convert(value, dtype) if may_overflow(value, dtype):
                return self.values.saturated(self._expr(value), value.dtype, dtype)
            case Convert(value, dtype):
                return self.values.converted(self._expr(value), value.dtype, dtype)
            case Apply():
                return self._apply(expr)
            case Position(index):
                return self._position(index)
            case Guarded():
                return self._guarded(expr)
            case Reduce():
                return self._reduce(expr)
            case Accumulator():
                return self.accumulator
            case _:
                assert_never(expr)

    def _load(self, load: Load, dtype: DType) -> str:
        buffer = load.buffer
        storage = buffer.storage
        scalar = memory_type(storage)
        position = buffer.address(load.index)
        axis = self.vector_axis
        uniform = axis is None or not position.uses(axis)
        if self.lanes > 1 and axis is not None and position.factor(axis) not in (0, 1):
            return self.values.converted(self._gather(load), storage, dtype)
        pointer = self.address(buffer, load.index)
        if self.lanes == 1 or uniform:
            value = self.text.op(f"load {scalar}, ptr {pointer}, align {storage.size_bytes}")
            value = self.values.splat(value, scalar)
        elif self.mask is not None and not buffer.is_constant:
            kind, boolean = self.values.type_of(scalar), self.values.type_of("i1")
            value = self.text.call(
                kind,
                f"llvm.masked.load.{self.values.suffix(scalar)}.p0",
                ("ptr", pointer),
                ("i32", str(storage.size_bytes)),
                (boolean, self.mask),
                (kind, "zeroinitializer"),
            )
        else:
            kind = self.values.type_of(scalar)
            value = self.text.op(f"load {kind}, ptr {pointer}, align {storage.size_bytes}")
        if storage is DType.BOOL:
            kind = self.values.type_of("i8")
            value = (
                self.text.op(f"icmp ne {kind} {value}, zeroinitializer")
                if (self.lanes > 1)
                else self.text.op(f"icmp ne i8 {value}, 0")
            )
        return self.values.converted(value, storage, dtype)

    def _gather(self, load: Load) -> str:
        """Read one element for each lane from places that are no neighbours."""
        storage = load.buffer.storage
        assert storage is not DType.BOOL, "tables of truth values are read one by one"
        scalar = memory_type(storage)
        vector = "poison"
        for lane, place in enumerate(self._places(load)):
            pointer = self.text.op(
                f"getelementptr {scalar}, ptr {self.pointers[load.buffer]}, i64 {place}"
            )
            value = self.text.op(f"load {scalar}, ptr {pointer}, align {storage.size_bytes}")
            vector = self.values.inserted(vector, value, scalar, lane)
        return vector

    def _places(self, load: Load) -> list[str]:
        """Each lane's position, of `is_vectorizable`'s two kinds: in even steps, or a table's."""
        position = load.buffer.address(load.index)
        assert self.vector_axis is not None, "only vectors gather"
        if position.factor(self.vector_axis) is not None:
            places = self._position(position)
            return [
                self.text.op(f"extractelement {self.values.type_of('i64')} {places}, i64 {lane}")
                for lane in range(self.lanes)
            ]
        table = table_element(position)
        assert table is not None, "the expression is vectorizable"
        numbers = self.values.unpacked(self._expr(table), table.dtype)
        if position.constant == 0:
            return numbers
        return [self.text.op(f"add i64 {number}, {position.constant}") for number in numbers]

    def _position(self, index: Index) -> str:
        base = self.values.splat(self.index(index), "i64")
        factor = 0 if self.vector_axis is None else index.factor(self.vector_axis)
        if self.lanes == 1 or not factor:
            return base
        steps = ", ".join(f"i64 {lane * factor}" for lane in range(self.lanes))
        return self.text.op(f"add {self.values.type_of('i64')} {base}, <{steps}>")

    def holds(self, conditions: tuple[tuple[Index, int, int], ...]) -> str:
        """Write whether all of `low <= index < high`; `true` where the bounds say so."""
        condition = "true"
        for index, low, high in conditions:
            least, greatest = index.bounds()
            value = self.index(index)
            if least < low:
                test = self.text.op(f"icmp sge i64 {value}, {low}")
                condition = self.text.op(f"and i1 {condition}, {test}")
            if greatest >= high or high in self.text.extents:
                end = self.text.extents.get(high, str(high))
                test = self.text.op(f"icmp slt i64 {value}, {end}")
                condition = self.text.op(f"and i1 {condition}, {test}")
        return condition

    def _guarded(self, expr: Guarded) -> str:
        condition = self.holds(expr.conditions)
        if condition == "true":
            return self._expr(expr.body)
        known = dict(self._known)

        def inside(body: Expr) -> str:
            self._known = dict(known)
            return self._expr(body)

        value = self.text.choose(
            condition,
            self.values.type_of(element_type(expr.dtype)),
            lambda: inside(expr.body),
            lambda: inside(expr.otherwise),
        )
        self._known = known
        return value

    def _reduce(self, expr: Reduce) -> str:
        initial = self.values.literal(expr.initial.value, expr.dtype)
        if any(axis.extent == 0 for axis in expr.axes):
            return initial
        known = dict(self._known)
        value = self._reduce_over(expr, expr.axes, initial)
        self._known = known
        return value

    def _reduce_over(self, expr: Reduce, axes: tuple[Axis, ...], value: str) -> str:
        if not axes:
            known = dict(self._known)
            joined = self._join(expr, value, self._expr(expr.body))
            self._known = known
            return joined
        kind = self.values.type_of(element_type(expr.dtype))
        with self.text.loop(axes[0].extent, ((kind, value),)) as (index, state):
            self.axes[axes[0]] = index
            state.next[0] = self._reduce_over(expr, axes[1:], state.current[0])
        return state.current[0]

    def _join(self, expr: Reduce, value: str, term: str) -> str:
        return self.values.binary(_JOINS[expr.kind], value, term, expr.dtype)

    def _apply(self, expr: Apply) -> str:
        operand = expr.args[0].dtype
        if operand is DType.FLOAT16 and expr.function in TRANSCENDENTAL | {Fn.POWER, Fn.FMA}:
            wide = tuple(Convert(arg, DType.FLOAT32) for arg in expr.args)
            result = self._expr(Apply(expr.function, wide, DType.FLOAT32))
            return self.values.converted(result, DType.FLOAT32, DType.FLOAT16)
        match expr.function, expr.args:
            case Fn.MAXIMUM | Fn.MINIMUM, (Literal() as number, value):
                return self.values.held(expr.function, self._expr(value), number)
            case Fn.MAXIMUM | Fn.MINIMUM, (value, Literal() as number):
                return self.values.held(expr.function, self._expr(value), number)
            case Fn.SELECT, (condition, then, otherwise):
                kind = self.values.type_of(element_type(expr.dtype))
                test = self._expr(condition)
                return self.text.op(
                    f"select {self.values.type_of('i1')} {test}, {kind} {self._expr(then)}, "
                    f"{kind} {self._expr(otherwise)}"
                )
            case Fn.FMA, (a, b, c):
                kind = self.values.type_of(element_type(operand))
                name = f"llvm.fma.{self.values.suffix(element_type(operand))}"
                values = [(kind, self._expr(each)) for each in (a, b, c)]
                return self.text.call(kind, name, *values)
            case function, (argument,):
                return self.values.unary(function, self._expr(argument), operand)
            case function, (lhs, rhs):
                return self.values.binary(function, self._expr(lhs), self._expr(rhs), operand)
            case _:
                raise AssertionError(f"{expr.function} takes another number of operands")
