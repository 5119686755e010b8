"""Groups that hand-blocked kernels take: convolutions in blocks of channels, products of rows."""

from __future__ import annotations

from math import prod
from typing import Final, final

from codesign.accel.arithmetic import wrap
from codesign.compiler.lower.anchors import Convolution, Product
from codesign.compiler.lower.context import Context, Operands, operands_of
from codesign.compiler.lower.graph import Value
from codesign.compiler.lower.group import Group
from codesign.compiler.lower.rules import expression
from codesign.compiler.schedule.packing import channels_of, pack_contraction, pack_depthwise
from codesign.compiler.schedule.tiles import Reduction, Tile, choose_tile
from codesign.dtypes import Array, DType
from codesign.ir.tensor.compute import Accumulator, Expr, convert
from codesign.ir.tensor.index import Axis, at, unflatten
from codesign.ir.tensor.kernel import Contraction, Depthwise, Kernel
from codesign.ir.tensor.layout import Buffer, Layout
from codesign.ops.qnn.limits import CODES

_PLAIN_CHANNELS: Final = 4
"""Up to so many input channels, a convolution reads a plain tensor as it is."""

_FLAT_WIDTH: Final = 32
"""Rows narrower than this are joined where a convolution looks at single pixels."""


@final
class BlockedLowering:
    """Makes `Contraction` and `Depthwise` kernels."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def convolution(self, group: Group, convolution: Convolution) -> None:
        """Lower a convolution and what was fused to it."""
        step = group.anchor
        data, weight = step.inputs[0], convolution.weight
        lanes = self.context.machine.lanes
        layout = self.context.home_layout(group.result, is_blocked=True)
        is_plain = (
            not convolution.is_depthwise
            and convolution.dtype is DType.FLOAT32
            and data.shape[1] <= _PLAIN_CHANNELS
            and not self.context.placement.is_blocked(data)
        )
        data_layout, data_place = self.context.placement.fetch(
            data,
            block=1 if is_plain else lanes,
            halo=convolution.halo,
            fill=convolution.fill,
            storage=self.context.pairs_storage(data.dtype, takes_bytes=convolution.takes_bytes),
        )
        operands = Operands()
        channels = group.result.shape[1]
        is_flat = self._can_flatten(group, convolution, data_layout, layout)
        shape = _flat(group.result.shape) if is_flat else group.result.shape
        axes = _vector_axes(shape, lanes)
        batch, outer, y, x, lane = (at(axis) for axis in axes)
        index = (batch, outer * lanes + lane, y, x)
        epilogue = expression(
            group,
            index,
            lambda value: self._flat_operand(operands, value, is_flat, group.result.shape),
            self._sums(convolution, step.result.dtype),
        )
        extra = tuple(operands.places)
        data_shape = _flat(data.shape) if is_flat else data.shape
        data_buffer = operands.add(Buffer("data", data_shape, data.dtype, data_layout), data_place)
        tile = self._tile(shape[3], channels // convolution.groups, weight[0].size, convolution)
        packed = self._packed(convolution, data_layout.block, tile.vectors)
        weight_buffer = self._constant_operand(operands, "weight", packed)
        initial = self._initial(operands, convolution, convolution.fill)
        target = operands.add(
            Buffer("target", shape, group.result.dtype, layout),
            self.context.target(group.result, layout),
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
        self.context.launch(group, operands, kernel)

    def takes_blocks(self, group: Group) -> bool:
        """Return whether every further operand lies, or can be laid, in blocks of channels."""
        channels = group.result.shape[1]
        return all(
            value.constant is not None
            or prod(value.shape) == 1
            or (len(value.shape) == 4 and value.shape[1] in (1, channels))
            for value in operands_of(group)[2:]
        )

    def _packed(self, convolution: Convolution, block: int, run: int) -> Array:
        lanes = self.context.machine.lanes
        if convolution.is_depthwise:
            return pack_depthwise(
                convolution.weight, lanes, pairs=not self._takes_bytes(convolution)
            )
        packed = pack_contraction(
            convolution.weight,
            groups=convolution.groups,
            channels=channels_of(convolution.weight.shape[1], block),
            lanes=lanes,
            run=run,
            pairs=convolution.dtype in CODES,
        )
        return self._as_read(convolution, packed)

    def _takes_bytes(self, anchor: Convolution | Product) -> bool:
        return self.context.machine.is_narrow and anchor.takes_bytes

    def _as_read(self, anchor: Convolution | Product, packed: Array) -> Array:
        return packed.astype("int8") if self._takes_bytes(anchor) else packed

    def _sums(self, anchor: Convolution | Product, dtype: DType) -> Expr:
        """Return a kernel's accumulator as the operator's result.

        Integers are summed in 32 bits unless bytes are taken as they are.
        """
        if not dtype.is_integer or self._takes_bytes(anchor):
            return Accumulator(dtype)
        return convert(Accumulator(DType.INT32), dtype)

    def _tile(
        self, pixels: int, outputs: int, products: int, anchor: Convolution | Product
    ) -> Tile:
        machine = self.context.machine
        is_integer = anchor.dtype in CODES
        steps = -(-products // 2) if is_integer else products
        bits = 16 if self._takes_bytes(anchor) else 32
        reduction = Reduction(steps, is_integer, bits // 8 * machine.lanes)
        vectors = -(-outputs // machine.lanes)
        return choose_tile(pixels, vectors, machine.registers_for(bits), reduction)

    def _can_flatten(
        self, group: Group, convolution: Convolution, data: Layout, target: Layout
    ) -> bool:
        _, _, height, width = group.result.shape
        if not convolution.is_pointwise or data.has_halo or target.has_halo:
            return False
        if height == 1 or width == 1 or width >= _FLAT_WIDTH:
            return False
        for value in operands_of(group)[2:]:
            spatial = value.shape[-2:] if len(value.shape) >= 2 else (1, 1)
            if len(value.shape) >= 2 and spatial != (1, 1):
                if value.constant is not None or len(value.shape) != 4:
                    return False
                layouts = self.context.placement.layouts(value)
                if spatial != (height, width) or any(each.has_halo for each in layouts):
                    return False
        return True

    def _flat_operand(
        self, operands: Operands, value: Value, is_flat: bool, shape: tuple[int, ...]
    ) -> Buffer:
        buffer = operands.buffers.get((value, True))
        if buffer is not None:
            return buffer
        natural = self.context.operand(operands, value, is_blocked=True, reads_once=True)
        if not (is_flat and len(value.shape) == 4 and value.shape[2:] == shape[2:]):
            return natural
        place = operands.places.pop(natural)
        flat = Buffer(
            natural.name, _flat(value.shape), value.dtype, natural.layout, natural.is_constant
        )
        operands.buffers[(value, True)] = flat
        return operands.add(flat, place)

    def _constant_operand(self, operands: Operands, name: str, array: Array) -> Buffer:
        buffer = Buffer(name, array.shape, DType.of(array.dtype), is_constant=True)
        return operands.add(buffer, self.context.placement.constant(array))

    def _initial(
        self, operands: Operands, anchor: Convolution | Product, zero_point: int
    ) -> Buffer | None:
        """Products with the zero point, which every accumulator starts without.

        Bytes of contractions are multiplied as unsigned ones: with 128 more.
        """
        takes_bytes = self._takes_bytes(anchor)
        is_depthwise = isinstance(anchor, Convolution) and anchor.is_depthwise
        origin = zero_point + (128 if takes_bytes and not is_depthwise else 0)
        if anchor.dtype not in CODES or origin == 0:
            return None
        sums = anchor.weight.astype("int64").reshape(anchor.weight.shape[0], -1).sum(axis=1)
        bits = 16 if takes_bytes else 32
        return self._constant_operand(
            operands, "initial", wrap(-origin * sums, bits).astype(f"int{bits}")
        )

    def takes_operands(self, group: Group) -> bool:
        """Return whether every further operand may be read a vector at a time."""
        rank = len(group.result.shape)
        return all(
            value.constant is not None or len(value.shape) == rank or prod(value.shape) == 1
            for value in operands_of(group)[2:]
        )

    def product(self, group: Group, product: Product) -> None:
        """Lower a product of rows with a known matrix, and what was fused to it."""
        step = group.anchor
        data = step.inputs[0]
        lanes = self.context.machine.lanes
        *lead, inner = data.shape
        rows, outputs = prod(lead), group.result.shape[-1]
        layout = self.context.home_layout(group.result, is_blocked=False)
        storage = self.context.pairs_storage(product.dtype, takes_bytes=product.takes_bytes)
        data_layout, data_place = self.context.placement.fetch(data, block=1, storage=storage)
        operands = Operands()
        shape = (1, outputs, 1, rows)
        axes = _vector_axes(shape, lanes)
        _, outer, _, row, lane = (at(axis) for axis in axes)
        index = (*unflatten(row, tuple(lead)), outer * lanes + lane)
        epilogue = expression(
            group,
            index,
            lambda value: self.context.operand(operands, value, is_blocked=False, reads_once=True),
            self._sums(product, step.result.dtype),
        )
        extra = tuple(operands.places)
        view = Layout(block=inner, storage=data_layout.storage)
        data_buffer = operands.add(
            Buffer("data", (1, inner, 1, rows), data.dtype, view), data_place
        )
        tile = self._tile(rows, outputs, inner, product)
        packed = pack_contraction(
            product.weight[:, :, None, None],
            groups=1,
            channels=channels_of(inner, inner),
            lanes=lanes,
            run=tile.vectors,
            pairs=product.dtype in CODES,
        )
        packed = self._as_read(product, packed)
        weight_buffer = self._constant_operand(operands, "weight", packed)
        initial = self._initial(operands, product, product.zero_point)
        target_view = Layout(block=outputs, storage=layout.storage)
        target = operands.add(
            Buffer("target", shape, group.result.dtype, target_view),
            self.context.target(group.result, layout),
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
        self.context.launch(group, operands, kernel)


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
