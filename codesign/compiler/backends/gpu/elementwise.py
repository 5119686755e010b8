"""A few neighbouring elements to a thread: how every stage can run.

Neighbours in memory are read and written together, 16 bytes at a time, where their number and the
innermost axis allow it. Windows (pools, depthwise convolutions) walk over their taps once for all
of a thread's elements.
"""

from __future__ import annotations

from math import prod
from typing import Final

from codesign.compiler.backends.gpu.device import DeviceModel
from codesign.compiler.backends.gpu.joins import JOINS
from codesign.ir.simt.kernel import Conditions, Serial, SimtKernel, Statement, Store, When
from codesign.ir.tensor.compute import Expr, Guarded, Literal, Load, Reduce, apply
from codesign.ir.tensor.index import Axis, Index, at, unflatten
from codesign.ir.tensor.kernel import Stage
from codesign.ir.tensor.layout import Buffer
from codesign.ir.tensor.substitute import Substitution
from codesign.ir.tensor.uses import axes_of
from codesign.ir.tensor.walk import nodes

_THREADS: Final = 256
_ACCESS_BYTES: Final = 16
_WRITTEN_OUT: Final = 32
"""Taps of a window up to which its loop is written out."""


def per_element(stage: Stage, operands: tuple[Buffer, ...], device: DeviceModel) -> SimtKernel:
    """Return a kernel in which each thread computes a few elements, neighbours side by side."""
    reduce = _window(stage)
    width = _width(stage, reduce, device)
    pieces = prod(axis.extent for axis in stage.axes) // width
    threads = min(_THREADS, device.threads_per_block)
    block, thread = Axis("block", -(-pieces // threads)), Axis("thread", threads)
    position = at(block) * threads + at(thread)
    lane = Axis("lane", width)
    axes = places(stage.axes, position * width + at(lane))
    registers: tuple[Buffer, ...] = ()
    if reduce is None or width == 1:
        body: tuple[Statement, ...] = (_lanes(lane, _stored(stage, axes, {})),)
    else:
        sums = Buffer("sums", (width,), reduce.dtype)
        registers = (sums,)
        total = Load(sums, (at(lane),))
        body = (
            _lanes(lane, Store(sums, (at(lane),), reduce.initial)),
            _taps(reduce, axes, sums, lane),
            _lanes(lane, _stored(stage, axes, {reduce: total})),
        )
    if pieces % threads:
        body = (When(((position, 0, pieces),), body),)
    return SimtKernel(operands, block, thread, body, registers=registers)


def places(axes: tuple[Axis, ...], position: Index) -> dict[Axis, Index]:
    """Return what each axis is at a row-major position among them.

    The outermost needs no division's rest: a position is less than the product of the extents.
    """
    wide = tuple(axis for axis in axes if axis.extent != 1)
    shape = tuple(axis.extent for axis in wide)
    found: dict[Axis, Index] = {axis: Index() for axis in axes}
    found.update(zip(wide, unflatten(position, shape), strict=True))
    return found


def _window(stage: Stage) -> Reduce | None:
    """Return the stage's reduction if it is the only one and the lanes of a thread can share it."""
    found = [node for node in nodes(stage.body) if isinstance(node, Reduce)]
    if len(found) != 1 or not stage.axes:
        return None
    conditions, _ = _guarded(found[0])
    inner = stage.axes[-1]
    return None if inner in axes_of(each for each, _, _ in conditions) else found[0]


def _width(stage: Stage, reduce: Reduce | None, device: DeviceModel) -> int:
    """Return how many elements a thread computes: as many as one access takes, if enough are left.

    Reductions that lanes cannot share, and single elements of sums, are left to one thread each.
    """
    has_reductions = any(isinstance(node, Reduce) for node in nodes(stage.body))
    if not stage.axes or (has_reductions and reduce is None):
        return 1
    total = prod(axis.extent for axis in stage.axes)
    loads = [node for node in nodes(stage.body) if isinstance(node, Load)]
    dtypes = (stage.target.dtype, *(load.dtype for load in loads))
    width = _ACCESS_BYTES // max(dtype.size_bytes for dtype in dtypes)
    busy = device.multiprocessors * device.threads_per_multiprocessor // 2
    while width > 1 and (stage.axes[-1].extent % width or total // width < busy):
        width //= 2
    return width


def _taps(reduce: Reduce, axes: dict[Axis, Index], sums: Buffer, lane: Axis) -> Statement:
    conditions, body = _guarded(reduce)
    chosen = Substitution(axes, {})
    term: Expr = chosen.expr(body)
    here = (at(lane),)
    statement = _lanes(lane, Store(sums, here, apply(JOINS[reduce.kind], Load(sums, here), term)))
    within = tuple((chosen.index(index), low, high) for index, low, high in conditions)
    if within:
        statement = When(within, (statement,))
    unroll = prod(axis.extent for axis in reduce.axes) <= _WRITTEN_OUT
    for axis in reversed(reduce.axes):
        statement = Serial(axis, (statement,), unroll=unroll)
    return statement


def _guarded(reduce: Reduce) -> tuple[Conditions, Expr]:
    """Take a window's padding apart, which joins the first value, and so nothing."""
    match reduce.body:
        case Guarded(conditions, inner, Literal(value)) if value == reduce.initial.value:
            return conditions, inner
        case body:
            return (), body


def _stored(stage: Stage, axes: dict[Axis, Index], replaced: dict[Expr, Expr]) -> Statement:
    chosen = Substitution(axes, replaced)
    return Store(stage.target, tuple(map(chosen.index, stage.index)), chosen.expr(stage.body))


def _lanes(lane: Axis, statement: Statement) -> Statement:
    return Serial(lane, (statement,), unroll=True)
