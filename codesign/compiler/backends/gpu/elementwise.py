"""One thread to an element: how every stage can run."""

from __future__ import annotations

from math import prod
from typing import Final

from codesign.compiler.backends.gpu.device import DeviceModel
from codesign.ir.simt.kernel import SimtKernel, Statement, Store, When
from codesign.ir.tensor.index import Axis, Index, at, unflatten
from codesign.ir.tensor.kernel import Stage
from codesign.ir.tensor.layout import Buffer
from codesign.ir.tensor.substitute import Substitution

_THREADS: Final = 256


def per_element(stage: Stage, operands: tuple[Buffer, ...], device: DeviceModel) -> SimtKernel:
    """Return a kernel in which each thread computes one element, neighbours side by side."""
    total = prod(axis.extent for axis in stage.axes)
    threads = min(_THREADS, device.threads_per_block)
    block, thread = Axis("block", -(-total // threads)), Axis("thread", threads)
    position = at(block) * threads + at(thread)
    chosen = Substitution(places(stage.axes, position), {})
    store: Statement = Store(
        stage.target, tuple(map(chosen.index, stage.index)), chosen.expr(stage.body)
    )
    if total % threads:
        store = When(((position, 0, total),), (store,))
    return SimtKernel(operands, block, thread, (store,))


def places(axes: tuple[Axis, ...], position: Index) -> dict[Axis, Index]:
    """Return what each axis is at a row-major position among them.

    The outermost needs no division's rest: a position is less than the product of the extents.
    """
    wide = tuple(axis for axis in axes if axis.extent != 1)
    shape = tuple(axis.extent for axis in wide)
    found: dict[Axis, Index] = {axis: Index() for axis in axes}
    found.update(zip(wide, unflatten(position, shape), strict=True))
    return found
