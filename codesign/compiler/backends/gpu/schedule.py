"""Which kernel, or two, a stage becomes."""

from __future__ import annotations

from math import prod
from typing import Final

from codesign.compiler.backends.gpu.contraction import product_in, tiled
from codesign.compiler.backends.gpu.device import DeviceModel
from codesign.compiler.backends.gpu.elementwise import per_element
from codesign.compiler.backends.gpu.flatten import flattened
from codesign.compiler.backends.gpu.reduction import per_block, wants_block
from codesign.compiler.backends.gpu.tensor_core import (
    InParts,
    in_parts,
    matrix_product,
    on_tensor_cores,
    plan,
)
from codesign.ir.simt.kernel import SimtKernel
from codesign.ir.tensor.compute import Reduce
from codesign.ir.tensor.kernel import Stage
from codesign.ir.tensor.layout import Buffer
from codesign.ir.tensor.walk import nodes

_SMALL_PRODUCT: Final = 256
"""Products of m x n x k below which a thread to an element does as well as a tile."""


def schedule(
    stage: Stage, operands: tuple[Buffer, ...], device: DeviceModel
) -> SimtKernel | InParts:
    """Return the kernel that suits a stage: by tiles, by blocks, or by single threads; or two."""
    stage, operands = flattened(stage, operands)
    reductions = [node for node in nodes(stage.body) if isinstance(node, Reduce)]
    if len(reductions) == 1:
        (reduce,) = reductions
        product = product_in(stage, reduce)
        if product is not None and prod(product.sizes[1:]) >= _SMALL_PRODUCT:
            matrix = matrix_product(product, device)
            if matrix is None:
                return tiled(product, operands, device)
            tile, parts = plan(matrix, device)
            if parts > 1:
                return in_parts(matrix, operands, device, tile, parts)
            return on_tensor_cores(matrix, operands, tile)
        if wants_block(stage, reduce, device):
            return per_block(stage, reduce, operands, device)
    return per_element(stage, operands, device)
