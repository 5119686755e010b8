"""Groups of calls that the accelerator runs as one layer.

    requantize(qnn.conv2d | qnn.dense | qnn.matmul | qnn.sum_pool2d)  [lookup]
    qnn.add(requantize(qnn.conv2d), anything)                  [lookup]
    qnn.add | qnn.multiply | nn.max_pool2d | nn.pad            [lookup]
    qnn.lookup
    reshape, concatenate                                       move nothing
    qnn.dense(concatenate(…))                                  reads part by part
    reshape(transpose(reshape(concatenate(…))))                interleaves planes: moves nothing
A dense takes the reshape before it along: it becomes a convolution over the whole plane.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, final

from codesign.ir.relay.expr import Call, Constant, Expr, OpRef, Tuple
from codesign.ir.relay.types import TensorType, Type
from codesign.ops.axis import AxisAttrs
from codesign.ops.qnn.conv2d import QConv2DAttrs
from codesign.ops.qnn.matmul import QMatmulAttrs
from codesign.ops.reshape import ReshapeAttrs
from codesign.ops.transpose import TransposeAttrs

SUMS: Final = frozenset({"qnn.conv2d", "qnn.dense", "qnn.matmul", "qnn.sum_pool2d"})
MOVES_NOTHING: Final = frozenset({"reshape", "concatenate"})
SINGLE: Final = frozenset({"qnn.add", "qnn.multiply", "nn.max_pool2d", "nn.pad"})

Uses: TypeAlias = Mapping[Expr, int]
"""How often each expression is used; to be a result counts as a use."""


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Composite:
    """Calls that make one layer: the main one, what requantizes its sums, a table on its result.

    `add` sums the requantized result with a residual; `pool` is a pool that alone reads the result,
    and ends the layer; `flatten` is the reshape that a dense takes along; `data` are the operands
    that are not constants, the residual last. `gathers`: a concatenation that products alone read,
    each part where it lies: it has no place of its own; or such a product. `spread` are the calls
    that put the parts of a concatenation between each other, element by element.
    """

    main: Call
    requantize: Call | None = None
    add: Call | None = None
    lookup: Call | None = None
    flatten: Call | None = None
    gathers: bool = False
    spread: tuple[Call, ...] = ()
    pool: Composite | None = None

    @property
    def is_alone(self) -> bool:
        """Whether the host lays out what it reads and gives: no layer shares a step with it."""
        return isinstance(self.main.attrs, QMatmulAttrs)

    @property
    def root(self) -> Call:
        """The call whose value is the layer's."""
        if self.spread:
            return self.spread[-1]
        if self.pool is not None:
            return self.pool.root
        return self.lookup or self.add or self.requantize or self.main

    @property
    def calls(self) -> tuple[Call, ...]:
        """All calls, in order."""
        every = (self.flatten, self.main, self.requantize, self.add, self.lookup)
        pooled = () if self.pool is None else self.pool.calls
        return (*(call for call in every if call is not None), *self.spread, *pooled)

    @property
    def step(self) -> tuple[int, int]:
        """Rows and columns from one element of a part to its next in what it is spread to."""
        match self.spread[:1]:
            case (Call(attrs=ReshapeAttrs(shape=(_, rows, columns, *_))),):
                return rows, columns
            case _:
                return 1, 1

    @property
    def data(self) -> tuple[Expr, ...]:
        """The operands that come from outside and are not constants."""
        if self.flatten is not None:
            return self.flatten.args
        match self.main.args:
            case (Tuple(fields=fields),):
                return fields
            case _:
                pass
        own = tuple(arg for arg in self.main.args if not isinstance(arg, Constant))
        return own if self.residual is None else (*own, self.residual)

    @property
    def residual(self) -> Expr | None:
        """The operand that `add` sums with the layer's own result."""
        if self.add is None:
            return None
        lhs, rhs = self.add.args
        return rhs if lhs is self.requantize else lhs


def operator_name(expr: Expr) -> str | None:
    """Return the operator of a call of one; None for anything else."""
    match expr:
        case Call(callee=OpRef(name=name)):
            return name
        case _:
            return None


def parts_read(composite: Composite, data: Expr) -> tuple[Expr, ...]:
    """Return the tensors that a layer reads for an operand: the parts that a product gathers."""
    match data:
        case Call(args=(Tuple(fields=fields),)) if composite.gathers:
            return fields
        case _:
            return (data,)


def match_composites(
    calls: Sequence[Call],
    uses: Uses,
    types: Mapping[Expr, Type],
    *,
    residuals: bool,
    tables: bool,
) -> tuple[Composite, ...]:
    """Return disjoint composites over calls in topological order, in the order of their roots.

    With `residuals`, a convolution takes the sum with another tensor along; with `tables`, layers
    take the table on their result along.
    """
    taken: set[Call] = set()
    found: list[tuple[int, Composite]] = []
    users = _single_users(calls, uses)
    position = {call: index for index, call in enumerate(calls)}
    gathered = _gathered(calls, uses)
    for call in calls:
        composite = _composite(call, uses, users, types, residuals=residuals)
        if composite is not None and not tables:
            composite = replace(composite, lookup=None)
        if composite is not None and (call in gathered or call.args[0] in gathered):
            composite = replace(composite, gathers=True)
        if composite is None or any(each in taken for each in composite.calls):
            continue
        taken.update(composite.calls)
        found.append((position[composite.root], composite))
    return tuple(composite for _, composite in sorted(found, key=lambda pair: pair[0]))


def _single_users(calls: Sequence[Call], uses: Uses) -> dict[Expr, Call]:
    return {arg: call for call in calls for arg in call.args if uses[arg] == 1}


def _gathered(calls: Sequence[Call], uses: Uses) -> set[Call]:
    """Return the concatenations of columns of which products read all there is to read."""
    readers = Counter(call.args[0] for call in calls if operator_name(call) == "qnn.dense")
    return {
        call
        for call in calls
        if operator_name(call) == "concatenate"
        and isinstance(call.attrs, AxisAttrs)
        and call.attrs.axis in (1, -1)
        and readers[call] == uses[call]
    }


def _composite(
    call: Call,
    uses: Uses,
    users: dict[Expr, Call],
    types: Mapping[Expr, Type],
    *,
    residuals: bool,
) -> Composite | None:
    name = operator_name(call)
    if name in SUMS:
        requantize = users.get(call)
        if requantize is None or operator_name(requantize) != "qnn.requantize":
            return None
        if requantize.args[0] is not call:
            return None
        add = _add_after(requantize, users) if residuals and takes_residual(call) else None
        lookup = _lookup_after(add or requantize, users)
        flatten = _flatten_before(call, uses, types) if name == "qnn.dense" else None
        return Composite(main=call, requantize=requantize, add=add, lookup=lookup, flatten=flatten)
    if name in SINGLE:
        return Composite(main=call, lookup=_lookup_after(call, users))
    if name == "concatenate":
        return Composite(main=call, spread=_spread_after(call, uses, users))
    if name == "qnn.lookup":
        return Composite(main=call)
    if name == "reshape":
        user = users.get(call)
        if user is not None and operator_name(user) == "qnn.dense":
            return None if _flatten_before(user, uses, types) is call else Composite(main=call)
        return Composite(main=call)
    return None


def _lookup_after(call: Call, users: dict[Expr, Call]) -> Call | None:
    user = users.get(call)
    if user is not None and operator_name(user) == "qnn.lookup" and user.args[0] is call:
        return user
    return None


def _spread_after(join: Call, uses: Uses, users: dict[Expr, Call]) -> tuple[Call, ...]:
    """Return the calls behind a concatenation that interleave its parts; empty where none do.

    The parts are rows and columns of places, in this order, each [n, c, h, w]; nothing else may
    read them.
    """
    apart = users.get(join)
    turned = users.get(apart) if apart is not None else None
    whole = users.get(turned) if turned is not None else None
    match join, apart, turned, whole:
        case (
            Call(args=(Tuple(fields=parts),)),
            Call(attrs=ReshapeAttrs(shape=(n, rows, columns, c, h, w))),
            Call(attrs=TransposeAttrs(axes=(0, 3, 4, 1, 5, 2))),
            Call(attrs=ReshapeAttrs(shape=shape)),
        ) if shape == (n, c, h * rows, w * columns) and len(parts) == rows * columns:
            chain = tuple(call for call in (apart, turned, whole) if call is not None)
            return chain if all(uses[part] == 1 for part in parts) else ()
        case _:
            return ()


def takes_residual(call: Call) -> bool:
    """Whether a call is a convolution of full channels: what the vector unit is done with early."""
    if not isinstance(call.attrs, QConv2DAttrs) or not isinstance(call.args[1], Constant):
        return False
    return call.attrs.groups == 1


def _add_after(requantize: Call, users: dict[Expr, Call]) -> Call | None:
    """Return the sum that a convolution takes along: of two that could, the one with more work."""
    add = users.get(requantize)
    if add is None or operator_name(add) != "qnn.add" or add.args[0] is add.args[1]:
        return None
    other = add.args[1] if add.args[0] is requantize else add.args[0]
    if isinstance(other, Constant):
        return None
    rival = _convolution_under(other) if users.get(other) is add else None
    own = _convolution_under(requantize)
    if rival is None or own is None:
        return add
    sizes = [_weight_size(each) for each in (own, rival)]
    first = add.args[0] is requantize
    return add if sizes[0] > sizes[1] or (sizes[0] == sizes[1] and first) else None


def _convolution_under(requantize: Expr) -> Call | None:
    match requantize:
        case Call(callee=OpRef(name="qnn.requantize"), args=(Call() as main, *_)):
            return main if takes_residual(main) else None
        case _:
            return None


def _weight_size(call: Call) -> int:
    weight = call.args[1]
    return weight.value.size if isinstance(weight, Constant) else 0


def _flatten_before(dense: Call, uses: Uses, types: Mapping[Expr, Type]) -> Call | None:
    """Return the reshape that makes rows of whole images, whose plane is the product's window."""
    match dense.args[0]:
        case Call(callee=OpRef(name="reshape"), args=(image, *_)) as reshape if uses[reshape] == 1:
            match types[image], types[reshape]:
                case TensorType(shape=(n, _, _, _)), TensorType(shape=(rows, _)) if n == rows:
                    return reshape
    return None
