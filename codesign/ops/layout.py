"""Layouts of tensors by letters: `NCHW`, `NHWC`, `HWIO`, and with blocks `NCHW8c`, `OIHW4i8o`.

A capital letter is an axis. A small letter with a length is the inner part of the axis of that
letter: element c of `NCHW8c` lies at C = c // 8 and at c % 8 of the last axis. An axis has at most
one block.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np

from codesign.dtypes import Array
from codesign.ir.relay.expr import Call
from codesign.ir.relay.types import UNKNOWN, Dim, TensorType
from codesign.ops.relations import mistake, require_rank

Part: TypeAlias = tuple[str, int]
"""An axis of storage: its letter, and the length of a block; 0 for the (outer part of the) axis."""


@final
@dataclass(frozen=True, slots=True)
class Layout:
    """Axes of storage in order.

    Examples
    --------
    >>> layout = Layout.of("NCHW8c")
    >>> layout.axes, layout.blocks, layout.stored_shape(("N", "C", "H", "W"), (2, 16, 5, 7))
    ('NCHW', {'C': 8}, (2, 2, 5, 7, 8))
    """

    parts: tuple[Part, ...]

    @classmethod
    def of(cls, text: str) -> Layout:
        """Return the layout of a text; raise ValueError where it is none."""
        found = re.findall(r"([A-Z])|([1-9]\d*)([a-z])", text)
        parts = tuple((big, 0) if big else (small.upper(), int(size)) for big, size, small in found)
        spelled = "".join(name if not size else f"{size}{name.lower()}" for name, size in parts)
        outer = [name for name, size in parts if not size]
        inner = [name for name, size in parts if size]
        twice = len(set(outer)) < len(outer) or len(set(inner)) < len(inner)
        if spelled != text or twice or not set(inner) <= set(outer):
            raise ValueError(f"{text!r} is no layout")
        return cls(parts)

    @property
    def axes(self) -> str:
        """The letters of the axes in the order of their outer parts."""
        return "".join(name for name, size in self.parts if not size)

    @property
    def blocks(self) -> dict[str, int]:
        """The block's length of each axis that has one."""
        return {name: size for name, size in self.parts if size}

    def stored_shape(self, axes: tuple[str, ...], shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
        """Return the shape in memory of a tensor whose axes have these letters and lengths."""
        lengths = dict(zip(axes, shape, strict=True))
        return tuple(size or _divided(lengths[name], self.blocks.get(name, 1))
                     for name, size in self.parts)  # fmt: skip

    def plain_shape(self, axes: tuple[str, ...], stored: tuple[Dim, ...]) -> tuple[Dim, ...]:
        """Return the lengths of the axes, in the order given, of a tensor with this shape."""
        lengths: dict[str, Dim] = {}
        for (name, _), dim in zip(self.parts, stored, strict=True):
            lengths[name] = dim if name not in lengths else _times(lengths[name], dim)
        return tuple(lengths[name] for name in axes)

    def to_plain(self, axes: tuple[str, ...], data: Array) -> Array:
        """Return the tensor with its axes in the order given, without blocks."""
        order = [place for name in axes for place in self.places(name)]
        shape = [dim for dim in self.plain_shape(axes, data.shape) if dim is not UNKNOWN]
        return np.transpose(data, order).reshape(shape)

    def from_plain(self, axes: tuple[str, ...], data: Array) -> Array:
        """Return the tensor in this layout; its axes have the letters given, without blocks."""
        split = [part for name in axes for part in self.pieces(name)]
        stored = dict(zip(self.parts, self.stored_shape(axes, data.shape), strict=True))
        shape = [dim for part in split if (dim := stored[part]) is not UNKNOWN]
        order = [split.index(part) for part in self.parts]
        return np.ascontiguousarray(np.transpose(data.reshape(shape), order))

    def pieces(self, axis: str) -> list[Part]:
        """Return the parts of an axis, the outer one first."""
        return sorted(part for part in self.parts if part[0] == axis)

    def places(self, axis: str) -> list[int]:
        """Return where the parts of an axis lie, the outer one first."""
        return [self.parts.index(part) for part in self.pieces(axis)]


def _divided(length: Dim, block: int) -> Dim:
    return length if length is UNKNOWN else length // block


def _times(left: Dim, right: Dim) -> Dim:
    return UNKNOWN if left is UNKNOWN or right is UNKNOWN else left * right


def layout_of(call: Call, text: str, axes: str) -> Layout:
    """Return the layout of an attribute; refuse one that has not these axes."""
    try:
        layout = Layout.of(text)
    except ValueError:
        layout = None
    if layout is None or sorted(layout.axes) != sorted(axes):
        raise mistake(
            call,
            "has no such layout",
            f"found {text!r}, expected the letters {', '.join(axes)} in any order",
            help="a block is a length and the small letter of its axis at the end, as in NCHW8c",
        )
    return layout


def require_divisible(call: Call, layout: Layout, axes: str, shape: tuple[Dim, ...]) -> None:
    """Refuse lengths that the layout's blocks do not divide."""
    lengths = dict(zip(axes, shape, strict=True))
    for name, block in layout.blocks.items():
        length = lengths[name]
        if length is not UNKNOWN and length % block:
            raise mistake(
                call,
                "needs lengths that the blocks divide",
                f"axis {name} has length {length}, its block {block}",
            )


def plain_of(
    call: Call, layout: Layout, axes: tuple[str, ...], tensor: TensorType, what: str
) -> tuple[int, ...]:
    """Return the lengths of the axes of a tensor in a layout; refuse one of another rank."""
    require_rank(call, tensor, len(layout.parts), what)
    for (name, size), dim in zip(layout.parts, tensor.shape, strict=True):
        if size and dim != size:
            found = f"axis {name} has a block of {dim}, its layout one of {size}"
            raise mistake(call, "takes blocks of their length", found)
    shape = layout.plain_shape(axes, tensor.shape)
    return tuple(dim for dim in shape if isinstance(dim, int))
