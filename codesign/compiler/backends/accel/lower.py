"""Composites to layers: zero points folded, weights in tiles, windows normalized."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from codesign.accel.config import AccelConfig
from codesign.compiler.backends.accel.layer import (
    AddLayer,
    Epilogue,
    GemmLayer,
    Layer,
    LookupLayer,
    MultiplyLayer,
    Residual,
    Scaling,
    TileTensor,
    Window,
    WindowLayer,
)
from codesign.compiler.backends.accel.match import Composite, operator_name, parts_read
from codesign.compiler.backends.accel.pool import with_pool
from codesign.compiler.backends.accel.product import product_layer
from codesign.compiler.backends.accel.weights import apart, is_depthwise, unrolled, weight_tiles
from codesign.diagnostics import InternalError
from codesign.dtypes import Array
from codesign.ir.executable.layout import Patches
from codesign.ir.relay.expr import Constant, Expr
from codesign.ir.relay.types import TensorType, Type
from codesign.ops.nn.pad import PadAttrs
from codesign.ops.nn.pool2d import Pool2DAttrs
from codesign.ops.qnn.add import QAddAttrs
from codesign.ops.qnn.conv2d import QConv2DAttrs
from codesign.ops.qnn.dense import QDenseAttrs
from codesign.ops.qnn.matmul import QMatmulAttrs
from codesign.ops.qnn.multiply import QMultiplyAttrs
from codesign.ops.qnn.requantize import RequantizeAttrs
from codesign.ops.qnn.sum_pool2d import QSumPool2DAttrs

_LEAST = -128


def lower(
    composite: Composite,
    types: Mapping[Expr, Type],
    config: AccelConfig,
    name: str,
    sources: tuple[TileTensor, ...],
    result: TileTensor,
    patches: Patches | None = None,
) -> Layer:
    """Return the layer of a composite without obstacles whose tensors have been placed.

    With `patches` the source is what the host has unrolled, and the layer's window what is left.
    """
    main = composite.main
    if composite.pool is not None:
        own = replace(composite, pool=None)
        size = _shape(types[own.root])[2:]
        layer = lower(own, types, config, name, sources, result, patches)
        pool = lower(composite.pool, types, config, name, (result,), result)
        return with_pool(layer, pool, (size[0], size[1]))
    match main.attrs:
        case QConv2DAttrs():
            layer = _convolution(composite, types, config, name, (sources[0], result), patches)
            return layer if composite.add is None else _with_residual(composite, layer, sources)
        case QDenseAttrs():
            return _dense(composite, types, config, name, sources, result)
        case QMatmulAttrs():
            left, right = (_shape(types[each]) for each in main.args)
            tensors = (sources[0], sources[1], result)
            scaling, epilogue = _scaling(composite), _epilogue(composite)
            return product_layer(name, (left, right), tensors, scaling, epilogue, config)
        case QSumPool2DAttrs() as attrs:
            scaling, epilogue = _scaling(composite), _epilogue(composite)
            return WindowLayer(
                name=name,
                operator="qnn.sum_pool2d",
                source=sources[0],
                result=result,
                window=Window(kernel=attrs.pool_size, strides=attrs.strides, padding=attrs.padding),
                pad_value=attrs.zero_point,
                combine="sum",
                weights=None,
                scaling=scaling,
                zero_point=attrs.zero_point,
                epilogue=epilogue,
                macs=0,
            )
        case Pool2DAttrs() as attrs:
            window = Window(
                kernel=attrs.pool_size,
                strides=attrs.strides,
                dilation=attrs.dilation,
                padding=attrs.padding,
            )
            return _maxima(composite, name, sources[0], result, window, _LEAST)
        case PadAttrs(pad_width=(_, _, (top, bottom), (left, right))) as attrs:
            window = Window(padding=(top, left, bottom, right))
            return _maxima(composite, name, sources[0], result, window, int(attrs.value))
        case QAddAttrs() as attrs:
            return _add(composite, attrs, config, name, sources, result)
        case QMultiplyAttrs() as attrs:
            return _multiply(composite, attrs, config, name, sources, result)
        case None if operator_name(main) == "qnn.lookup":
            epilogue = Epilogue(table=_value(main.args[1]))
            return LookupLayer(
                name=name,
                operator="qnn.lookup",
                source=sources[0],
                result=result,
                epilogue=epilogue,
            )
        case _:
            raise InternalError(f"{operator_name(main)} is no layer")


def _convolution(
    composite: Composite,
    types: Mapping[Expr, Type],
    config: AccelConfig,
    name: str,
    tensors: tuple[TileTensor, TileTensor],
    patches: Patches | None,
) -> Layer:
    attrs = composite.main.attrs
    if not isinstance(attrs, QConv2DAttrs):
        raise InternalError("a convolution has its attributes")
    weight = _value(composite.main.args[1])
    window = Window(
        kernel=(weight.shape[2], weight.shape[3]),
        strides=attrs.strides,
        dilation=attrs.dilation,
        padding=attrs.padding,
    )
    macs = _elements(types[composite.root]) * weight[0].size
    scaling = _scaling(composite, attrs.zero_point, weight)
    folded, source, rows = weight, tensors[0], window
    if patches is not None:
        folded, rows = unrolled(weight, window, patches)
    tiles, first = weight_tiles(folded, attrs.groups, config)
    depthwise = is_depthwise(weight, attrs.groups, config)
    if not depthwise:
        source, rows = _without_idle_rows(source, rows)
    on_array = GemmLayer(
        name=name,
        operator="qnn.conv2d",
        source=source,
        result=tensors[1],
        window=rows,
        pad_value=attrs.zero_point,
        weights=tiles,
        first_input=first,
        scaling=scaling,
        epilogue=_epilogue(composite),
        macs=macs,
    )
    if not depthwise:
        return on_array
    shares = config.block_in == config.block_out and on_array.is_diagonal
    return WindowLayer(
        name=name,
        operator="qnn.conv2d",
        source=tensors[0],
        result=tensors[1],
        window=window,
        pad_value=attrs.zero_point,
        combine="sum",
        weights=weight[:, 0],
        scaling=_scaling(composite),
        zero_point=attrs.zero_point,
        epilogue=_epilogue(composite),
        macs=macs,
        array=on_array if shares else None,
    )


def _with_residual(
    composite: Composite, layer: Layer, sources: tuple[TileTensor, ...]
) -> GemmLayer:
    attrs = composite.add.attrs if composite.add is not None else None
    if not isinstance(attrs, QAddAttrs) or not isinstance(layer, GemmLayer):
        raise InternalError("a residual is added to what the array computes")
    own = layer.epilogue
    left = (attrs.lhs_multiplier, attrs.lhs_zero_point)
    right = (attrs.rhs_multiplier, attrs.rhs_zero_point)
    swapped = composite.add is not None and composite.add.args[0] is not composite.requantize
    (multiplier, zero_point), (other, other_zero) = (right, left) if swapped else (left, right)
    block = layer.weights.shape[4]
    bias = own.zero_point - zero_point
    return replace(
        layer,
        residual=Residual(
            source=sources[-1],
            low=own.low - own.zero_point,
            high=own.high - own.zero_point,
            scaling=_uniform(bias, multiplier, attrs.shift, block),
            zero_point=other_zero,
            multiplier=other,
        ),
        epilogue=Epilogue(
            zero_point=attrs.zero_point,
            low=attrs.minimum,
            high=attrs.maximum,
            table=_table(composite),
        ),
    )


def _maxima(
    composite: Composite,
    name: str,
    source: TileTensor,
    result: TileTensor,
    window: Window,
    pad_value: int,
) -> WindowLayer:
    return WindowLayer(
        name=name,
        operator=operator_name(composite.main) or "",
        source=source,
        result=result,
        window=window,
        pad_value=pad_value,
        combine="max",
        weights=None,
        scaling=None,
        zero_point=0,
        epilogue=Epilogue(table=_table(composite)),
        macs=0,
    )


def _dense(
    composite: Composite,
    types: Mapping[Expr, Type],
    config: AccelConfig,
    name: str,
    sources: tuple[TileTensor, ...],
    result: TileTensor,
) -> GemmLayer:
    attrs = composite.main.attrs
    if not isinstance(attrs, QDenseAttrs):
        raise InternalError("a dense has its attributes")
    flat = _value(composite.main.args[1])
    scaling = _scaling(composite, attrs.zero_point, flat)
    parts = tuple(_shape(types[part]) for part in parts_read(composite, composite.data[0]))
    shape = parts[0]
    if len(shape) == 4 and shape[2] * shape[3] > 1:
        weight = flat.reshape(len(flat), *shape[1:])
    else:
        widths = tuple(math.prod(part[1:]) for part in parts)
        weight = apart(flat, widths, config.block_in).reshape(len(flat), -1, 1, 1)
        sources = tuple(_samples_as_rows(source) for source in sources)
        result = _samples_as_rows(result)
    tiles, first = weight_tiles(weight, 1, config)
    return GemmLayer(
        name=name,
        operator="qnn.dense",
        source=sources[0],
        result=result,
        window=Window(kernel=(weight.shape[2], weight.shape[3])),
        pad_value=attrs.zero_point,
        weights=tiles,
        first_input=first,
        scaling=scaling,
        epilogue=_epilogue(composite),
        macs=_elements(types[composite.root]) * flat.shape[1],
        more=sources[1:],
    )


def _add(
    composite: Composite,
    attrs: QAddAttrs,
    config: AccelConfig,
    name: str,
    sources: tuple[TileTensor, ...],
    result: TileTensor,
) -> AddLayer:
    left, right = attrs.lhs_multiplier, attrs.rhs_multiplier
    bias = -attrs.lhs_zero_point * left - attrs.rhs_zero_point * right
    lhs, rhs = sources if len(sources) == 2 else (sources[0], sources[0])
    return AddLayer(
        name=name,
        operator="qnn.add",
        sources=(lhs, rhs),
        result=result,
        multipliers=(left, right),
        scaling=_uniform(bias, 1, attrs.shift, config.block_out),
        epilogue=Epilogue(
            zero_point=attrs.zero_point,
            low=attrs.minimum,
            high=attrs.maximum,
            table=_table(composite),
        ),
    )


def _multiply(
    composite: Composite,
    attrs: QMultiplyAttrs,
    config: AccelConfig,
    name: str,
    sources: tuple[TileTensor, ...],
    result: TileTensor,
) -> MultiplyLayer:
    lhs, rhs = sources if len(sources) == 2 else (sources[0], sources[0])
    return MultiplyLayer(
        name=name,
        operator="qnn.multiply",
        sources=(lhs, rhs),
        result=result,
        zero_points=(attrs.lhs_zero_point, attrs.rhs_zero_point),
        scaling=_uniform(0, attrs.multiplier, attrs.shift, config.block_out),
        epilogue=Epilogue(
            zero_point=attrs.zero_point,
            low=attrs.minimum,
            high=attrs.maximum,
            table=_table(composite),
        ),
    )


def _without_idle_rows(source: TileTensor, window: Window) -> tuple[TileTensor, Window]:
    step = window.strides[0]
    if window.kernel[0] > 1 or step == 1 or window.padding[0] or window.padding[2]:
        return source, window
    n, c, h, w = source.tiles
    rows = replace(
        source,
        tiles=(n, c, -(-h // step), w),
        strides=(source.strides[0], source.strides[1], source.strides[2] * step),
        row_step=step,
    )
    return rows, replace(window, strides=(1, window.strides[1]))


def _samples_as_rows(tensor: TileTensor) -> TileTensor:
    n, c, _, _ = tensor.tiles
    if n == 1:
        return tensor
    return replace(tensor, tiles=(1, c, n, 1), strides=(0, 1, c), exact=False)


def _scaling(composite: Composite, zero_point: int = 0, weight: Array | None = None) -> Scaling:
    if composite.requantize is None:
        raise InternalError("sums are requantized")
    bias, multiplier, shift = (
        _value(arg).astype(np.int64) for arg in composite.requantize.args[1:]
    )
    if weight is not None:
        bias = bias - zero_point * weight.astype(np.int64).reshape(len(weight), -1).sum(axis=1)
    return Scaling(bias=bias, multiplier=multiplier, shift=shift)


def _uniform(bias: int, multiplier: int, shift: int, block: int) -> Scaling:
    return Scaling(
        bias=np.full(block, bias, np.int64),
        multiplier=np.full(block, multiplier, np.int64),
        shift=np.full(block, shift, np.int64),
    )


def _epilogue(composite: Composite) -> Epilogue:
    attrs = composite.requantize.attrs if composite.requantize is not None else None
    if not isinstance(attrs, RequantizeAttrs):
        raise InternalError("a requantize has its attributes")
    return Epilogue(
        zero_point=attrs.zero_point,
        low=attrs.minimum,
        high=attrs.maximum,
        table=_table(composite),
    )


def _table(composite: Composite) -> Array | None:
    return None if composite.lookup is None else _value(composite.lookup.args[1])


def _value(expr: Expr) -> Array:
    if not isinstance(expr, Constant):
        raise InternalError("an operand that must be constant is not")
    return expr.value


def _elements(type_: Type) -> int:
    return math.prod(_shape(type_))


def _shape(type_: Type) -> tuple[int, ...]:
    if not isinstance(type_, TensorType):
        raise InternalError("operands and results of layers are tensors")
    return type_.static_shape
