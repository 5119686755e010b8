"""Nearest upsampling as copies that are interleaved, which the accelerator writes in place.

    image.resize2d(%x, size=[2h, 2w], method="nearest_neighbor")
becomes
    reshape(transpose(reshape(concatenate((copy(%x), … copy(%x)), axis=1))))

A copy is the maximum of windows of one element. Their dilations, which mean nothing there, differ,
so that four equal copies are not taken for one that is read four times.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.quantization.transposed import interleaved
from codesign.dtypes import DType
from codesign.ir.relay.expr import Call, Expr, OpRef
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import UNKNOWN, TensorType
from codesign.ir.relay.visit import rewrite_pairs
from codesign.ops.image.resize2d import ResizeAttrs, nearest, source_places
from codesign.ops.nn.pool2d import Pool2DAttrs


def split_upsampling(module: Module) -> Module:
    """Return a network that upsamples codes to the nearest by whole factors as interleaved copies.

    The host is faster at upsampling itself: this is for the accelerator alone.
    """
    main = module.main
    types = infer_types(module)

    def rule(original: Expr, rebuilt: Expr) -> Expr:
        if not isinstance(original, Call) or not isinstance(rebuilt, Call):
            return rebuilt
        if not isinstance(original.attrs, ResizeAttrs):
            return rebuilt
        source, result = types[original.args[0]], types[original]
        assert isinstance(source, TensorType), "images are tensors"
        assert isinstance(result, TensorType), "images are tensors"
        if source.dtype is not DType.INT8 or UNKNOWN in source.shape:
            return rebuilt
        factors = _factors(original.attrs, source.static_shape[2:])
        if factors is None:
            return rebuilt
        copies = tuple(
            Call(
                OpRef("nn.max_pool2d"),
                rebuilt.args,
                Pool2DAttrs(pool_size=(1, 1), dilation=(row + 1, column + 1)),
                rebuilt.span,
            )
            for row in range(factors[0])
            for column in range(factors[1])
        )
        return interleaved(copies, result.static_shape, factors)

    return module.with_main(replace(main, body=rewrite_pairs(main.body, rule)))


def _factors(attrs: ResizeAttrs, size: tuple[int, ...]) -> tuple[int, int] | None:
    """Return how often each row and column stands; None where that is not the same for all."""
    if attrs.method != "nearest_neighbor":
        return None
    factors = []
    for axis, (old, new) in enumerate(zip(size, attrs.size, strict=True)):
        factor, rest = divmod(new, old)
        taken = nearest(attrs, source_places(attrs, axis, old), old)
        if rest or not np.array_equal(taken, np.arange(new) // max(factor, 1)):
            return None
        factors.append(factor)
    return None if factors == [1, 1] else (factors[0], factors[1])
