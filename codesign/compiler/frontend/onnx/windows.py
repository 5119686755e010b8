"""Windows that slide over an image: what convolutions and pools have in common."""

from __future__ import annotations

from codesign.compiler.frontend.onnx.builder import Builder
from codesign.compiler.frontend.onnx.node import Node
from codesign.ir.relay.expr import Expr
from codesign.ops.reshape import ReshapeAttrs

Pads = tuple[int, int, int, int]


def spatial_rank(node: Node, builder: Builder) -> int:
    """Return how many spatial dimensions the first input has; one and two are known here."""
    rank = len(builder.shape_of(node.input(0))) - 2
    if rank not in (1, 2):
        raise node.unsupported(f"it has {rank} spatial dimensions; 1 and 2 are supported")
    return rank


def pair(node: Node, name: str, rank: int, default: int = 1) -> tuple[int, int]:
    """Return a value per spatial dimension, the height being `default` where there is only one."""
    values = node.ints_of(name, (default,) * rank)
    return (values[0], values[1]) if rank == 2 else (default, values[0])


def window_pads(
    node: Node,
    rank: int,
    size: tuple[int, int],
    kernel: tuple[int, int],
    strides: tuple[int, int],
    dilation: tuple[int, int],
) -> Pads:
    """Return the padding (top, left, bottom, right) that `auto_pad` or `pads` ask for."""
    mode = node.text("auto_pad", "NOTSET")
    match mode:
        case "NOTSET":
            pads = node.ints_of("pads", (0,) * (2 * rank))
            return (pads[0], pads[1], pads[2], pads[3]) if rank == 2 else (0, pads[0], 0, pads[1])
        case "VALID":
            return (0, 0, 0, 0)
        case "SAME_UPPER" | "SAME_LOWER":
            totals = [
                _same_total(*each) for each in zip(size, kernel, strides, dilation, strict=True)
            ]
            return split_pads((totals[0], totals[1]), mode)
        case _:
            raise node.malformed(f"auto_pad is {mode!r}")


def _same_total(size: int, kernel: int, stride: int, dilation: int) -> int:
    covered = (-(-size // stride) - 1) * stride + (kernel - 1) * dilation + 1
    return max(0, covered - size)


def split_pads(totals: tuple[int, int], mode: str) -> Pads:
    """Return the padding of both ends; SAME_UPPER puts the odd one at the end."""
    before = [total // 2 if mode != "SAME_LOWER" else total - total // 2 for total in totals]
    return (before[0], before[1], totals[0] - before[0], totals[1] - before[1])


def as_image(builder: Builder, value: Expr) -> Expr:
    """Return a signal [n, c, w] as an image of height 1; an image stays itself."""
    shape = builder.shape_of(value)
    if len(shape) == 4:
        return value
    n, c, w = shape
    image = builder.call("reshape", value, attrs=ReshapeAttrs(shape=(n, c, 1, w)))
    source = builder.codes.get(value)
    if source is not None:
        builder.codes[image] = source.moved(as_image(builder, source.codes), source.axis)
    return image


def as_signal(builder: Builder, value: Expr, rank: int) -> Expr:
    """Undo `as_image` on a result."""
    if rank == 2:
        return value
    n, c, h, w = builder.shape_of(value)
    return builder.call("reshape", value, attrs=ReshapeAttrs(shape=(n, c, h * w)))
