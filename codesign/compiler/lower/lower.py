"""Relay to kernels: groups of steps, each in the layout that suits it.

Networks of images run in blocks of channels from their first convolution to the last; values are
copied between layouts only where one group's layout is not the next one's.
"""

from __future__ import annotations

from math import prod
from typing import Final, final

from codesign.compiler.lower.anchors import ANCHORS, convolution_of, product_of
from codesign.compiler.lower.blocked import BlockedLowering
from codesign.compiler.lower.context import Context, Operands, operands_of
from codesign.compiler.lower.graph import Graph, Step, Value
from codesign.compiler.lower.group import FUSIBLE, Group, fuse
from codesign.compiler.lower.legalize import legalize
from codesign.compiler.lower.placement import domain
from codesign.compiler.lower.program import Home, Launch, Place, Program
from codesign.compiler.lower.rule import attrs_of
from codesign.compiler.lower.rules import READS_ONCE, RULES, expression
from codesign.compiler.schedule.machine import Machine
from codesign.diagnostics import CodesignError, Problem
from codesign.ir.tensor.compute import Load
from codesign.ir.tensor.kernel import LoopKernel, Stage
from codesign.ir.tensor.layout import PLAIN, Buffer, Layout
from codesign.ops.axis import AxisAttrs

_KEEPS_CHANNELS: Final = FUSIBLE | {
    "nn.max_pool2d",
    "cpu.avg_pool2d",
    "qnn.sum_pool2d",
    "nn.global_avg_pool2d",
    "nn.global_max_pool2d",
    "cpu.dilate",
    "cpu.resize_nearest",
    "cpu.resize_linear",
}


def lower(graph: Graph, machine: Machine) -> Program:
    """Return a network's kernels; one output of int8 for every check follows the graph's own.

    Raises CodesignError for every operator that has no lowering, all together.
    """
    legal = legalize(graph)
    checked = tuple(check.value for check in legal.checks)
    legal = Graph(legal.inputs, legal.steps, (*legal.outputs, *checked), legal.checks)
    missing = [
        Problem(
            what=f"the CPU backend has no lowering for {step.operator}",
            span=step.span,
            help="run the network in the interpreter, or leave the operator out",
        )
        for step in legal.steps
        if step.operator not in RULES and step.operator != "concatenate"
    ]
    if missing:
        raise CodesignError(*missing)
    mistakes = tuple(check.mistake for check in legal.checks)
    return Program(_Lowering(legal, machine).run(), mistakes)


@final
class _Lowering:
    def __init__(self, graph: Graph, machine: Machine) -> None:
        self.graph = graph
        self.context = Context(graph, machine)
        self.blocked = BlockedLowering(self.context)

    def run(self) -> tuple[Launch, ...]:
        for number, value in enumerate(self.graph.inputs):
            size = prod(value.shape) * value.dtype.size_bytes
            self.context.placement.declare(value, Place(Home.INPUT, size, number))
        homes = [
            Place(Home.OUTPUT, prod(value.shape) * value.dtype.size_bytes, number)
            for number, value in enumerate(self.graph.outputs)
        ]
        for value, home in zip(self.graph.outputs, homes, strict=True):
            self.context.outputs.setdefault(value, home)
        for group in fuse(self.graph, ANCHORS):
            self._group(group)
        for value, home in zip(self.graph.outputs, homes, strict=True):
            stored = self.context.placement.layouts(value)
            if stored.get(PLAIN) is not home and prod(value.shape) > 0:
                source = min(stored, key=lambda layout: layout.block)
                self._copy_out(value, source, home)
        return tuple(self.context.placement.launches)

    def _copy_out(self, value: Value, source: Layout, home: Place) -> None:
        before = Buffer("source", value.shape, value.dtype, source)
        after = Buffer("target", value.shape, value.dtype)
        axes, index = domain(value.shape, PLAIN)
        kernel = LoopKernel((before, after), (Stage(after, index, axes, Load(before, index)),))
        origin = self.context.placement.layouts(value)[source]
        self.context.placement.launches.append(Launch(kernel, (origin, home), "copy"))

    def _group(self, group: Group) -> None:
        anchor = group.anchor
        if anchor.operator == "reshape":
            self._reshape(anchor)
        elif anchor.operator == "concatenate":
            self._concatenate(anchor)
        elif (convolution := convolution_of(anchor, self.context.machine.lanes)) is not None:
            if self.blocked.takes_blocks(group):
                self.blocked.convolution(group, convolution)
            else:
                self.blocked.convolution(Group((anchor,)), convolution)
                self._loops(Group(group.steps[1:]))
        elif (product := product_of(anchor)) is not None and self.blocked.takes_operands(group):
            self.blocked.product(group, product)
        else:
            self._loops(group)

    def _stays_blocked(self, group: Group) -> bool:
        if len(group.result.shape) != 4 or 0 in group.result.shape:
            return False
        if any(step.operator not in _KEEPS_CHANNELS for step in group.steps):
            return False
        channels = group.result.shape[1]
        wants = False
        for value in operands_of(group):
            if value.constant is not None or prod(value.shape) == 1:
                continue
            if len(value.shape) != 4 or value.shape[1] not in (1, channels):
                return False
            wants = wants or (
                value.shape[1] == channels and self.context.placement.is_blocked(value)
            )
        return wants

    def _reshape(self, step: Step) -> None:
        (value,) = step.inputs
        if value.constant is not None or prod(value.shape) == 0:
            self.context.placement.create(step.result, PLAIN)
            return
        for layout, place in self.context.placement.layouts(value).items():
            if _is_row_major(value, layout):
                alias = Layout(storage=layout.storage)
                self.context.placement.declare(step.result, place, alias)
                return
        _, place = self.context.placement.fetch(value, block=1)
        self.context.placement.declare(step.result, place)

    def _concatenate(self, step: Step) -> None:
        axis = attrs_of(step, AxisAttrs).axis % len(step.result.shape)
        lanes = self.context.machine.lanes
        aligned = axis == 1 and all(value.shape[1] % lanes == 0 for value in step.inputs)
        blocked = [value for value in step.inputs if self.context.placement.is_blocked(value)]
        is_blocked = len(step.result.shape) == 4 and aligned and len(blocked) > 0
        layout = self.context.home_layout(step.result, is_blocked)
        place = self.context.target(step.result, layout)
        offset = 0
        for value in step.inputs:
            if prod(value.shape):
                self._piece(step, value, layout, place, axis, offset)
            offset += value.shape[axis]

    def _piece(
        self, step: Step, value: Value, layout: Layout, place: Place, axis: int, offset: int
    ) -> None:
        source_layout, source_place = self.context.placement.fetch(
            value, block=layout.block, any_storage=True
        )
        source = Buffer("source", value.shape, value.dtype, source_layout)
        target = Buffer("target", step.result.shape, step.result.dtype, layout)
        axes, index = domain(value.shape, layout)
        moved = tuple(each + offset if i == axis else each for i, each in enumerate(index))
        kernel = LoopKernel((source, target), (Stage(target, moved, axes, Load(source, index)),))
        self.context.placement.launches.append(Launch(kernel, (source_place, place), step.operator))

    def _loops(self, group: Group) -> None:
        is_blocked = self._stays_blocked(group)
        layout = self.context.home_layout(group.result, is_blocked)
        place = self.context.target(group.result, layout)
        if prod(group.result.shape) == 0:
            return
        operands = Operands()
        axes, index = domain(group.result.shape, layout)
        reads_once = group.anchor.operator in READS_ONCE
        body = expression(
            group,
            index,
            lambda value: self.context.operand(operands, value, is_blocked, reads_once),
            None,
        )
        target = operands.add(
            Buffer("target", group.result.shape, group.result.dtype, layout), place
        )
        stage = Stage(target, index, axes, body)
        self.context.launch(group, operands, LoopKernel(tuple(operands.places), (stage,)))


def _is_row_major(value: Value, layout: Layout) -> bool:
    """Whether the elements lie as a plain tensor's, whatever their storage type."""
    if layout.has_halo:
        return False
    if layout.block == 1:
        return True
    n, c, h, w = value.shape
    return h * w == 1 and (n == 1 or c % layout.block == 0)
