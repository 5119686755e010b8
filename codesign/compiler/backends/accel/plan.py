"""Places of a region's tensors in DRAM, and layers that read and write them there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias, final

from codesign.accel.config import AccelConfig, Memory
from codesign.compiler.backends.accel.fit import shortage
from codesign.compiler.backends.accel.layer import GemmLayer, Layer, Pair, TileTensor
from codesign.compiler.backends.accel.lower import lower
from codesign.compiler.backends.accel.match import Composite, operator_name, parts_read
from codesign.compiler.backends.accel.product import left_layout, result_layout, right_layout
from codesign.compiler.backends.accel.tile import candidates
from codesign.compiler.backends.accel.weights import is_depthwise
from codesign.diagnostics import CodesignError, InternalError, OnnxNode
from codesign.ir.executable.accel_kernel import ACTIVATIONS
from codesign.ir.executable.layout import Patches, Placement
from codesign.ir.executable.matrices import Below, Beside
from codesign.ir.relay.expr import Call, Constant, Expr, Var
from codesign.ir.relay.types import TensorType, Type
from codesign.ops.qnn.conv2d import QConv2DAttrs

_ALIGNMENT: Final = 4096
"""Tensors begin on a page, so that their rows are cut into as few bursts as can be."""


_OF_INPUTS: Final = (Memory.INP, Memory.WGT)
"""Memories whose tiles have columns of input channels."""

Layout: TypeAlias = Patches | Beside | Below
"""What the host makes of a tensor before it packs it."""


def runs_on_gemm(composite: Composite, config: AccelConfig) -> bool:
    """Whether a composite's operands are read by the array, not by the vector unit."""
    match composite.main.attrs:
        case QConv2DAttrs(groups=groups):
            weight = composite.main.args[1]
            if not isinstance(weight, Constant):
                raise InternalError("a weight that must be constant is not")
            return not is_depthwise(weight.value, groups, config)
        case _:
            return operator_name(composite.main) in ("qnn.dense", "qnn.matmul")


@final
@dataclass(frozen=True, slots=True)
class JoinedPart:
    """What an expression is of a joined tensor.

    Channel tiles from `channel` on, or every `step`-th row and column from `place` on.
    """

    whole: Call
    channel: int = 0
    place: Pair = (0, 0)
    step: Pair = (1, 1)


_Key: TypeAlias = tuple[Expr, int, Layout | None, int]
"""An expression in a layout: channels to a tile, what the host makes of it, what fills padding."""


@final
@dataclass(slots=True)
class Plan:
    """Places of tensors in the activation segment, and which expression each is.

    `joins` says of which tensor an expression is a part; `parts` names of placements the tensor
    that they are in, and from which channel tile on. `apart`: operands need not have been placed
    before; for trials.
    """

    config: AccelConfig
    types: Mapping[Expr, Type]
    placements: list[Placement] = field(default_factory=list)
    by_key: dict[_Key, Placement] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    size: int = 0
    apart: bool = False
    joins: Mapping[Expr, JoinedPart] = field(default_factory=dict)
    parts: dict[str, tuple[str, int]] = field(default_factory=dict)

    def add(self, composite: Composite, from_host: set[Var]) -> list[Layer]:
        """Place a composite's result and return its layer; a reshape has none."""
        name = self._unique(_name(composite))
        if operator_name(composite.main) == "reshape":
            self._alias(composite)
            return []
        if operator_name(composite.main) == "concatenate":
            if composite.gathers or composite.spread:
                return []
            for part in composite.data:
                self._source(part, Memory.OUT)
            return []
        if composite.is_alone:
            return [self._product(composite, name)]
        memory = Memory.INP if runs_on_gemm(composite, self.config) else Memory.VEC
        result = self.result_of(composite, name)
        source = composite.data[0]
        if isinstance(source, Var) and source in from_host and memory is Memory.INP:
            return [self.best_unrolling(composite, name, source, result)]
        return [
            lower(
                composite,
                self.types,
                self.config,
                name,
                self._operands(composite, memory),
                result,
            )
        ]

    def result_of(self, composite: Composite, name: str) -> TileTensor:
        """Place a layer's result: between the elements of others where it is spread among them."""
        part = self.joins.get(composite.root)
        if part is None or part.step == (1, 1):
            return self._view(self.place(composite.root, name, Memory.OUT))
        whole = self._view(self._joined(part.whole))
        (rows, columns), (top, left) = part.step, part.place
        n, c, h, w = whole.tiles
        return replace(
            whole,
            tiles=(n, c, h // rows, w // columns),
            strides=(*whole.strides[:2], whole.strides[2] * rows),
            base=whole.base + top * whole.strides[2] + left,
            column_step=columns,
            exact=False,
        )

    def trial(self, composite: Composite) -> Layer:
        """Return the layer with all its operands in places of their own."""
        if composite.is_alone:
            return self._product(composite, "result")
        memory = Memory.INP if runs_on_gemm(composite, self.config) else Memory.VEC
        sources = self._operands(composite, memory)
        result = self.result_of(composite, "result")
        return lower(composite, self.types, self.config, _name(composite), sources, result)

    def _product(self, composite: Composite, name: str) -> Layer:
        """Place both operands and the result of a product, each as the array wants it."""
        config = self.config
        places = []
        for expr, memory, layout in (
            (composite.main.args[0], Memory.INP, left_layout(config)),
            (composite.main.args[1], Memory.WGT, right_layout(config)),
            (composite.root, Memory.OUT, result_layout(config)),
        ):
            is_result = expr is composite.root
            if not is_result and not isinstance(expr, Var) and not self.apart:
                raise InternalError("the host lays out what a product reads")
            own = name if is_result else self._unique(_operand_name(expr))
            places.append(self._view(self.place(expr, own, memory, matrices=layout)))
        left, right, result = places
        return lower(composite, self.types, config, name, (left, right), result)

    def _operands(self, composite: Composite, memory: Memory) -> tuple[TileTensor, ...]:
        return tuple(
            self._view(
                self._source(part, Memory.VEC if data is composite.residual and i else memory)
            )
            for i, data in enumerate(composite.data)
            for part in parts_read(composite, data)
        )

    def of_parameter(self, param: Var) -> tuple[Placement, ...]:
        """Return the layouts in which layers want a parameter."""
        return tuple(place for (expr, *_), place in self.by_key.items() if expr is param)

    def output(self, result: Expr) -> Placement:
        """Return where a result lies."""
        found = [place for (expr, *_), place in self.by_key.items() if expr is result]
        if not found:
            raise InternalError("a region's result is computed in it")
        return found[0]

    def best_unrolling(
        self, composite: Composite, name: str, source: Var, result: TileTensor
    ) -> Layer:
        """Return the layer over the layout of an input that is fastest by estimate."""
        best: tuple[float, Patches | None, Layer] | None = None
        for patches in self._unrollings(composite):
            trial = Plan(self.config, self.types)
            view = self._view(trial.place(source, "trial", Memory.INP, patches))
            others = tuple(
                trial._view(trial.place(other, "residual", Memory.VEC))
                for other in composite.data[1:]
            )
            layer = lower(
                composite,
                self.types,
                self.config,
                name,
                (view, *others),
                result,
                patches,
            )
            if not isinstance(layer, GemmLayer) or shortage(layer, self.config):
                if best is None:
                    best = float("inf"), patches, layer
                continue
            cycles = candidates(layer, self.config, 1)[0].estimate
            if best is None or cycles < best[0]:
                best = cycles, patches, layer
        if best is None:
            raise InternalError("a convolution can always be left as it is")
        _, patches, layer = best
        place = self._source(source, Memory.INP, patches, composite)
        views = (
            self._view(place),
            *(self._view(self._source(other, Memory.VEC)) for other in composite.data[1:]),
        )
        return lower(composite, self.types, self.config, name, views, result, patches)

    def _unrollings(self, composite: Composite) -> tuple[Patches | None, ...]:
        attrs, weight = composite.main.attrs, composite.main.args[1]
        if not isinstance(attrs, QConv2DAttrs) or not isinstance(weight, Constant):
            return (None,)
        _, inputs, kh, kw = weight.value.shape
        roomy = kh * kw <= min(self.config.inp_depth, self.config.wgt_depth) // 2
        if attrs.groups > 1 or kh * kw == 1 or (2 * inputs > self.config.block_in and roomy):
            return (None,)
        _, left, _, right = attrs.padding
        columns = Patches(
            kernel=(1, kw),
            strides=(1, attrs.strides[1]),
            dilation=(1, attrs.dilation[1]),
            padding=(0, left, 0, right),
        )
        window = Patches(
            kernel=(kh, kw),
            strides=attrs.strides,
            dilation=attrs.dilation,
            padding=attrs.padding,
        )
        return (None, window) if kh == 1 else (None, columns, window)

    def _source(
        self,
        expr: Expr,
        memory: Memory,
        patches: Patches | None = None,
        composite: Composite | None = None,
    ) -> Placement:
        block = self.config.block_in if memory is Memory.INP else self.config.block_out
        fill = 0
        if patches is not None and composite is not None:
            attrs = composite.main.attrs
            fill = attrs.zero_point if isinstance(attrs, QConv2DAttrs) else 0
        found = self.by_key.get((expr, block, patches, fill))
        if found is not None:
            return found
        if not isinstance(expr, Var) and not self.apart:
            raise CodesignError.of(
                f"a layer reads tiles of {block} channels that another layer wrote otherwise",
                help="give each layer a region of its own (block_in is not block_out)",
            )
        return self.place(expr, self._unique(_operand_name(expr)), memory, patches, fill)

    def place(
        self,
        expr: Expr,
        name: str,
        memory: Memory,
        patches: Patches | None = None,
        fill: int = 0,
        matrices: Beside | Below | None = None,
    ) -> Placement:
        """Return a new place for an expression in tiles of a memory."""
        config = self.config
        part = self.joins.get(expr) if patches is None else None
        alignment = max(_ALIGNMENT, config.dram_tile_bytes(memory))
        if part is None:
            self.size = -(-self.size // alignment) * alignment
        address = self.size // config.bus_bytes
        if part is not None:
            address = self._address_in(part, name, memory)
        place = Placement(
            name=name,
            shape=self._shape(expr),
            segment=ACTIVATIONS,
            address=address,
            batch=config.block_out if memory is Memory.WGT else config.batch,
            block=config.block_in if memory in _OF_INPUTS else config.block_out,
            tile_bytes=config.dram_tile_bytes(memory),
            fill=fill,
            patches=patches,
            matrices=matrices,
        )
        if part is None:
            self.size += -(-place.bytes // alignment) * alignment
        self.placements.append(place)
        self.by_key[expr, place.block, patches or matrices, fill] = place
        return place

    def _address_in(self, part: JoinedPart, name: str, memory: Memory) -> int:
        """Return the first beat of a part of a joined tensor, which gets its place first."""
        found = self._joined(part.whole)
        self.parts[name] = found.name, part.channel
        _, _, h, w = found.tiles
        return found.address + part.channel * h * w * self.config.beats(memory)

    def _joined(self, whole: Call) -> Placement:
        found = self.by_key.get((whole, self.config.block_out, None, 0))
        return found or self.place(whole, self._unique("joined"), Memory.OUT)

    def _alias(self, composite: Composite) -> None:
        source = composite.main.args[0]
        found = [(key, place) for key, place in self.by_key.items() if key[0] is source]
        if not found:
            place = self._source(source, Memory.VEC)
            found = [((source, place.block, None, 0), place)]
        for (_, block, patches, fill), place in found:
            shaped = replace(place, shape=self._shape(composite.root))
            self.by_key[composite.root, block, patches, fill] = shaped

    def _view(self, place: Placement) -> TileTensor:
        _, c, h, w = place.tiles
        beats = place.tile_bytes // self.config.bus_bytes
        whole, channel = self.parts.get(place.name, (None, 0))
        return TileTensor(
            name=place.name,
            tiles=place.tiles,
            strides=(c * h * w, h * w, w),
            base=place.address // beats,
            whole=whole,
            first_channel=channel,
        )

    def _shape(self, expr: Expr) -> tuple[int, ...]:
        type_ = self.types[expr]
        if not isinstance(type_, TensorType):
            raise InternalError("operands and results of layers are tensors")
        return type_.static_shape

    def _unique(self, name: str) -> str:
        candidate, count = name, 1
        while candidate in self.names:
            count += 1
            candidate = f"{name}.{count}"
        self.names.add(candidate)
        return candidate


def _operand_name(expr: Expr) -> str:
    return expr.name if isinstance(expr, Var) else "operand"


def _name(composite: Composite) -> str:
    match composite.main.span:
        case OnnxNode(name=name) if name:
            return name
        case _:
            return operator_name(composite.main) or "layer"
