"""The hand-blocked kernel of depthwise convolutions.

A run of pixels of one row stays in registers; each element of the data under it is loaded once a
row of the window and used for every pixel that it takes part in. int8 data lies as int16: each
element is the first of a pair whose second is zero, and so are the weights. Where sums have 16
bits, int8 lies as it is and is widened when it is loaded.
"""

from __future__ import annotations

from typing import Final, final

from codesign.compiler.backends.llvm.pairs import multiply_pairs
from codesign.compiler.backends.llvm.scalar import ScalarEmitter
from codesign.compiler.backends.llvm.target import CpuTarget
from codesign.compiler.backends.llvm.text import FunctionText
from codesign.compiler.schedule.tiles import split_evenly
from codesign.dtypes import DType
from codesign.ir.tensor.compute import Load
from codesign.ir.tensor.index import at
from codesign.ir.tensor.kernel import Depthwise
from codesign.ir.tensor.layout import Buffer

_UNROLLED: Final = 9
"""Windows of up to so many elements are written out; larger ones loop over their rows."""


def depthwise_operands(kernel: Depthwise) -> tuple[Buffer, ...]:
    """Return the buffers of the function's pointers, in order."""
    initial = () if kernel.initial is None else (kernel.initial,)
    return (*kernel.operands, kernel.data, kernel.weight, *initial, kernel.target)


def emit_depthwise(kernel: Depthwise, text: FunctionText, target: CpuTarget) -> None:
    """Write the body of a depthwise kernel's function; its operands are `%p0`, `%p1` and on."""
    _Emission(kernel, text, target).run()


@final
class _Emission:
    def __init__(self, kernel: Depthwise, text: FunctionText, target: CpuTarget) -> None:
        self.kernel = kernel
        self.target = target
        self.text = text
        self.lanes = kernel.axes[4].extent
        self.is_narrow = kernel.data.storage is DType.INT8
        self.is_integer = kernel.data.storage is DType.INT16
        pointers = {buffer: f"%p{place}" for place, buffer in enumerate(depthwise_operands(kernel))}
        self.data = pointers[kernel.data]
        self.weight = pointers[kernel.weight]
        self.emitter = ScalarEmitter(text, pointers)
        element = {DType.INT8: "i16", DType.INT16: "i32"}.get(kernel.data.storage, "float")
        self.vector = f"<{self.lanes} x {element}>"
        self.wide = f"<{2 * self.lanes} x i16>"
        self.data_bytes = kernel.data.storage.size_bytes
        self.vector_bytes = (2 if self.is_narrow else 4) * self.lanes
        self.pixels = max(1, target.registers - 2 - kernel.window.size[1])

    def run(self) -> None:
        kernel, text, emitter = self.kernel, self.text, self.emitter
        emitter.lanes, emitter.vector_axis = self.lanes, kernel.axes[4]
        emitter.axes[kernel.axes[4]] = "0"
        height, width = kernel.window.size
        strides = kernel.data.strides
        top, left, _, _ = kernel.data.layout.halo
        origin = (top - kernel.window.before[0]) * strides[2]
        origin += (left - kernel.window.before[1]) * strides[3]
        with (
            text.loop(kernel.axes[0].extent) as (n, _),
            text.loop(kernel.axes[1].extent) as (
                block,
                _,
            ),
        ):
            weight = self._moved(self.weight, block, height * width * self.vector_bytes)
            starts = self._start(block)
            with text.loop(kernel.axes[2].extent) as (y, _):
                emitter.axes[kernel.axes[0]] = n
                emitter.axes[kernel.axes[1]] = block
                emitter.axes[kernel.axes[2]] = y
                data = self._moved(self.data, n, strides[0] * self.data_bytes)
                data = self._moved(data, block, strides[1] * self.data_bytes)
                rows = kernel.window.strides[0] * strides[2] * self.data_bytes
                data = self._moved(data, y, rows)
                data = self._moved(data, str(origin), self.data_bytes)
                self._row(data, weight, starts)

    def _start(self, block: str) -> str:
        initial = self.kernel.initial
        if initial is None:
            return "zeroinitializer"
        self.emitter.axes[self.kernel.axes[1]] = block
        place = at(self.kernel.axes[1]) * self.lanes + at(self.kernel.axes[4])
        return self.emitter.evaluate(Load(initial, (place,)))

    def _row(self, data: str, weight: str, start: str) -> None:
        kernel = self.kernel
        done = 0
        step = kernel.window.strides[1] * kernel.data.strides[3] * self.data_bytes
        for count, pixels in split_evenly(kernel.axes[3].extent, self.pixels):
            with self.text.loop(count) as (tile, _):
                x = self.text.op(f"mul nsw i64 {tile}, {pixels}")
                x = self.text.op(f"add nsw i64 {x}, {done}")
                self._tile(self._moved(data, x, step), weight, start, x, pixels)
            done += count * pixels

    def _tile(self, data: str, weight: str, start: str, x: str, pixels: int) -> None:
        kernel, emitter = self.kernel, self.emitter
        height, width = kernel.window.size
        row = kernel.window.dilation[0] * kernel.data.strides[2] * self.data_bytes
        sums = [start] * pixels
        if height * width <= _UNROLLED:
            for place in range(height):
                sums = self._window_row(
                    self._moved(data, str(place), row),
                    self._moved(weight, str(place), width * self.vector_bytes),
                    sums,
                )
        else:
            carried = tuple((self.vector, total) for total in sums)
            with self.text.loop(height, carried) as (ky, state):
                state.next = self._window_row(
                    self._moved(data, ky, row),
                    self._moved(weight, ky, width * self.vector_bytes),
                    state.current,
                )
            sums = state.current
        n, block, y, column, lane = (at(axis) for axis in kernel.axes)
        index = (n, block * self.lanes + lane, y, column)
        for pixel in range(pixels):
            emitter.axes[kernel.axes[3]] = self.text.op(f"add nsw i64 {x}, {pixel}")
            emitter.accumulator = sums[pixel]
            emitter.store(kernel.target, index, kernel.epilogue)

    def _window_row(self, data: str, weight: str, sums: list[str]) -> list[str]:
        kernel = self.kernel
        width = kernel.window.size[1]
        right, stride = kernel.window.dilation[1], kernel.window.strides[1]
        column = kernel.data.strides[3] * self.data_bytes
        weights = [
            self._load_weight(self._moved(weight, str(kx), self.vector_bytes))
            for kx in range(width)
        ]
        totals = list(sums)
        uses: dict[int, list[tuple[int, int]]] = {}
        for pixel in range(len(sums)):
            for kx in range(width):
                uses.setdefault(pixel * stride + kx * right, []).append((pixel, kx))
        for place in sorted(uses):
            value = self._load_data(self._moved(data, str(place), column))
            for pixel, kx in uses[place]:
                totals[pixel] = self._accumulate(totals[pixel], value, weights[kx])
        return totals

    def _load_weight(self, pointer: str) -> str:
        kind = self.wide if self.is_integer else self.vector
        return self.text.op(f"load {kind}, ptr {pointer}, align 4")

    def _load_data(self, pointer: str) -> str:
        if self.is_narrow:
            narrow = f"<{self.lanes} x i8>"
            value = self.text.op(f"load {narrow}, ptr {pointer}, align 1")
            return self.text.op(f"sext {narrow} {value} to {self.vector}")
        if not self.is_integer:
            return self.text.op(f"load {self.vector}, ptr {pointer}, align 4")
        narrow = f"<{self.lanes} x i16>"
        value = self.text.op(f"load {narrow}, ptr {pointer}, align 2")
        paired = self.text.op(f"zext {narrow} {value} to {self.vector}")
        return self.text.op(f"bitcast {self.vector} {paired} to {self.wide}")

    def _accumulate(self, total: str, value: str, weight: str) -> str:
        kind = self.vector
        if self.is_narrow:
            product = self.text.op(f"mul {kind} {value}, {weight}")
            return self.text.op(f"add {kind} {total}, {product}")
        if not self.is_integer:
            return self.text.call(
                kind, f"llvm.fma.v{self.lanes}f32", (kind, value), (kind, weight), (kind, total)
            )
        product = multiply_pairs(self.text, self.target, self.lanes, value, weight)
        return self.text.op(f"add {kind} {total}, {product}")

    def _moved(self, pointer: str, steps: str, size: int) -> str:
        if steps.lstrip("-").isdigit():
            offset = str(int(steps) * size)
            if offset == "0":
                return pointer
        else:
            offset = self.text.op(f"mul nsw i64 {steps}, {size}")
        return self.text.op(f"getelementptr i8, ptr {pointer}, i64 {offset}")
