"""qnn.lookup: any function of an int8 value, as a table of its 256 results.

result = table[data + 128]
"""

from __future__ import annotations

from typing import Final

import numpy as np

from codesign.dtypes import Array
from codesign.ir.relay.expr import Call
from codesign.ir.relay.types import Type
from codesign.ops.operator import Fusion, OnUnit, Operator
from codesign.ops.qnn.limits import require_int8
from codesign.ops.relations import per_element, require_shape, static_tensors

ENTRIES: Final = 256
"""Length of a table: one entry for each value, the least first."""


def _relation(call: Call, types: tuple[Type, ...]) -> Type:
    data, table = static_tensors(call, types, 2)
    require_int8(call, data, "data")
    require_int8(call, table, "table")
    require_shape(call, table, (ENTRIES,), "a table")
    return data


def _reference(data: Array, table: Array) -> Array:
    return np.asarray(table[data.astype(np.int16) + 128])


OPERATOR: Final = Operator(
    name="qnn.lookup",
    relation=_relation,
    reference=_reference,
    fusion=Fusion.BROADCAST,
    accel=OnUnit("vector"),
    work=per_element(1),
)
