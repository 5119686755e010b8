"""The metadata table as TVM writes it: a graph of nodes, and tensors in base 64.

A tensor is: 8 bytes magic, 8 reserved, device (two int32), rank (int32), element type (kind and
bits uint8, lanes uint16), lengths (int64 each), size in bytes (int64), elements; all little-endian.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from math import prod
from struct import calcsize, error, unpack_from
from typing import Any, Final

import numpy as np

from codesign.dtypes import Array, DType
from codesign.ir.relay.literal import CONSTANTS

_MAGIC: Final = 0xDD5E40F096B4A13F
_HEAD: Final = "<QQiiiBBH"
_KINDS: Final = {0: "int", 1: "uint", 2: "float"}


def is_tvm_table(table: Mapping[str, object]) -> bool:
    """Return whether a metadata table is one that TVM wrote."""
    return "b64ndarrays" in table


def tvm_constants(table: Mapping[str, object]) -> list[Array]:
    """Return the constants of a table that TVM wrote, in the order of their numbers.

    Raises
    ------
    ValueError
        The table is not what TVM writes.
    """
    match table:
        case {"nodes": [*nodes], "b64ndarrays": [*tensors], "root": int(root)}:
            pass
        case _:
            raise ValueError("a table of TVM has the fields nodes, b64ndarrays and root")
    return _members(nodes, tensors, root)


def _members(nodes: list[Any], tensors: list[Any], root: int) -> list[Array]:
    try:
        kinds = nodes[root]
        place = kinds["data"][kinds["keys"].index(CONSTANTS)]
        members = [nodes[index] for index in nodes[place]["data"]]
        return [_tensor(tensors[int(each["attrs"]["data"])]) for each in members]
    except (KeyError, TypeError, IndexError, error) as mistake:
        raise ValueError(f"a table of TVM refers to what it has not: {mistake}") from mistake


def _tensor(text: str) -> Array:
    raw = b64decode(text, validate=True)
    magic, _, _, _, rank, kind, bits, lanes = unpack_from(_HEAD, raw)
    if magic != _MAGIC or kind not in _KINDS or lanes != 1 or rank < 0:
        raise ValueError("a tensor begins with another head")
    dtype = DType.BOOL if (kind, bits) == (1, 1) else DType(f"{_KINDS[kind]}{bits}")
    shape = unpack_from(f"<{rank}q", raw, calcsize(_HEAD))
    start = calcsize(_HEAD) + 8 * (rank + 1)
    expected = prod(shape) * dtype.size_bytes
    if min(shape, default=0) < 0 or len(raw) - start != expected:
        raise ValueError(f"{dtype}{list(shape)} takes {expected} bytes, found {len(raw) - start}")
    little = np.frombuffer(raw, dtype.numpy.newbyteorder("<"), offset=start)
    return little.astype(dtype.numpy).reshape(shape)
