"""Importers of Conv and ConvTranspose."""

from __future__ import annotations

from codesign.compiler.frontend.onnx.builder import Builder
from codesign.compiler.frontend.onnx.node import Node
from codesign.compiler.frontend.onnx.windows import (
    Pads,
    as_image,
    as_signal,
    pair,
    spatial_rank,
    split_pads,
    window_pads,
)
from codesign.ir.relay.expr import Expr
from codesign.ops.nn.bias_add import BiasAddAttrs
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.nn.conv2d_transpose import Conv2DTransposeAttrs


def conv(node: Node, builder: Builder) -> Expr:
    """Import a convolution of one or two dimensions, with its bias."""
    rank = spatial_rank(node, builder)
    data = as_image(builder, node.input(0))
    weight = as_image(builder, node.input(1))
    attrs = convolution_attrs(node, builder, data, weight)
    return _finish(node, builder, builder.call("nn.conv2d", data, weight, attrs=attrs), rank)


def convolution_attrs(node: Node, builder: Builder, data: Expr, weight: Expr) -> Conv2DAttrs:
    """Return the window of a convolution of an image, or of a signal made an image."""
    rank = spatial_rank(node, builder)
    kernel = _kernel(node, builder, weight, rank)
    strides, dilation = pair(node, "strides", rank), pair(node, "dilations", rank)
    _, _, height, width = builder.shape_of(data)
    return Conv2DAttrs(
        strides=strides,
        padding=window_pads(node, rank, (height, width), kernel, strides, dilation),
        dilation=dilation,
        groups=node.integer("group", 1),
    )


def conv_transpose(node: Node, builder: Builder) -> Expr:
    """Import a transposed convolution: size = stride (in - 1) + output_padding + kernel - pads."""
    rank = spatial_rank(node, builder)
    data = as_image(builder, node.input(0))
    weight = as_image(builder, node.input(1))
    kernel = _kernel(node, builder, weight, rank)
    strides, dilation = pair(node, "strides", rank), pair(node, "dilations", rank)
    output_padding = pair(node, "output_padding", rank, default=0)
    _, _, height, width = builder.shape_of(data)
    attrs = Conv2DTransposeAttrs(
        strides=strides,
        padding=_transposed_pads(
            node, rank, (height, width), kernel, strides, dilation, output_padding
        ),
        output_padding=output_padding,
        dilation=dilation,
        groups=node.integer("group", 1),
    )
    call = builder.call("nn.conv2d_transpose", data, weight, attrs=attrs)
    return _finish(node, builder, call, rank)


def _kernel(node: Node, builder: Builder, weight: Expr, rank: int) -> tuple[int, int]:
    _, _, height, width = builder.shape_of(weight)
    declared = pair(node, "kernel_shape", rank) if node.ints("kernel_shape") else (height, width)
    if declared != (height, width):
        raise node.malformed(f"kernel_shape is {declared}, the weight's is {(height, width)}")
    return height, width


def _transposed_pads(
    node: Node,
    rank: int,
    size: tuple[int, int],
    kernel: tuple[int, int],
    strides: tuple[int, int],
    dilation: tuple[int, int],
    output_padding: tuple[int, int],
) -> Pads:
    mode = node.text("auto_pad", "NOTSET")
    wanted = node.ints("output_shape")
    if wanted is None and mode in ("NOTSET", "VALID"):
        return window_pads(node, rank, size, kernel, strides, dilation)
    full = [
        stride * (length - 1) + extra + (taps - 1) * step + 1
        for length, taps, stride, step, extra in zip(
            size, kernel, strides, dilation, output_padding, strict=True
        )
    ]
    if wanted is not None:
        target = [1, *wanted][-2:] if rank == 1 else list(wanted)[-2:]
    else:
        target = [length * stride for length, stride in zip(size, strides, strict=True)]
    totals = [have - want for have, want in zip(full, target, strict=True)]
    if min(totals) < 0:
        raise node.unsupported(f"output_shape {target} is larger than the full result {full}")
    # Here ONNX puts the odd one at the end for SAME_UPPER only.
    return split_pads((totals[0], totals[1]), mode if mode == "SAME_UPPER" else "SAME_LOWER")


def _finish(node: Node, builder: Builder, call: Expr, rank: int) -> Expr:
    bias = node.optional(2)
    if bias is not None:
        call = builder.call("nn.bias_add", call, bias, attrs=BiasAddAttrs(axis=1))
    return as_signal(builder, call, rank)
