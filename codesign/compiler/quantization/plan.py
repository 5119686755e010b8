"""Which calls of a network become integer arithmetic, and which are absorbed by which.

A plan maps the last call of each group to its form. A clip or ReLU whose argument nothing else
uses is absorbed by the limits of the integer operation before it, a bias by its layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, final

import numpy as np

from codesign.compiler.quantization.forms import (
    Affine,
    Average,
    Bounds,
    Floating,
    Form,
    Function,
    Join,
    Lookup,
    Matmul,
    Product,
    Same,
    Sum,
)
from codesign.compiler.quantization.operands import operands
from codesign.diagnostics import CodesignError
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Call, Constant, Expr, If, Let, OpRef, Project, Tuple, Var
from codesign.ir.relay.expr import Function as RelayFunction
from codesign.ir.relay.types import TensorType, Type
from codesign.ir.relay.visit import post_order, use_counts
from codesign.ops.clip import ClipAttrs
from codesign.ops.image.resize2d import ResizeAttrs
from codesign.ops.nn.bias_add import BiasAddAttrs
from codesign.ops.nn.pad import PadAttrs
from codesign.ops.nn.pool2d import Pool2DAttrs
from codesign.ops.table import OPERATORS

_SMOOTH: Final = frozenset(
    {
        "negative", "abs", "tanh", "erf", "sigmoid", "clip", "nn.relu", "nn.hard_swish", "nn.gelu",
        "nn.silu", "nn.hard_sigmoid", "nn.leaky_relu",
    }
)  # fmt: skip
_WITH_NUMBER: Final = frozenset({"add", "subtract", "multiply", "divide", "maximum", "minimum"})
_MOVES: Final = frozenset({"reshape", "transpose", "strided_slice", "nn.max_pool2d"})


@final
@dataclass(frozen=True, slots=True)
class Plan:
    """Forms by the last call of each group, in order of evaluation; `absorbed` are the others."""

    forms: Mapping[Expr, Form]
    absorbed: frozenset[Expr]
    floating_results: frozenset[Expr] = frozenset()
    """Layers that give their sums in floating point: no form reads their codes."""

    def is_integer(self, expr: Expr) -> bool:
        """Whether an expression has an integer form."""
        return expr in self.forms and not isinstance(self.forms[expr], Floating)


def make_plan(
    main: RelayFunction,
    types: Mapping[Expr, Type],
    *,
    float_results: bool = False,
    coded_inputs: bool = False,
    tables: bool = True,
    products: bool = True,
) -> Plan:
    """Return the plan of a function in graph form.

    With `float_results`, layers whose codes no form reads give floating point. With `coded_inputs`,
    parameters are codes already: sums, products, tables and joins read them too. Without `tables`,
    elementwise functions are floating point, without `products` those of two stacks of matrices.

    Raises
    ------
    CodesignError
        The body has control flow, bindings or calls of functions.
    """
    coded: frozenset[Expr] = frozenset(main.params) if coded_inputs else frozenset()
    planner = _Planner(
        types, use_counts(main.body), coded, has_tables=tables, has_products=products
    )
    for node in post_order(main.body):
        if isinstance(node, Let | If | RelayFunction):
            raise CodesignError.of(
                "quantization takes a graph of operator calls",
                found=f"the function holds a {type(node).__name__.lower()}",
                help="quantize the result of optimize(), before fusion and partition",
            )
        if isinstance(node, Call):
            planner.add(node)
    found = _unread_layers(planner.forms) if float_results else frozenset()
    return Plan(planner.forms, frozenset(planner.absorbed), found)


def _unread_layers(forms: Mapping[Expr, Form]) -> frozenset[Expr]:
    read = {operand for form in forms.values() for operand in operands(form)}
    return frozenset(
        key for key, form in forms.items() if isinstance(form, Affine) and key not in read
    )


@final
class _Planner:
    def __init__(
        self,
        types: Mapping[Expr, Type],
        uses: Mapping[Expr, int],
        coded: frozenset[Expr],
        *,
        has_tables: bool,
        has_products: bool,
    ) -> None:
        self.forms: dict[Expr, Form] = {}
        self.absorbed: set[Expr] = set()
        self._types = types
        self._uses = uses
        self._coded = coded
        self._has_tables = has_tables
        self._has_products = has_products

    def add(self, call: Call) -> None:
        """Give the call a form; it may absorb the group of its argument."""
        form = self._form(call)
        if not isinstance(form, Floating):
            for inner in form.chain[:-1]:
                self.forms.pop(inner, None)
                self.absorbed.add(inner)
        self.forms[call] = form

    def _form(self, call: Call) -> Form:
        if not isinstance(call.callee, OpRef):
            return Floating("it calls a function")
        name = call.callee.name
        type_ = self._types[call]
        if not isinstance(type_, TensorType) or type_.dtype is not DType.FLOAT32:
            return Floating("its result is no float32 tensor")
        if len(type_.shape) == 0 or type_.shape[0] == 0:
            return Floating("its result has no channels")
        match name:
            case "nn.conv2d" | "nn.dense":
                return self._layer(call, name)
            case "nn.matmul" | "nn.batch_matmul":
                return self._matmul(call)
            case "nn.bias_add":
                return self._bias(call)
            case "nn.relu" | "clip" if (bounded := self._bounded(call, name)) is not None:
                return bounded
            case "add" | "multiply" if not self._numbers(call):
                return self._pair(call, name)
            case "nn.avg_pool2d" | "nn.global_avg_pool2d":
                return self._average(call, name)
            case "nn.global_max_pool2d" | "concatenate" | "nn.pad" | "take" | "image.resize2d":
                return self._move(call, name)
            case _ if name in _MOVES:
                return self._move(call, name)
            case _ if name in _SMOOTH or name in _WITH_NUMBER:
                return self._lookup(call, name)
            case _:
                return Floating(f"{name} has no integer form")

    def _layer(self, call: Call, name: str) -> Form:
        data, weight = call.args
        if not isinstance(weight, Constant):
            return Floating("its weight is computed at run time")
        if not self._is_float(data):
            return Floating("its data are no float32 tensor")
        if not np.all(np.isfinite(weight.value)):
            return Floating("its weight holds values that are not finite")
        channels = weight.value.shape[0]
        return Affine(data, weight.value, np.zeros(channels), (call,))

    def _matmul(self, call: Call) -> Form:
        lhs, rhs = call.args
        if not self._has_products:
            return Floating("sums of products of such codes do not fit the scheme's accumulators")
        if not self._is_float(lhs) or not self._is_float(rhs):
            return Floating("an operand is no float32 tensor that is computed")
        return Matmul(lhs, rhs, (call,))

    def _bias(self, call: Call) -> Form:
        source, bias = call.args
        layer = self.forms.get(source)
        rank = len(self._shape(call))
        if not isinstance(call.attrs, BiasAddAttrs) or not isinstance(bias, Constant):
            return Floating("its bias is computed at run time")
        if isinstance(layer, Floating) or layer is None:
            return Floating("it follows an operator without integer form")
        axis = rank - 1 if isinstance(layer, Affine) and _is_dense(layer) else 1
        if (
            not isinstance(layer, Affine)
            or self._uses[source] > 1
            or layer.bounds != Bounds()
            or call.attrs.axis % rank != axis
            or not np.all(np.isfinite(bias.value))
        ):
            return Floating("a bias alone has no integer form")
        return replace(
            layer,
            bias=layer.bias + bias.value.astype(np.float64),
            chain=(*layer.chain, call),
        )

    def _bounded(self, call: Call, name: str) -> Form | None:
        """Return the form before a clip with its limits, None where it cannot take them."""
        source = call.args[0]
        before = self.forms.get(source)
        match call.attrs:
            case ClipAttrs(minimum=low, maximum=high):
                bounds = Bounds(low, high)
            case _:
                bounds = Bounds(0.0, float("inf"))
        match before:
            case Affine() | Matmul() | Sum() | Product() | Average() if self._uses[source] == 1:
                return replace(
                    before, bounds=before.bounds.within(bounds), chain=(*before.chain, call)
                )
            case _:
                return None

    def _pair(self, call: Call, name: str) -> Form:
        lhs, rhs = call.args
        if not self._is_ready(lhs) or not self._is_ready(rhs):
            return Floating("an operand is floating point")
        left, right = self._shape(lhs), self._shape(rhs)
        if name == "add":
            return Sum(lhs, rhs, (call,)) if left == right else Floating("its operands broadcast")
        if left == right or _is_gate(left, right):
            return Product(lhs, rhs, (call,))
        if _is_gate(right, left):
            return Product(rhs, lhs, (call,))
        return Floating("its operands broadcast other than as a gate [n, c, 1, 1]")

    def _average(self, call: Call, name: str) -> Form:
        data = call.args[0]
        if not self._is_number_tensor(data):
            return Floating("its data are floating point")
        shape = self._shape(data)
        if name == "nn.global_avg_pool2d":
            window = Pool2DAttrs(pool_size=(shape[2], shape[3]))
            return Average(data, window, shape[2] * shape[3], shape[1], (call,))
        attrs = call.attrs
        assert isinstance(attrs, Pool2DAttrs), "a pool has a window"
        if attrs.dilation != (1, 1):
            return Floating("its window is dilated")
        if not _has_whole_windows(attrs, shape, self._shape(call)):
            return Floating("its windows have different counts of elements")
        height, width = attrs.pool_size
        return Average(data, attrs, height * width, shape[1], (call,))

    def _move(self, call: Call, name: str) -> Form:
        if name == "concatenate":
            (parts,) = call.args
            if not isinstance(parts, Tuple) or not all(map(self._is_ready, parts.fields)):
                return Floating("a part is floating point")
            return Join(parts.fields, call)
        data, *others = call.args
        is_fixed = all(isinstance(each, Constant) for each in others)
        if not self._is_number_tensor(data) or not is_fixed:
            return Floating("its data are floating point")
        match call.attrs:
            case PadAttrs(mode="constant", value=value) if value != 0:
                return Floating("it pads with another number than 0")
            case ResizeAttrs(method="linear"):
                return Floating("what is between two elements has no code of its own")
            case _:
                pass
        return Same(data, call)

    def _lookup(self, call: Call, name: str) -> Form:
        if name in _WITH_NUMBER and not self._numbers(call):
            return Floating(f"{name} of two tensors has no integer form")
        if not self._has_tables:
            return Floating("codes of 16 bits would need a table of 65,536 entries")
        (data,) = (arg for arg in call.args if not isinstance(arg, Constant))
        if not self._is_ready(data):
            return Floating("its data are floating point")
        if self._shape(data) != self._shape(call):
            return Floating("its operand broadcasts")
        function = _function(call)
        before = self.forms.get(data)
        if isinstance(before, Lookup) and self._uses[data] == 1:
            inner = before.function
            return Lookup(before.data, lambda x: function(inner(x)), (*before.chain, call))
        return Lookup(data, function, (call,))

    def _numbers(self, call: Call) -> bool:
        """Whether one operand is a constant of one element and the other is none."""
        sizes = [arg.value.size for arg in call.args if isinstance(arg, Constant)]
        return sizes == [1] and len(call.args) == 2

    def _is_ready(self, expr: Expr) -> bool:
        form = self.forms.get(expr)
        ready = form is not None and not isinstance(form, Floating)
        return ready or (expr in self._coded and self._is_float(expr))

    def _is_number_tensor(self, expr: Expr) -> bool:
        """Whether an operand has codes, or is an input that gets them."""
        return self._is_ready(expr) or (isinstance(expr, Var) and self._is_float(expr))

    def _is_float(self, expr: Expr) -> bool:
        type_ = self._types.get(expr)
        return (
            isinstance(type_, TensorType)
            and type_.dtype is DType.FLOAT32
            and not isinstance(expr, Constant | Project)
        )

    def _shape(self, expr: Expr) -> tuple[int, ...]:
        type_ = self._types[expr]
        assert isinstance(type_, TensorType), "operands are tensors"
        return type_.static_shape


def _is_dense(layer: Affine) -> bool:
    callee = layer.chain[0].callee
    return isinstance(callee, OpRef) and callee.name == "nn.dense"


def _is_gate(whole: tuple[int, ...], gate: tuple[int, ...]) -> bool:
    return len(whole) == len(gate) == 4 and gate == (*whole[:2], 1, 1)


def _has_whole_windows(attrs: Pool2DAttrs, data: tuple[int, ...], result: tuple[int, ...]) -> bool:
    """Whether every window has the same count of elements to divide by."""
    top, left, bottom, right = attrs.padding
    if any(attrs.padding) and not attrs.count_include_pad:
        return False
    padded = (data[2] + top + bottom, data[3] + left + right)
    last = [
        (out - 1) * stride + size
        for out, stride, size in zip(result[2:], attrs.strides, attrs.pool_size, strict=True)
    ]
    return last[0] <= padded[0] and last[1] <= padded[1]


def _function(call: Call) -> Function:
    """Return an elementwise call as a function of its one tensor."""
    assert isinstance(call.callee, OpRef), "an elementwise call is an operator's"
    reference = OPERATORS[call.callee.name].reference
    fixed = [arg.value.reshape(()) if isinstance(arg, Constant) else None for arg in call.args]
    attrs = call.attrs

    def function(x: Array) -> Array:
        given = np.asarray(x, np.float32)
        values = [given if each is None else each for each in fixed]
        result = reference(*values) if attrs is None else reference(*values, attrs=attrs)
        return np.asarray(result, np.float32)

    return function
