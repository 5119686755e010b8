"""to-mixed-precision: compute products in float16, and what follows them as far as that is safe.

    nn.softmax(nn.relu(nn.dense(%x, w)))  of float32
becomes
    nn.softmax(cast(nn.relu(nn.dense(cast(%x, dtype="float16"), w)), dtype="float32"))
with w in float16. Of calls on float32

    always   convolutions and products of matrices take and give float16
    follow   what moves, compares or changes element by element without growing much is computed in
             float16 where all its operands that are no constants are so
    never    everything else (exp, power, softmax, normalizations, sums and means, …) reads float32

Each value is cast at most once to each type. Sums of products are accumulated in float32 and
rounded once, as everywhere. What enters and leaves functions, branches and data stays float32, so
that types stay; int8 and other types are not touched.

Law: values are those of float32 to about 2**-10, relative, per rounded operator, as long as none
leaves the range of float16 (65504). It stands in no level.

Source: Micikevicius et al., "Mixed Precision Training" (2018); Relay's ToMixedPrecision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, final

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.pass_manager import Form, PassContext, map_bodies
from codesign.dtypes import DType
from codesign.ir.relay.expr import Call, Constant, Expr, Function, Let, OpRef, Project, Tuple, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType, TupleType, Type
from codesign.ir.relay.visit import children, post_order, with_children
from codesign.ops.cast import OPERATOR as CAST
from codesign.ops.cast import CastAttrs

ALWAYS: Final = frozenset(
    {"nn.conv2d", "nn.conv2d_transpose", "nn.dense", "nn.matmul", "nn.batch_matmul"}
)
"""Operators that are computed in float16."""

FOLLOW: Final = frozenset(
    {
        *("add", "subtract", "multiply", "divide", "maximum", "minimum", "where", "clip"),
        *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
        *("negative", "abs", "ceil", "floor", "round", "sqrt", "tanh", "sigmoid", "max", "min"),
        *("nn.relu", "nn.leaky_relu", "nn.prelu", "nn.hard_sigmoid", "nn.hard_swish", "nn.silu"),
        *("nn.gelu", "nn.bias_add", "nn.max_pool2d", "nn.avg_pool2d", "nn.global_max_pool2d"),
        *("nn.pad", "nn.dropout", "reshape", "transpose", "expand_dims", "squeeze", "argmax"),
        *("broadcast_to", "concatenate", "split", "strided_slice", "take", "gather_elements"),
        *("gather_nd", "layout_transform", "reshape_like", "broadcast_to_like", "zeros_like"),
        *("ones_like", "image.resize2d"),
    }
)
"""Operators that are computed in float16 where their operands are so."""

_FULL, _LOW = DType.FLOAT32, DType.FLOAT16


@final
@dataclass(frozen=True, slots=True)
class ToMixedPrecision:
    """Compute products, and what follows them, in float16."""

    name: ClassVar[str] = "to-mixed-precision"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module with such operators in float16."""
        types = infer_types(module)
        return map_bodies(module, lambda body: _Lowered(types).run(body))


@final
class _Lowered:
    """Values as they are computed now, and whether in float16."""

    def __init__(self, types: Mapping[Expr, Type]) -> None:
        self.types = types
        self.made: dict[Expr, tuple[Expr, bool]] = {}
        self.casts: dict[tuple[Expr, bool], Expr] = {}
        self.values: dict[Var, Expr] = {}

    def run(self, body: Expr) -> Expr:
        nodes = tuple(post_order(body))
        self.values = {
            node.var: node.value
            for node in nodes
            if isinstance(node, Let) and not isinstance(node.value, Function)
        }
        for node in nodes:
            self.made[node] = self._visit(node)
        return self._as(body, False)

    def _visit(self, node: Expr) -> tuple[Expr, bool]:
        match node:
            case Call(OpRef("cast"), (data,), CastAttrs(dtype=dtype)):
                if dtype is _FULL and self._is_full(data):
                    return self.made[data]
                return with_children(node, (node.callee, self.made[data][0])), False
            case Call(OpRef(name)):
                return self._operator(node, name)
            case Project(value) if self.made[value][1]:
                return with_children(node, (self.made[value][0],)), self._is_full(node)
            case Tuple(fields) if fields and all(self.made[each][1] for each in fields):
                return with_children(node, tuple(self.made[each][0] for each in fields)), True
            case Var() if node in self.values and node.annotation is None:
                is_low = self.made[self.values[node]][1]
                return (Var(node.name, None, node.span) if is_low else node), is_low
            case Let(var, value, body):
                bound, is_low = self.made[var]
                return with_children(
                    node, (self._as(value, is_low), bound, self._as(body, False))
                ), False
            case _:
                return self._in_full(node), False

    def _operator(self, node: Call, name: str) -> tuple[Expr, bool]:
        is_low = name in ALWAYS or (name in FOLLOW and self._follows(node))
        if not is_low or not any(map(self._is_full, _operands(node))):
            return self._in_full(node), False
        args = tuple(self._as(each, True) for each in node.args)
        return with_children(node, (node.callee, *args)), self._is_full(node)

    def _follows(self, node: Call) -> bool:
        """Return whether what an operator reads is float16 already, or constant, and not all so."""
        full = [each for each in _operands(node) if self._is_full(each)]
        variable = [each for each in full if not isinstance(each, Constant)]
        return bool(variable) and all(self.made[each][1] for each in variable)

    def _in_full(self, node: Expr) -> Expr:
        return with_children(node, tuple(self._as(each, False) for each in children(node)))

    def _is_full(self, node: Expr) -> bool:
        """Return whether the program computes a value in float32: a tensor, or a tuple of them."""
        match self.types.get(node):
            case TensorType(_, dtype):
                return dtype is _FULL
            case TupleType(fields):
                found = [f.dtype for f in fields if isinstance(f, TensorType)]
                return len(found) == len(fields) > 0 and all(each is _FULL for each in found)
            case _:
                return False

    def _as(self, node: Expr, is_low: bool) -> Expr:
        """Return a value in float16, or as the program has it; other types are never cast."""
        value, now = self.made[node]
        if now == is_low or not self._is_full(node):
            return value
        key = (node, is_low)
        if key not in self.casts:
            dtype = _LOW if is_low else _FULL
            self.casts[key] = self._cast(node, value, dtype)
        return self.casts[key]

    def _cast(self, node: Expr, value: Expr, dtype: DType) -> Expr:
        if isinstance(node, Tuple):
            return Tuple(tuple(self._as(each, dtype is _LOW) for each in node.fields), node.span)
        attrs = CastAttrs(dtype=dtype)
        if isinstance(value, Constant):
            array = CAST.reference(value.value, attrs)
            assert not isinstance(array, tuple), "a cast gives a tensor"
            return Constant(array, value.span)
        match self.types[node]:
            case TupleType(fields):
                parts = [Project(value, place, value.span) for place in range(len(fields))]
                return Tuple(tuple(_cast(part, attrs) for part in parts), value.span)
            case _:
                return _cast(value, attrs)


def _operands(node: Call) -> tuple[Expr, ...]:
    """Return what an operator reads; of a tuple, its fields."""
    match node.args:
        case (Tuple(fields),):
            return fields
        case args:
            return args


def _cast(value: Expr, attrs: CastAttrs) -> Call:
    return Call(OpRef("cast", value.span), (value,), attrs, value.span)
