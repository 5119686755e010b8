"""Regions in which the number of rows of tensors is known when they run.

Two kinds are compiled. Where every row of the results comes from the same row of one input, kernels
for blocks of rows run from the first to the last, each as good as one for known shapes. Where such
an input is only taken from by index, the kernel gets its number of rows as one more operand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final, TypeAlias, final

from codesign.compiler.backends.llvm.text import FunctionText
from codesign.ir.control.program import Operator, Region, Value
from codesign.ir.relay.types import UNKNOWN, TensorType
from codesign.ops.axis import AxisAttrs
from codesign.ops.nn.bias_add import BiasAddAttrs
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.nn.pad import PadAttrs
from codesign.ops.nn.pool2d import Pool2DAttrs
from codesign.ops.operator import Fusion
from codesign.ops.reduce import ArgReduceAttrs, ReduceAttrs
from codesign.ops.split import SplitAttrs
from codesign.ops.strided_slice import StridedSliceAttrs, slices
from codesign.ops.table import OPERATORS
from codesign.ops.transpose import TransposeAttrs

BLOCKS: Final = (6, 3, 1)
"""Rows of the kernels, largest first: tiles of 6 rows fill the registers of most processors."""

_BY_SAMPLE: Final = frozenset(
    {
        *("nn.conv2d_transpose", "image.resize2d"),
        *("nn.global_avg_pool2d", "nn.global_max_pool2d"),
    }
)
"""Operators on images, which do the same to each sample."""

PLACEHOLDER: Final = 1 << 20
"""Stands for an unknown number of rows of a tensor that is only taken from."""


@final
@dataclass(frozen=True, slots=True)
class ByRow:
    """Row i of every result comes from row i of `source`, and from all of the other inputs."""

    source: Value


@final
@dataclass(frozen=True, slots=True)
class Taken:
    """Unknown numbers of rows occur in `sources` only, of which rows are taken by index."""

    sources: tuple[Value, ...]


Rows: TypeAlias = ByRow | Taken


def has_unknown(region: Region) -> bool:
    """Whether any shape in a region is not known."""
    values = [*region.inputs, *region.literals]
    values += [result for operator in region.operators for result in operator.results]
    return any(UNKNOWN in _type(value).shape for value in values)


def rows_of(region: Region) -> Rows | None:
    """Return how a region with unknown shapes can be compiled; None where it cannot."""
    sources = tuple(value for value in region.inputs if UNKNOWN in _type(value).shape)
    made = [result for operator in region.operators for result in operator.results]
    if not all(map(_only_rows_unknown, (*sources, *made))):
        return None
    if not any(map(_has_rows, made)):
        taken = all(_takes(each, sources) for each in region.operators)
        return Taken(sources) if taken else None
    by_row = len(sources) == 1 and not region.flags and all(map(_has_rows, region.results))
    if by_row and all(map(_keeps_rows, region.operators)):
        return ByRow(sources[0])
    return None


def known_type(value: Value, rows: int) -> TensorType:
    """Return a value's type with this number in the place of an unknown number of rows."""
    type_ = _type(value)
    return TensorType(tuple(rows if dim is UNKNOWN else dim for dim in type_.shape), type_.dtype)


def block_loop(region: Region, kernels: Sequence[tuple[int, str]]) -> str:
    """Return parameters and body of the function that runs kernels over all rows.

    `kernels` are pairs of a number of rows and a function's name, the last one for single rows. The
    number of rows follows the pointers as an i64.
    """
    pointers = [(f"%in{place}", value) for place, value in enumerate(region.inputs)]
    pointers += [(f"%out{place}", value) for place, value in enumerate(region.results)]
    text = FunctionText()
    done = "0"
    for height, kernel in kernels:
        done = _blocks(text, done, height, kernel, pointers)
    parameters = ", ".join(
        f"ptr {name}" for name in ("%constants", "%workspace", *(name for name, _ in pointers))
    )
    body = "\n".join(text.lines)
    return f"({parameters}, i64 %rows) #0 {{\nentry:\n{body}\n  ret void\n}}"


def _blocks(
    text: FunctionText, begin: str, height: int, kernel: str, pointers: list[tuple[str, Value]]
) -> str:
    """Write the loop over blocks of one height; return the first row that is left."""
    before, head, body, after = text.block, text.fresh(), text.fresh(), text.fresh()
    text.do(f"br label %{head}")
    text.label(head)
    row, following = f"%{text.fresh()}", f"%{text.fresh()}"
    text.do(f"{row} = phi i64 [ {begin}, %{before} ], [ {following}, %{body} ]")
    text.do(f"{following} = add nuw nsw i64 {row}, {height}")
    fits = text.op(f"icmp ule i64 {following}, %rows")
    text.do(f"br i1 {fits}, label %{body}, label %{after}")
    text.label(body)
    args = ["ptr %constants", "ptr %workspace"]
    for name, value in pointers:
        if _has_rows(value):
            offset = text.op(f"mul nuw nsw i64 {row}, {_row_bytes(value)}")
            args.append(f"ptr {text.op(f'getelementptr i8, ptr {name}, i64 {offset}')}")
        else:
            args.append(f"ptr {name}")
    text.do(f"call void @{kernel}({', '.join(args)})")
    text.do(f"br label %{head}")
    text.label(after)
    return row


def _row_bytes(value: Value) -> int:
    type_ = known_type(value, 1)
    return prod(type_.static_shape) * type_.dtype.size_bytes


def _type(value: Value) -> TensorType:
    assert value.tensor is not None, f"{value.name} is a tensor; the types have seen to it"
    return value.tensor


def _has_rows(value: Value) -> bool:
    return UNKNOWN in _type(value).shape


def _only_rows_unknown(value: Value) -> bool:
    return UNKNOWN not in _type(value).shape[1:]


def _takes(operator: Operator, sources: tuple[Value, ...]) -> bool:
    """Whether an operator uses none of the sources, or takes rows of one at known places."""
    if not any(value in sources for value in operator.inputs):
        return True
    if operator.operator != "take" or operator.inputs[1] in sources:
        return False
    assert isinstance(operator.attrs, AxisAttrs), "the attributes of take"
    return operator.attrs.axis % len(_type(operator.inputs[0]).shape) == 0


def _keeps_rows(operator: Operator) -> bool:
    """Whether row i of every result comes from row i of the operands that have rows."""
    with_rows = [value for value in operator.inputs if _has_rows(value)]
    if not with_rows or not all(map(_has_rows, operator.results)):
        return False
    data, *others = operator.inputs
    rank = len(_type(data).shape)
    match operator.operator, operator.attrs:
        case "nn.dense", _:
            return rank > 1 and not _has_rows(others[0])
        case (("nn.softmax" | "nn.log_softmax" | "concatenate"), AxisAttrs(axis=axis)):
            return axis % rank != 0 and len(with_rows) == len(operator.inputs)
        case "split", SplitAttrs(axis=axis):
            return axis % rank != 0
        case (("sum" | "prod" | "max" | "min" | "mean"), ReduceAttrs(axis=axes)):
            return len(axes) > 0 and all(axis % rank != 0 for axis in axes)
        case "argmax", ArgReduceAttrs(axis=axis):
            return axis % rank != 0
        case "transpose", TransposeAttrs(axes=axes):
            return len(axes) > 0 and axes[0] % rank == 0
        case "nn.pad", PadAttrs(pad_width=widths):
            return tuple(widths[0]) == (0, 0)
        case "strided_slice", StridedSliceAttrs() as attrs:
            return slices(attrs, rank)[0] == slice(None)
        case "nn.bias_add", BiasAddAttrs(axis=axis):
            return axis % rank != 0 and not any(map(_has_rows, others))
        case "nn.conv2d", Conv2DAttrs(data_layout=layout):
            return layout.startswith("N") and not any(map(_has_rows, others))
        case (("nn.max_pool2d" | "nn.avg_pool2d"), Pool2DAttrs(layout=layout)):
            return layout.startswith("N")
        case name, _ if name in _BY_SAMPLE:
            return not any(map(_has_rows, others))
        case name, _:
            if name not in OPERATORS or OPERATORS[name].fusion > Fusion.BROADCAST:
                return False
            rank = len(_type(operator.results[0]).shape)
            return all(_broadcasts_to_rows(value, rank) for value in operator.inputs)


def _broadcasts_to_rows(value: Value, rank: int) -> bool:
    shape = _type(value).shape
    if _has_rows(value):
        return len(shape) == rank
    return len(shape) < rank or shape[0] == 1
