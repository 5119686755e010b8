"""A network as kernels of threads: groups of steps in plain layouts, each with a schedule."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Final, final

import numpy as np

from codesign.compiler.backends.gpu.attention import ATTENTION, AttentionAttrs, with_attention
from codesign.compiler.backends.gpu.attention_kernel import attention_of, over_keys
from codesign.compiler.backends.gpu.device import DeviceModel
from codesign.compiler.backends.gpu.elementwise import per_element
from codesign.compiler.backends.gpu.flatten import flattened
from codesign.compiler.backends.gpu.grouping import groups_of
from codesign.compiler.backends.gpu.prepare import PRODUCTS, is_widening, prepared
from codesign.compiler.backends.gpu.program import GpuLaunch, GpuProgram
from codesign.compiler.backends.gpu.row_kernel import over_rows
from codesign.compiler.backends.gpu.rows import ROWS, RowsAttrs, with_rows
from codesign.compiler.backends.gpu.schedule import schedule
from codesign.compiler.lower.context import operands_of
from codesign.compiler.lower.graph import Graph, Step, Value
from codesign.compiler.lower.group import FUSIBLE, Group
from codesign.compiler.lower.legalize import legalize
from codesign.compiler.lower.placement import domain
from codesign.compiler.lower.program import Home, Place
from codesign.compiler.lower.rule import attrs_of
from codesign.compiler.lower.rules import RULES, expression
from codesign.diagnostics import CodesignError, Problem
from codesign.ir.simt.kernel import SimtKernel
from codesign.ir.simt.touched import read_by, written_by
from codesign.ir.tensor.compute import Load
from codesign.ir.tensor.index import Index
from codesign.ir.tensor.kernel import Stage
from codesign.ir.tensor.layout import PLAIN, Buffer, Layout
from codesign.ir.tensor.walk import nodes
from codesign.ops.axis import AxisAttrs

_CONVOLUTIONS: Final = frozenset({"nn.conv2d", "qnn.conv2d"})
_KEEPING: Final = FUSIBLE | {
    *("nn.max_pool2d", "cpu.avg_pool2d", "nn.pad", "concatenate"),
    *("qnn.max_pool2d", "qnn.sum_pool2d", "cpu.resize_nearest", "cpu.resize_linear"),
}
"""Operators whose result may lie as their operand does."""

_TURNING: Final = PRODUCTS | {ATTENTION}
"""Operators that read a turned tensor as well as a plain one."""

_MOVED_WHOLE: Final = frozenset({"reshape", "concatenate"})
"""Operators that move tensors and do not look at elements."""


def lower(graph: Graph, device: DeviceModel) -> GpuProgram:
    """Return a network's kernels; one output of int8 for every check follows the graph's own.

    Raises CodesignError for every operator that has no lowering, all together.
    """
    legal = legalize(graph)
    if device.has_tensor_cores:
        legal = prepared(legal)
    checked = tuple(check.value for check in legal.checks)
    legal = Graph(legal.inputs, legal.steps, (*legal.outputs, *checked), legal.checks)
    missing = [
        Problem(
            what=f"the GPU backend has no lowering for {step.operator}",
            span=step.span,
            help="run the network in the interpreter, or leave the operator out",
        )
        for step in legal.steps
        if step.operator not in RULES and step.operator != "concatenate"
    ]
    if missing:
        raise CodesignError(*missing)
    legal = with_rows(legal)
    if device.has_tensor_cores:
        legal = with_attention(legal)
    mistakes = tuple(check.mistake for check in legal.checks)
    return GpuProgram(_Lowering(legal, device).run(), mistakes)


@final
class _Lowering:
    def __init__(self, graph: Graph, device: DeviceModel) -> None:
        self.graph = graph
        self.device = device
        self.stored: dict[Value, dict[Layout, Place]] = {}
        self.outputs: dict[Value, Place] = {}
        self.launches: list[GpuLaunch] = []
        self.views = {
            step.result: step
            for step in graph.steps
            if is_widening(step) or step.operator in ("transpose", "cpu.slice")
        }

    def run(self) -> tuple[GpuLaunch, ...]:
        for number, value in enumerate(self.graph.inputs):
            self._declare(value, Place(Home.INPUT, _size(value), number))
        homes = [
            Place(Home.OUTPUT, _size(value), number)
            for number, value in enumerate(self.graph.outputs)
        ]
        for value, home in zip(self.graph.outputs, homes, strict=True):
            self.outputs.setdefault(value, home)
        for group in groups_of(self.graph):
            self._group(group)
        for value, home in zip(self.graph.outputs, homes, strict=True):
            if self._plain(value) is not home and prod(value.shape) > 0:
                self._move(value, PLAIN, home, PLAIN, "copy")
        return tuple(self.launches)

    def _group(self, group: Group) -> None:
        anchor = group.anchor
        if anchor.operator == "reshape":
            self._declare(anchor.result, self._plain(anchor.inputs[0]))
        elif anchor.operator == "concatenate":
            self._concatenate(anchor)
        elif anchor.operator in (ROWS, ATTENTION):
            if anchor.operator == ROWS:
                self._rows(anchor)
            else:
                self._attention(anchor)
            if len(group.steps) > 1:
                self._stage(Group(group.steps[1:]))
        elif not self._is_left_to_readers(group):
            self._stage(group)

    def _is_left_to_readers(self, group: Group) -> bool:
        """Whether a group only widens, turns or cuts a tensor, which its readers do by the way."""
        value = group.result
        if len(group.steps) > 1 or value not in self.views or value in self.outputs:
            return False
        readers = self._readers(value)
        if group.anchor.operator == "transpose":
            return all(step.operator in _TURNING for step in readers)
        return all(step.operator not in _MOVED_WHOLE for step in readers)

    def _readers(self, value: Value) -> list[Step]:
        """Return the steps that read a value, through those that only widen it."""
        found: list[Step] = []
        for step in self.graph.steps:
            if value in step.inputs:
                through = is_widening(step) and step.result not in self.outputs
                found += self._readers(step.result) if through else [step]
        return found

    def _with_views(self, group: Group) -> Group:
        """Return the group with what was left to it, read by the way."""
        views: list[Step] = []
        whole = group
        while True:
            inside = {step.result for step in whole.steps}
            found = [
                self.views[value]
                for value in operands_of(whole)
                if value in self.views and value not in inside and value not in self.stored
            ]
            if not found:
                return whole
            views += found
            whole = Group((*views, *group.steps))

    def _declare(self, value: Value, place: Place, layout: Layout = PLAIN) -> None:
        self.stored.setdefault(value, {})[layout] = place

    def _stored(self, value: Value) -> dict[Layout, Place]:
        if value not in self.stored:
            assert value.constant is not None, "what is no constant has been computed"
            self._declare(value, Place(Home.CONSTANTS, _size(value), array=value.constant))
        return self.stored[value]

    def _plain(self, value: Value) -> Place:
        """Return where a value lies in its plain layout, moving it if it does not yet."""
        stored = self._stored(value)
        if PLAIN not in stored:
            (layout,) = stored
            home = Place(Home.WORKSPACE, _size(value))
            self._move(value, layout, home, PLAIN, "copy")
            self._declare(value, home)
        return stored[PLAIN]

    def _create(self, value: Value, layout: Layout) -> Place:
        home = self.outputs.get(value) if layout == PLAIN else None
        place = home or Place(Home.WORKSPACE, _size(value))
        self._declare(value, place, layout)
        return place

    def _layout(self, group: Group) -> Layout:
        """Return how a result lies: images whose channels are multiplied or kept, channels last."""
        value = group.result
        if not self.device.has_tensor_cores or value in self.outputs or len(value.shape) != 4:
            return PLAIN
        _, channels, height, width = value.shape
        if channels == 1 or height * width == 1:
            return PLAIN
        operator = group.anchor.operator
        follows = any(PLAIN not in self.stored.get(each, {PLAIN: None}) for each in _read(group))
        if operator in _CONVOLUTIONS or (operator in _KEEPING and follows):
            return Layout(block=channels)
        return PLAIN

    def _operand(self, group: Group, value: Value) -> tuple[Layout, Place]:
        """Return in which layout, and where, a group reads a value."""
        stored = self._stored(value)
        for step in group.steps:
            if step.operator in _CONVOLUTIONS and _weight_of(step, group) is value:
                layout = Layout(block=value.shape[1])
                if (
                    value.constant is None
                    or value.shape[1] == 1
                    or not self.device.has_tensor_cores
                ):
                    break
                if layout not in stored:
                    array = np.ascontiguousarray(value.constant.transpose(0, 2, 3, 1))
                    place = Place(Home.CONSTANTS, array.nbytes, array=array)
                    self._declare(value, place, layout)
                return layout, stored[layout]
        layout = min(stored, key=lambda each: each == PLAIN)
        return layout, stored[layout]

    def _stage(self, group: Group) -> None:
        result = group.result
        layout = self._layout(group)
        home = self._create(result, layout)
        if prod(result.shape) == 0:
            return
        whole = self._with_views(group)
        stored = {value: self._operand(whole, value) for value in operands_of(whole)}
        buffers = {
            value: Buffer(f"operand{number}", value.shape, value.dtype, each)
            for number, (value, (each, _)) in enumerate(stored.items())
        }
        target = Buffer("target", result.shape, result.dtype, layout)
        axes, index = domain(result.shape, layout)
        body = expression(whole, index, lambda value: buffers[value], None)
        read = {
            value: buffer
            for value, buffer in buffers.items()
            if any(isinstance(node, Load) and node.buffer is buffer for node in nodes(body))
            or value.constant is None
        }
        found = schedule(Stage(target, index, axes, body), (*read.values(), target), self.device)
        places = tuple(stored[value][1] for value in read)
        label = "+".join(step.operator for step in group.steps)
        if isinstance(found, SimtKernel):
            self._launch(found, (*places, home), label)
            return
        partial = Place(Home.WORKSPACE, found.partial.size_bytes)
        self._launch(found.multiply, (*places, partial), f"{label} in parts")
        self._launch(found.join, (*places, partial, home), f"{label} joined")

    def _rows(self, step: Step) -> None:
        attrs = attrs_of(step, RowsAttrs)
        group = Group(attrs.steps)
        home = self._create(step.result, PLAIN)
        if prod(step.result.shape) == 0:
            return
        whole = self._with_views(group)
        views = whole.steps[: len(whole.steps) - len(group.steps)]
        buffers, places = self._buffers(whole)
        target = Buffer("target", step.result.shape, step.result.dtype)
        kernel = over_rows(attrs.steps, views, buffers, target, self.device)
        self._launch(kernel, (*places, home), "+".join(each.operator for each in attrs.steps))

    def _buffers(
        self, group: Group, absent: Value | None = None
    ) -> tuple[dict[Value, Buffer], list[Place]]:
        """Return the buffers by which a group reads its operands, and their places.

        What is `absent` has a buffer, the last one, and no place.
        """
        buffers: dict[Value, Buffer] = {}
        places: list[Place] = []
        for value in operands_of(group):
            if value is not absent:
                layout, place = self._operand(group, value)
                name = f"operand{len(buffers)}"
                buffers[value] = Buffer(name, value.shape, value.dtype, layout)
                places.append(place)
        if absent is not None:
            buffers[absent] = Buffer("absent", absent.shape, absent.dtype)
        return buffers, places

    def _attention(self, step: Step) -> None:
        """Run attention as one kernel, or in its three parts where that does not go."""
        attrs = attrs_of(step, AttentionAttrs)
        scores, weighted = Group(attrs.scores), Group(attrs.weighted)
        whole = self._with_views(Group((*attrs.scores, *attrs.weighted)))
        views = whole.steps[: len(whole.steps) - len(attrs.scores) - len(attrs.weighted)]
        buffers, places = self._buffers(whole, attrs.softmax.result)
        operands = tuple(buffers.values())[:-1]
        stages = []
        for group in (scores, weighted):
            target = Buffer("target", group.result.shape, group.result.dtype)
            axes, index = domain(group.result.shape, PLAIN)
            steps = Group((*views, *group.steps))
            body = expression(steps, index, lambda value: buffers[value], None)
            stages.append(Stage(target, index, axes, body))
        attention = attention_of(stages[0], stages[1], self.device)
        kernel = None
        if attention is not None:
            kernel = over_keys(attention, (*operands, stages[1].target), self.device)
        if kernel is None:
            self._stage(scores)
            self._rows(attrs.softmax)
            self._stage(weighted)
            return
        home = self._create(step.result, PLAIN)
        self._launch(kernel, (*places, home), "attention")

    def _launch(self, kernel: SimtKernel, places: tuple[Place, ...], label: str) -> None:
        """Launch a kernel on those of its operands that it touches: for others nobody waits."""
        if kernel.block.extent > self.device.blocks:
            raise CodesignError.of(
                f"{label} needs {kernel.block.extent} blocks of threads",
                found=f"{self.device.architecture} starts {self.device.blocks} at most",
                help="split the tensor",
            )
        touched = read_by(kernel) | written_by(kernel)
        kept = [
            (buffer, place)
            for buffer, place in zip(kernel.operands, places, strict=True)
            if buffer in touched
        ]
        kernel = replace(kernel, operands=tuple(buffer for buffer, _ in kept))
        self.launches.append(GpuLaunch(kernel, tuple(place for _, place in kept), label))

    def _concatenate(self, step: Step) -> None:
        axis = attrs_of(step, AxisAttrs).axis % len(step.result.shape)
        layout = self._layout(Group((step,)))
        home = self._create(step.result, layout)
        offset = 0
        for value in step.inputs:
            if prod(value.shape):
                source = min(self._stored(value), key=lambda each: each == PLAIN)
                target = Buffer("target", step.result.shape, value.dtype, layout)
                self._moved(value, source, target, home, step.operator, (axis, offset))
            offset += value.shape[axis]

    def _move(self, value: Value, source: Layout, home: Place, layout: Layout, label: str) -> None:
        target = Buffer("target", value.shape, value.dtype, layout)
        self._moved(value, source, target, home, label, (0, 0))

    def _moved(
        self,
        value: Value,
        source: Layout,
        target: Buffer,
        home: Place,
        label: str,
        shift: tuple[int, int],
    ) -> None:
        """Copy a value into a tensor; `shift` is how far on which axis."""
        origin = Buffer("source", value.shape, value.dtype, source)
        axes, index = domain(value.shape, _of_part(target, value))
        axis, offset = shift
        moved: tuple[Index, ...] = tuple(
            each + offset if number == axis else each for number, each in enumerate(index)
        )
        stage, operands = flattened(
            Stage(target, moved, axes, Load(origin, index)), (origin, target)
        )
        kernel = per_element(stage, operands, self.device)
        self._launch(kernel, (self._stored(value)[source], home), label)


def _read(group: Group) -> list[Value]:
    return [value for value in operands_of(group) if len(value.shape) == 4]


def _weight_of(step: Step, group: Group) -> Value:
    """Return a convolution's weight, as it is stored where the group widens it."""
    weight = step.inputs[1]
    for other in group.steps:
        if other.result is weight and is_widening(other):
            return other.inputs[0]
    return weight


def _of_part(target: Buffer, value: Value) -> Layout:
    """Return the layout in whose order a part of a tensor is walked."""
    return PLAIN if target.layout == PLAIN else Layout(block=value.shape[1])


def _size(value: Value) -> int:
    return prod(value.shape) * value.dtype.size_bytes
