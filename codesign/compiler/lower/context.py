"""What lowering knows while it runs: the graph, the processor, and where values are stored."""

from __future__ import annotations

from typing import final

from codesign.compiler.lower.anchors import convolution_of
from codesign.compiler.lower.graph import Graph, Step, Value
from codesign.compiler.lower.group import Group
from codesign.compiler.lower.placement import NO_HALO, Halo, Placement
from codesign.compiler.lower.program import Home, Launch, Place
from codesign.compiler.schedule.machine import Machine
from codesign.dtypes import DType
from codesign.ir.tensor.kernel import Kernel
from codesign.ir.tensor.layout import PLAIN, Buffer, Layout


@final
class Operands:
    """Buffers of a kernel that is being made, with their places."""

    def __init__(self) -> None:
        self.buffers: dict[tuple[Value, bool], Buffer] = {}
        self.places: dict[Buffer, Place] = {}

    def add(self, buffer: Buffer, place: Place) -> Buffer:
        self.places[buffer] = place
        return buffer


@final
class Context:
    """State of one lowering; kernels are appended to `placement.launches`."""

    def __init__(self, graph: Graph, machine: Machine) -> None:
        self.machine = machine
        self.placement = Placement()
        self.consumers: dict[Value, list[Step]] = {}
        for step in graph.steps:
            for value in step.inputs:
                self.consumers.setdefault(value, []).append(step)
        self.outputs: dict[Value, Place] = {}

    def home_layout(self, value: Value, is_blocked: bool) -> Layout:
        """Return the layout in which most consumers want a value."""
        storage = None
        halo, fill = NO_HALO, 0
        for step in self.consumers.get(value, ()):
            wish = convolution_of(step, self.machine.lanes)
            if wish is not None and step.inputs[0] is value and is_blocked:
                if any(wish.halo) and (not any(halo) or fill == wish.fill):
                    halo = _widest(halo, wish.halo)
                    fill = wish.fill
            elif step.operator == "qnn.dense" and step.inputs[0] is value:
                storage = self.pairs_storage(value.dtype)
        if is_blocked:
            storage = self.pairs_storage(value.dtype)
        if not is_blocked:
            return PLAIN if value in self.outputs else Layout(storage=storage)
        return Layout(self.machine.lanes, halo, fill, storage)

    def pairs_storage(self, dtype: DType, *, takes_bytes: bool = True) -> DType | None:
        """Return how data lie for products in pairs, where not as they are: int8 as int16.

        Where sums have 16 bits, bytes are multiplied as they are.
        """
        if dtype is not DType.INT8 or (self.machine.is_narrow and takes_bytes):
            return None
        return DType.INT16

    def target(self, value: Value, layout: Layout) -> Place:
        """Make room for a group's result."""
        home = self.outputs.get(value) if layout == PLAIN else None
        return self.placement.create(value, layout, home)

    def operand(
        self, operands: Operands, value: Value, is_blocked: bool, reads_once: bool
    ) -> Buffer:
        """Return the buffer by which a kernel reads a value, in the layout that suits it."""
        known = operands.buffers.get((value, False))
        if known is not None:
            return known
        stored = self.placement.layouts(value)
        if is_blocked and len(value.shape) == 4 and value.constant is None and value.shape[1] > 1:
            layout, place = self.placement.fetch(value, block=self.machine.lanes, any_storage=True)
        elif not is_blocked and not reads_once and len(value.shape) == 4:
            layout, place = self.placement.fetch(value, block=1, any_storage=True)
        else:
            layout = min(stored, key=lambda each: (each.block, each.storage is not None))
            place = stored[layout]
        buffer = Buffer(
            f"operand{len(operands.places)}",
            value.shape,
            value.dtype,
            layout,
            is_constant=place.home is Home.CONSTANTS,
        )
        operands.buffers[(value, False)] = buffer
        return operands.add(buffer, place)

    def launch(self, group: Group, operands: Operands, kernel: Kernel) -> None:
        """Append a kernel whose pointers are the operands in the order in which they were added."""
        places = tuple(operands.places[buffer] for buffer in operands.places)
        label = "+".join(step.operator for step in group.steps)
        self.placement.launches.append(Launch(kernel, places, label))


def operands_of(group: Group) -> list[Value]:
    """Return the values that a group reads, the anchor's first."""
    inside = {step.result for step in group.steps}
    found = dict.fromkeys(value for step in group.steps for value in step.inputs)
    return [value for value in found if value not in inside]


def _widest(one: Halo, other: Halo) -> Halo:
    top, left, bottom, right = (max(a, b) for a, b in zip(one, other, strict=True))
    return top, left, bottom, right
