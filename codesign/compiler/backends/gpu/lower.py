"""A network as kernels of threads: groups of steps in plain layouts, each with a schedule."""

from __future__ import annotations

from math import prod
from typing import Final, final

from codesign.compiler.backends.gpu.contraction import product_in, tiled
from codesign.compiler.backends.gpu.device import DeviceModel
from codesign.compiler.backends.gpu.elementwise import per_element
from codesign.compiler.backends.gpu.flatten import flattened
from codesign.compiler.backends.gpu.program import GpuLaunch, GpuProgram
from codesign.compiler.backends.gpu.reduction import per_block, wants_block
from codesign.compiler.backends.gpu.tensor_core import matrix_product, on_tensor_cores
from codesign.compiler.lower.anchors import ANCHORS
from codesign.compiler.lower.context import operands_of
from codesign.compiler.lower.graph import Graph, Step, Value
from codesign.compiler.lower.group import Group, fuse
from codesign.compiler.lower.legalize import legalize
from codesign.compiler.lower.placement import domain
from codesign.compiler.lower.program import Home, Place
from codesign.compiler.lower.rule import attrs_of
from codesign.compiler.lower.rules import RULES, expression
from codesign.diagnostics import CodesignError, Problem
from codesign.ir.simt.kernel import SimtKernel
from codesign.ir.tensor.compute import Load, Reduce
from codesign.ir.tensor.index import Index
from codesign.ir.tensor.kernel import Stage
from codesign.ir.tensor.layout import PLAIN, Buffer
from codesign.ir.tensor.walk import nodes
from codesign.ops.axis import AxisAttrs

_SMALL_PRODUCT: Final = 256
"""Products of m x n x k below which a thread to an element does as well as a tile."""


def lower(graph: Graph, device: DeviceModel) -> GpuProgram:
    """Return a network's kernels; one output of int8 for every check follows the graph's own.

    Raises CodesignError for every operator that has no lowering, all together.
    """
    legal = legalize(graph)
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
    mistakes = tuple(check.mistake for check in legal.checks)
    return GpuProgram(_Lowering(legal, device).run(), mistakes)


def schedule(stage: Stage, operands: tuple[Buffer, ...], device: DeviceModel) -> SimtKernel:
    """Return the kernel that suits a stage: by tiles, by blocks, or by single threads."""
    stage, operands = flattened(stage, operands)
    reductions = [node for node in nodes(stage.body) if isinstance(node, Reduce)]
    if len(reductions) == 1:
        (reduce,) = reductions
        product = product_in(stage, reduce)
        if product is not None and prod(product.sizes[1:]) >= _SMALL_PRODUCT:
            matrix = matrix_product(product, device)
            if matrix is not None:
                return on_tensor_cores(matrix, operands, device)
            return tiled(product, operands, device)
        if wants_block(stage, reduce, device):
            return per_block(stage, reduce, operands, device)
    return per_element(stage, operands, device)


@final
class _Lowering:
    def __init__(self, graph: Graph, device: DeviceModel) -> None:
        self.graph = graph
        self.device = device
        self.places: dict[Value, Place] = {}
        self.outputs: dict[Value, Place] = {}
        self.launches: list[GpuLaunch] = []

    def run(self) -> tuple[GpuLaunch, ...]:
        for number, value in enumerate(self.graph.inputs):
            self.places[value] = Place(Home.INPUT, _size(value), number)
        homes = [
            Place(Home.OUTPUT, _size(value), number)
            for number, value in enumerate(self.graph.outputs)
        ]
        for value, home in zip(self.graph.outputs, homes, strict=True):
            self.outputs.setdefault(value, home)
        for group in fuse(self.graph, ANCHORS):
            self._group(group)
        for value, home in zip(self.graph.outputs, homes, strict=True):
            if self._place(value) is not home and prod(value.shape) > 0:
                self._copy(value, home)
        return tuple(self.launches)

    def _group(self, group: Group) -> None:
        anchor = group.anchor
        if anchor.operator == "reshape":
            self.places[anchor.result] = self._place(anchor.inputs[0])
        elif anchor.operator == "concatenate":
            self._concatenate(anchor)
        else:
            self._stage(group)

    def _place(self, value: Value) -> Place:
        if value not in self.places:
            assert value.constant is not None, "what is no constant has been computed"
            self.places[value] = Place(Home.CONSTANTS, _size(value), array=value.constant)
        return self.places[value]

    def _create(self, value: Value) -> Place:
        place = self.outputs.get(value) or Place(Home.WORKSPACE, _size(value))
        self.places[value] = place
        return place

    def _stage(self, group: Group) -> None:
        result = group.result
        home = self._create(result)
        if prod(result.shape) == 0:
            return
        buffers = {
            value: Buffer(f"operand{number}", value.shape, value.dtype)
            for number, value in enumerate(operands_of(group))
        }
        target = Buffer("target", result.shape, result.dtype)
        axes, index = domain(result.shape, PLAIN)
        body = expression(group, index, lambda value: buffers[value], None)
        read = {
            value: buffer
            for value, buffer in buffers.items()
            if any(isinstance(node, Load) and node.buffer is buffer for node in nodes(body))
            or value.constant is None
        }
        kernel = schedule(Stage(target, index, axes, body), (*read.values(), target), self.device)
        places = (*map(self._place, read), home)
        self._launch(kernel, places, "+".join(step.operator for step in group.steps))

    def _launch(self, kernel: SimtKernel, places: tuple[Place, ...], label: str) -> None:
        if kernel.block.extent > self.device.blocks:
            raise CodesignError.of(
                f"{label} needs {kernel.block.extent} blocks of threads",
                found=f"{self.device.architecture} starts {self.device.blocks} at most",
                help="split the tensor",
            )
        self.launches.append(GpuLaunch(kernel, places, label))

    def _copy(self, value: Value, home: Place) -> None:
        self._move(value, home, value.shape, None, 0, "copy")

    def _concatenate(self, step: Step) -> None:
        axis = attrs_of(step, AxisAttrs).axis % len(step.result.shape)
        home = self._create(step.result)
        offset = 0
        for value in step.inputs:
            if prod(value.shape):
                self._move(value, home, step.result.shape, axis, offset, step.operator)
            offset += value.shape[axis]

    def _move(
        self,
        value: Value,
        home: Place,
        shape: tuple[int, ...],
        axis: int | None,
        offset: int,
        label: str,
    ) -> None:
        """Copy a value into a tensor, `offset` further on one axis."""
        source = Buffer("source", value.shape, value.dtype)
        target = Buffer("target", shape, value.dtype)
        axes, index = domain(value.shape, PLAIN)
        moved: tuple[Index, ...] = tuple(
            each + offset if number == axis else each for number, each in enumerate(index)
        )
        stage = Stage(target, moved, axes, Load(source, index))
        kernel = per_element(stage, (source, target), self.device)
        self._launch(kernel, (self._place(value), home), label)


def _size(value: Value) -> int:
    return prod(value.shape) * value.dtype.size_bytes
