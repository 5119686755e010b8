"""What a network's layers need at least: the roofline that the study's rows are measured against.

A layer's bound is max(MACs / (MACs per cycle), bytes / (bytes per cycle)) with the network's own
multiply-accumulates, without those of padded channels, and the bytes that have to move once: data
that is read, weights and result, one byte an element. Params, tables, instructions and padding are
not counted. A sum with a residual costs the convolution that it follows one more tensor to read; a
pool that alone reads a convolution's result moves nothing, and the convolution writes the pool's.
Other sums, products, pools and padding move what they read and write. A network's bound is the sum
over its layers, since their activations go through DRAM.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import TypeAlias, final

from codesign.accel.config import AccelConfig
from codesign.accel.peaks import peaks
from codesign.compiler.analysis.infer_types import infer_types
from codesign.ir.relay.expr import Call, Expr, OpRef, Tuple
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType
from codesign.ir.relay.visit import post_order, use_counts
from codesign.ops.qnn.conv2d import QConv2DAttrs


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Need:
    """One operator with its multiply-accumulates and the bytes that it moves at least.

    `residual_bytes` are those of a tensor that a sum adds to its result.
    """

    call: Call
    macs: int
    bytes: int
    residual_bytes: int = 0

    def cycles(self, config: AccelConfig) -> float:
        """Return the roofline's cycles."""
        roof = peaks(config)
        return max(
            self.macs / roof.macs_per_cycle,
            (self.bytes + self.residual_bytes) / roof.bytes_per_cycle,
        )


def needs(module: Module, tiles_of: AccelConfig | None = None) -> tuple[Need, ...]:
    """Return the needs of a quantized network's layers, in order.

    With `tiles_of`, samples and channels fill whole tiles of that configuration; fewer channels
    than a tile has stay what they are, as the host packs those of a first layer closer.
    """
    shapes: _Shapes = {
        expr: type_.static_shape
        for expr, type_ in infer_types(module).items()
        if isinstance(type_, TensorType)
    }
    if tiles_of is not None:
        shapes = _in_tiles(module, shapes, tiles_of)
    residuals = dict(_residuals(module, shapes))
    return tuple(
        Need(call=call, macs=macs, bytes=moved, residual_bytes=residuals.get(call, 0))
        for call, macs, moved in _operators(module, shapes)
    )


def bound_cycles(module: Module, config: AccelConfig, *, in_tiles: bool = False) -> float:
    """Return the roofline's cycles of a whole network, of its own numbers or in whole tiles."""
    return sum(each.cycles(config) for each in needs(module, config if in_tiles else None))


_Shapes: TypeAlias = Mapping[Expr, tuple[int, ...]]


def _in_tiles(module: Module, shapes: _Shapes, config: AccelConfig) -> _Shapes:
    """Return shapes whose samples and channels fill tiles; joined parts each fill their own."""
    tiled = {expr: _tiled(shape, config) for expr, shape in shapes.items()}
    for call in _calls(module):
        match call:
            case Call(callee=OpRef(name="concatenate"), args=(Tuple(fields=parts),)):
                first, _, *rest = tiled[call]
                tiled[call] = (first, sum(tiled[part][1] for part in parts), *rest)
            case Call(callee=OpRef(name="qnn.conv2d" | "qnn.dense"), args=(data, weight)):
                outputs, inputs, *kernel = shapes[weight]
                whole = _whole(inputs, config.block_in)
                if inputs == shapes[data][1]:
                    whole = tiled[data][1]
                tiled[weight] = (_whole(outputs, config.block_out), whole, *kernel)
            case Call(callee=OpRef(name="qnn.matmul"), args=(lhs, rhs)):
                *stack, rows, columns = shapes[call]
                rows, inner = _filled(rows, config), _whole(shapes[lhs][-1], config.block_in)
                columns = _whole(columns, config.block_out)
                tiled[lhs], tiled[rhs] = (*stack, rows, inner), (*stack, inner, columns)
                tiled[call] = (*stack, rows, columns)
            case _:
                pass
    return tiled


def _tiled(shape: tuple[int, ...], config: AccelConfig) -> tuple[int, ...]:
    if len(shape) < 2:
        return shape
    samples, channels, *rest = shape
    return _filled(samples, config), _whole(channels, config.block_out), *rest


def _filled(samples: int, config: AccelConfig) -> int:
    return -(-samples // config.batch) * config.batch


def _whole(channels: int, block: int) -> int:
    return channels if channels < block else -(-channels // block) * block


def _operators(module: Module, shapes: _Shapes) -> Iterator[tuple[Call, int, int]]:
    pools = dict(_pools(module))
    for call in _calls(module):
        match _name(call):
            case "qnn.conv2d" | "qnn.dense":
                weight, result = prod(shapes[call.args[1]]), prod(shapes[call])
                written = prod(shapes[pools.get(call, call)])
                moved = _read(call, shapes) + weight + written
                yield call, result * weight // shapes[call][1], moved
            case "qnn.matmul":
                result = prod(shapes[call])
                moved = result + sum(prod(shapes[each]) for each in call.args)
                yield call, result * shapes[call.args[0]][-1], moved
            case "nn.max_pool2d" | "qnn.sum_pool2d" if call in pools.values():
                pass
            case "nn.max_pool2d" | "qnn.sum_pool2d" | "qnn.multiply" | "nn.pad":
                yield call, 0, sum(prod(shapes[each]) for each in (*call.args, call))
            case "qnn.add" if _convolution_before(call) is None:
                yield call, 0, sum(prod(shapes[each]) for each in (*call.args, call))
            case _:
                pass


def _read(call: Call, shapes: _Shapes) -> int:
    """Return the elements of its data that a layer reads: strides may leave some out."""
    data = shapes[call.args[0]]
    if not isinstance(call.attrs, QConv2DAttrs):
        return prod(data)
    kernel, results = shapes[call.args[1]][2:], shapes[call][2:]
    axes = zip(data[2:], results, kernel, call.attrs.strides, strict=True)
    read = (out * size if size < stride else whole for whole, out, size, stride in axes)
    return prod(data[:2]) * prod(read)


def _residuals(module: Module, shapes: _Shapes) -> Iterator[tuple[Call, int]]:
    """Yield the convolution that each sum follows, with the bytes of the sum's other operand."""
    for call in _calls(module):
        convolution = _convolution_before(call) if _name(call) == "qnn.add" else None
        if convolution is not None:
            yield convolution, prod(shapes[call])


def _pools(module: Module) -> Iterator[tuple[Call, Call]]:
    """Yield each convolution whose result a pool alone reads, with the pool."""
    uses = use_counts(module.main.body)
    for call in _calls(module):
        if _name(call) not in {"nn.max_pool2d", "qnn.sum_pool2d"}:
            continue
        source = call.args[0]
        single = uses[source] == 1
        if isinstance(source, Call) and _name(source) == "qnn.lookup":
            source = source.args[0]
            single = single and uses[source] == 1
        if isinstance(source, Call) and _name(source) == "qnn.add":
            convolution = _convolution_before(source)
        else:
            convolution = _convolution_under(source)
        if single and convolution is not None and _name(convolution) == "qnn.conv2d":
            yield convolution, call


def _convolution_before(add: Call) -> Call | None:
    """Return the convolution whose result a sum adds to something; None where there is none."""
    found = (_convolution_under(arg) for arg in add.args)
    return next((each for each in found if each is not None), None)


def _convolution_under(requantize: Expr) -> Call | None:
    match requantize:
        case Call(callee=OpRef(name="qnn.requantize"), args=(Call() as layer, *_)):
            return layer
        case _:
            return None


def _calls(module: Module) -> Iterator[Call]:
    return (node for node in post_order(module.main.body) if isinstance(node, Call))


def _name(expr: Expr) -> str | None:
    match expr:
        case Call(callee=OpRef(name=name)):
            return name
        case _:
            return None
