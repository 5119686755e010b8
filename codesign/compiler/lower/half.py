"""Sums of float16 are taken in float32 and rounded once: ten bits do not count to a thousand."""

from __future__ import annotations

from typing import Final

from codesign.compiler.lower.graph import Step, Value
from codesign.compiler.lower.shaping import Writer
from codesign.dtypes import DType
from codesign.ops.cast import CastAttrs

_SUMMING: Final = frozenset(
    {
        *("nn.conv2d", "nn.conv2d_transpose", "nn.dense", "nn.matmul", "nn.batch_matmul"),
        *("sum", "prod", "mean", "collapse_sum_to", "collapse_sum_like"),
        *(
            "nn.softmax",
            "nn.log_softmax",
            "nn.fast_softmax",
            "nn.avg_pool2d",
            "nn.global_avg_pool2d",
        ),
        *("nn.batch_norm", "image.resize2d"),
    }
)


def in_single(writer: Writer, step: Step) -> Value | None:
    """Return a step that sums float16 as one of float32 between casts; None where it does not."""
    if step.operator not in _SUMMING or step.result.dtype is not DType.FLOAT16:
        return None
    inputs = tuple(
        _cast(writer, value, DType.FLOAT32) if value.dtype is DType.FLOAT16 else value
        for value in step.inputs
    )
    wide = Value(step.result.shape, DType.FLOAT32)
    return _cast(writer, writer.legal_call(step.operator, inputs, wide, step.attrs), DType.FLOAT16)


def _cast(writer: Writer, value: Value, dtype: DType) -> Value:
    if value.constant is not None:
        return Value(value.shape, dtype, value.constant.astype(dtype.numpy))
    return writer.call("cast", (value,), Value(value.shape, dtype), CastAttrs(dtype=dtype))
