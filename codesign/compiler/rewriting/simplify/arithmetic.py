"""Rules of arithmetic.

For floating point a rule is exact where every operand, infinities, NaN and both zeros among them,
gives the same bits (a NaN may have others), and where it says so within one unit in the last place:

    1 / sqrt(x)  is  rsqrt(x)        power(x, 2)  is  x * x

x + 0.0 is not x (of -0.0 it is 0.0), x * 0.0 is not 0.0, and a sum of three is not that of the
first with the sum of the others: such rules hold of integers, and of floating point where a
network's author allows them.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from codesign.compiler.rewriting.dataflow_pattern import Operation, Pattern, any_, constant, op
from codesign.compiler.rewriting.simplify.numbers import is_number, number
from codesign.compiler.rewriting.simplify.rule import Found, Make, Rule
from codesign.ir.relay.expr import Call, Constant, Expr, OpRef
from codesign.ops.broadcast_to import BroadcastToAttrs
from codesign.ops.filled import FilledAttrs
from codesign.ops.table import OPERATORS

X, Y = any_("x"), any_("y")
C1, C2 = constant("c1"), constant("c2")

_SPREADING: Final = (
    "add subtract multiply divide power maximum minimum equal not_equal less less_equal greater "
    "greater_equal logical_and logical_or"
)


def _zero(*, negative: bool | None = None) -> Pattern:
    return constant().where(is_number(0, negative=negative))


def _one() -> Pattern:
    return constant().where(is_number(1))


def the(name: str) -> Make:
    """Return the making of what a name stands for."""
    return lambda found: found[name]


def _integers(make: Make) -> Make:
    return lambda found: make(found) if found.facts.is_integer(found.root) else None


def _floats(make: Make) -> Make:
    return lambda found: make(found) if found.facts.is_float(found.root) else None


def _with_sign(make: Make) -> Make:
    def made(found: Found) -> Expr | None:
        dtype = found.facts.dtype(found.root)
        is_signed = dtype is not None and (dtype.is_float or dtype.minimum < 0)
        return make(found) if is_signed else None

    return made


def _inexact(law: str, pattern: Operation, make: Make) -> tuple[Rule, Rule]:
    return (
        Rule(law, pattern, _integers(make)),
        Rule(f"{law}, rounded otherwise", pattern, _floats(make), exact=False),
    )


def _calls(name: str, *parts: str) -> Make:
    return lambda found: found.call(name, *(found[part] for part in parts))


def _folded(found: Found, name: str, left: Expr, right: Expr) -> Expr | None:
    """Return what an operator makes of two constants, no longer than the longer of them."""
    assert isinstance(left, Constant), "only constants are folded"
    assert isinstance(right, Constant), "only constants are folded"
    value = np.asarray(OPERATORS[name].reference(left.value, right.value))
    is_short = value.size <= max(left.value.size, right.value.size)
    return found.constant(value) if is_short else None


def _merged(outer: str, inner: str) -> Make:
    """Return the making of x (outer) (c1 (inner) c2)."""

    def make(found: Found) -> Expr | None:
        both = _folded(found, inner, found["c1"], found["c2"])
        return None if both is None else found.call(outer, found["x"], both)

    return make


def _distributed(found: Found) -> Expr | None:
    both = _folded(found, "multiply", found["c1"], found["c2"])
    if both is None:
        return None
    return found.call("add", found.call("multiply", found["x"], found["c2"]), both)


def _square_of_sum(found: Found) -> Expr:
    total = found.call("add", found["x"], found["y"])
    return found.call("multiply", total, total)


def _zeros(found: Found) -> Expr | None:
    shape, dtype = found.facts.shape(found.root), found.facts.dtype(found.root)
    if shape is None or dtype is None or not found.facts.is_pure(found.root):
        return None
    return found.call("zeros", attrs=FilledAttrs(shape=shape, dtype=dtype))


def _doubled(found: Found) -> Expr:
    return found.call("multiply", found["x"], found.scalar(2, found["x"]))


def _filler(expr: Expr) -> np.ndarray | None:
    """Return the scalar that fills a tensor."""
    match expr:
        case Constant(value) if value.ndim > 0 and (one := number(expr)) is not None:
            return np.asarray(one)
        case Call(OpRef("zeros"), (), FilledAttrs(dtype=dtype)):
            return np.zeros((), dtype.numpy)
        case Call(OpRef("ones"), (), FilledAttrs(dtype=dtype)):
            return np.ones((), dtype.numpy)
        case Call(OpRef("full" | "broadcast_to"), (Constant(value),)) if value.size == 1:
            return value.reshape(())
        case _:
            return None


def _narrow_operands(found: Found) -> Expr | None:
    """Return the call with one operand that is not widened before it is broadcast anyway."""
    args = found.root.args
    for place, arg in enumerate(args):
        match arg:
            case Call(OpRef("broadcast_to"), (source,), BroadcastToAttrs()):
                narrow: Expr = source
            case _:
                continue
        new = (*args[:place], narrow, *args[place + 1 :])
        made = found.call(_name(found.root), *new)
        if found.facts.type_of(made) == found.facts.type_of(found.root):
            return made
    return None


def _scalar_operands(found: Found) -> Expr | None:
    """Return the call with one operand that one number fills as that number."""
    args = found.root.args
    for place, arg in enumerate(args):
        value = _filler(arg)
        if value is None:
            continue
        new = (*args[:place], found.constant(value), *args[place + 1 :])
        made = found.call(_name(found.root), *new)
        if found.facts.type_of(made) == found.facts.type_of(found.root):
            return made
    return None


def _name(call: Call) -> str:
    assert isinstance(call.callee, OpRef), "rules are for operators"
    return call.callee.name


_TWO: Final = constant().where(is_number(2))
_TWICE_XY: Final = op("multiply", op("multiply", X, Y), _TWO) | op(
    "multiply", X, op("multiply", Y, _TWO)
)
_XX, _YY = op("multiply", X, X), op("multiply", Y, Y)
_SQUARES: Final = (
    op("add", op("add", _XX, _TWICE_XY), _YY),
    op("add", op("add", _XX, _YY), _TWICE_XY),
    op("add", _XX, op("add", _TWICE_XY, _YY)),
)

RULES: Final = (
    Rule("an operand of one number is that number", op(_SPREADING, any_(), any_()),
         _scalar_operands),
    Rule("operands are broadcast anyway", op(_SPREADING, any_(), any_()), _narrow_operands),
    Rule("x - 0 is x", op("subtract", X, _zero(negative=False)), the("x")),
    Rule("x + -0.0 is x", op("add", X, _zero(negative=True)), _floats(the("x"))),
    *_inexact("x + 0 is x", op("add", X, _zero()), the("x")),
    *_inexact("x - -0.0 is x", op("subtract", X, _zero()), the("x")),
    Rule("x * 1 is x", op("multiply", X, _one()), the("x")),
    Rule("x / 1 is x", op("divide", X, _one()), the("x")),
    Rule("power(x, 1) is x", op("power", X, _one()), the("x")),
    Rule("power(x, 2) is x * x", op("power", X, _TWO), _calls("multiply", "x", "x")),
    Rule("x * 0 is 0 of integers", op("multiply", X, _zero()), _integers(_zeros)),
    Rule("x - x is 0 of integers", op("subtract", X, X), _integers(_zeros)),
    Rule("0 - x is -x of integers", op("subtract", _zero(), X), _integers(_calls("negative", "x"))),
    Rule("x + x is x * 2", op("add", X, X), _doubled),
    Rule("x * -1 is -x", op("multiply", X, constant().where(is_number(-1))),
         _calls("negative", "x")),
    Rule("--x is x", op("negative", op("negative", X)), the("x")),
    Rule("x + -y is x - y", op("add", X, op("negative", Y)), _calls("subtract", "x", "y")),
    Rule("x - -y is x + y", op("subtract", X, op("negative", Y)), _calls("add", "x", "y")),
    Rule("abs(-x) is abs(x)", op("abs", op("negative", X)), _with_sign(_calls("abs", "x"))),
    Rule("abs(abs(x)) is abs(x)", op("abs", op("abs", any_(), name="x")), the("x")),
    Rule("max(x, x) and min(x, x) are x", op("maximum minimum", X, X), the("x")),
    Rule("1 / sqrt(x) is rsqrt(x)", op("divide", _one(), op("sqrt", X)), _calls("rsqrt", "x")),
    Rule("not not x is x", op("logical_not", op("logical_not", X)), the("x")),
    Rule("x and true is x", op("logical_and", X, _one()), the("x")),
    Rule("x or false is x", op("logical_or", X, _zero()), the("x")),
    *_inexact("(x + c1) + c2", op("add", op("add", X, C1), C2), _merged("add", "add")),
    *_inexact("(x - c1) + c2", op("add", op("subtract", X, C2), C1), _merged("add", "subtract")),
    *_inexact("(x + c1) - c2", op("subtract", op("add", X, C1), C2), _merged("add", "subtract")),
    *_inexact("(x - c1) - c2", op("subtract", op("subtract", X, C1), C2),
              _merged("subtract", "add")),
    *_inexact("(x * c1) * c2", op("multiply", op("multiply", X, C1), C2),
              _merged("multiply", "multiply")),
    *_inexact("(x + c1) * c2 is x * c2 + c1 * c2", op("multiply", op("add", X, C1), C2),
              _distributed),
    *(rule for square in _SQUARES
      for rule in _inexact("x * x + 2 * x * y + y * y is (x + y) squared", square, _square_of_sum)),
)  # fmt: skip
"""Every rule of this file, those first that make others fit."""
