"""Pipelines as text: `fold-constant,fuse-ops(max_depth=8),O1`.

Passes by name, separated by commas, with parameters in parentheses; a level stands for its passes.
Parameters are the fields of the pass; their values are numbers, `True`, `False` or plain words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from typing import Final, get_type_hints

from codesign.compiler.pass_manager import Form, Pass
from codesign.diagnostics import CodesignError

_ITEM: Final = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9_.-]*)\s*(?:\(([^()]*)\))?\s*(,|$)")
_PARAMETER: Final = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_-]*)\s*=\s*(\S+)\s*")


def parse_pipeline(
    text: str, passes: Mapping[str, type[Pass]], levels: Sequence[tuple[Pass, ...]]
) -> tuple[Pass, ...]:
    """Return the passes that a text names, in order.

    Raises
    ------
    CodesignError
        The text is no list of passes; it names a pass or a parameter that there is not; a value is
        of another type; a pass needs a form that no pass before it makes.
    """
    found: list[Pass] = []
    for name, arguments in _items(text):
        if re.fullmatch(r"O\d+", name) and int(name[1:]) < len(levels):
            if arguments is not None:
                raise CodesignError.of(f"level {name} has no parameters", found=f"({arguments})")
            found += levels[int(name[1:])]
        elif name in passes:
            found.append(_made(passes[name], arguments or ""))
        else:
            near = get_close_matches(name, passes, 1)
            advice = f"did you mean {near[0]}?" if near else f"one of: {', '.join(sorted(passes))}"
            raise CodesignError.of(f"no pass is named {name!r}", help=advice)
    _check_order(found, passes)
    return tuple(found)


def _items(text: str) -> Iterator[tuple[str, str | None]]:
    place = 0
    while place < len(text):
        item = _ITEM.match(text, place)
        if item is None:
            raise CodesignError.of(
                "a pipeline is a list of passes",
                found=f"cannot read {text[place:]!r}",
                help="write fold-constant,fuse-ops(max_depth=8)",
            )
        yield item[1], item[2]
        place = item.end()


def _made(kind: type[Pass], arguments: str) -> Pass:
    hints = get_type_hints(kind)
    names: list[str] = [each.name for each in fields(kind)] if is_dataclass(kind) else []
    values: dict[str, object] = {}
    for text in filter(str.strip, arguments.split(",")):
        parameter = _PARAMETER.fullmatch(text)
        if parameter is None:
            raise CodesignError.of(
                f"a parameter of {kind.name} is a name and a value",
                found=f"found {text.strip()!r}",
                help="write name=value",
            )
        name = parameter[1].replace("-", "_")
        if name not in names:
            known = f"it has {', '.join(names)}" if names else "it has none"
            raise CodesignError.of(f"pass {kind.name} has no parameter {name}", help=known)
        values[name] = _value(kind, name, parameter[2], hints[name])
    return kind(**values)


def _value(kind: type[Pass], name: str, text: str, hint: object) -> object:
    try:
        if hint is bool:
            return {"True": True, "False": False}[text]
        if hint is int:
            return int(text)
        if hint is float:
            return float(text)
    except (KeyError, ValueError):
        wanted = getattr(hint, "__name__", str(hint))
        what = f"parameter {name} of {kind.name} is {wanted}"
        raise CodesignError.of(what, found=f"found {text!r}") from None
    if hint is str:
        return text
    raise CodesignError.of(f"parameter {name} of {kind.name} is not given as text")


def _check_order(found: Sequence[Pass], passes: Mapping[str, type[Pass]]) -> None:
    forms = frozenset({Form.TYPED})
    for each in found:
        for form in sorted(each.requires - forms):
            makers = sorted(name for name, kind in passes.items() if form in kind.ensures)
            raise CodesignError.of(
                f"pass {each.name} needs the form {form}, which no pass before it makes",
                help=f"put one of these before it: {', '.join(makers)}",
            )
        forms |= each.ensures
