"""A node as importers see it: its inputs as expressions, its attributes as Python values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

from codesign.compiler.frontend.onnx.errors import MalformedNode, unsupported
from codesign.diagnostics import CodesignError, OnnxNode
from codesign.dtypes import Array
from codesign.ir.relay.expr import Constant, Expr

Attribute: TypeAlias = int | float | str | Array | tuple[int, ...] | tuple[float, ...]


@final
@dataclass(frozen=True, kw_only=True)
class Node:
    """One node; `inputs` holds None where an optional input is left out."""

    operator: str
    opset: int
    inputs: tuple[Expr | None, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute]
    span: OnnxNode

    def input(self, index: int) -> Expr:
        """Return an input that must be there."""
        found = self.optional(index)
        if found is None:
            raise self.malformed(f"input {index} is missing")
        return found

    def optional(self, index: int) -> Expr | None:
        """Return an input, or None where it is left out."""
        return self.inputs[index] if index < len(self.inputs) else None

    def present(self) -> tuple[Expr, ...]:
        """Return all inputs of an operator with any number of them."""
        return tuple(self.input(index) for index in range(len(self.inputs)))

    def known(self, index: int, meaning: str) -> Array | None:
        """Return the value of an input that must be known at compile time, None if left out."""
        match self.optional(index):
            case None:
                return None
            case Constant(value):
                return value
            case _:
                raise self.unsupported(f"its {meaning} (input {index}) is computed at run time")

    def known_ints(self, index: int, meaning: str) -> tuple[int, ...] | None:
        """Return an input of integers that must be known at compile time, None if left out."""
        value = self.known(index, meaning)
        return None if value is None else tuple(int(each) for each in value.reshape(-1))

    def integer(self, name: str, default: int) -> int:
        """Return an integer attribute."""
        value = self.attributes.get(name, default)
        if not isinstance(value, int):
            raise self.malformed(f"attribute {name!r} must be an integer, not {value!r}")
        return value

    def number(self, name: str, default: float) -> float:
        """Return an attribute that is a number."""
        value = self.attributes.get(name, default)
        if not isinstance(value, int | float):
            raise self.malformed(f"attribute {name!r} must be a number, not {value!r}")
        return float(value)

    def text(self, name: str, default: str) -> str:
        """Return an attribute that is a text."""
        value = self.attributes.get(name, default)
        if not isinstance(value, str):
            raise self.malformed(f"attribute {name!r} must be a text, not {value!r}")
        return value

    def ints(self, name: str) -> tuple[int, ...] | None:
        """Return an attribute that is a list of integers, None where it is not set."""
        value = self.attributes.get(name)
        if value is None:
            return None
        if not isinstance(value, tuple) or not all(isinstance(each, int) for each in value):
            raise self.malformed(f"attribute {name!r} must be integers, not {value!r}")
        return tuple(int(each) for each in value)

    def ints_of(self, name: str, default: Sequence[int]) -> tuple[int, ...]:
        """Return a list of integers as long as its default."""
        value = self.ints(name)
        if value is None:
            return tuple(default)
        if len(value) != len(default):
            raise self.malformed(f"attribute {name!r} has {len(value)} values, not {len(default)}")
        return value

    def axis(self, value: int, rank: int) -> int:
        """Return an axis counted from the front."""
        if not -rank <= value < rank:
            raise self.malformed(f"axis {value} is not within [{-rank}, {rank - 1}]")
        return value % rank

    def axes(self, values: Sequence[int], rank: int) -> tuple[int, ...]:
        """Return distinct axes counted from the front."""
        found = tuple(self.axis(value, rank) for value in values)
        if len(set(found)) != len(found):
            raise self.malformed(f"axes {list(values)} name an axis twice")
        return found

    def unsupported(self, reason: str) -> CodesignError:
        """Return the error of legal ONNX that has no meaning here."""
        return unsupported(self.operator, self.opset, reason, self.span)

    def malformed(self, reason: str) -> CodesignError:
        """Return the error of a node that breaks the specification."""
        return CodesignError(MalformedNode(operator=self.operator, reason=reason, span=self.span))
