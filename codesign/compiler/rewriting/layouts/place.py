"""How a tensor of the program lies in another layout, and what it takes to have it so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, final

from codesign.ir.relay.expr import Call, Constant, Expr, OpRef
from codesign.ops.layout import Layout
from codesign.ops.layout_transform import LayoutTransformAttrs
from codesign.ops.reshape import ReshapeAttrs


@final
@dataclass(frozen=True, slots=True)
class Place:
    """The program's layout of a tensor's axes, and the one in which it lies now."""

    source: str
    target: str

    @property
    def is_moved(self) -> bool:
        """Whether the tensor lies otherwise than the program says."""
        return self.source != self.target

    @property
    def is_permuted(self) -> bool:
        """Whether axes have other places only: nothing is cut into blocks."""
        return not Layout.of(self.source).blocks and not Layout.of(self.target).blocks

    @property
    def is_cut(self) -> bool:
        """Whether axes lie in blocks here."""
        return len(Layout.of(self.target).blocks) > 0

    def axis(self, axis: int) -> int:
        """Return where the (outer part of the) program's axis lies."""
        name = self.source[axis]
        return Layout.of(self.target).parts.index((name, 0))

    def holds(self, shape: tuple[int, ...]) -> bool:
        """Return whether a tensor of this shape, in the program's layout, can lie so."""
        layout = Layout.of(self.source)
        if len(shape) != len(layout.parts):
            return False
        plain = layout.plain_shape(tuple(layout.axes), shape)
        lengths = dict(zip(layout.axes, plain, strict=True))
        blocks = Layout.of(self.target).blocks
        return all(
            isinstance(length := lengths[name], int) and length % block == 0
            for name, block in blocks.items()
        )

    def move(self, value: Expr) -> Expr:
        """Return a value of the program as it lies here; a constant stays one."""
        return transformed(value, self.source, self.target)

    def back(self, value: Expr) -> Expr:
        """Return a value that lies here as the program has it."""
        return transformed(value, self.target, self.source)


Moved: TypeAlias = Mapping[Expr, tuple[Expr, Place | None]]


def transformed(value: Expr, source: str, target: str) -> Expr:
    """Return a value in another layout; a constant stays one."""
    if source == target:
        return value
    if isinstance(value, Constant):
        before, after = Layout.of(source), Layout.of(target)
        axes = tuple(before.axes)
        return Constant(after.from_plain(axes, before.to_plain(axes, value.value)), value.span)
    attrs = LayoutTransformAttrs(src_layout=source, dst_layout=target)
    return Call(OpRef("layout_transform", value.span), (value,), attrs, value.span)


def reshaped(value: Expr, shape: tuple[int, ...]) -> Expr:
    """Return a value under another shape; a constant stays one."""
    if isinstance(value, Constant):
        return Constant(value.value.reshape(shape), value.span)
    attrs = ReshapeAttrs(shape=shape)
    return Call(OpRef("reshape", value.span), (value,), attrs, value.span)
