"""First-order programs over reference-counted objects: functions, blocks, instructions.

    function := name(self?, param, …) { block … }        the first block is where a call begins
    block    := label(param, …): instruction … end
    end      := jump | branch | branch-null | switch | return | tail call | fail

Every value is an object of the heap: a tensor, a tuple or what a constructor made, a closure, a
cell. A value is defined once; blocks form no loop, since Relay repeats by recursion only. What
follows a branch has one block before it alone; blocks where ways join are reached by jumps.

Between translation and code generation `Operator` becomes part of a `Region`, and `Dup`, `Drop`,
`Unpack` and `Discard` say who owns what: a function owns its parameters, and whatever is stored,
passed, returned or handed to a block is given away; other uses borrow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, final

from codesign.diagnostics import Span
from codesign.dtypes import Array
from codesign.ir.relay.expr import Attrs
from codesign.ir.relay.types import TensorType


@final
@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """An object; identity is the node.

    `tensor` is its type where it is known to be a tensor. A value that `is_maybe` is null where it
    has not been computed.
    """

    name: str
    tensor: TensorType | None = None
    is_maybe: bool = False


@final
@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """A tensor known at compile time."""

    result: Value
    array: Array


@final
@dataclass(frozen=True, slots=True, eq=False)
class Null:
    """No object: a value that has not been computed on this way."""

    result: Value


@final
@dataclass(frozen=True, slots=True, eq=False)
class FunctionValue:
    """A function that keeps no values, as a closure that exists once."""

    result: Value
    function: str


@final
@dataclass(frozen=True, slots=True, eq=False)
class MakeClosure:
    """A function with the values that it keeps; they are given away."""

    result: Value
    function: str
    captured: tuple[Value, ...]
    reuse: Value | None = None


@final
@dataclass(frozen=True, slots=True, eq=False)
class MakeTuple:
    """A tuple of fields, which are given away."""

    result: Value
    fields: tuple[Value, ...]
    reuse: Value | None = None


@final
@dataclass(frozen=True, slots=True, eq=False)
class MakeData:
    """What constructor number `tag` makes of fields, which are given away."""

    result: Value
    tag: int
    fields: tuple[Value, ...]
    reuse: Value | None = None


@final
@dataclass(frozen=True, slots=True, eq=False)
class MakeCell:
    """A new cell that holds a value, which is given away."""

    result: Value
    content: Value


@final
@dataclass(frozen=True, slots=True, eq=False)
class GetField:
    """One of `size` fields of a tuple, of what a constructor made, or of what a closure keeps."""

    result: Value
    value: Value
    index: int
    size: int


@final
@dataclass(frozen=True, slots=True, eq=False)
class ReadCell:
    """What a cell holds now."""

    result: Value
    cell: Value


@final
@dataclass(frozen=True, slots=True, eq=False)
class WriteCell:
    """Put a value, which is given away, into a cell; what it held is dropped."""

    cell: Value
    content: Value


@final
@dataclass(frozen=True, slots=True, eq=False)
class CallFunction:
    """Call a function of the program; `closure` holds the values that it keeps, if it keeps any."""

    result: Value
    function: str
    closure: Value | None
    args: tuple[Value, ...]


@final
@dataclass(frozen=True, slots=True, eq=False)
class CallClosure:
    """Call a closure of any function; closure and arguments are given away."""

    result: Value
    closure: Value
    args: tuple[Value, ...]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """Call an operator on tensors; one with several results gives all of them."""

    results: tuple[Value, ...]
    operator: str
    attrs: Attrs | None
    inputs: tuple[Value, ...]
    span: Span | None


@final
@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Operators that run as one kernel.

    `literals` are the constants among their inputs. A truth value in `flags` is wanted by branches
    only and never becomes an object. `dying` are inputs that nothing needs afterwards; the region
    drops them, or writes a result over one that nobody else holds.
    """

    results: tuple[Value, ...]
    inputs: tuple[Value, ...]
    operators: tuple[Operator, ...]
    literals: Mapping[Value, Array]
    flags: frozenset[Value] = frozenset()
    dying: frozenset[Value] = frozenset()


@final
@dataclass(frozen=True, slots=True, eq=False)
class CheckShape:
    """Fail at `site` unless a tensor has the element type and extents of a type."""

    value: Value
    expected: TensorType
    site: int


@final
@dataclass(frozen=True, slots=True, eq=False)
class CheckLength:
    """Fail at `site` unless an axis of one tensor is as long as an axis of another."""

    value: Value
    axis: int
    other: Value
    other_axis: int
    site: int


@final
@dataclass(frozen=True, slots=True, eq=False)
class Dup:
    """Own a value once more."""

    value: Value


@final
@dataclass(frozen=True, slots=True, eq=False)
class Drop:
    """Own a value once less; an object without owner is freed."""

    value: Value


@final
@dataclass(frozen=True, slots=True, eq=False)
class Unpack:
    """Give an object away for its fields, `results[i]` being that of `indices[i]`.

    `token`, where it is set, becomes the memory of an object that nobody else held, else null; a
    later `reuse` or `Discard` takes it.
    """

    results: tuple[Value, ...]
    indices: tuple[int, ...]
    value: Value
    size: int
    token: Value | None = None


@final
@dataclass(frozen=True, slots=True, eq=False)
class Discard:
    """Free the memory of a token that is not needed on this way."""

    token: Value


Instruction: TypeAlias = (
    Literal
    | Null
    | FunctionValue
    | MakeClosure
    | MakeTuple
    | MakeData
    | MakeCell
    | GetField
    | ReadCell
    | WriteCell
    | CallFunction
    | CallClosure
    | Operator
    | Region
    | CheckShape
    | CheckLength
    | Dup
    | Drop
    | Unpack
    | Discard
)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Jump:
    """Go on at a block whose parameters become the arguments, which are given away."""

    target: int
    args: tuple[Value, ...]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """Go one of two ways by a truth value."""

    condition: Value
    then: int
    otherwise: int


@final
@dataclass(frozen=True, slots=True, eq=False)
class BranchNull:
    """Go one of two ways by whether a value has been computed."""

    value: Value
    absent: int
    present: int


@final
@dataclass(frozen=True, slots=True, eq=False)
class Switch:
    """Go where the constructor's number says, else to `default`."""

    value: Value
    cases: tuple[tuple[int, int], ...]
    default: int | None


@final
@dataclass(frozen=True, slots=True, eq=False)
class Return:
    """Leave the function with a value, which is given away."""

    value: Value


@final
@dataclass(frozen=True, slots=True, eq=False)
class TailCall:
    """Leave the function for another one of the program."""

    function: str
    closure: Value | None
    args: tuple[Value, ...]


@final
@dataclass(frozen=True, slots=True, eq=False)
class TailCallClosure:
    """Leave the function for that of a closure."""

    closure: Value
    args: tuple[Value, ...]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Fail:
    """Leave the run with the mistake of a site."""

    site: int


End: TypeAlias = Jump | Branch | BranchNull | Switch | Return | TailCall | TailCallClosure | Fail


@final
@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Instructions from the label to the end; `params` are what jumps hand over."""

    label: int
    params: tuple[Value, ...]
    body: tuple[Instruction, ...]
    end: End


@final
@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """One function; `self` is the closure that is called, where the function needs it."""

    name: str
    self: Value | None
    params: tuple[Value, ...]
    blocks: tuple[Block, ...]


@final
@dataclass(frozen=True, slots=True)
class Site:
    """A mistake that can happen at run time, and its place in the source."""

    what: str
    found: str = ""
    help: str = ""
    span: Span | None = None


@final
@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Functions by name, `entry` first among them; what constructors' numbers mean; sites."""

    functions: tuple[Function, ...]
    entry: str
    constructors: tuple[str, ...]
    sites: tuple[Site, ...]
