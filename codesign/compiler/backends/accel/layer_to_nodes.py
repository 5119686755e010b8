"""A layer with its tiling to instructions."""

from __future__ import annotations

from codesign.compiler.backends.accel.builder import Builder
from codesign.compiler.backends.accel.gemm import emit_gemm
from codesign.compiler.backends.accel.layer import (
    AddLayer,
    GemmLayer,
    Layer,
    LookupLayer,
    MultiplyLayer,
    WindowLayer,
)
from codesign.compiler.backends.accel.tile import Choice, FlatTiling, GemmTiling, WindowTiling
from codesign.compiler.backends.accel.vector import (
    emit_add,
    emit_lookup,
    emit_multiply,
    emit_window,
)
from codesign.diagnostics import InternalError


def emit_layer(builder: Builder, layer: Layer, choice: Choice) -> None:
    """Append a layer's instructions."""
    tiling = choice.tiling
    builder.use(choice.within or builder.config)
    match layer, tiling:
        case GemmLayer(), GemmTiling():
            emit_gemm(builder, layer, tiling)
        case WindowLayer(), WindowTiling():
            emit_window(builder, layer, tiling)
        case AddLayer(), FlatTiling(step=step):
            emit_add(builder, layer, step)
        case MultiplyLayer(), FlatTiling(step=step):
            emit_multiply(builder, layer, step)
        case LookupLayer(), FlatTiling(step=step):
            emit_lookup(builder, layer, step)
        case _:
            raise InternalError(f"{type(tiling).__name__} is no tiling of {type(layer).__name__}")
