"""convert-layout: bring convolutions and pools to layouts that are asked for.

    nn.relu(nn.conv2d(%x, %w))
becomes
    %0 = layout_transform(%x, "NCHW", "NHWC");
    %1 = layout_transform(%w, "OIHW", "HWIO");
    %2 = nn.relu(nn.conv2d(%0, %1, data_layout="NHWC", kernel_layout="HWIO"));
    layout_transform(%2, "NHWC", "NCHW")

What is between layers follows: elementwise operators, biases, reductions, pads, slices, joins. Each
value is moved to a layout at most once, and what one layer gives another in the same layout is not
moved. A layer whose lengths blocks do not divide stays.

Law: every bit stays where a layer's sums are taken in the same order; they may be taken in any.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.pass_manager import Form, PassContext, map_bodies
from codesign.compiler.rewriting.layouts.propagate import in_layouts, own_layouts
from codesign.ir.relay.expr import Call
from codesign.ir.relay.module import Module
from codesign.ir.relay.visit import post_order
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.nn.pool2d import Pool2DAttrs


@final
@dataclass(frozen=True, slots=True)
class ConvertLayout:
    """Give every convolution and every pool one layout; an empty text leaves them as they are."""

    name: ClassVar[str] = "convert-layout"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})

    conv2d: str = "NHWC"
    """The layout of a convolution's data."""
    kernel: str = "HWIO"
    """The layout of its weight."""
    pool2d: str = "NHWC"
    """The layout of a pool's data."""

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module with its layers in these layouts."""
        nodes = post_order(*module.functions.values())
        if not any(isinstance(node, Call) and self._is_changed(node) for node in nodes):
            return module
        types = infer_types(module)
        return map_bodies(module, lambda body: in_layouts(body, types, self._wish))

    def _is_changed(self, call: Call) -> bool:
        wanted = self._wish(call, None)
        return wanted is not None and wanted != own_layouts(call.attrs)

    def _wish(self, call: Call, lies: str | None) -> tuple[str, ...] | None:
        match call.attrs:
            case Conv2DAttrs(data_layout=data, kernel_layout=kernel):
                return self.conv2d or data, self.kernel or kernel
            case Pool2DAttrs(layout=data):
                return (self.pool2d or data,)
            case _:
                return None
