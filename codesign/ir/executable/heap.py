"""How objects of compiled programs lie in memory: what generated code and its loader agree on.

    object := word, body
    word   := owners (32 bits) | kind (8) | size class (8) | 16 bits that the kind has for itself
    tensor := word (dtype, rank), extents (64 bits each), elements at `data_offset(rank)`
    others := word (number of fields), tag or code address, fields

An object with a negative number of owners exists once for all runs and is never counted. Sizes are
rounded up to those of classes; what is larger than all of them has the last class.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from codesign.dtypes import DType


class Kind(IntEnum):
    """What an object is."""

    TENSOR = 0
    DATA = 1
    TUPLE = 2
    CLOSURE = 3
    CELL = 4


FIELDS_OFFSET: Final = 16
"""Bytes from an object to its fields."""

LARGE: Final = 255
"""Size class of objects that have memory of their own."""

FOREVER: Final = -(1 << 31)
"""Owners of an object that exists once for all runs."""

DTYPES: Final = tuple(DType)
"""Element types by their number in a tensor's word."""

_SMALL: Final = tuple(range(0, 513, 16))


def _aligned_sizes() -> tuple[int, ...]:
    sizes = []
    size = 128
    while size <= 1 << 16:
        step = max(64, (1 << (size.bit_length() - 1)) // 4)
        sizes.append(size)
        size += step
    return tuple(sizes)


CLASS_BYTES: Final = (*_SMALL, *_aligned_sizes())
"""Bytes of an object of each class; those from `FIRST_ALIGNED` on begin at multiples of 64."""

FIRST_ALIGNED: Final = len(_SMALL)


def data_offset(rank: int) -> int:
    """Return the bytes from a tensor to its elements: 8 for a scalar, else a multiple of 64."""
    return 8 if rank == 0 else -(-(8 + 8 * rank) // 64) * 64


def node_class(fields: int) -> int:
    """Return the size class of an object with so many fields."""
    return _least(FIELDS_OFFSET + 8 * fields, 1, FIRST_ALIGNED)


def tensor_class(rank: int, data_bytes: int) -> int:
    """Return the size class of a tensor."""
    size = data_offset(rank) + data_bytes
    if rank == 0:
        return _least(size, 1, FIRST_ALIGNED)
    return _least(size, FIRST_ALIGNED, len(CLASS_BYTES))


def _least(size: int, first: int, last: int) -> int:
    return next((c for c in range(first, last) if CLASS_BYTES[c] >= size), LARGE)


def word(kind: Kind, size_class: int, own: int, owners: int = 1) -> int:
    """Return the first word of an object, as an unsigned number."""
    return (owners & 0xFFFFFFFF) | kind << 32 | size_class << 40 | own << 48


def tensor_word(dtype: DType, rank: int, size_class: int, owners: int = 1) -> int:
    """Return the first word of a tensor."""
    return word(Kind.TENSOR, size_class, DTYPES.index(dtype) | rank << 8, owners)


class Slot(IntEnum):
    """Fields of a heap, in words of 8 bytes."""

    STACK_LIMIT = 0
    LIVE = 1
    SITE = 2
    DETAIL = 3
    LEFT = 4
    CONSTANTS = 5
    WORKSPACE = 6
    CHUNKS = 7
    NEXT = 8
    END = 9
    LARGE_OBJECTS = 10
    SAVED_STACK = 11
    RESUME = 12
    STACK_TOP = 13
    STACK = 14
    STACK_BYTES = 15
    WORDS = 16
    WORD_COUNT = 17
    WORD_ROOM = 18
    BYTES = 19
    BYTE_COUNT = 20
    BYTE_ROOM = 21
    SHARED = 22
    SHARED_COUNT = 23
    SHARED_ROOM = 24
    SCRATCH = 25
    SCRATCH_ROOM = 26
    INPUT_WORDS = 27
    INPUT_END = 28
    INPUT_DATA = 29
    FREE_LISTS = 32


HEAP_BYTES: Final = 8 * (Slot.FREE_LISTS + LARGE + 1)

REFERENCE: Final = 5
"""Kind of a word that names an object that was written before."""

SHARED_FLAG: Final = 0x80 << 32
"""Set in the word of an object that later words may name."""

OUT_OF_STACK: Final = -1
"""Site of a recursion that is too deep."""

OUT_OF_MEMORY: Final = -2
"""Site of an allocation that the system refused."""
