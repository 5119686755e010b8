"""The integer network: each form of the plan as calls of the integer vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, final

import numpy as np

from codesign.compiler.quantization.calls import (
    code_limits,
    operator_call,
    quantize_attrs,
    requantized,
)
from codesign.compiler.quantization.config import QuantizationConfig
from codesign.compiler.quantization.fixed_point import (
    MULTIPLIER_BITS,
    FactorOutOfRangeError,
    common_shift,
    fixed_point,
)
from codesign.compiler.quantization.forms import (
    Affine,
    Average,
    Bounds,
    Floating,
    Integer,
    Join,
    Lookup,
    Matmul,
    Product,
    Same,
    Sum,
)
from codesign.compiler.quantization.layers import (
    NoIntegerLayerError,
    Seen,
    integer_layer,
    multiplier_bits,
    sums,
)
from codesign.compiler.quantization.moments import Moments
from codesign.compiler.quantization.params import QuantParams
from codesign.compiler.quantization.plan import Plan
from codesign.diagnostics import InternalError
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Attrs, Call, Constant, Expr, OpRef, Project, Tuple, Var
from codesign.ir.relay.types import TensorType, Type
from codesign.ops.cast import CastAttrs
from codesign.ops.clip import ClipAttrs
from codesign.ops.nn.batch_matmul import BatchMatmulAttrs
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.nn.pad import PadAttrs
from codesign.ops.nn.pool2d import Pool2DAttrs
from codesign.ops.qnn.add import QAddAttrs
from codesign.ops.qnn.conv2d import QConv2DAttrs
from codesign.ops.qnn.dense import QDenseAttrs
from codesign.ops.qnn.limits import WIDE_PRODUCT_LIMIT
from codesign.ops.qnn.matmul import QMatmulAttrs
from codesign.ops.qnn.multiply import QMultiplyAttrs
from codesign.ops.qnn.sum_pool2d import QSumPool2DAttrs
from codesign.ops.reshape import ReshapeAttrs
from codesign.ops.table import OPERATORS
from codesign.ops.transpose import TransposeAttrs

PRODUCT_BITS: Final = WIDE_PRODUCT_LIMIT.bit_length() - 1
"""Bits of multipliers of products of two int16."""

_DEFAULT: Final = QuantizationConfig()


@final
class Realizer:
    """Makes each expression of the fp32 network anew, as codes, as numbers, or as both.

    `codes` holds the int8 form of every expression that has one so far; `integers` the last calls
    of layers in integers, in order; `failures` the reasons of layers that stay in floating point
    although the plan gave them an integer form; `notes` what the report should say about others.
    `moments` are of the data of layers whose rounding is to be compensated, `peaks` the greatest
    sums of those that may wrap. `_rows` are codes of products of rank 3 or more as matrices, before
    they got their shape: what follows by elements works on those.
    """

    def __init__(
        self,
        plan: Plan,
        params: Mapping[Expr, QuantParams],
        types: Mapping[Expr, Type],
        moments: Mapping[Expr, Moments],
        peaks: Mapping[Expr, Array] = MappingProxyType({}),
        config: QuantizationConfig = _DEFAULT,
    ) -> None:
        self.codes: dict[Expr, Expr] = {}
        self.integers: list[Call] = []
        self.failures: dict[Expr, str] = {}
        self.notes: dict[Expr, tuple[str, ...]] = {}
        self._numbers: dict[Expr, Expr] = {}
        self._rows: dict[Expr, Expr] = {}
        self._plan = plan
        self._params = params
        self._types = types
        self._moments = moments
        self._peaks = peaks
        self._config = config

    def visit(self, node: Expr) -> None:
        """Make one expression; its operands were visited before."""
        match node:
            case Var() | Constant():
                self._numbers[node] = node
            case Call() if node not in self._plan.absorbed:
                form = self._plan.forms[node]
                if isinstance(form, Floating):
                    self._numbers[node] = self._call(node)
                else:
                    self._visit_integer(node, form)
            case _:
                pass

    def as_numbers(self, node: Expr) -> Expr:
        """Return an expression in floating point."""
        if node not in self._numbers:
            self._numbers[node] = self._made_numbers(node)
        return self._numbers[node]

    def as_codes(self, node: Expr) -> Expr:
        """Return an expression as int8 codes."""
        if node not in self.codes:
            attrs = quantize_attrs(self._params[node])
            self.codes[node] = operator_call("qnn.quantize", self.as_numbers(node), attrs=attrs)
        return self.codes[node]

    def _made_numbers(self, node: Expr) -> Expr:
        match node:
            case Tuple(fields):
                return replace(node, fields=tuple(self.as_numbers(each) for each in fields))
            case Project(value):
                return replace(node, value=self.as_numbers(value))
            case _ if node in self.codes:
                attrs = quantize_attrs(self._params[node])
                return operator_call(
                    "qnn.dequantize", self.codes[node], attrs=attrs, span=node.span
                )
            case _:
                raise InternalError(f"{node} was not visited before its use")

    def _call(self, call: Call) -> Expr:
        return replace(call, args=tuple(self.as_numbers(arg) for arg in call.args))

    def _visit_integer(self, node: Call, form: Integer) -> None:
        try:
            if isinstance(form, Affine) and node in self._plan.floating_results:
                self._numbers[node] = self._sums(node, form)
            else:
                self.codes[node] = self._integer(node, form)
            self.integers.append(node)
        except (NoIntegerLayerError, FactorOutOfRangeError) as error:
            self.failures[node] = str(error)
            for call in form.chain:
                self._numbers[call] = self._call(call)

    def _integer(self, node: Call, form: Integer) -> Expr:
        match form:
            case Affine():
                return self._affine(node, form)
            case Matmul():
                return self._matmul(node, form)
            case Lookup():
                return self._lookup(node, form)
            case Sum():
                return self._sum(node, form)
            case Product():
                return self._product(node, form)
            case Average():
                return self._average(node, form)
            case Same():
                return self._same(node, form)
            case Join(parts, call):
                fields = Tuple(tuple(self.as_codes(part) for part in parts), call.span)
                return replace(call, args=(fields,))

    def _affine(self, node: Call, form: Affine) -> Expr:
        source, result = self._params[form.data], self._params[node]
        seen = self._seen(node)
        layer = integer_layer(form.weight, form.bias, source, result, seen, self._config)
        self._note(node, layer.notes)
        acc = self._accumulator(form, layer.weight)
        made = requantized(acc, layer.bias, layer.multiplier, layer.shift, form, result, node)
        return self._shaped(made, node, form)

    def _sums(self, node: Call, form: Affine) -> Expr:
        """Return a layer's sums in floating point: one rounding to float32, one product."""
        source = self._params[form.data]
        layer = sums(form.weight, form.bias, source, self._seen(node), self._config)
        self._note(node, layer.notes)
        channels = (len(layer.bias), *(1,) * (form.weight.ndim - 2))
        bias = Constant(layer.bias.reshape(channels), node.span)
        scale = Constant(layer.scale.astype(np.float32).reshape(channels), node.span)
        acc: Expr = self._accumulator(form, layer.weight)
        if self._config.scheme.sums is not DType.INT32:
            acc = operator_call("cast", acc, attrs=CastAttrs(dtype=DType.INT32), span=node.span)
        total = operator_call("add", acc, bias, span=node.span)
        wide = operator_call("cast", total, attrs=CastAttrs(dtype=DType.FLOAT32), span=node.span)
        made: Expr = operator_call("multiply", wide, scale, span=node.span)
        if form.bounds != Bounds():
            limits = ClipAttrs(minimum=form.bounds.low, maximum=form.bounds.high)
            made = operator_call("clip", made, attrs=limits, span=node.span)
        return self._shaped(made, node, form)

    def _seen(self, node: Call) -> Seen:
        return Seen(self._moments.get(node), self._peaks.get(node))

    def _note(self, node: Call, notes: tuple[str, ...]) -> None:
        if notes:
            self.notes[node] = notes

    def _accumulator(self, form: Affine, codes: Array) -> Expr:
        """Return the int32 sums of a layer, of rank 2 where it is a product."""
        anchor, source = form.chain[0], self._params[form.data]
        data, weight = self.as_codes(form.data), Constant(codes, anchor.span)
        if isinstance(anchor.attrs, Conv2DAttrs):
            attrs = QConv2DAttrs(
                strides=anchor.attrs.strides,
                padding=anchor.attrs.padding,
                dilation=anchor.attrs.dilation,
                groups=anchor.attrs.groups,
                zero_point=source.zero_point,
                dtype=self._config.scheme.sums,
            )
            return operator_call("qnn.conv2d", data, weight, attrs=attrs, span=anchor.span)
        shape = self._shape(form.data)
        if len(shape) != 2:
            data = self._as_rows(data, shape)
        dense = QDenseAttrs(zero_point=source.zero_point, dtype=self._config.scheme.sums)
        return operator_call("qnn.dense", data, weight, attrs=dense, span=anchor.span)

    def _shaped(self, made: Expr, node: Call, form: Affine) -> Expr:
        """Return a layer's result in its own shape, which a product of rank 3 or more loses."""
        if isinstance(form.chain[0].attrs, Conv2DAttrs) or len(self._shape(form.data)) == 2:
            return made
        return self._from_rows(made, node)

    def _as_rows(self, codes: Expr, shape: tuple[int, ...]) -> Expr:
        """Return codes of `shape` as a matrix of the rows along their last axis."""
        if codes in self._rows:
            return self._rows[codes]
        rows = (int(np.prod(shape[:-1])), shape[-1])
        return operator_call("reshape", codes, attrs=ReshapeAttrs(shape=rows))

    def _from_rows(self, made: Expr, node: Call) -> Expr:
        """Return a matrix in the shape of the node that it is the codes of."""
        attrs = ReshapeAttrs(shape=self._shape(node))
        result = operator_call("reshape", made, attrs=attrs, span=node.span)
        self._rows[result] = made
        return result

    def _elementwise(
        self,
        name: str,
        codes: tuple[Expr, ...],
        node: Call,
        *others: Expr,
        attrs: Attrs | None = None,
    ) -> Expr:
        """Return an operator by elements on codes of one shape, in rows where some of them are."""
        if not any(each in self._rows for each in codes):
            return operator_call(name, *codes, *others, attrs=attrs, span=node.span)
        rows = (self._as_rows(each, self._shape(node)) for each in codes)
        return self._from_rows(
            operator_call(name, *rows, *others, attrs=attrs, span=node.span), node
        )

    def _matmul(self, node: Call, form: Matmul) -> Expr:
        lhs, rhs, result = (self._params[each] for each in (form.lhs, form.rhs, node))
        columns = self._shape(node)[-1]
        factor = np.full(columns, lhs.scale * rhs.scale / result.scale)
        multiplier, shift = fixed_point(factor, multiplier_bits(result.dtype))
        codes = self._as_multiplied(form)
        acc = operator_call("qnn.matmul", *codes, attrs=QMatmulAttrs(), span=form.chain[0].span)
        bias = np.zeros(columns, np.int32)
        axis = len(self._shape(node)) - 1
        return requantized(acc, bias, multiplier, shift, form, result, node, axis)

    def _as_multiplied(self, form: Matmul) -> tuple[Expr, Expr]:
        """Return the codes of both operands, rows of the left one and columns of the right one."""
        lhs, rhs = self.as_codes(form.lhs), self.as_codes(form.rhs)
        attrs = form.chain[0].attrs
        if not isinstance(attrs, BatchMatmulAttrs):
            return lhs, rhs
        turn = TransposeAttrs(axes=(0, 2, 1))
        return (
            operator_call("transpose", lhs, attrs=turn) if attrs.transpose_a else lhs,
            operator_call("transpose", rhs, attrs=turn) if attrs.transpose_b else rhs,
        )

    def _lookup(self, node: Call, form: Lookup) -> Expr:
        source, result = self._params[form.data], self._params[node]
        codes = np.arange(DType.INT8.minimum, DType.INT8.maximum + 1).astype(np.int8)
        values = OPERATORS["qnn.dequantize"].reference(codes, attrs=quantize_attrs(source))
        assert not isinstance(values, tuple), "qnn.dequantize gives a tensor"
        image = form.function(values)
        table = OPERATORS["qnn.quantize"].reference(image, attrs=quantize_attrs(result))
        assert not isinstance(table, tuple), "qnn.quantize gives a tensor"
        constant = Constant(table, node.span)
        return self._elementwise("qnn.lookup", (self.as_codes(form.data),), node, constant)

    def _sum(self, node: Call, form: Sum) -> Expr:
        lhs, rhs, result = (self._params[each] for each in (form.lhs, form.rhs, node))
        left, right, shift = common_shift(lhs.scale / result.scale, rhs.scale / result.scale)
        low, high = code_limits(form.bounds, result)
        attrs = QAddAttrs(
            lhs_zero_point=lhs.zero_point,
            rhs_zero_point=rhs.zero_point,
            lhs_multiplier=left,
            rhs_multiplier=right,
            shift=shift,
            zero_point=result.zero_point,
            minimum=low,
            maximum=high,
        )
        args = self.as_codes(form.lhs), self.as_codes(form.rhs)
        return self._elementwise("qnn.add", args, node, attrs=attrs)

    def _product(self, node: Call, form: Product) -> Expr:
        lhs, rhs, result = (self._params[each] for each in (form.lhs, form.rhs, node))
        bits = MULTIPLIER_BITS if result.dtype is DType.INT8 else PRODUCT_BITS
        multiplier, shift = fixed_point(np.array(lhs.scale * rhs.scale / result.scale), bits)
        low, high = code_limits(form.bounds, result)
        attrs = QMultiplyAttrs(
            lhs_zero_point=lhs.zero_point,
            rhs_zero_point=rhs.zero_point,
            multiplier=int(multiplier),
            shift=int(shift),
            zero_point=result.zero_point,
            minimum=low,
            maximum=high,
        )
        args = self.as_codes(form.lhs), self.as_codes(form.rhs)
        return operator_call("qnn.multiply", *args, attrs=attrs, span=node.span)

    def _average(self, node: Call, form: Average) -> Expr:
        source, result = self._params[form.data], self._params[node]
        attrs = QSumPool2DAttrs(
            pool_size=form.window.pool_size,
            strides=form.window.strides,
            padding=form.window.padding,
            zero_point=source.zero_point,
        )
        acc = operator_call("qnn.sum_pool2d", self.as_codes(form.data), attrs=attrs, span=node.span)
        factor = np.full(form.channels, source.scale / (form.count * result.scale))
        multiplier, shift = fixed_point(factor, multiplier_bits(result.dtype))
        bias = np.zeros(form.channels, np.int32)
        return requantized(acc, bias, multiplier, shift, form, result, node)

    def _same(self, node: Call, form: Same) -> Expr:
        assert isinstance(form.call.callee, OpRef), "a form's call is an operator's"
        data = self.as_codes(form.data)
        if form.call.callee.name == "nn.global_max_pool2d":
            _, _, height, width = self._shape(form.data)
            window = Pool2DAttrs(pool_size=(height, width))
            return operator_call("nn.max_pool2d", data, attrs=window, span=node.span)
        attrs = form.call.attrs
        if isinstance(attrs, PadAttrs) and attrs.mode == "constant":
            attrs = replace(attrs, value=float(self._params[node].zero_point))
        return replace(form.call, args=(data, *form.call.args[1:]), attrs=attrs)

    def _shape(self, node: Expr) -> tuple[int, ...]:
        type_ = self._types[node]
        assert isinstance(type_, TensorType), "codes are tensors"
        return type_.static_shape
