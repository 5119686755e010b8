"""Elementary functions in float32 as polynomials over vectors of any width.

Each takes and returns a value of one LLVM type and is accurate to a few units in the last place.

Source: S. Moshier, Cephes mathematical library (expf, logf, tanhf); the rational forms of erf and
of the fast tanh are the minimax fits that Eigen and XLA use.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from math import inf
from typing import Final, final

from codesign.compiler.backends.llvm.text import FunctionText


def float_literal(value: float) -> str:
    """Return a float32 as LLVM writes it: the bits of the double of equal value."""
    (rounded,) = struct.unpack("<f", struct.pack("<f", value))
    (bits,) = struct.unpack("<Q", struct.pack("<d", rounded))
    return f"0x{bits:016X}"


@final
class Mathematics:
    """Writes the functions for scalars (`lanes` = 1) or vectors of float32."""

    def __init__(self, text: FunctionText, lanes: int) -> None:
        self.text = text
        self.lanes = lanes
        self.float = "float" if lanes == 1 else f"<{lanes} x float>"
        self.integer = "i32" if lanes == 1 else f"<{lanes} x i32>"
        self.boolean = "i1" if lanes == 1 else f"<{lanes} x i1>"
        self.suffix = "f32" if lanes == 1 else f"v{lanes}f32"

    def exp(self, x: str) -> str:
        """exp(x); 0 and infinity beyond the range, NaN stays NaN."""
        text = self.text
        low, high = self._number(-104.0), self._number(89.0)
        x = self._select(self._compare("olt", x, low), low, x)
        x = self._select(self._compare("ogt", x, high), high, x)
        n = self._intrinsic("roundeven", self._multiply(x, self._number(1.44269504088896341)))
        r = self._fma(n, self._number(-0.693359375), x)
        r = self._fma(n, self._number(2.12194440e-4), r)
        p = self._polynomial(
            r,
            1.9875691500e-4,
            1.3981999507e-3,
            8.3334519073e-3,
            4.1665795894e-2,
            1.6666665459e-1,
            5.0000001201e-1,
        )
        p = self._fma(self._multiply(r, r), p, self._add(r, self._number(1.0)))
        power = text.op(f"freeze {self.integer} {self._to_integer(n)}")
        half = text.op(f"ashr {self.integer} {power}, {self._integer(1)}")
        rest = text.op(f"sub {self.integer} {power}, {half}")
        return self._multiply(self._multiply(p, self._power_of_two(half)), self._power_of_two(rest))

    def fast_exp(self, x: str) -> str:
        """exp(x) to 4e-6, relative; held at exp(-87), infinity above 88, NaN stays NaN."""
        text = self.text
        low, high = self._number(-87.0), self._number(88.0)
        is_great = self._compare("ogt", x, high)
        x = self._select(self._compare("olt", x, low), low, x)
        x = self._select(is_great, high, x)
        n = self._intrinsic("roundeven", self._multiply(x, self._number(1.44269504088896341)))
        r = self._fma(n, self._number(-0.69314718056), x)
        p = self._polynomial(
            r,
            0.041457914472485875,
            0.16790903411992952,
            0.5000436689050121,
            0.9999634082601011,
            0.9999992602562386,
        )
        power = text.op(f"freeze {self.integer} {self._to_integer(n)}")
        value = self._multiply(p, self._power_of_two(power))
        return self._select(is_great, self._number(inf), value)

    def fast_tanh(self, x: str) -> str:
        """tanh(x) to 4e-7: a quotient of polynomials, without exp; NaN stays NaN."""
        limit = 7.90531110763549805
        low, high = self._number(-limit), self._number(limit)
        x = self._select(self._compare("olt", x, low), low, x)
        x = self._select(self._compare("ogt", x, high), high, x)
        z = self._multiply(x, x)
        upper = self._polynomial(
            z,
            -2.76076847742355e-16,
            2.00018790482477e-13,
            -8.60467152213735e-11,
            5.12229709037114e-08,
            1.48572235717979e-05,
            6.37261928875436e-04,
            4.89352455891786e-03,
        )
        lower = self._polynomial(
            z,
            1.19825839466702e-06,
            1.18534705686654e-04,
            2.26843463243900e-03,
            4.89352518554385e-03,
        )
        return self._divide(self._multiply(x, upper), lower)

    def log(self, x: str) -> str:
        """log(x); -infinity at 0, NaN below, and denormal numbers as they are."""
        text = self.text
        tiny = self._compare("olt", x, self._number(1.17549435e-38))
        scaled = self._select(tiny, self._multiply(x, self._number(8388608.0)), x)
        bits = text.op(f"bitcast {self.float} {scaled} to {self.integer}")
        exponent = text.op(f"lshr {self.integer} {bits}, {self._integer(23)}")
        exponent = text.op(f"sub {self.integer} {exponent}, {self._integer(126)}")
        e = text.op(f"sitofp {self.integer} {exponent} to {self.float}")
        shift = self._select(tiny, self._number(23.0), self._number(0.0))
        e = text.op(f"fsub {self.float} {e}, {shift}")
        fraction = text.op(f"and {self.integer} {bits}, {self._integer(0x007FFFFF)}")
        fraction = text.op(f"or {self.integer} {fraction}, {self._integer(0x3F000000)}")
        m = text.op(f"bitcast {self.integer} {fraction} to {self.float}")
        small = self._compare("olt", m, self._number(0.707106781186547524))
        e = self._select(small, self._add(e, self._number(-1.0)), e)
        m = self._add(self._select(small, self._add(m, m), m), self._number(-1.0))
        z = self._multiply(m, m)
        p = self._polynomial(
            m,
            7.0376836292e-2,
            -1.1514610310e-1,
            1.1676998740e-1,
            -1.2420140846e-1,
            1.4249322787e-1,
            -1.6668057665e-1,
            2.0000714765e-1,
            -2.4999993993e-1,
            3.3333331174e-1,
        )
        y = self._multiply(self._multiply(m, z), p)
        y = self._fma(e, self._number(-2.12194440e-4), y)
        y = self._fma(z, self._number(-0.5), y)
        y = self._fma(e, self._number(0.693359375), self._add(m, y))
        infinity = self._number(float("inf"))
        y = self._select(self._compare("oeq", x, infinity), infinity, y)
        y = self._select(self._compare("oeq", x, self._number(0.0)), self._number(float("-inf")), y)
        return self._select(self._compare("ult", x, self._number(0.0)), self._nan(), y)

    def tanh(self, x: str) -> str:
        """tanh(x)."""
        z = self._multiply(x, x)
        p = self._polynomial(
            z,
            -5.70498872745e-3,
            2.06390887954e-2,
            -5.37397155531e-2,
            1.33314422036e-1,
            -3.33332819422e-1,
        )
        near = self._fma(self._multiply(x, z), p, x)
        size = self._intrinsic("fabs", x)
        e = self.exp(self._add(size, size))
        ratio = self._divide(self._number(2.0), self._add(e, self._number(1.0)))
        far = self.text.op(f"fsub {self.float} {self._number(1.0)}, {ratio}")
        far = self.text.call(
            self.float, f"llvm.copysign.{self.suffix}", (self.float, far), (self.float, x)
        )
        return self._select(self._compare("ugt", size, self._number(0.625)), far, near)

    def sigmoid(self, x: str) -> str:
        """1 / (1 + exp(-x))."""
        size = self._intrinsic("fabs", x)
        e = self.exp(self.text.op(f"fneg {self.float} {size}"))
        upper = self._select(self._compare("olt", x, self._number(0.0)), e, self._number(1.0))
        return self._divide(upper, self._add(e, self._number(1.0)))

    def erf(self, x: str) -> str:
        """erf(x), the error function."""
        limit = 3.832506856900711
        low, high = self._number(-limit), self._number(limit)
        x = self._select(self._compare("olt", x, low), low, x)
        x = self._select(self._compare("ogt", x, high), high, x)
        z = self._multiply(x, x)
        upper = self._polynomial(
            z,
            -2.72614225801306e-10,
            2.77068142495902e-08,
            -2.10102402082508e-06,
            -5.69250639462346e-05,
            -7.34990630326855e-04,
            -2.95459980854025e-03,
            -1.60960333262415e-02,
        )
        lower = self._polynomial(
            z,
            -1.45660718464996e-05,
            -2.13374055278905e-04,
            -1.68282697438203e-03,
            -7.37332916720468e-03,
            -1.42647390514189e-02,
        )
        return self._divide(self._multiply(x, upper), lower)

    def _polynomial(self, x: str, *coefficients: float) -> str:
        value = self._number(coefficients[0])
        for coefficient in coefficients[1:]:
            value = self._fma(value, x, self._number(coefficient))
        return value

    def _power_of_two(self, n: str) -> str:
        biased = self.text.op(f"add {self.integer} {n}, {self._integer(127)}")
        bits = self.text.op(f"shl {self.integer} {biased}, {self._integer(23)}")
        return self.text.op(f"bitcast {self.integer} {bits} to {self.float}")

    def _to_integer(self, x: str) -> str:
        return self.text.op(f"fptosi {self.float} {x} to {self.integer}")

    def _number(self, value: float) -> str:
        literal = float_literal(value)
        return literal if self.lanes == 1 else f"splat (float {literal})"

    def _nan(self) -> str:
        literal = "0x7FF8000000000000"
        return literal if self.lanes == 1 else f"splat (float {literal})"

    def _integer(self, value: int) -> str:
        return str(value) if self.lanes == 1 else f"splat (i32 {value})"

    def _fma(self, a: str, b: str, c: str) -> str:
        kind = self.float
        return self.text.call(kind, f"llvm.fma.{self.suffix}", (kind, a), (kind, b), (kind, c))

    def _intrinsic(self, name: str, x: str) -> str:
        return self.text.call(self.float, f"llvm.{name}.{self.suffix}", (self.float, x))

    def _multiply(self, a: str, b: str) -> str:
        return self.text.op(f"fmul {self.float} {a}, {b}")

    def _add(self, a: str, b: str) -> str:
        return self.text.op(f"fadd {self.float} {a}, {b}")

    def _divide(self, a: str, b: str) -> str:
        return self.text.op(f"fdiv {self.float} {a}, {b}")

    def _compare(self, predicate: str, a: str, b: str) -> str:
        return self.text.op(f"fcmp {predicate} {self.float} {a}, {b}")

    def _select(self, condition: str, a: str, b: str) -> str:
        return self.text.op(
            f"select {self.boolean} {condition}, {self.float} {a}, {self.float} {b}"
        )


FUNCTIONS: Final[Mapping[str, Callable[[Mathematics, str], str]]] = {
    "exp": Mathematics.exp,
    "log": Mathematics.log,
    "tanh": Mathematics.tanh,
    "erf": Mathematics.erf,
    "sigmoid": Mathematics.sigmoid,
    "fast_exp": Mathematics.fast_exp,
    "fast_tanh": Mathematics.fast_tanh,
}
"""The functions by the names of `ir.tensor.compute.Fn`."""
