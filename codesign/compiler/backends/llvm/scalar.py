"""Index notation to LLVM instructions, one element or one vector of elements at a time."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final, assert_never, final

from codesign.compiler.backends.llvm.mathematics import FUNCTIONS, Mathematics, float_literal
from codesign.compiler.backends.llvm.text import FunctionText
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

_SCALARS: Final = {
    DType.BOOL: "i1",
    DType.FLOAT16: "half",
    DType.FLOAT32: "float",
    DType.FLOAT64: "double",
}
_SUFFIXES: Final = {"half": "f16", "float": "f32", "double": "f64"}
_PREDICATES: Final = {
    Fn.EQUAL: ("oeq", "eq", "eq"),
    Fn.NOT_EQUAL: ("une", "ne", "ne"),
    Fn.LESS: ("olt", "slt", "ult"),
    Fn.LESS_EQUAL: ("ole", "sle", "ule"),
    Fn.GREATER: ("ogt", "sgt", "ugt"),
    Fn.GREATER_EQUAL: ("oge", "sge", "uge"),
}
_FLOAT_OPS: Final = {
    Fn.ADD: "fadd",
    Fn.SUBTRACT: "fsub",
    Fn.MULTIPLY: "fmul",
    Fn.DIVIDE: "fdiv",
}
_INTEGER_OPS: Final = {
    Fn.ADD: "add",
    Fn.SUBTRACT: "sub",
    Fn.MULTIPLY: "mul",
    Fn.SHIFT_LEFT: "shl",
    Fn.AND: "and",
    Fn.OR: "or",
    Fn.XOR: "xor",
}
_INTRINSICS: Final = {
    Fn.SQRT: "sqrt",
    Fn.FLOOR: "floor",
    Fn.CEIL: "ceil",
    Fn.ROUND_EVEN: "roundeven",
    Fn.ABS: "fabs",
}
_TRANSCENDENTAL: Final = {Fn.EXP, Fn.LOG, Fn.TANH, Fn.ERF, Fn.SIGMOID}
_JOINS: Final = {
    Reduction.SUM: Fn.ADD,
    Reduction.PRODUCT: Fn.MULTIPLY,
    Reduction.MAXIMUM: Fn.MAXIMUM,
    Reduction.MINIMUM: Fn.MINIMUM,
}


def element_type(dtype: DType) -> str:
    """Return LLVM's type of a value in a register."""
    return _SCALARS.get(dtype, f"i{dtype.bits}")


def memory_type(dtype: DType) -> str:
    """Return LLVM's type of an element in memory."""
    return "i8" if dtype is DType.BOOL else element_type(dtype)


def literal_text(value: float, dtype: DType) -> str:
    """Return a number as LLVM writes it, without its type."""
    match dtype:
        case DType.BOOL:
            return "true" if value else "false"
        case DType.FLOAT32:
            return float_literal(value)
        case DType.FLOAT64:
            (bits,) = struct.unpack("<Q", struct.pack("<d", value))
            return f"0x{bits:016X}"
        case DType.FLOAT16:
            (half,) = struct.unpack("<H", struct.pack("<e", value))
            return f"0xH{half:04X}"
        case _:
            return str(int(value))


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
        self.lanes = 1
        self.vector_axis: Axis | None = None
        self.mask: str | None = None
        self.accumulator = ""
        self._known: dict[Expr, str] = {}

    def type_of(self, scalar: str) -> str:
        """Return the type of a value in this mode, given the type of one element."""
        return scalar if self.lanes == 1 else f"<{self.lanes} x {scalar}>"

    def evaluate(self, expr: Expr) -> str:
        """Write the instructions that compute an expression and return the value's name."""
        self._known = {}
        return self._expr(expr)

    def store(self, buffer: Buffer, index: tuple[Index, ...], expr: Expr) -> None:
        """Write an expression's evaluation and its store into a buffer."""
        self._known = {}
        storage = buffer.storage
        if isinstance(expr, Convert) and storage.is_integer and fits(expr.value, expr.dtype):
            value = self._converted(self._expr(expr.value), expr.value.dtype, storage)
        else:
            value = self._converted(self._expr(expr), expr.dtype, storage)
        kind = self.type_of(memory_type(storage))
        if storage is DType.BOOL:
            value = self.text.op(f"zext {self.type_of('i1')} {value} to {kind}")
        pointer = self.address(buffer, index)
        if self.mask is None or self.lanes == 1:
            self.text.do(f"store {kind} {value}, ptr {pointer}, align {storage.size_bytes}")
            return
        name = f"llvm.masked.store.{self._suffix(memory_type(storage))}.p0"
        boolean = self.type_of("i1")
        self.text.declarations.add(f"declare void @{name}({kind}, ptr, i32, {boolean})")
        self.text.do(
            f"call void @{name}({kind} {value}, ptr {pointer}, "
            f"i32 {storage.size_bytes}, {boolean} {self.mask})"
        )

    def address(self, buffer: Buffer, index: tuple[Index, ...]) -> str:
        """Write the pointer to an element (of the first lane)."""
        position = self.index(buffer.address(index))
        kind = memory_type(buffer.storage)
        return self.text.op(f"getelementptr {kind}, ptr {self.pointers[buffer]}, i64 {position}")

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
        value = self._converted(self._expr(expr), expr.dtype, DType.INT64)
        self.lanes, self._known = lanes, known
        return value

    def _suffix(self, scalar: str) -> str:
        name = _SUFFIXES.get(scalar, scalar)
        return name if self.lanes == 1 else f"v{self.lanes}{name}"

    def _expr(self, expr: Expr) -> str:
        known = self._known.get(expr)
        if known is None:
            known = self._fresh(expr)
            self._known[expr] = known
        return known

    def _fresh(self, expr: Expr) -> str:
        match expr:
            case Literal(value, dtype):
                return self.literal(value, dtype)
            case Load():
                return self._load(expr, expr.dtype)
            case Convert(Load() as load, dtype) if _reads_directly(load, dtype):
                return self._load(load, dtype)
            case Convert(value, dtype) if _may_overflow(value, dtype):
                return self._saturated(self._expr(value), value.dtype, dtype)
            case Convert(value, dtype):
                return self._converted(self._expr(value), value.dtype, dtype)
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

    def literal(self, value: float, dtype: DType) -> str:
        """Return a number as an operand in this mode."""
        number = literal_text(value, dtype)
        return number if self.lanes == 1 else f"splat ({element_type(dtype)} {number})"

    def _splat(self, value: str, scalar: str) -> str:
        if self.lanes == 1:
            return value
        kind = self.type_of(scalar)
        first = self.text.op(f"insertelement {kind} poison, {scalar} {value}, i64 0")
        return self.text.op(
            f"shufflevector {kind} {first}, {kind} poison, <{self.lanes} x i32> zeroinitializer"
        )

    def _load(self, load: Load, dtype: DType) -> str:
        buffer = load.buffer
        storage = buffer.storage
        scalar = memory_type(storage)
        position = buffer.address(load.index)
        uniform = self.vector_axis is None or not position.uses(self.vector_axis)
        if self.lanes > 1 and not uniform and position.factor(self.vector_axis) != 1:
            return self._converted(self._gather(load), storage, dtype)
        pointer = self.address(buffer, load.index)
        if self.lanes == 1 or uniform:
            value = self.text.op(f"load {scalar}, ptr {pointer}, align {storage.size_bytes}")
            value = self._splat(value, scalar)
        elif self.mask is not None and not buffer.is_constant:
            kind, boolean = self.type_of(scalar), self.type_of("i1")
            value = self.text.call(
                kind,
                f"llvm.masked.load.{self._suffix(scalar)}.p0",
                ("ptr", pointer),
                ("i32", str(storage.size_bytes)),
                (boolean, self.mask),
                (kind, "zeroinitializer"),
            )
        else:
            kind = self.type_of(scalar)
            value = self.text.op(f"load {kind}, ptr {pointer}, align {storage.size_bytes}")
        if storage is DType.BOOL:
            kind = self.type_of("i8")
            value = (
                self.text.op(f"icmp ne {kind} {value}, zeroinitializer")
                if (self.lanes > 1)
                else self.text.op(f"icmp ne i8 {value}, 0")
            )
        return self._converted(value, storage, dtype)

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
            vector = self._inserted(vector, value, scalar, lane)
        return vector

    def _places(self, load: Load) -> list[str]:
        """Each lane's position, of `is_vectorizable`'s two kinds: in even steps, or a table's."""
        position = load.buffer.address(load.index)
        assert self.vector_axis is not None, "only vectors gather"
        if position.factor(self.vector_axis) is not None:
            places = self._position(position)
            return [
                self.text.op(f"extractelement {self.type_of('i64')} {places}, i64 {lane}")
                for lane in range(self.lanes)
            ]
        table = table_element(position)
        assert table is not None, "the expression is vectorizable"
        numbers = self._unpacked(self._expr(table), table.dtype)
        if position.constant == 0:
            return numbers
        return [self.text.op(f"add i64 {number}, {position.constant}") for number in numbers]

    def _unpacked(self, value: str, dtype: DType) -> list[str]:
        """Each lane of an integer vector as an i64; bytes leave the vector register together."""
        kind = self.type_of(element_type(dtype))
        extension = "zext" if _is_unsigned(dtype) else "sext"
        if dtype.bits * self.lanes == 64:
            word = self.text.op(f"bitcast {kind} {value} to i64")
            parts = [
                self.text.op(f"lshr i64 {word}, {lane * dtype.bits}") for lane in range(self.lanes)
            ]
            narrow = [self.text.op(f"trunc i64 {part} to i{dtype.bits}") for part in parts]
        else:
            narrow = [
                self.text.op(f"extractelement {kind} {value}, i64 {lane}")
                for lane in range(self.lanes)
            ]
        if dtype.bits == 64:
            return narrow
        return [self.text.op(f"{extension} i{dtype.bits} {each} to i64") for each in narrow]

    def _inserted(self, vector: str, value: str, scalar: str, lane: int) -> str:
        kind = self.type_of(scalar)
        return self.text.op(f"insertelement {kind} {vector}, {scalar} {value}, i64 {lane}")

    def _by_lane(self, name: str, scalar: str, *values: str) -> str:
        """Call a function of scalars for each lane."""
        if self.lanes == 1:
            return self.text.call(scalar, name, *((scalar, value) for value in values))
        kind = self.type_of(scalar)
        vector = "poison"
        for lane in range(self.lanes):
            parts = [
                (scalar, self.text.op(f"extractelement {kind} {value}, i64 {lane}"))
                for value in values
            ]
            result = self.text.call(scalar, name, *parts)
            vector = self._inserted(vector, result, scalar, lane)
        return vector

    def _converted(self, value: str, source: DType, result: DType) -> str:
        if source is result:
            return value
        before, after = self.type_of(element_type(source)), self.type_of(element_type(result))
        if result is DType.BOOL:
            if source.is_float:
                return self.text.op(f"fcmp une {before} {value}, {self.literal(0, source)}")
            return self.text.op(f"icmp ne {before} {value}, {self.literal(0, source)}")
        if before == after:
            return value
        return self.text.op(f"{_conversion(source, result)} {before} {value} to {after}")

    def _saturated(self, value: str, source: DType, result: DType) -> str:
        sign = "u" if _is_unsigned(result) else "s"
        before, after = element_type(source), element_type(result)
        name = f"llvm.fpto{sign}i.sat.{self._suffix(after)}.{self._suffix(before)}"
        return self.text.call(self.type_of(after), name, (self.type_of(before), value))

    def _position(self, index: Index) -> str:
        base = self._splat(self.index(index), "i64")
        factor = 0 if self.vector_axis is None else index.factor(self.vector_axis)
        if self.lanes == 1 or not factor:
            return base
        steps = ", ".join(f"i64 {lane * factor}" for lane in range(self.lanes))
        return self.text.op(f"add {self.type_of('i64')} {base}, <{steps}>")

    def _guarded(self, expr: Guarded) -> str:
        condition = "true"
        for index, low, high in expr.conditions:
            least, greatest = index.bounds()
            value = self.index(index)
            if least < low:
                test = self.text.op(f"icmp sge i64 {value}, {low}")
                condition = self.text.op(f"and i1 {condition}, {test}")
            if greatest >= high:
                test = self.text.op(f"icmp slt i64 {value}, {high}")
                condition = self.text.op(f"and i1 {condition}, {test}")
        if condition == "true":
            return self._expr(expr.body)
        known = dict(self._known)

        def inside(body: Expr) -> str:
            self._known = dict(known)
            return self._expr(body)

        value = self.text.choose(
            condition,
            self.type_of(element_type(expr.dtype)),
            lambda: inside(expr.body),
            lambda: inside(expr.otherwise),
        )
        self._known = known
        return value

    def _reduce(self, expr: Reduce) -> str:
        initial = self.literal(expr.initial.value, expr.dtype)
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
        kind = self.type_of(element_type(expr.dtype))
        with self.text.loop(axes[0].extent, ((kind, value),)) as (index, state):
            self.axes[axes[0]] = index
            state.next[0] = self._reduce_over(expr, axes[1:], state.current[0])
        return state.current[0]

    def _join(self, expr: Reduce, value: str, term: str) -> str:
        return self._binary(_JOINS[expr.kind], value, term, expr.dtype)

    def _apply(self, expr: Apply) -> str:
        operand = expr.args[0].dtype
        if operand is DType.FLOAT16 and expr.function in _TRANSCENDENTAL | {Fn.POWER}:
            wide = tuple(Convert(arg, DType.FLOAT32) for arg in expr.args)
            result = self._expr(Apply(expr.function, wide, DType.FLOAT32))
            return self._converted(result, DType.FLOAT32, DType.FLOAT16)
        match expr.function, expr.args:
            case Fn.MAXIMUM | Fn.MINIMUM, (Literal() as number, value):
                return self._held(expr.function, self._expr(value), number)
            case Fn.MAXIMUM | Fn.MINIMUM, (value, Literal() as number):
                return self._held(expr.function, self._expr(value), number)
            case Fn.SELECT, (condition, then, otherwise):
                kind = self.type_of(element_type(expr.dtype))
                test = self._expr(condition)
                return self.text.op(
                    f"select {self.type_of('i1')} {test}, {kind} {self._expr(then)}, "
                    f"{kind} {self._expr(otherwise)}"
                )
            case Fn.FMA, (a, b, c):
                kind = self.type_of(element_type(operand))
                name = f"llvm.fma.{self._suffix(element_type(operand))}"
                values = [(kind, self._expr(each)) for each in (a, b, c)]
                return self.text.call(kind, name, *values)
            case function, (argument,):
                return self._unary(function, self._expr(argument), operand)
            case function, (lhs, rhs):
                return self._binary(function, self._expr(lhs), self._expr(rhs), operand)
            case _:
                raise AssertionError(f"{expr.function} takes another number of operands")

    def _held(self, function: Fn, value: str, number: Literal) -> str:
        """One instruction; a NaN of the value stays."""
        if not number.dtype.is_float:
            bound = self.literal(number.value, number.dtype)
            return self._binary(function, value, bound, number.dtype)
        kind = self.type_of(element_type(number.dtype))
        bound = self.literal(number.value, number.dtype)
        predicate = "ogt" if function is Fn.MAXIMUM else "olt"
        test = self.text.op(f"fcmp {predicate} {kind} {bound}, {value}")
        return self.text.op(f"select {self.type_of('i1')} {test}, {kind} {bound}, {kind} {value}")

    def _unary(self, function: Fn, value: str, dtype: DType) -> str:
        scalar = element_type(dtype)
        kind = self.type_of(scalar)
        if function is Fn.NEGATE:
            if dtype.is_float:
                return self.text.op(f"fneg {kind} {value}")
            return self.text.op(f"sub {kind} {self.literal(0, dtype)}, {value}")
        if not dtype.is_float:
            if function is Fn.ABS:
                negative = self.text.op(f"sub {kind} {self.literal(0, dtype)}, {value}")
                return self._binary(Fn.MAXIMUM, value, negative, dtype)
            return value
        if function in _INTRINSICS:
            name = f"llvm.{_INTRINSICS[function]}.{self._suffix(element_type(dtype))}"
            return self.text.call(kind, name, (kind, value))
        if dtype is DType.FLOAT32:
            return FUNCTIONS[function.value](Mathematics(self.text, self.lanes), value)
        if function is Fn.SIGMOID:
            power = self._by_lane("exp", scalar, self.text.op(f"fneg {kind} {value}"))
            one = self.literal(1, dtype)
            lower = self.text.op(f"fadd {kind} {power}, {one}")
            return self.text.op(f"fdiv {kind} {one}, {lower}")
        return self._by_lane(function.value, scalar, value)

    def _binary(self, function: Fn, lhs: str, rhs: str, dtype: DType) -> str:
        scalar = element_type(dtype)
        kind = self.type_of(scalar)
        if function in _PREDICATES:
            ordered, signed, unsigned = _PREDICATES[function]
            if dtype.is_float:
                return self.text.op(f"fcmp {ordered} {kind} {lhs}, {rhs}")
            predicate = unsigned if _is_unsigned(dtype) else signed
            return self.text.op(f"icmp {predicate} {kind} {lhs}, {rhs}")
        if dtype.is_float and function in _FLOAT_OPS:
            return self.text.op(f"{_FLOAT_OPS[function]} {kind} {lhs}, {rhs}")
        if not dtype.is_float and function in _INTEGER_OPS:
            return self.text.op(f"{_INTEGER_OPS[function]} {kind} {lhs}, {rhs}")
        match function:
            case Fn.MAXIMUM | Fn.MINIMUM:
                name = f"llvm.{_extreme(function, dtype)}.{self._suffix(scalar)}"
                return self.text.call(kind, name, (kind, lhs), (kind, rhs))
            case Fn.SHIFT_RIGHT:
                shift = "lshr" if _is_unsigned(dtype) else "ashr"
                return self.text.op(f"{shift} {kind} {lhs}, {rhs}")
            case Fn.DIVIDE:
                division = "udiv" if _is_unsigned(dtype) else "sdiv"
                return self.text.op(f"{division} {kind} {lhs}, {rhs}")
            case Fn.POWER:
                name = "powf" if dtype is DType.FLOAT32 else "pow"
                return self._by_lane(name, scalar, lhs, rhs)
            case _:
                raise AssertionError(f"{function} is no function of two {dtype}")


def _is_unsigned(dtype: DType) -> bool:
    return dtype is DType.BOOL or dtype.value.startswith("uint")


def _extreme(function: Fn, dtype: DType) -> str:
    if dtype.is_float:
        return "maximum" if function is Fn.MAXIMUM else "minimum"
    sign = "u" if _is_unsigned(dtype) else "s"
    return f"{sign}max" if function is Fn.MAXIMUM else f"{sign}min"


def _conversion(source: DType, result: DType) -> str:
    match source.is_float, result.is_float:
        case True, True:
            return "fpext" if result.bits > source.bits else "fptrunc"
        case True, False:
            return "fptoui" if _is_unsigned(result) else "fptosi"
        case False, True:
            return "uitofp" if _is_unsigned(source) else "sitofp"
        case _:
            if source is not DType.BOOL and result.bits < source.bits:
                return "trunc"
            return "zext" if _is_unsigned(source) else "sext"


def _may_overflow(value: Expr, dtype: DType) -> bool:
    """Whether a float may be no integer of the type: then conversion saturates, NaN gives 0."""
    return value.dtype.is_float and dtype.is_integer and not fits(value, dtype)


def _reads_directly(load: Load, dtype: DType) -> bool:
    """Whether the wider storage of an integer may be converted without narrowing it first."""
    storage = load.buffer.storage
    return storage is not load.dtype and (dtype.is_float or dtype.bits >= storage.bits)


def table_element(position: Index) -> Expr | None:
    """Return the expression that a position is, but for a constant; None where it is more."""
    match position.terms:
        case ((Element(expr), 1),):
            assert isinstance(
                expr, Literal | Load | Apply | Convert | Position | Guarded | Reduce | Accumulator
            ), "an element of an index is a scalar expression"
            return expr
        case _:
            return None


def is_vectorizable(expr: Expr, axis: Axis) -> bool:
    """Whether neighbours on an axis can be computed in the lanes of a vector."""
    pending = [expr]
    seen: set[Expr] = set()
    while pending:
        each = pending.pop()
        if each in seen:
            continue
        seen.add(each)
        match each:
            case Load(buffer, index):
                position = buffer.address(index)
                table = table_element(position)
                if position.factor(axis) in (0, 1):
                    continue
                if table is None:
                    return False
                pending.append(table)
            case Apply(_, args, _):
                pending += args
            case Convert(value, _):
                pending.append(value)
            case Position(index):
                if index.factor(axis) is None:
                    return False
            case Guarded(conditions, body, otherwise):
                if any(index.uses(axis) for index, _, _ in conditions):
                    return False
                pending += [body, otherwise]
            case Reduce(_, _, body, _):
                pending.append(body)
            case Literal() | Accumulator():
                pass
            case _:
                assert_never(each)
    return True
