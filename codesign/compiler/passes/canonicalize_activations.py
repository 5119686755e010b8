"""canonicalize-activations: call an activation that is written out by its name.

    divide(multiply(%x, clip(add(%x, 3f), a_min=0f, a_max=6f)), 6f)
becomes
    nn.hard_swish(%x)

Products are compared as a number times a set of factors, however they are written:

    x * clip(x + 3, 0, 6) / 6             nn.hard_swish(x)
    clip(x + 3, 0, 6) / 6                 nn.hard_sigmoid(x, alpha=1/6, beta=1/2)
    x * nn.hard_sigmoid(x, 1/6, 1/2)      nn.hard_swish(x)
    x * sigmoid(x)                        nn.silu(x)
    x * (1 + erf(x / sqrt(2))) / 2        nn.gelu(x)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, final

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.pass_manager import Form, PassContext, map_bodies
from codesign.ir.relay.expr import Attrs, Call, Constant, Expr, OpRef
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import Type
from codesign.ir.relay.visit import rewrite_pairs
from codesign.ops.clip import ClipAttrs
from codesign.ops.nn.activations import HardSigmoidAttrs

_SLOPE: Final = 1 / 6


@final
@dataclass(frozen=True, slots=True)
class CanonicalizeActivations:
    """Replace written-out activations by one call."""

    name: ClassVar[str] = "canonicalize-activations"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module with activations by name."""
        types = infer_types(module)
        return map_bodies(module, lambda body: _canonical(body, types))


def _canonical(body: Expr, types: Mapping[Expr, Type]) -> Expr:
    known: dict[Expr, Type] = {}

    def rule(original: Expr, rebuilt: Expr) -> Expr:
        new = _rule(rebuilt)
        match new:
            case Call(args=(x,)) if new is not rebuilt and known[x] != types[original]:
                # A constant of one element but many axes has changed the shape.
                new = rebuilt
            case _:
                pass
        if original in types:
            known[new] = types[original]
        return new

    return rewrite_pairs(body, rule)


def _rule(expr: Expr) -> Expr:
    if not isinstance(expr, Call) or not _is_product(expr):
        return expr
    number, factors = _product(expr)
    match factors:
        case [gate] if _near(number, _SLOPE) and (x := _shifted_relu6(gate)) is not None:
            return _named(expr, "nn.hard_sigmoid", x, HardSigmoidAttrs(alpha=_SLOPE, beta=0.5))
        case [a, b]:
            for x, gate in ((a, b), (b, a)):
                if (name := _gated(x, gate, number)) is not None:
                    return _named(expr, name, x)
    return expr


def _gated(x: Expr, gate: Expr, number: float) -> str | None:
    match gate:
        case Call(OpRef("clip")) if _near(number, _SLOPE) and _shifted_relu6(gate) is x:
            return "nn.hard_swish"
        case Call(OpRef("nn.hard_sigmoid"), (y,), HardSigmoidAttrs(alpha=alpha, beta=beta)):
            whole = y is x and _near(number, 1) and _near(alpha, _SLOPE) and _near(beta, 0.5)
            return "nn.hard_swish" if whole else None
        case Call(OpRef("sigmoid"), (y,)) if y is x and _near(number, 1):
            return "nn.silu"
        case Call(OpRef("add")) if _near(number, 0.5) and _one_plus_erf(gate) is x:
            return "nn.gelu"
        case _:
            return None


def _named(expr: Call, name: str, x: Expr, attrs: Attrs | None = None) -> Call:
    return Call(OpRef(name, expr.span), (x,), attrs, expr.span)


def _near(value: float, wanted: float) -> bool:
    return math.isclose(value, wanted, rel_tol=1e-5)


def _number(expr: Expr) -> float | None:
    """Return the value of a floating-point constant of one element."""
    if isinstance(expr, Constant) and expr.value.size == 1 and expr.value.dtype.kind == "f":
        return float(expr.value.reshape(()))
    return None


def _is_product(expr: Expr) -> bool:
    return (
        isinstance(expr, Call)
        and isinstance(expr.callee, OpRef)
        and (expr.callee.name in ("multiply", "divide"))
    )


def _product(expr: Expr, depth: int = 4) -> tuple[float, list[Expr]]:
    """Return an expression as a number times some factors; a deep product is one factor."""
    if depth == 0:
        return 1.0, [expr]
    match expr:
        case Call(OpRef("multiply"), (a, b)):
            left, right = _product(a, depth - 1), _product(b, depth - 1)
            return left[0] * right[0], left[1] + right[1]
        case Call(OpRef("divide"), (a, b)) if (divisor := _number(b)) is not None and divisor != 0:
            number, factors = _product(a, depth - 1)
            return number / divisor, factors
        case Constant() if (value := _number(expr)) is not None:
            return value, []
        case _:
            pass
    return 1.0, [expr]


def _shifted_relu6(expr: Expr) -> Expr | None:
    """Return x where the expression is clip(x + 3, 0, 6)."""
    match expr:
        case Call(
            OpRef("clip"), (Call(OpRef("add"), (a, b)),), ClipAttrs(minimum=0.0, maximum=6.0)
        ):
            return _other_than(a, b, 3.0)
        case _:
            return None


def _one_plus_erf(expr: Expr) -> Expr | None:
    """Return x where the expression is 1 + erf(x / sqrt(2))."""
    match expr:
        case Call(OpRef("add"), (a, b)):
            match _other_than(a, b, 1.0):
                case Call(OpRef("erf"), (argument,)):
                    number, factors = _product(argument)
                    if len(factors) == 1 and _near(number, math.sqrt(0.5)):
                        return factors[0]
    return None


def _other_than(a: Expr, b: Expr, wanted: float) -> Expr | None:
    """Return the operand beside a number, None where neither is that number."""
    for number, other in ((_number(a), b), (_number(b), a)):
        if number is not None and _near(number, wanted):
            return other
    return None
