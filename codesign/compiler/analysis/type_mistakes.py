"""Mistakes of types in words: what was found, what was expected, where."""

from __future__ import annotations

from typing import Any

from codesign.compiler.analysis.unify import Unifier
from codesign.diagnostics import CodesignError, Problem, Span
from codesign.ir.relay.expr import Call, Expr, If, Let, Match, OpRef, Project, Var
from codesign.ir.relay.types import FuncType, TupleType, Type, type_text
from codesign.ir.relay.visit import children


def problem(
    what: str,
    span: Span | None,
    found: str = "",
    help: str | None = None,  # noqa: A002
    notes: tuple[str, ...] = (),
) -> CodesignError:
    """Return an error of one mistake."""
    return CodesignError(Problem(what=what, found=found, span=span, help=help, notes=notes))


def place_of(value: Expr) -> Span | None:
    """Return where a value is made; a variable's own place is where it is declared, not used."""
    while isinstance(value, Let):
        value = value.body
    return None if isinstance(value, Var) else value.span


def refuse_operators(node: Expr) -> None:
    """Refuse an operator that stands anywhere but where it is called."""
    values = node.args if isinstance(node, Call) else children(node)
    for value in values:
        if isinstance(value, OpRef):
            raise problem(
                f"operator {value.name} is used as a value",
                value.span,
                help=f"wrap it: fn (%x: …) {{ {value.name}(%x) }}",
            )


def projected(node: Project, value: Type) -> Type:
    """Return the type of a field of a tuple; refuse other values and fields that it has not."""
    if not isinstance(value, TupleType):
        raise problem("a field is taken of no tuple", node.span, f"found {type_text(value)}")
    if not 0 <= node.index < len(value.fields):
        count = f"it has {len(value.fields)} fields"
        raise problem(f"the tuple has no field {node.index}", node.span, count)
    return value.fields[node.index]


def argument_mistake(
    call: Call,
    given: tuple[Type, ...],
    function: FuncType,
    index: int | None,
    unifier: Unifier[Any],
) -> CodesignError:
    """Return the error that arguments do not fit; `index` is the first that does not, if one is."""
    found = ", ".join(type_text(unifier.resolve(each)) for each in given)
    wanted = ", ".join(type_text(unifier.resolve(each)) for each in function.params)
    notes = ["a type would contain itself"] if unifier.is_circular else []
    if index is not None and len(given) > 1:
        notes.append(f"argument {index} does not fit")
    shown = f"found ({found}), expected ({wanted})"
    what = "the arguments do not fit the parameters"
    return problem(what, call.span, shown, notes=tuple(notes))


def branches_mistake(node: If, then: Type, otherwise: Type) -> CodesignError:
    """Return the error that the branches of an `if` have different types."""
    shown = f"found {type_text(then)} and {type_text(otherwise)}"
    return problem("the branches have different types", node.span, shown)


def clauses_mistake(node: Match, index: int, known: Type, found: Type) -> CodesignError:
    """Return the error that a clause has another type than those before it."""
    shown = f"clause {index} gives {type_text(found)}, those before it {type_text(known)}"
    place = place_of(node.clauses[index].body) or node.span
    return problem("the clauses have different types", place, shown)
