"""Programs as text, one line an instruction; text and instructions are inverse to each other.

    gemm wait=load push=vector reduce=7 extents=[1,1,4,8,3,3] acc=0[0,0,1,0,0,0] inp=0[…] wgt=0[…]

A word is `field=value`; the strides of an operand stand in brackets behind its base; a flag is its
name alone; units and codes have lower-case names; what is left out has its default. `#` starts
a comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields
from enum import IntEnum
from typing import Any, Final

from codesign.accel.isa import INSTRUCTIONS, Field, Instruction, Opcode, Unit
from codesign.diagnostics import CodesignError, Problem, TextRange

_STRIDES: Final = "_strides"
_WORD: Final = re.compile(r"(?P<name>\w+)(=(?P<base>[^\[\]]*)(?P<list>\[[^\[\]]*\])?)?")


def format_instruction(instruction: Instruction) -> str:
    """Return one line of assembly."""
    words = [instruction.opcode.name.lower()]
    names = {each.name for each in fields(instruction)}
    for each in fields(instruction):
        value = getattr(instruction, each.name)
        strides = each.name + _STRIDES
        if strides in names:
            words.append(f"{each.name}={value}{_list(getattr(instruction, strides))}")
        elif not each.name.endswith(_STRIDES) and value != each.default:
            words.append(_word(each.name, value, each.metadata["field"]))
    return " ".join(words)


def _list(values: Iterable[int]) -> str:
    return "[" + ",".join(str(value) for value in values) + "]"


def _word(name: str, value: Any, declared: Field) -> str:
    if declared.units:
        return f"{name}={','.join(unit.name.lower() for unit in sorted(value))}"
    if declared.flag:
        return name
    if declared.count > 1:
        return name + "=" + _list(value)
    if isinstance(value, IntEnum):
        return f"{name}={value.name.lower()}"
    return f"{name}={value}"


def disassemble(instructions: Iterable[Instruction]) -> str:
    """Return a program's assembly, one line an instruction, with a final newline."""
    return "".join(format_instruction(each) + "\n" for each in instructions)


def assemble(text: str, *, source: str = "program") -> tuple[Instruction, ...]:
    """Return the instructions of assembly text; values are checked when they are encoded.

    Raises
    ------
    CodesignError
        Every malformed line, with its place.
    """
    instructions: list[Instruction] = []
    problems: list[Problem] = []
    for number, line in enumerate(text.splitlines(), start=1):
        code = line.partition("#")[0]
        if not code.strip():
            continue
        try:
            instructions.append(_parse(code))
        except _MalformedError as malformed:
            column, end = malformed.columns
            span = TextRange(source, number, column + 1, end + 1, line)
            problems.append(Problem(what=malformed.what, found=malformed.found, span=span))
    if problems:
        raise CodesignError(*problems)
    return tuple(instructions)


class _MalformedError(Exception):
    """A line that is no instruction: what is wrong, and where."""

    def __init__(self, what: str, columns: tuple[int, int], found: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.columns = columns
        self.found = found


def _parse(line: str) -> Instruction:
    first, *words = re.finditer(r"\S+", line)
    name = first.group().upper()
    if name not in Opcode.__members__:
        known = ", ".join(opcode.name.lower() for opcode in Opcode)
        raise _MalformedError(f"no instruction is called {first.group()!r}", first.span(), known)
    kind = INSTRUCTIONS[Opcode[name]]
    declared: dict[str, Field] = {each.name: each.metadata["field"] for each in fields(kind)}
    values: dict[str, Any] = {}
    for word in words:
        for field_name, value in _field_values(word, declared):
            if field_name in values:
                raise _MalformedError(f"{field_name} stands twice", word.span())
            values[field_name] = value
    missing = [
        each.name for each in fields(kind) if each.name not in values and each.default is MISSING
    ]
    if missing:
        raise _MalformedError(f"{first.group()} lacks {', '.join(missing)}", first.span())
    instruction: Instruction = kind(**values)
    return instruction


def _field_values(word: re.Match[str], declared: dict[str, Field]) -> Iterator[tuple[str, Any]]:
    parts = _WORD.fullmatch(word.group())
    if parts is None:
        raise _MalformedError(f"{word.group()!r} is not of the form field=value", word.span())
    name, base, listed = parts["name"], parts["base"], parts["list"]
    if name not in declared or name.endswith(_STRIDES):
        raise _MalformedError(
            f"the instruction has no field {name!r}", word.span(), _names(declared)
        )
    strides = name + _STRIDES
    if strides in declared:
        yield name, _scalar(base, declared[name], word)
        yield strides, _numbers(listed, word)
    elif declared[name].count > 1:
        yield name, _numbers(listed, word)
    else:
        yield name, _scalar(base, declared[name], word)


def _names(declared: dict[str, Field]) -> str:
    return "it has " + ", ".join(name for name in declared if not name.endswith(_STRIDES))


def _numbers(listed: str | None, word: re.Match[str]) -> tuple[int, ...]:
    if listed is None:
        raise _MalformedError(f"{word.group()!r} needs a list in brackets", word.span())
    return tuple(_integer(each, word) for each in listed[1:-1].split(","))


def _scalar(text: str | None, declared: Field, word: re.Match[str]) -> Any:
    if declared.flag:
        if text is not None:
            raise _MalformedError(f"{word.group()!r}: a flag takes no value", word.span())
        return True
    if text is None:
        raise _MalformedError(f"{word.group()!r} needs a value", word.span())
    if declared.units:
        return frozenset(_member(Unit, each, word) for each in text.split(","))
    if declared.enum is not None:
        return _member(declared.enum, text, word)
    return _integer(text, word)


def _member(enum: type[IntEnum], text: str, word: re.Match[str]) -> IntEnum:
    if text.upper() not in enum.__members__:
        known = ", ".join(each.name.lower() for each in enum)
        raise _MalformedError(
            f"{text!r} is not a {enum.__name__}", word.span(), f"expected {known}"
        )
    return enum[text.upper()]


def _integer(text: str, word: re.Match[str]) -> int:
    try:
        return int(text)
    except ValueError:
        raise _MalformedError(f"{text!r} is not an integer", word.span()) from None
