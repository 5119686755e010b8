"""alter-op-layout: give each convolution the layout in which its channels fill vectors.

    nn.relu(nn.conv2d(%x, %w))  of 16 channels to 32
becomes
    %0 = layout_transform(%x, "NCHW", "NCHW8c");
    %1 = layout_transform(%w, "OIHW", "OIHW8i8o");
    %2 = nn.relu(nn.conv2d(%0, %1, data_layout="NCHW8c", kernel_layout="OIHW8i8o"));
    layout_transform(%2, "NCHW8c", "NCHW")

Convolutions of one group are altered whose channels, in and out, the block divides; pools and what
else is between follow, and nothing is moved between two altered layers.

Law: as of convert-layout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.pass_manager import Form, PassContext, map_bodies
from codesign.compiler.rewriting.layouts.propagate import in_layouts
from codesign.ir.relay.expr import Call
from codesign.ir.relay.module import Module
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.nn.pool2d import Pool2DAttrs


@final
@dataclass(frozen=True, slots=True)
class AlterOpLayout:
    """Cut the channels of convolutions, and of pools that follow them, into blocks."""

    name: ClassVar[str] = "alter-op-layout"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})

    block: int = 8
    """How many channels lie together."""

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module with such layers in blocks."""
        types = infer_types(module)
        return map_bodies(module, lambda body: in_layouts(body, types, self._wish))

    def _wish(self, call: Call, lies: str | None) -> tuple[str, ...] | None:
        data, block = f"NCHW{self.block}c", self.block
        match call.attrs:
            case Conv2DAttrs(groups=1) as attrs if attrs.is_plain:
                return data, f"OIHW{block}i{block}o"
            case Pool2DAttrs() as pool if pool.is_plain and lies == data:
                return (data,)
            case _:
                return None
