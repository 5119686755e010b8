"""Arithmetic on LLVM values: one element, or one vector of elements, of a `DType`."""

from __future__ import annotations

import struct
from typing import Final, final

from codesign.compiler.backends.llvm.mathematics import FUNCTIONS, Mathematics, float_literal
from codesign.compiler.backends.llvm.text import FunctionText
from codesign.dtypes import DType
from codesign.ir.tensor.compute import Fn, Literal

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
TRANSCENDENTAL: Final = {
    *(Fn.EXP, Fn.LOG, Fn.TANH, Fn.ERF, Fn.SIGMOID, Fn.FAST_EXP, Fn.FAST_TANH),
}
"""Functions that are polynomials in float32 and library calls in float64.

The fast ones are there for float32 and float16 only.
"""


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
class Arithmetic:
    """Writes instructions on values of `lanes` elements; a value is the name of its register."""

    def __init__(self, text: FunctionText, lanes: int = 1) -> None:
        self.text = text
        self.lanes = lanes

    def type_of(self, scalar: str) -> str:
        """Return the type of a value in this mode, given the type of one element."""
        return scalar if self.lanes == 1 else f"<{self.lanes} x {scalar}>"

    def suffix(self, scalar: str) -> str:
        """Return the end of an intrinsic's name for values with elements of a type."""
        name = _SUFFIXES.get(scalar, scalar)
        return name if self.lanes == 1 else f"v{self.lanes}{name}"

    def literal(self, value: float, dtype: DType) -> str:
        """Return a number as an operand in this mode."""
        number = literal_text(value, dtype)
        return number if self.lanes == 1 else f"splat ({element_type(dtype)} {number})"

    def splat(self, value: str, scalar: str) -> str:
        """Write a value with one scalar in all lanes."""
        if self.lanes == 1:
            return value
        kind = self.type_of(scalar)
        first = self.text.op(f"insertelement {kind} poison, {scalar} {value}, i64 0")
        return self.text.op(
            f"shufflevector {kind} {first}, {kind} poison, <{self.lanes} x i32> zeroinitializer"
        )

    def unpacked(self, value: str, dtype: DType) -> list[str]:
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

    def inserted(self, vector: str, value: str, scalar: str, lane: int) -> str:
        """Write a vector with one lane replaced."""
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
            vector = self.inserted(vector, result, scalar, lane)
        return vector

    def converted(self, value: str, source: DType, result: DType) -> str:
        """Write a conversion: floats to integers toward zero, integers wrap around."""
        if source is result:
            return value
        before, after = self.type_of(element_type(source)), self.type_of(element_type(result))
        if result is DType.BOOL:
            if source.is_float:
                return self.text.op(f"fcmp une {before} {value}, {self.literal(0, source)}")
            return self.text.op(f"icmp ne {before} {value}, {self.literal(0, source)}")
        if before == after:
            return value
        if source is DType.FLOAT64 and result is DType.FLOAT16:
            return self._halved(value)
        return self.text.op(f"{_conversion(source, result)} {before} {value} to {after}")

    def _halved(self, value: str) -> str:
        """Write the conversion of float64 to float16, which processors do not have.

        By way of float32, rounded to odd, so that the second rounding sees what the first one lost.
        Source: Boldo and Melquiond, Emulation of FMA and Correctly Rounded Sums (2008), section 3.
        """
        wide, single, half = (self.type_of(each) for each in ("double", "float", "half"))
        word, truth = self.type_of("i32"), self.type_of("i1")
        near = self.text.op(f"fptrunc {wide} {value} to {single}")
        back = self.text.op(f"fpext {single} {near} to {wide}")
        lost = self.text.op(f"fcmp one {wide} {back}, {value}")
        fabs = f"llvm.fabs.{self.suffix('double')}"
        magnitudes = [self.text.call(wide, fabs, (wide, each)) for each in (back, value)]
        far = self.text.op(f"fcmp ogt {wide} {magnitudes[0]}, {magnitudes[1]}")
        bits = self.text.op(f"bitcast {single} {near} to {word}")
        one_less = self.text.op(f"zext {truth} {far} to {word}")
        toward_zero = self.text.op(f"sub {word} {bits}, {one_less}")
        sticky = self.text.op(f"zext {truth} {lost} to {word}")
        odd = self.text.op(f"or {word} {toward_zero}, {sticky}")
        rounded = self.text.op(f"bitcast {word} {odd} to {single}")
        return self.text.op(f"fptrunc {single} {rounded} to {half}")

    def saturated(self, value: str, source: DType, result: DType) -> str:
        """Write a conversion of floats to the nearest integer of the type toward zero, NaN to 0."""
        sign = "u" if _is_unsigned(result) else "s"
        before, after = element_type(source), element_type(result)
        name = f"llvm.fpto{sign}i.sat.{self.suffix(after)}.{self.suffix(before)}"
        return self.text.call(self.type_of(after), name, (self.type_of(before), value))

    def held(self, function: Fn, value: str, number: Literal) -> str:
        """One instruction; a NaN of the value stays."""
        if not number.dtype.is_float:
            bound = self.literal(number.value, number.dtype)
            return self.binary(function, value, bound, number.dtype)
        kind = self.type_of(element_type(number.dtype))
        bound = self.literal(number.value, number.dtype)
        predicate = "ogt" if function is Fn.MAXIMUM else "olt"
        test = self.text.op(f"fcmp {predicate} {kind} {bound}, {value}")
        return self.text.op(f"select {self.type_of('i1')} {test}, {kind} {bound}, {kind} {value}")

    def unary(self, function: Fn, value: str, dtype: DType) -> str:
        """Write a function of one value."""
        scalar = element_type(dtype)
        kind = self.type_of(scalar)
        if function is Fn.NEGATE:
            if dtype.is_float:
                return self.text.op(f"fneg {kind} {value}")
            return self.text.op(f"sub {kind} {self.literal(0, dtype)}, {value}")
        if not dtype.is_float:
            if function is Fn.ABS and dtype.minimum < 0:
                negative = self.text.op(f"sub {kind} {self.literal(0, dtype)}, {value}")
                return self.binary(Fn.MAXIMUM, value, negative, dtype)
            return value
        if function is Fn.NEAREST:
            result = self.type_of("i32")
            name = f"llvm.lrint.{self.suffix('i32')}.{self.suffix(scalar)}"
            return self.text.call(result, name, (kind, value))
        if function in _INTRINSICS:
            name = f"llvm.{_INTRINSICS[function]}.{self.suffix(element_type(dtype))}"
            return self.text.call(kind, name, (kind, value))
        if dtype is DType.FLOAT32:
            return FUNCTIONS[function.value](Mathematics(self.text, self.lanes), value)
        if function is Fn.SIGMOID:
            power = self._by_lane("exp", scalar, self.text.op(f"fneg {kind} {value}"))
            one = self.literal(1, dtype)
            lower = self.text.op(f"fadd {kind} {power}, {one}")
            return self.text.op(f"fdiv {kind} {one}, {lower}")
        return self._by_lane(function.value, scalar, value)

    def binary(self, function: Fn, lhs: str, rhs: str, dtype: DType) -> str:
        """Write a function of two values of one type."""
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
                name = f"llvm.{_extreme(function, dtype)}.{self.suffix(scalar)}"
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
