"""Importers of the pools."""

from __future__ import annotations

from codesign.compiler.frontend.onnx.builder import Builder
from codesign.compiler.frontend.onnx.node import Node
from codesign.compiler.frontend.onnx.windows import (
    as_image,
    as_signal,
    pair,
    spatial_rank,
    window_pads,
)
from codesign.ir.relay.expr import Expr
from codesign.ops.nn.pool2d import Pool2DAttrs


def max_pool(node: Node, builder: Builder) -> Expr:
    """Import MaxPool; the second output (indices) has no meaning here."""
    if len(node.outputs) > 1:
        raise node.unsupported("its second output, the indices, is asked for")
    if node.integer("storage_order", 0):
        raise node.unsupported("attribute storage_order = 1")
    return _pool(node, builder, "nn.max_pool2d", count_include_pad=False)


def average_pool(node: Node, builder: Builder) -> Expr:
    """Import AveragePool; padding counts only where `count_include_pad` says so."""
    include = bool(node.integer("count_include_pad", 0))
    return _pool(node, builder, "nn.avg_pool2d", count_include_pad=include)


def global_average_pool(node: Node, builder: Builder) -> Expr:
    """Import GlobalAveragePool of an image or a signal."""
    rank = spatial_rank(node, builder)
    image = as_image(builder, node.input(0))
    return as_signal(builder, builder.call("nn.global_avg_pool2d", image), rank)


def global_max_pool(node: Node, builder: Builder) -> Expr:
    """Import GlobalMaxPool of an image or a signal."""
    rank = spatial_rank(node, builder)
    image = as_image(builder, node.input(0))
    return as_signal(builder, builder.call("nn.global_max_pool2d", image), rank)


def _pool(node: Node, builder: Builder, name: str, *, count_include_pad: bool) -> Expr:
    rank = spatial_rank(node, builder)
    if node.ints("kernel_shape") is None:
        raise node.malformed("attribute 'kernel_shape' is missing")
    kernel = pair(node, "kernel_shape", rank)
    strides, dilation = pair(node, "strides", rank), pair(node, "dilations", rank)
    data = as_image(builder, node.input(0))
    _, _, height, width = builder.shape_of(data)
    attrs = Pool2DAttrs(
        pool_size=kernel,
        strides=strides,
        padding=window_pads(node, rank, (height, width), kernel, strides, dilation),
        dilation=dilation,
        ceil_mode=bool(node.integer("ceil_mode", 0)),
        count_include_pad=count_include_pad,
    )
    return as_signal(builder, builder.call(name, data, attrs=attrs), rank)
