"""Operators on shapes that are known at run time only, said by simpler ones.

    softmax(x)  becomes  e = exp(x - max x); e / sum e

What is left has a kernel of its own in the native backend. `cpu.max` is a `max` that gives the
least number over an empty axis, `cpu.count` the number of elements that each sum has.
"""

from __future__ import annotations

from codesign.ir.control.program import Operator, Value
from codesign.ir.relay.expr import Attrs
from codesign.ir.relay.types import TensorType
from codesign.ops.axis import AxisAttrs
from codesign.ops.expand_dims import ExpandDimsAttrs
from codesign.ops.nn.batch_matmul import BatchMatmulAttrs
from codesign.ops.reduce import ArgReduceAttrs, ReduceAttrs
from codesign.ops.transpose import TransposeAttrs


def simpler(operator: Operator) -> tuple[Operator, ...]:
    """Return operators that together do what one does on shapes that are not known."""
    match operator.operator, operator.attrs:
        case "stack", AxisAttrs(axis=axis):
            return _stack(operator, axis)
        case (("nn.softmax" | "nn.log_softmax" | "nn.fast_softmax"), AxisAttrs(axis=axis)):
            return _softmax(operator, axis)
        case (("nn.global_avg_pool2d" | "nn.global_max_pool2d"), _):
            return _global_pool(operator)
        case (("nn.cross_entropy" | "nn.cross_entropy_with_logits"), _):
            return _cross_entropy(operator)
        case "mean", ReduceAttrs() as attrs:
            return _mean(operator, attrs)
        case "argmax", ArgReduceAttrs() as attrs:
            return _argmax(operator, attrs)
        case "nn.batch_matmul", BatchMatmulAttrs() as attrs:
            return _batch_matmul(operator, attrs)
        case _:
            return (operator,)


def _call(
    operator: Operator, name: str, inputs: tuple[Value, ...], result: Value, attrs: Attrs | None
) -> Operator:
    return Operator((result,), name, attrs, inputs, operator.span)


def _softmax(operator: Operator, axis: int) -> tuple[Operator, ...]:
    (x,) = operator.inputs
    (result,) = operator.results
    assert x.tensor is not None, "operands are tensors"
    axis %= len(x.tensor.shape)
    shape = tuple(1 if i == axis else dim for i, dim in enumerate(x.tensor.shape))
    row = TensorType(shape, x.tensor.dtype)
    over = ReduceAttrs(axis=(axis,), keepdims=True)
    greatest, total, last = (Value(f"{x.name}.{name}", row) for name in ("max", "sum", "log"))
    shifted, power = (Value(f"{x.name}.{name}", x.tensor) for name in ("shifted", "power"))
    begin = (
        _call(operator, "cpu.max", (x,), greatest, over),
        _call(operator, "subtract", (x, greatest), shifted, None),
        _call(operator, "exp", (shifted,), power, None),
        _call(operator, "sum", (power,), total, over),
    )
    if operator.operator != "nn.log_softmax":
        return (*begin, _call(operator, "divide", (power, total), result, None))
    return (
        *begin,
        _call(operator, "log", (total,), last, None),
        _call(operator, "subtract", (shifted, last), result, None),
    )


def _stack(operator: Operator, axis: int) -> tuple[Operator, ...]:
    steps: list[Operator] = []
    pieces = []
    for number, value in enumerate(operator.inputs):
        assert value.tensor is not None, "operands are tensors"
        shape = value.tensor.shape
        place = axis % (len(shape) + 1)
        one = TensorType((*shape[:place], 1, *shape[place:]), value.tensor.dtype)
        pieces.append(Value(f"{value.name}.piece{number}", one))
        attrs = ExpandDimsAttrs(axis=place)
        steps.append(_call(operator, "expand_dims", (value,), pieces[-1], attrs))
    whole = AxisAttrs(axis=place)
    return (*steps, _call(operator, "concatenate", tuple(pieces), operator.results[0], whole))


def _global_pool(operator: Operator) -> tuple[Operator, ...]:
    (x,), (result,) = operator.inputs, operator.results
    planes = ReduceAttrs(axis=(2, 3), keepdims=True)
    name = "mean" if operator.operator == "nn.global_avg_pool2d" else "max"
    pool = _call(operator, name, (x,), result, planes)
    return _mean(pool, planes) if name == "mean" else (pool,)


def _cross_entropy(operator: Operator) -> tuple[Operator, ...]:
    predictions, targets = operator.inputs
    (result,) = operator.results
    assert predictions.tensor is not None, "operands are tensors"
    assert result.tensor is not None, "operators give tensors"
    type_ = predictions.tensor
    logarithms, terms = (Value(f"{predictions.name}.{n}", type_) for n in ("log", "terms"))
    total, rows, mean = (
        Value(f"{predictions.name}.{n}", result.tensor) for n in ("sum", "rows", "mean")
    )
    is_log = operator.operator == "nn.cross_entropy_with_logits"
    first = () if is_log else (_call(operator, "log", (predictions,), logarithms, None),)
    factors = (predictions if is_log else logarithms, targets)
    return (
        *first,
        _call(operator, "multiply", factors, terms, None),
        _call(operator, "sum", (terms,), total, ReduceAttrs()),
        _call(operator, "cpu.count", (predictions,), rows, ReduceAttrs(axis=(0,))),
        _call(operator, "divide", (total, rows), mean, None),
        _call(operator, "negative", (mean,), result, None),
    )


def _mean(operator: Operator, attrs: ReduceAttrs) -> tuple[Operator, ...]:
    (x,), (result,) = operator.inputs, operator.results
    assert result.tensor is not None, "operators give tensors"
    total = Value(f"{x.name}.sum", result.tensor)
    count = Value(f"{x.name}.count", TensorType((), result.tensor.dtype))
    return (
        _call(operator, "sum", (x,), total, attrs),
        _call(operator, "cpu.count", (x,), count, attrs),
        _call(operator, "divide", (total, count), result, None),
    )


def _argmax(operator: Operator, attrs: ArgReduceAttrs) -> tuple[Operator, ...]:
    (x,), (result,) = operator.inputs, operator.results
    assert x.tensor is not None, "operands are tensors"
    axis = attrs.axis % len(x.tensor.shape)
    shape = tuple(1 if i == axis else dim for i, dim in enumerate(x.tensor.shape))
    greatest = Value(f"{x.name}.max", TensorType(shape, x.tensor.dtype))
    return (
        _call(operator, "max", (x,), greatest, ReduceAttrs(axis=(axis,), keepdims=True)),
        _call(operator, "cpu.argmax", (x, greatest), result, attrs),
    )


def _batch_matmul(operator: Operator, attrs: BatchMatmulAttrs) -> tuple[Operator, ...]:
    lhs, rhs = operator.inputs
    steps: list[Operator] = []
    operands = []
    for value, turns in ((lhs, attrs.transpose_a), (rhs, attrs.transpose_b)):
        if not turns:
            operands.append(value)
            continue
        assert value.tensor is not None, "operands are tensors"
        n, i, j = value.tensor.shape
        turned = Value(f"{value.name}.turned", TensorType((n, j, i), value.tensor.dtype))
        steps.append(_call(operator, "transpose", (value,), turned, TransposeAttrs(axes=(0, 2, 1))))
        operands.append(turned)
    steps.append(_call(operator, "nn.matmul", tuple(operands), operator.results[0], None))
    return tuple(steps)
