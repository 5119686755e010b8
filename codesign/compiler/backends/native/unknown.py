"""Kernels for tensors whose extents are known at run time only.

    void unknown(output, input …, elements of output, extents of output …, extents of inputs …)

Where every operand of an elementwise operator has the result's shape or is a scalar, one loop runs
over all elements, a vector at a time; else a loop for each axis reads operands by their strides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Final, final

from codesign.compiler.backends.llvm.scalar import ScalarEmitter
from codesign.compiler.backends.llvm.target import CpuTarget
from codesign.compiler.backends.llvm.text import FunctionText
from codesign.compiler.backends.llvm.vectorize import is_vectorizable
from codesign.compiler.backends.native.tensors import tensor_type
from codesign.compiler.lower import elementwise, told_lengths
from codesign.compiler.lower.graph import Step
from codesign.compiler.lower.graph import Value as Tensor
from codesign.compiler.lower.rule import Rule
from codesign.compiler.lower.rules import RULES
from codesign.dtypes import DType
from codesign.ir.control.program import Operator
from codesign.ir.relay.expr import Attrs
from codesign.ir.relay.types import UNKNOWN, TensorType
from codesign.ir.tensor.compute import Expr, Load
from codesign.ir.tensor.index import Axis, Index, at
from codesign.ir.tensor.layout import Buffer
from codesign.ops.cast import CastAttrs
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.nn.conv2d_transpose import Conv2DTransposeAttrs
from codesign.ops.nn.pad import PadAttrs
from codesign.ops.nn.pool2d import Pool2DAttrs

_SAME: Final[Mapping[str, str]] = {
    "cast_like": "cast",
    "broadcast_to_like": "broadcast_to",
    "dyn.broadcast_to": "broadcast_to",
    "cpu.max": "max",
}
"""Operators that compute what another one's rule says."""

_ALONG_AXES: Final = frozenset({"nn.bias_add", "nn.prelu", "nn.batch_norm", "cpu.scale_shift"})
"""Elementwise operators for which an element's place matters."""

_FAR: Final = 1 << 40
"""Extents that are not known count from here, so that every index may reach far."""


@final
class UnknownKernels:
    """Writes kernels into the module of kernels, each once; `definitions` are their texts."""

    def __init__(self, target: CpuTarget) -> None:
        self.target = target
        self.definitions: list[str] = []
        self.declarations: set[str] = set()
        self._names: dict[str, str] = {}

    def kernel(self, operator: Operator, inputs: tuple[TensorType, ...], result: TensorType) -> str:
        """Return the name of the kernel of an operator that has a rule."""
        body = _Kernel(operator, inputs, result, self.target.lanes).text(self.declarations)
        if body not in self._names:
            name = f"unknown{len(self._names)}"
            self._names[body] = name
            self.definitions.append(f"define void @{name}{body}")
        return self._names[body]


def has_rule(operator: Operator) -> bool:
    """Whether a kernel can be written for an operator on shapes that are not known."""
    if _SAME.get(operator.operator, operator.operator) not in _RULES:
        return False
    match operator.attrs:
        case Conv2DAttrs() | Conv2DTransposeAttrs():
            data, weight = (tensor_type(value).shape for value in operator.inputs)
            is_known = data[1] is not UNKNOWN and UNKNOWN not in weight
            return is_known and _is_plain(operator.attrs)
        case Pool2DAttrs() as pool:
            return pool.is_plain and min(pool.padding) >= 0
        case _:
            return True


def _is_plain(attrs: Conv2DAttrs | Conv2DTransposeAttrs) -> bool:
    return min(attrs.padding) >= 0 and (isinstance(attrs, Conv2DTransposeAttrs) or attrs.is_plain)


def _needs_lengths(name: str, attrs: Attrs | None) -> bool:
    """Whether an operator's rule is told the lengths of its data."""
    if isinstance(attrs, PadAttrs):
        return attrs.mode != "constant"
    return name in told_lengths.RULES


def _rules() -> dict[str, Rule]:
    names = {
        *(name for name in elementwise.RULES if name not in _ALONG_AXES),
        *("nn.bias_add", "transpose", "broadcast_to", "one_hot", "take", "nn.pad"),
        *("sum", "prod", "max", "min", "cpu.argmax", "nn.dense", "nn.matmul"),
        *("nn.conv2d", "nn.conv2d_transpose", "nn.max_pool2d"),
    }
    return {**told_lengths.RULES, **{name: RULES[name] for name in names if name in RULES}}


_RULES: Final = _rules()


@final
class _Kernel:
    def __init__(
        self,
        operator: Operator,
        inputs: tuple[TensorType, ...],
        result: TensorType,
        lanes: int,
    ) -> None:
        self.name = _SAME.get(operator.operator, operator.operator)
        self.attrs: Attrs | None = operator.attrs
        if operator.operator == "cast_like":
            self.attrs = CastAttrs(dtype=result.dtype)
        self.inputs = inputs
        self.result = result
        self.lanes = lanes
        self.far: Iterator[int] = count(_FAR)
        self.body = FunctionText()
        self.shapes = [self._shape(f"d{place}", type_) for place, type_ in enumerate(inputs)]
        self.target = self._shape("r", result)

    def text(self, declarations: set[str]) -> str:
        """Return parameters and body of the kernel."""
        body = self.body
        if self.name in elementwise.RULES and self.name not in _ALONG_AXES:
            flat, general, done = body.fresh(), body.fresh(), body.fresh()
            body.do(f"br i1 {self._is_flat()}, label %{flat}, label %{general}")
            body.label(flat)
            self._flat()
            body.do(f"br label %{done}")
            body.label(general)
            self._general()
            body.do(f"br label %{done}")
            body.label(done)
        else:
            self._general()
        declarations |= body.declarations
        pointers = ["ptr %out", *(f"ptr %in{place}" for place in range(len(self.inputs)))]
        extents = [f"i64 %r.{axis}" for axis in range(len(self.target))]
        for place, shape in enumerate(self.shapes):
            extents += [f"i64 %d{place}.{axis}" for axis in range(len(shape))]
        parameters = ", ".join([*pointers, "i64 %n", *extents])
        lines = "\n".join(body.lines)
        return f"({parameters}) #0 {{\nentry:\n{lines}\n  ret void\n}}"

    def _shape(self, name: str, type_: TensorType) -> tuple[int, ...]:
        """Return extents; those that are not known are names for what parameters hold."""
        shape = []
        for axis, extent in enumerate(type_.shape):
            if extent is UNKNOWN:
                far = next(self.far)
                self.body.extents[far] = f"%{name}.{axis}"
                shape.append(far)
            else:
                shape.append(extent)
        return tuple(shape)

    def _expr(self, step: Step, index: tuple[Index, ...], buffers: list[Buffer]) -> Expr:
        is_told = _needs_lengths(self.name, self.attrs)
        rule = told_lengths.RULES[self.name] if is_told else _RULES[self.name]
        return rule(step, index, lambda number, place: Load(buffers[number], place))

    def _step(self, shapes: list[tuple[int, ...]], result: tuple[int, ...]) -> Step:
        inputs = tuple(
            Tensor(shape, type_.dtype) for shape, type_ in zip(shapes, self.inputs, strict=True)
        )
        return Step(self.name, self.attrs, inputs, Tensor(result, self.result.dtype))

    # --- one loop over all elements ---------------------------------------------------------------

    def _is_flat(self) -> str:
        good = "true"
        for place, type_ in enumerate(self.inputs):
            if not type_.shape:
                continue
            total = "1"
            for axis in range(len(type_.shape)):
                total = self.body.op(f"mul i64 {total}, %d{place}.{axis}")
            same = self.body.op(f"icmp eq i64 {total}, %n")
            good = self.body.op(f"and i1 {good}, {same}")
        return good

    def _flat(self) -> None:
        body = self.body
        whole, vectors, rest = next(self.far), next(self.far), next(self.far)
        shapes: list[tuple[int, ...]] = [(whole,) if t.shape else () for t in self.inputs]
        buffers = [
            Buffer(f"in{place}", shape, type_.dtype)
            for place, (shape, type_) in enumerate(zip(shapes, self.inputs, strict=True))
        ]
        axis = Axis("i", whole)
        target = Buffer("out", (whole,), self.result.dtype)
        expr = self._expr(self._step(shapes, (whole,)), (at(axis),), buffers)
        emitter = ScalarEmitter(body, self._pointers(buffers, target))
        begin = "0"
        if is_vectorizable(expr, axis):
            body.extents[vectors] = begin = body.op(f"and i64 %n, {-self.lanes}")
            emitter.lanes, emitter.vector_axis = self.lanes, axis
            with body.loop(vectors, step=self.lanes) as (index, _):
                emitter.axes[axis] = index
                emitter.store(target, (at(axis),), expr)
            emitter.lanes, emitter.vector_axis = 1, None
        body.extents[rest] = body.op(f"sub i64 %n, {begin}")
        with body.loop(rest) as (index, _):
            emitter.axes[axis] = body.op(f"add i64 {index}, {begin}")
            emitter.store(target, (at(axis),), expr)

    def _pointers(self, buffers: list[Buffer], target: Buffer) -> dict[Buffer, str]:
        return {target: "%out", **{each: f"%{each.name}" for each in buffers}}

    # --- a loop for each axis ---------------------------------------------------------------------

    def _general(self) -> None:
        buffers = [
            Buffer(f"in{place}", shape, type_.dtype)
            for place, (shape, type_) in enumerate(zip(self.shapes, self.inputs, strict=True))
        ]
        step = self._step(self.shapes, self.target)
        if self.name == "take":
            axis = self._take_axis()
            length = Buffer("length", (), DType.INT64)
            step = Step(
                step.operator,
                step.attrs,
                (*step.inputs, Tensor((), DType.INT64)),
                step.result,
            )
            self._general_from(step, [*buffers, length], [f"%d0.{axis}"])
            return
        if _needs_lengths(self.name, self.attrs):
            rank = len(self.shapes[0])
            lengths = Buffer("lengths", (rank,), DType.INT64)
            told = (*step.inputs, Tensor((rank,), DType.INT64))
            step = Step(step.operator, step.attrs, told, step.result)
            self._general_from(step, [*buffers, lengths], [f"%d0.{i}" for i in range(rank)])
            return
        self._general_from(step, buffers, [])

    def _take_axis(self) -> int:
        axis = getattr(self.attrs, "axis", 0)
        return int(axis) % len(self.shapes[0])

    def _general_from(self, step: Step, buffers: list[Buffer], lengths: list[str]) -> None:
        """Write loops over the result; the last buffer holds `lengths` where there are any."""
        body = self.body
        target = Buffer("out", self.target, self.result.dtype)
        axes = tuple(Axis(f"i{place}", extent) for place, extent in enumerate(self.target))
        index = tuple(at(axis) for axis in axes)
        pointers = self._pointers(buffers, target)
        if lengths:
            base = body.op(f"alloca [{len(lengths)} x i64]")
            for number, length in enumerate(lengths):
                place = body.op(f"getelementptr i64, ptr {base}, i64 {number}")
                body.do(f"store i64 {length}, ptr {place}")
            pointers[buffers[-1]] = base
        emitter = ScalarEmitter(body, pointers)
        emitter.strides[target] = self._strides("r", self.target, is_read=False)
        for number, (buffer, shape) in enumerate(zip(buffers, self.shapes, strict=False)):
            emitter.strides[buffer] = self._strides(f"d{number}", shape, is_read=True)
        expr = self._expr(step, index, buffers)
        loops = [axis for axis in axes if axis.extent != 1]

        def over(place: int) -> None:
            if place == len(loops):
                emitter.store(target, index, expr)
                return
            with body.loop(loops[place].extent) as (register, _):
                emitter.axes[loops[place]] = register
                over(place + 1)

        if 0 not in self.target:
            over(0)

    def _strides(self, name: str, shape: tuple[int, ...], *, is_read: bool) -> tuple[str, ...]:
        """Return elements between neighbours on each axis; 0 where an operand has only one."""
        body = self.body
        strides: list[str] = []
        step = "1"
        for axis, extent in reversed(tuple(enumerate(shape))):
            stride = step
            if is_read and extent in body.extents:
                single = body.op(f"icmp eq i64 %{name}.{axis}, 1")
                stride = body.op(f"select i1 {single}, i64 0, i64 {step}")
            strides.append(stride)
            step = body.op(f"mul i64 {step}, %{name}.{axis}")
        return tuple(reversed(strides))
