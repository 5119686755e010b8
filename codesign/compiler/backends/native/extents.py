"""Shape functions: the extents of results where those of operands are known at run time only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Final, TypeAlias, final

from codesign.compiler.backends.llvm.text import FunctionText
from codesign.compiler.backends.native.tensors import tensor_type
from codesign.ir.control.program import Operator
from codesign.ir.relay.types import UNKNOWN
from codesign.ops.axis import AxisAttrs
from codesign.ops.broadcast_to import BroadcastToAttrs
from codesign.ops.collapse_sum import CollapseSumAttrs
from codesign.ops.expand_dims import ExpandDimsAttrs, SqueezeAttrs
from codesign.ops.image.resize2d import ResizeAttrs
from codesign.ops.like import ReshapeLikeAttrs
from codesign.ops.nn.bias_add import BiasAddAttrs
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.nn.conv2d_transpose import Conv2DTransposeAttrs
from codesign.ops.nn.pad import PadAttrs
from codesign.ops.nn.pool2d import Pool2DAttrs
from codesign.ops.one_hot import OneHotAttrs
from codesign.ops.reduce import ArgReduceAttrs, ReduceAttrs
from codesign.ops.reshape import ReshapeAttrs
from codesign.ops.transpose import TransposeAttrs

Extents: TypeAlias = tuple[str, ...]
"""Extents of a tensor: registers or numbers, of i64."""

BROADCASTING: Final = frozenset(
    {
        *("add", "subtract", "multiply", "divide", "power", "maximum", "minimum", "where"),
        *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
        *("logical_and", "logical_or", "logical_xor", "left_shift", "right_shift"),
        *("bitwise_and", "bitwise_or", "bitwise_xor"),
    }
)
"""Operators whose operands broadcast to the shape of the result."""

COPYING: Final = frozenset({"reshape", "expand_dims", "squeeze", "reshape_like"})
"""Operators that give the same elements in the same order."""


@final
class ShapeWriter:
    """Writes shape functions; `require(condition, what)` makes a run fail where it is false."""

    def __init__(self, text: FunctionText, require: Callable[[str, str], None]) -> None:
        self.text = text
        self.require = require

    def result(self, operator: Operator, operands: Sequence[Extents]) -> Extents:
        """Return the extents of an operator's result; by default those of its first operand."""
        name, attrs, first = operator.operator, operator.attrs, operands[0] if operands else ()
        if name in BROADCASTING:
            return self._broadcast(name, operands)
        match name, attrs:
            case "concatenate", AxisAttrs(axis=axis):
                return self._concatenate(operands, axis % len(first))
            case "take", AxisAttrs(axis=axis):
                axis %= len(first)
                return (*first[:axis], *operands[1], *first[axis + 1 :])
            case "transpose", TransposeAttrs(axes=axes):
                return tuple(first[axis] for axis in axes or reversed(range(len(first))))
            case "nn.dense", _:
                self._same(
                    first[-1], operands[1][1], "nn.dense reduces over axes of different length"
                )
                return (*first[:-1], operands[1][0])
            case "nn.matmul", _:
                left, right = operands
                self._same(left[-1], right[-2], "nn.matmul reduces over axes of different length")
                batch = self._broadcast(name, (left[:-2], right[:-2]))
                return (*batch, left[-2], right[-1])
            case (("sum" | "prod" | "max" | "min" | "cpu.max"), ReduceAttrs() as reduced):
                return _reduced(first, reduced)
            case "cpu.argmax", ArgReduceAttrs() as searched:
                over = ReduceAttrs(axis=(searched.axis,), keepdims=searched.keepdims)
                return _reduced(first, over)
            case "cpu.count", _:
                return ()
            case "shape_of", _:
                return (str(len(first)),)
            case "collapse_sum_to", CollapseSumAttrs(shape=shape):
                return tuple(map(str, shape))
            case "collapse_sum_like", _:
                return operands[1]
            case "reshape", ReshapeAttrs(shape=shape):
                return self._reshape(first, shape)
            case "broadcast_to", BroadcastToAttrs(shape=shape):
                what = "broadcast_to has operands that do not broadcast"
                return self._broadcast_to(first, tuple(map(str, shape)), what)
            case "gather_elements", AxisAttrs(axis=axis):
                return self._gathered(first, operands[1], axis % len(first))
            case "gather_nd", _:
                depth = tensor_type(operator.inputs[1]).shape[-1]
                assert depth is not UNKNOWN, "it says how many axes the result has"
                return (*operands[1][:-1], *first[depth:])
            case "nn.pad", PadAttrs() as pad:
                return self._pad(first, pad)
            case "nn.conv2d", Conv2DAttrs() as conv:
                outputs, _, *size = tensor_type(operator.inputs[1]).static_shape
                rows = self._windows(name, first, (size[0], size[1]), conv)
                return (first[0], str(outputs), *rows)
            case "nn.conv2d_transpose", Conv2DTransposeAttrs() as conv:
                _, per_group, *size = tensor_type(operator.inputs[1]).static_shape
                rows = self._spread(first, (size[0], size[1]), conv)
                return (first[0], str(per_group * conv.groups), *rows)
            case "image.resize2d", ResizeAttrs(size=(height, width)):
                for axis in (2, 3):
                    some = self.text.op(f"icmp sgt i64 {first[axis]}, 0")
                    self.require(some, "image.resize2d has no elements to take from")
                return (*first[:2], str(height), str(width))
            case (("nn.max_pool2d" | "nn.avg_pool2d"), Pool2DAttrs() as pool):
                return (*first[:2], *self._windows(name, first, pool.pool_size, pool))
            case "nn.bias_add", BiasAddAttrs(axis=axis):
                self._same(first[axis], operands[1][0], "nn.bias_add takes a bias of another shape")
                return first
            case "expand_dims", ExpandDimsAttrs() as expand:
                begin = expand.axis if expand.axis >= 0 else len(first) + 1 + expand.axis
                return (*first[:begin], *("1",) * expand.num_newaxis, *first[begin:])
            case "squeeze", SqueezeAttrs(axis=axes):
                return self._squeeze(first, {axis % len(first) for axis in axes})
            case "reshape_like", ReshapeLikeAttrs() as like:
                return self._reshape_like(first, operands[1], like)
            case "broadcast_to_like", _:
                what = "broadcast_to_like cannot reach the shape"
                return self._broadcast_to(first, operands[1], what)
            case "one_hot", OneHotAttrs(depth=depth, axis=axis):
                axis %= len(first) + 1
                return (*first[:axis], str(depth), *first[axis:])
            case _:
                return first

    def product(self, extents: Extents) -> str:
        """Return the number of elements."""
        total = "1"
        for extent in extents:
            if total == "1":
                total = extent
            elif extent != "1":
                total = self.text.op(f"mul i64 {total}, {extent}")
        return total

    def _same(self, one: str, other: str, what: str) -> str:
        """Require two extents to be equal; return the one that says more."""
        if one != other:
            self.require(self.text.op(f"icmp eq i64 {one}, {other}"), what)
        return other if one.startswith("%") else one

    def _broadcast(self, name: str, shapes: Sequence[Extents]) -> Extents:
        rank = max(len(shape) for shape in shapes)
        result: Extents = ("1",) * rank
        for shape in shapes:
            own = ("1",) * (rank - len(shape)) + shape
            result = tuple(self._joined(name, a, b) for a, b in zip(result, own, strict=True))
        return result

    def _joined(self, name: str, one: str, other: str) -> str:
        if one in ("1", other):
            return other
        if other == "1":
            return one
        text = self.text
        same = text.op(f"icmp eq i64 {one}, {other}")
        is_one = text.op(f"icmp eq i64 {one}, 1")
        other_is_one = text.op(f"icmp eq i64 {other}, 1")
        good = text.op(f"or i1 {same}, {is_one}")
        good = text.op(f"or i1 {good}, {other_is_one}")
        self.require(good, f"{name} has operands that do not broadcast")
        return text.op(f"select i1 {is_one}, i64 {other}, i64 {one}")

    def _broadcast_to(self, data: Extents, like: Extents, what: str) -> Extents:
        for one, other in zip(data, like[len(like) - len(data) :], strict=True):
            if one not in ("1", other):
                same = self.text.op(f"icmp eq i64 {one}, {other}")
                is_one = self.text.op(f"icmp eq i64 {one}, 1")
                self.require(self.text.op(f"or i1 {same}, {is_one}"), what)
        return like

    def _reshape(self, data: Extents, shape: tuple[int, ...]) -> Extents:
        what = "reshape changes the number of elements"
        total = self.product(data)
        known = prod(each for each in shape if each != -1)
        if -1 not in shape:
            self._same(total, str(known), what)
            return tuple(map(str, shape))
        if known == 0:
            self.require("false", what)
        rest = self.text.op(f"urem i64 {total}, {max(known, 1)}")
        self.require(self.text.op(f"icmp eq i64 {rest}, 0"), what)
        found = self.text.op(f"udiv i64 {total}, {max(known, 1)}")
        return tuple(found if each == -1 else str(each) for each in shape)

    def _windows(
        self, name: str, data: Extents, size: tuple[int, int], attrs: Conv2DAttrs | Pool2DAttrs
    ) -> Extents:
        """Return the number of windows along height and width, both at least one."""
        found = []
        for axis, word in enumerate(("height", "width")):
            covered = (size[axis] - 1) * attrs.dilation[axis] + 1
            added = attrs.padding[axis] + attrs.padding[axis + 2] - covered
            room = self.text.op(f"add i64 {data[axis + 2]}, {added}")
            good = self.text.op(f"icmp sge i64 {room}, 0")
            self.require(good, f"{name} has no output along its {word}")
            if isinstance(attrs, Pool2DAttrs) and attrs.ceil_mode:
                found.append(self._rounded_up(room, data[axis + 2], attrs, axis))
                continue
            steps = self.text.op(f"sdiv i64 {room}, {attrs.strides[axis]}")
            found.append(self.text.op(f"add i64 {steps}, 1"))
        return tuple(found)

    def _rounded_up(self, room: str, length: str, attrs: Pool2DAttrs, axis: int) -> str:
        """Return the number of windows, the last one perhaps not full, begun inside the data."""
        stride, text = attrs.strides[axis], self.text
        more = text.op(f"add i64 {room}, {stride - 1}")
        steps = text.op(f"sdiv i64 {more}, {stride}")
        begin = text.op(f"mul i64 {steps}, {stride}")
        end = text.op(f"add i64 {length}, {attrs.padding[axis]}")
        is_inside = text.op(f"icmp slt i64 {begin}, {end}")
        one = text.op(f"zext i1 {is_inside} to i64")
        return text.op(f"add i64 {steps}, {one}")

    def _spread(self, data: Extents, size: tuple[int, int], attrs: Conv2DTransposeAttrs) -> Extents:
        """Return height and width of a transposed convolution, both at least one."""
        found = []
        for axis, word in enumerate(("height", "width")):
            covered = (size[axis] - 1) * attrs.dilation[axis] + 1 + attrs.output_padding[axis]
            added = covered - attrs.padding[axis] - attrs.padding[axis + 2] - attrs.strides[axis]
            wide = self.text.op(f"mul i64 {data[axis + 2]}, {attrs.strides[axis]}")
            found.append(self.text.op(f"add i64 {wide}, {added}"))
            good = self.text.op(f"icmp sge i64 {found[-1]}, 1")
            self.require(good, f"nn.conv2d_transpose has no output along its {word}")
        return tuple(found)

    def _gathered(self, data: Extents, indices: Extents, axis: int) -> Extents:
        for other, (length, count) in enumerate(zip(data, indices, strict=True)):
            if other != axis and length != count:
                good = self.text.op(f"icmp sle i64 {count}, {length}")
                what = "gather_elements needs indices no longer than the data on the other axes"
                self.require(good, what)
        return indices

    def _pad(self, data: Extents, attrs: PadAttrs) -> Extents:
        result = []
        for extent, (before, after) in zip(data, attrs.pad_width, strict=True):
            # What is constant may take elements away; a mirror or an edge needs some.
            needed = max(before, after, 0)
            match attrs.mode:
                case "constant":
                    needed = -min(before, 0) - min(after, 0)
                case "reflect":
                    needed += needed > 0
                case "edge":
                    needed = min(needed, 1)
            good = self.text.op(f"icmp sge i64 {extent}, {needed}")
            self.require(good, f"nn.pad in mode {attrs.mode} needs more elements than there are")
            result.append(self.text.op(f"add i64 {extent}, {before + after}"))
        return tuple(result)

    def _concatenate(self, shapes: Sequence[Extents], axis: int) -> Extents:
        result = list(shapes[0])
        for shape in shapes[1:]:
            for place, extent in enumerate(shape):
                if place == axis:
                    result[place] = self.text.op(f"add i64 {result[place]}, {extent}")
                else:
                    what = "concatenate joins tensors that differ along one axis only"
                    result[place] = self._same(result[place], extent, what)
        return tuple(result)

    def _squeeze(self, first: Extents, axes: set[int]) -> Extents:
        for axis in sorted(axes):
            self._same("1", first[axis], "squeeze drops axes of length 1 only")
        return tuple(each for axis, each in enumerate(first) if axis not in axes)

    def _reshape_like(self, data: Extents, like: Extents, attrs: ReshapeLikeAttrs) -> Extents:
        begin, end, _ = slice(attrs.lhs_begin, attrs.lhs_end).indices(len(data))
        taken = like[attrs.rhs_begin : attrs.rhs_end]
        result = (*data[:begin], *taken, *data[max(begin, end) :])
        what = "reshape_like changes the number of elements"
        self._same(self.product(data), self.product(result), what)
        return result


def _reduced(first: Extents, attrs: ReduceAttrs) -> Extents:
    rank = len(first)
    over = {axis % rank for axis in attrs.axis} or set(range(rank))
    if attrs.keepdims:
        return tuple("1" if axis in over else each for axis, each in enumerate(first))
    return tuple(each for axis, each in enumerate(first) if axis not in over)
