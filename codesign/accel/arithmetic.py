"""The integer number rules, bit for bit: what simulators, RTL and the quantized operators compute.

All functions take and return int64 arrays (or what broadcasts to them); `docs/numbers.md` says the
same in words. Rounding is half to even everywhere; sums and products saturate at 32 bits.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from codesign.accel.isa import IMMEDIATE_BITS, MULTIPLIER_BITS, SHIFT_MAX, Reduce, VectorOp
from codesign.diagnostics import CodesignError

Integers: TypeAlias = NDArray[np.int64]

LANE_BITS: Final = 32
"""Width of x, y and s in the vector unit."""

FIELDS_PER_WORD: Final = 4
"""16-bit fields of a param word, each of which can be operand y."""


class Parameters(NamedTuple):
    """The requantization of each output channel."""

    bias: Integers
    multiplier: Integers
    shift: Integers


def _int64(value: ArrayLike) -> Integers:
    return np.asarray(value).astype(np.int64, copy=False)


def saturate(value: ArrayLike, bits: int) -> Integers:
    """Return the nearest `bits`-bit signed integer.

    Examples
    --------
    >>> saturate([-129, 5, 128], 8).tolist()
    [-128, 5, 127]
    """
    limit = 1 << (bits - 1)
    return np.clip(_int64(value), -limit, limit - 1)


def wrap(value: ArrayLike, bits: int) -> Integers:
    """Return the low `bits` bits as a signed integer.

    Examples
    --------
    >>> wrap([-129, 5, 128], 8).tolist()
    [127, 5, -128]
    """
    unused = 64 - bits
    return (_int64(value) << unused) >> unused


def half_even_shift(value: ArrayLike, shift: ArrayLike) -> Integers:
    """Return value / 2**shift, rounded to the nearest integer, ties to the even one.

    `|value|` is below 2**62 and `shift` from 0 to 56.

    Examples
    --------
    >>> half_even_shift([-24, -8, -7, 8, 7, 24, 2040, -2056], 4).tolist()
    [-2, 0, 0, 0, 0, 2, 128, -128]
    """
    number, places = _int64(value), _int64(shift)
    floor = number >> places
    half = np.where(places > 0, (np.int64(1) << np.maximum(places - 1, 0)) - 1, 0)
    odd = np.where(places > 0, floor & 1, 0)
    return (number + half + odd) >> places


def combine(op: VectorOp, x: ArrayLike, y: ArrayLike, inp_bits: int) -> Integers:
    """Return x op y for 32-bit operands, saturated to 32 bits.

    MUL takes the low `inp_bits + 1` bits of x and the low 16 bits of y, both signed: all of a vec
    element less its zero point, and all of an immediate or param field.
    """
    x, y = _int64(x), _int64(y)
    match op:
        case VectorOp.PASS:
            return x
        case VectorOp.ADD:
            return saturate(x + y, LANE_BITS)
        case VectorOp.SUB:
            return saturate(x - y, LANE_BITS)
        case VectorOp.MUL:
            return saturate(wrap(x, inp_bits + 1) * wrap(y, IMMEDIATE_BITS), LANE_BITS)
        case VectorOp.MIN:
            return np.minimum(x, y)
        case VectorOp.MAX:
            return np.maximum(x, y)


def reduce_step(reduce: Reduce, so_far: Integers, term: Integers) -> Integers:
    """Return what the reducing loops hold after one more term; the first term starts them.

    SUM saturates to 32 bits at every addition, in the order of the loops.
    """
    match reduce:
        case Reduce.NONE:
            return term
        case Reduce.SUM:
            return saturate(so_far + term, LANE_BITS)
        case Reduce.MIN:
            return np.minimum(so_far, term)
        case Reduce.MAX:
            return np.maximum(so_far, term)


def residual_term(y: ArrayLike, immediate: int, residual_shift: int) -> Integers:
    """Return y * immediate * 2**residual_shift, exact: y is a vec element less its zero point."""
    return (_int64(y) * immediate) << residual_shift


def requantize(s: ArrayLike, parameters: Parameters, residual: ArrayLike = 0) -> Integers:
    """Return ((s + bias) * multiplier + residual) / 2**shift, half to even, saturated to 32 bits.

    The sum (33 bits), the product (57) and the sum with the residual (58) are exact.

    Raises
    ------
    CodesignError
        A shift above 56.
    """
    worst = int(np.max(parameters.shift, initial=0))
    if worst > SHIFT_MAX:
        raise CodesignError.of(f"a param word shifts by {worst} bits, more than {SHIFT_MAX}")
    exact = (_int64(s) + parameters.bias) * parameters.multiplier + _int64(residual)
    return saturate(half_even_shift(exact, parameters.shift), LANE_BITS)


def quantized_output(s: ArrayLike, zero_point: int, low: int, high: int) -> Integers:
    """Return s + zero_point, clipped to low .. high."""
    return np.clip(_int64(s) + zero_point, low, high)


def table_entry(value: ArrayLike) -> Integers:
    """Return the entry of a lookup table: the low 8 bits, unsigned."""
    return _int64(value) & 0xFF


def accumulate(acc: ArrayLike, products: ArrayLike, acc_bits: int) -> tuple[Integers, int]:
    """Return accumulators plus one tile's products, and how many elements saturated.

    32 bits: modulo 2**32, no saturation. 16 bits: saturated.
    """
    total = _int64(acc) + _int64(products)
    if acc_bits == LANE_BITS:
        return wrap(total, acc_bits), 0
    limited = saturate(total, acc_bits)
    return limited, int(np.count_nonzero(limited != total))


# --- param words ----------------------------------------------------------------------------------


def pack_parameters(bias: ArrayLike, multiplier: ArrayLike, shift: ArrayLike) -> NDArray[np.uint64]:
    """Return 64-bit words: bits 0..31 bias, 32..55 multiplier (both signed), 56..63 shift.

    Raises
    ------
    CodesignError
        A value that does not fit.
    """
    values = [_int64(each) for each in (bias, multiplier, shift)]
    multiplier_limit = 1 << (MULTIPLIER_BITS - 1)
    limits = (
        ("bias", -(1 << 31), (1 << 31) - 1),
        ("multiplier", -multiplier_limit, multiplier_limit - 1),
        ("shift", 0, SHIFT_MAX),
    )
    for (name, low, high), value in zip(limits, values, strict=True):
        if np.any((value < low) | (value > high)):
            raise CodesignError.of(
                f"{name} of a param word must be from {low} to {high}",
                found=f"found {int(value.min())} to {int(value.max())}",
            )
    bias_bits = values[0] & 0xFFFFFFFF
    multiplier_bits = values[1] & ((1 << MULTIPLIER_BITS) - 1)
    words: NDArray[Any] = bias_bits | multiplier_bits << 32 | values[2] << (32 + MULTIPLIER_BITS)
    return words.astype(np.uint64)


def unpack_parameters(words: NDArray[np.uint64]) -> Parameters:
    """Return bias, multiplier and shift of 64-bit param words."""
    signed = words.view(np.int64)
    return Parameters(
        bias=wrap(signed, 32),
        multiplier=wrap(signed >> 32, MULTIPLIER_BITS),
        shift=(signed >> (32 + MULTIPLIER_BITS)) & 0xFF,
    )


def parameter_field(words: NDArray[np.uint64], field: ArrayLike) -> Integers:
    """Return 16-bit field 0 to 3 (from the low end) of each param word, signed."""
    return wrap(words.view(np.int64) >> (_int64(field) * IMMEDIATE_BITS), IMMEDIATE_BITS)
