"""Relay to kernels: groups of steps, each in the layout that suits it.

Networks of images run in blocks of channels from their first convolution to the last; values are
copied between layouts only where one group's layout is not the next one's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Final, final

from codesign.compiler.lower import elementwise, movement, quantized, reductions
from codesign.compiler.lower.anchors import (
    ANCHORS,
    Convolution,
    Product,
    convolution_of,
    product_of,
)
from codesign.compiler.lower.graph import Graph, Step, Value
from codesign.compiler.lower.group import FUSIBLE, Group, fuse
from codesign.compiler.lower.legalize import legalize
from codesign.compiler.lower.placement import NO_HALO, Halo, Placement, domain
from codesign.compiler.lower.program import Home, Launch, Place, Program
from codesign.compiler.lower.rule import Rule, attrs_of
from codesign.compiler.schedule.machine import Machine
from codesign.compiler.schedule.packing import channels_of, pack_contraction, pack_depthwise
from codesign.compiler.schedule.tiles import Reduction, Tile, choose_tile
from codesign.diagnostics import CodesignError, Problem
from codesign.dtypes import Array, DType
from codesign.ir.tensor.compute import Accumulator, Expr, Load
from codesign.ir.tensor.index import Axis, Index, at, unflatten
from codesign.ir.tensor.kernel import Contraction, Depthwise, Kernel, LoopKernel, Stage
from codesign.ir.tensor.layout import PLAIN, Buffer, Layout
from codesign.ops.axis import AxisAttrs

RULES: Final[Mapping[str, Rule]] = {
    **elementwise.RULES,
    **quantized.RULES,
    **movement.RULES,
    **reductions.RULES,
}
"""How the general path computes an element of each operator's result."""

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
_PLAIN_CHANNELS: Final = 4
"""Up to so many input channels, a convolution reads a plain tensor as it is."""

_FLAT_WIDTH: Final = 32
"""Rows narrower than this are joined where a convolution looks at single pixels."""


def lower(graph: Graph, machine: Machine) -> Program:
    """Return a network's kernels.

    Raises CodesignError for every operator that has no lowering, all together.
    """
    legal = legalize(graph)
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
    return _Lowering(legal, machine).run()


@final
class _Operands:
    """Buffers of a kernel that is being made, with their places."""

    def __init__(self) -> None:
        self.buffers: dict[tuple[Value, bool], Buffer] = {}
        self.places: dict[Buffer, Place] = {}

    def add(self, buffer: Buffer, place: Place) -> Buffer:
        self.places[buffer] = place
        return buffer


@final
class _Lowering:
    def __init__(self, graph: Graph, machine: Machine) -> None:
        self.graph = graph
        self.machine = machine
        self.placement = Placement()
        self.consumers: dict[Value, list[Step]] = {}
        for step in graph.steps:
            for value in step.inputs:
                self.consumers.setdefault(value, []).append(step)
        self.outputs: dict[Value, Place] = {}

    def run(self) -> Program:
        for number, value in enumerate(self.graph.inputs):
            size = prod(value.shape) * value.dtype.size_bytes
            self.placement.declare(value, Place(Home.INPUT, size, number))
        homes = [
            Place(Home.OUTPUT, prod(value.shape) * value.dtype.size_bytes, number)
            for number, value in enumerate(self.graph.outputs)
        ]
        for value, home in zip(self.graph.outputs, homes, strict=True):
            self.outputs.setdefault(value, home)
        for group in fuse(self.graph, ANCHORS):
            self._group(group)
        for value, home in zip(self.graph.outputs, homes, strict=True):
            stored = self.placement.layouts(value)
            if stored.get(PLAIN) is not home and prod(value.shape):
                source = min(stored, key=lambda layout: layout.block)
                self._copy_out(value, source, home)
        return Program(tuple(self.placement.launches))

    def _copy_out(self, value: Value, source: Layout, home: Place) -> None:
        before = Buffer("source", value.shape, value.dtype, source)
        after = Buffer("target", value.shape, value.dtype)
        axes, index = domain(value.shape, PLAIN)
        kernel = LoopKernel((before, after), (Stage(after, index, axes, Load(before, index)),))
        origin = self.placement.layouts(value)[source]
        self.placement.launches.append(Launch(kernel, (origin, home), "copy"))

    def _group(self, group: Group) -> None:
        anchor = group.anchor
        if anchor.operator == "reshape":
            self._reshape(anchor)
        elif anchor.operator == "concatenate":
            self._concatenate(anchor)
        elif (convolution := convolution_of(anchor, self.machine.lanes)) is not None:
            if self._takes_blocks(group):
                self._convolution(group, convolution)
            else:
                self._convolution(Group((anchor,)), convolution)
                self._loops(Group(group.steps[1:]))
        elif (product := product_of(anchor)) is not None and self._takes_operands(group):
            self._product(group, product)
        else:
            self._loops(group)

    # ---- layouts

    def _home_layout(self, value: Value, is_blocked: bool) -> Layout:
        """The layout in which most consumers want a value."""
        storage = None
        halo, fill = NO_HALO, 0
        for step in self.consumers.get(value, ()):
            wish = convolution_of(step, self.machine.lanes)
            if wish is not None and step.inputs[0] is value and is_blocked:
                if any(wish.halo) and (not any(halo) or fill == wish.fill):
                    halo = _widest(halo, wish.halo)
                    fill = wish.fill
            elif step.operator == "qnn.dense" and step.inputs[0] is value:
                storage = DType.INT16
        if value.dtype is DType.INT8 and is_blocked:
            storage = DType.INT16
        if not is_blocked:
            return PLAIN if value in self.outputs else Layout(storage=storage)
        return Layout(self.machine.lanes, halo, fill, storage)

    def _target(self, value: Value, layout: Layout) -> Place:
        home = self.outputs.get(value) if layout == PLAIN else None
        return self.placement.create(value, layout, home)

    def _stays_blocked(self, group: Group) -> bool:
        if len(group.result.shape) != 4 or 0 in group.result.shape:
            return False
        if any(step.operator not in _KEEPS_CHANNELS for step in group.steps):
            return False
        channels = group.result.shape[1]
        wants = False
        for value in _operands_of(group):
            if value.constant is not None or prod(value.shape) == 1:
                continue
            if len(value.shape) != 4 or value.shape[1] not in (1, channels):
                return False
            wants = wants or (value.shape[1] == channels and self.placement.is_blocked(value))
        return wants

    # ---- groups

    def _reshape(self, step: Step) -> None:
        (value,) = step.inputs
        if value.constant is not None or prod(value.shape) == 0:
            self.placement.create(step.result, PLAIN)
            return
        for layout, place in self.placement.layouts(value).items():
            if _is_row_major(value, layout):
                alias = Layout(storage=layout.storage)
                self.placement.declare(step.result, place, alias)
                return
        _, place = self.placement.fetch(value, block=1)
        self.placement.declare(step.result, place)

    def _concatenate(self, step: Step) -> None:
        axis = attrs_of(step, AxisAttrs).axis % len(step.result.shape)
        lanes = self.machine.lanes
        aligned = axis == 1 and all(value.shape[1] % lanes == 0 for value in step.inputs)
        blocked = [value for value in step.inputs if self.placement.is_blocked(value)]
        is_blocked = len(step.result.shape) == 4 and aligned and len(blocked) > 0
        layout = self._home_layout(step.result, is_blocked)
        place = self._target(step.result, layout)
        offset = 0
        for value in step.inputs:
            if prod(value.shape):
                self._piece(step, value, layout, place, axis, offset)
            offset += value.shape[axis]

    def _piece(
        self, step: Step, value: Value, layout: Layout, place: Place, axis: int, offset: int
    ) -> None:
        source_layout, source_place = self.placement.fetch(
            value, block=layout.block, any_storage=True
        )
        source = Buffer("source", value.shape, value.dtype, source_layout)
        target = Buffer("target", step.result.shape, step.result.dtype, layout)
        axes, index = domain(value.shape, layout)
        moved = tuple(each + offset if i == axis else each for i, each in enumerate(index))
        kernel = LoopKernel((source, target), (Stage(target, moved, axes, Load(source, index)),))
        self.placement.launches.append(Launch(kernel, (source_place, place), step.operator))

    def _loops(self, group: Group) -> None:
        is_blocked = self._stays_blocked(group)
        layout = self._home_layout(group.result, is_blocked)
        place = self._target(group.result, layout)
        if prod(group.result.shape) == 0:
            return
        operands = _Operands()
        axes, index = domain(group.result.shape, layout)
        reads_once = group.anchor.operator in movement.RULES or group.anchor.operator in FUSIBLE
        body = _expression(
            group,
            index,
            lambda value: self._operand(operands, value, is_blocked, reads_once),
            None,
        )
        target = operands.add(
            Buffer("target", group.result.shape, group.result.dtype, layout), place
        )
        stage = Stage(target, index, axes, body)
        self._launch(group, operands, LoopKernel(tuple(operands.places), (stage,)))

    def _operand(
        self, operands: _Operands, value: Value, is_blocked: bool, reads_once: bool
    ) -> Buffer:
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

    def _launch(self, group: Group, operands: _Operands, kernel: Kernel) -> None:
        places = tuple(operands.places[buffer] for buffer in operands.places)
        label = "+".join(step.operator for step in group.steps)
        self.placement.launches.append(Launch(kernel, places, label))

    # ---- hand-blocked kernels

    def _convolution(self, group: Group, convolution: Convolution) -> None:
        step = group.anchor
        data, weight = step.inputs[0], convolution.weight
        lanes = self.machine.lanes
        layout = self._home_layout(group.result, is_blocked=True)
        is_plain = (
            not convolution.is_depthwise
            and convolution.dtype is DType.FLOAT32
            and data.shape[1] <= _PLAIN_CHANNELS
            and not self.placement.is_blocked(data)
        )
        data_layout, data_place = self.placement.fetch(
            data,
            block=1 if is_plain else lanes,
            halo=convolution.halo,
            fill=convolution.fill,
            storage=DType.INT16 if data.dtype is DType.INT8 else None,
        )
        operands = _Operands()
        channels = group.result.shape[1]
        is_flat = self._can_flatten(group, convolution, data_layout, layout)
        shape = _flat(group.result.shape) if is_flat else group.result.shape
        axes = _vector_axes(shape, lanes)
        batch, outer, y, x, lane = (at(axis) for axis in axes)
        index = (batch, outer * lanes + lane, y, x)
        epilogue = _expression(
            group,
            index,
            lambda value: self._flat_operand(operands, value, is_flat, group.result.shape),
            Accumulator(step.result.dtype),
        )
        extra = tuple(operands.places)
        data_shape = _flat(data.shape) if is_flat else data.shape
        data_buffer = operands.add(Buffer("data", data_shape, data.dtype, data_layout), data_place)
        tile = self._tile(
            shape[3], channels // convolution.groups, weight[0].size, convolution.dtype
        )
        packed = self._packed(convolution, data_layout.block, tile.vectors)
        weight_buffer = self._constant_operand(operands, "weight", packed)
        initial = self._initial(operands, convolution.dtype, weight, convolution.fill)
        target = operands.add(
            Buffer("target", shape, group.result.dtype, layout),
            self._target(group.result, layout),
        )
        kernel: Kernel
        if convolution.is_depthwise:
            kernel = Depthwise(
                data_buffer,
                weight_buffer,
                target,
                extra,
                axes,
                convolution.window,
                epilogue,
                initial,
            )
        else:
            kernel = Contraction(
                data_buffer,
                weight_buffer,
                target,
                extra,
                axes,
                convolution.window,
                convolution.groups,
                epilogue,
                tile.pixels,
                tile.vectors,
                initial,
            )
        self._launch(group, operands, kernel)

    def _packed(self, convolution: Convolution, block: int, run: int) -> Array:
        lanes = self.machine.lanes
        if convolution.is_depthwise:
            return pack_depthwise(convolution.weight, lanes)
        return pack_contraction(
            convolution.weight,
            groups=convolution.groups,
            channels=channels_of(convolution.weight.shape[1], block),
            lanes=lanes,
            run=run,
            pairs=convolution.dtype is DType.INT8,
        )

    def _tile(self, pixels: int, outputs: int, products: int, dtype: DType) -> Tile:
        lanes = self.machine.lanes
        is_integer = dtype is DType.INT8
        steps = -(-products // 2) if is_integer else products
        reduction = Reduction(steps, is_integer, 4 * lanes)
        return choose_tile(pixels, -(-outputs // lanes), self.machine.registers, reduction)

    def _can_flatten(
        self, group: Group, convolution: Convolution, data: Layout, target: Layout
    ) -> bool:
        _, _, height, width = group.result.shape
        if not convolution.is_pointwise or data.has_halo or target.has_halo:
            return False
        if height == 1 or width == 1 or width >= _FLAT_WIDTH:
            return False
        for value in _operands_of(group)[2:]:
            spatial = value.shape[-2:] if len(value.shape) >= 2 else (1, 1)
            if len(value.shape) >= 2 and spatial != (1, 1):
                if value.constant is not None or len(value.shape) != 4:
                    return False
                layouts = self.placement.layouts(value)
                if spatial != (height, width) or any(each.has_halo for each in layouts):
                    return False
        return True

    def _flat_operand(
        self, operands: _Operands, value: Value, is_flat: bool, shape: tuple[int, ...]
    ) -> Buffer:
        buffer = operands.buffers.get((value, True))
        if buffer is not None:
            return buffer
        natural = self._operand(operands, value, is_blocked=True, reads_once=True)
        if not (is_flat and len(value.shape) == 4 and value.shape[2:] == shape[2:]):
            return natural
        place = operands.places.pop(natural)
        flat = Buffer(
            natural.name, _flat(value.shape), value.dtype, natural.layout, natural.is_constant
        )
        operands.buffers[(value, True)] = flat
        return operands.add(flat, place)

    def _constant_operand(self, operands: _Operands, name: str, array: Array) -> Buffer:
        buffer = Buffer(name, array.shape, DType.of(array.dtype), is_constant=True)
        return operands.add(buffer, self.placement.constant(array))

    def _initial(
        self, operands: _Operands, dtype: DType, weight: Array, zero_point: int
    ) -> Buffer | None:
        """Products with the zero point, which every accumulator starts without."""
        if dtype is not DType.INT8 or zero_point == 0:
            return None
        sums = weight.astype("int64").reshape(weight.shape[0], -1).sum(axis=1)
        return self._constant_operand(operands, "initial", (-zero_point * sums).astype("int32"))

    def _takes_blocks(self, group: Group) -> bool:
        """Whether every further operand lies, or can be laid, in blocks of channels."""
        channels = group.result.shape[1]
        return all(
            value.constant is not None
            or prod(value.shape) == 1
            or (len(value.shape) == 4 and value.shape[1] in (1, channels))
            for value in _operands_of(group)[2:]
        )

    def _takes_operands(self, group: Group) -> bool:
        """Whether every further operand may be read a vector at a time."""
        rank = len(group.result.shape)
        return all(
            value.constant is not None or len(value.shape) == rank or prod(value.shape) == 1
            for value in _operands_of(group)[2:]
        )

    def _product(self, group: Group, product: Product) -> None:
        step = group.anchor
        data = step.inputs[0]
        lanes = self.machine.lanes
        *lead, inner = data.shape
        rows, outputs = prod(lead), group.result.shape[-1]
        layout = self._home_layout(group.result, is_blocked=False)
        storage = DType.INT16 if product.dtype is DType.INT8 else None
        data_layout, data_place = self.placement.fetch(data, block=1, storage=storage)
        operands = _Operands()
        shape = (1, outputs, 1, rows)
        axes = _vector_axes(shape, lanes)
        _, outer, _, row, lane = (at(axis) for axis in axes)
        index = (*unflatten(row, tuple(lead)), outer * lanes + lane)
        epilogue = _expression(
            group,
            index,
            lambda value: self._operand(operands, value, is_blocked=False, reads_once=True),
            Accumulator(step.result.dtype),
        )
        extra = tuple(operands.places)
        view = Layout(block=inner, storage=data_layout.storage)
        data_buffer = operands.add(
            Buffer("data", (1, inner, 1, rows), data.dtype, view), data_place
        )
        tile = self._tile(rows, outputs, inner, product.dtype)
        packed = pack_contraction(
            product.weight[:, :, None, None],
            groups=1,
            channels=channels_of(inner, inner),
            lanes=lanes,
            run=tile.vectors,
            pairs=product.dtype is DType.INT8,
        )
        weight_buffer = self._constant_operand(operands, "weight", packed)
        initial = self._initial(operands, product.dtype, product.weight, product.zero_point)
        target_view = Layout(block=outputs, storage=layout.storage)
        target = operands.add(
            Buffer("target", shape, group.result.dtype, target_view),
            self._target(group.result, layout),
        )
        kernel = Contraction(
            data_buffer,
            weight_buffer,
            target,
            extra,
            axes,
            product.window,
            1,
            epilogue,
            tile.pixels,
            tile.vectors,
            initial,
        )
        self._launch(group, operands, kernel)


def _expression(
    group: Group,
    index: tuple[Index, ...],
    buffer_of: Callable[[Value], Buffer],
    accumulator: Accumulator | None,
) -> Expr:
    """The group's result at an index, with everything inside the group inlined."""
    producers = {step.result: step for step in group.steps}
    known: dict[tuple[Value, tuple[Index, ...]], Expr] = {}

    def element(value: Value, place: tuple[Index, ...]) -> Expr:
        key = (value, place)
        if key not in known:
            known[key] = fresh(value, place)
        return known[key]

    def fresh(value: Value, place: tuple[Index, ...]) -> Expr:
        step = producers.get(value)
        if step is None:
            return Load(buffer_of(value), place)
        if accumulator is not None and step is group.anchor:
            return accumulator
        rule = RULES[step.operator]
        return rule(step, place, lambda number, at_: element(step.inputs[number], at_))

    return element(group.result, index)


def _operands_of(group: Group) -> list[Value]:
    inside = {step.result for step in group.steps}
    found = dict.fromkeys(value for step in group.steps for value in step.inputs)
    return [value for value in found if value not in inside]


def _vector_axes(shape: tuple[int, ...], lanes: int) -> tuple[Axis, Axis, Axis, Axis, Axis]:
    n, c, h, w = shape
    return (
        Axis("n", n),
        Axis("block", -(-c // lanes)),
        Axis("y", h),
        Axis("x", w),
        Axis("lane", lanes),
    )


def _flat(shape: tuple[int, ...]) -> tuple[int, ...]:
    n, c, h, w = shape
    return (n, c, 1, h * w)


def _widest(one: Halo, other: Halo) -> Halo:
    top, left, bottom, right = (max(a, b) for a, b in zip(one, other, strict=True))
    return top, left, bottom, right


def _is_row_major(value: Value, layout: Layout) -> bool:
    """Whether the elements lie as a plain tensor's, whatever their storage type."""
    if layout.has_halo:
        return False
    if layout.block == 1:
        return True
    n, c, h, w = value.shape
    return h * w == 1 and (n == 1 or c % layout.block == 0)
