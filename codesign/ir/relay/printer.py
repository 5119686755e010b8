"""Relay text, format 0.0.5: what the parser reads back as an equal module.

Calls that are operands and expressions that are reached twice are named `%0, %1, …` in the order of
evaluation, in the innermost block that holds all their uses. Constants that are no scalars stand in
a metadata table at the end.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from enum import Enum
from itertools import accumulate
from typing import Final, TypeAlias, assert_never

from codesign.dtypes import Array
from codesign.ir.relay.attrs_text import attrs_text, value_text
from codesign.ir.relay.expr import (
    Call,
    Clause,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    OpRef,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    Project,
    RefNew,
    RefRead,
    RefWrite,
    Tuple,
    Var,
    Wildcard,
    pattern_variables,
)
from codesign.ir.relay.literal import CONSTANTS, literal, to_metadata
from codesign.ir.relay.module import Module, TypeDefinition
from codesign.ir.relay.type_algebra import lengths_of, map_lengths
from codesign.ir.relay.types import UNKNOWN, Length, Type, type_params_text, type_text
from codesign.ir.relay.visit import children, free_variables, post_order, use_counts

VERSION: Final = '#[version = "0.0.5"]'
"""The first line of a module."""


_ATOMS: Final = (Var, GlobalVar, Constant, OpRef, Constructor)
"""Nodes that are never named: their text is as short as a name."""


class _Layout(Enum):
    INDENT = "indent"
    DEDENT = "dedent"
    NEWLINE = "newline"


_Doc: TypeAlias = "str | _Layout | list[_Doc]"
"""Text in pieces, flattened once at the end."""


def print_module(module: Module) -> str:
    """Return the module as text that `parse_module` reads back as an equal one."""
    constructors = module.constructors().items()
    printer = _Printer({name for name, (_, each) in constructors if not each.fields})
    parts = [VERSION, *map(_data_type_text, module.data_types.values())]
    parts += [printer.definition(name, each) for name, each in module.functions.items()]
    return "\n\n".join([*parts, *printer.metadata()]) + "\n"


def print_expr(expr: Expr) -> str:
    """Return an expression as text that `parse_expr` reads back as an equal one."""
    printer = _Printer(set())
    return "\n\n".join([printer.expression(expr), *printer.metadata()]) + "\n"


def _data_type_text(definition: TypeDefinition) -> str:
    head = f"type {definition.name}{type_params_text(definition.type_params)}"
    if definition.is_extern:
        return f"extern {head}"
    lines = []
    for each in definition.constructors:
        fields = f"({', '.join(map(type_text, each.fields))})" if each.fields else ""
        lines.append(f"  {each.name}{fields},\n")
    return f"{head} {{\n{''.join(lines)}}}"


@dataclass(slots=True, eq=False)
class _Block:
    """What stands between two braces, or after a `let`: named expressions, then one expression."""

    outer: _Block | None = None
    depth: int = 0
    lines: list[_Doc] = field(default_factory=list)

    def inside(self) -> _Block:
        return _Block(self, self.depth + 1)


def _common(left: _Block, right: _Block) -> _Block:
    """Return the innermost block around both."""
    while left is not right:
        if left.depth < right.depth:
            left, right = right, left
        assert left.outer is not None, "all blocks of a function lie in one"
        left = left.outer
    return left


class _Printer:
    """Keeps the metadata table over all functions; names are chosen for each function anew.

    `without_fields` are the constructors that are called where they stand, without parentheses.
    """

    def __init__(self, without_fields: set[str]) -> None:
        self.without_fields = without_fields
        self._constants: list[Array] = []
        self._references: dict[Constant, str] = {}

    def definition(self, name: str, function: Function) -> str:
        return _flatten([f"def @{name}", _FunctionText(self, function).signature_and_body()])

    def expression(self, expr: Expr) -> str:
        return _flatten(_FunctionText(self, Function((), expr)).free_expression())

    def metadata(self) -> list[str]:
        if not self._constants:
            return []
        entries = ",\n".join(json.dumps(to_metadata(each)) for each in self._constants)
        return [f'#[metadata]\n{{"{CONSTANTS}": [\n{entries}\n]}}']

    def constant(self, constant: Constant) -> str:
        text = literal(constant.value)
        if text is not None:
            return text
        if constant not in self._references:
            self._references[constant] = f"meta[{CONSTANTS}][{len(self._constants)}]"
            self._constants.append(constant.value)
        return self._references[constant]


class _FunctionText:
    """The text of one function: blocks first, then every node after its children."""

    def __init__(self, printer: _Printer, function: Function) -> None:
        self._printer = printer
        self._function = function
        self._nodes = list(post_order(function))
        self._uses = use_counts(function)
        self._names: dict[Var, str] = {}
        self._taken: set[str] = set()
        self._docs: dict[Expr, _Doc] = {}
        self._count = 0
        self._blocks: dict[Expr, _Block] = {}
        self._inner: dict[tuple[Expr, int], _Block] = {}
        self._named: set[Expr] = set()
        self._lengths = _own_lengths(function)
        self._place()

    def signature_and_body(self) -> _Doc:
        for node in self._nodes:
            self._write(node)
        return self._docs[self._function]

    def free_expression(self) -> _Doc:
        free: list[_Doc] = []
        for var in free_variables(self._function):
            free += [f"free_var {self._annotated(var)};", _Layout.NEWLINE]
        self.signature_and_body()
        return [*free, self._block_doc(self._function, 0, self._function.body)]

    def _place(self) -> None:
        """Choose each node's block (parents before children) and whether it gets a name."""
        self._blocks[self._function] = _Block()
        for node in reversed(self._nodes):
            if isinstance(node, _ATOMS):
                continue
            block = self._blocks[node]
            for index, child in enumerate(children(node)):
                if isinstance(child, _ATOMS):
                    self._edge_block(node, index, block)
                    continue
                edge = self._edge_block(node, index, block)
                known = self._blocks.get(child)
                self._blocks[child] = edge if known is None else _common(known, edge)
                if self._needs_name(node, index, child):
                    self._named.add(child)

    def _edge_block(self, node: Expr, index: int, block: _Block) -> _Block:
        if not _opens_block(node, index):
            return block
        return self._inner.setdefault((node, index), block.inside())

    def _needs_name(self, node: Expr, index: int, child: Expr) -> bool:
        match child:
            case Call(Constructor(), ()):
                return self._uses[child] > 1
            case Call() | If() | Match() | RefNew() | RefRead() | RefWrite():
                stays = _opens_block(node, index) or (isinstance(node, Let) and index == 0)
                return self._uses[child] > 1 or not stays
            case _:
                return self._uses[child] > 1

    def _write(self, node: Expr) -> None:
        doc = self._doc(node)
        if node in self._named:
            name = f"%{self._count}"
            self._count += 1
            self._blocks[node].lines.append([f"{name} = ", _operand(node, doc), ";"])
            doc = name
        self._docs[node] = doc

    def _doc(self, node: Expr) -> _Doc:
        match node:
            case Var():
                return self._name(node)
            case GlobalVar(name):
                return f"@{name}"
            case Constant():
                return self._printer.constant(node)
            case OpRef(name) | Constructor(name):
                return name
            case Call(Constructor(name), ()) if name in self._printer.without_fields:
                return name
            case Call(callee, args, attrs):
                parts = [self._operand(each) for each in args]
                parts += attrs_text(attrs) if attrs is not None else []
                return [self._operand(callee), "(", *_separated(parts), ")"]
            case Let(var, value, body):
                bound = [f"let {self._annotated(var)} = ", self._operand(value), ";"]
                return [*bound, _Layout.NEWLINE, self._block_doc(node, 2, body)]
            case If(condition, then, otherwise):
                head = ["if (", self._operand(condition), ") "]
                first = _braces(self._block_doc(node, 1, then))
                return [*head, first, " else ", _braces(self._block_doc(node, 2, otherwise))]
            case Tuple(fields):
                trailing = "," if len(fields) == 1 else ""
                parts = [self._operand(each) for each in fields]
                return ["(", *_separated(parts), trailing, ")"]
            case Project(Constant() as value, index):
                return ["(", self._operand(value), f").{index}"]
            case Project(value, index):
                return [self._operand(value), f".{index}"]
            case Function():
                return self._function_doc(node)
            case Match():
                return self._match_doc(node)
            case RefNew(value):
                return ["ref(", self._operand(value), ")"]
            case RefRead(reference):
                return ["ref_read(", self._operand(reference), ")"]
            case RefWrite(reference, value):
                parts = [self._operand(reference), self._operand(value)]
                return ["ref_write(", *_separated(parts), ")"]
            case _:
                assert_never(node)

    def _match_doc(self, node: Match) -> _Doc:
        word = "match" if node.complete else "match?"
        clauses: list[_Doc] = []
        index = 0
        for clause in node.clauses:
            index += len(pattern_variables(clause.pattern)) + 1
            body = _braces(self._block_doc(node, index, clause.body))
            clauses += [_Layout.NEWLINE, self._pattern(clause.pattern), " => ", body, ","]
        head = [f"{word} (", self._operand(node.value), ") {"]
        return [*head, _Layout.INDENT, *clauses, _Layout.DEDENT, _Layout.NEWLINE, "}"]

    def _pattern(self, pattern: Pattern) -> str:
        match pattern:
            case Wildcard():
                return "_"
            case PatternVar(var):
                return self._annotated(var)
            case PatternConstructor(name, ()):
                return name
            case PatternConstructor(name, fields):
                return f"{name}({', '.join(map(self._pattern, fields))})"
            case PatternTuple(fields):
                trailing = "," if len(fields) == 1 else ""
                return f"({', '.join(map(self._pattern, fields))}{trailing})"
            case _:
                assert_never(pattern)

    def _function_doc(self, node: Function) -> _Doc:
        parts = [self._annotated(param) for param in node.params]
        parts += [f"{key}={value_text(value)}" for key, value in node.attributes.items()]
        arrow = "" if node.result_type is None else f" -> {self._type(node.result_type)}"
        type_params = type_params_text(node.type_params)
        word = type_params if node is self._function else f"fn{type_params or ' '}"
        body = _braces(self._block_doc(node, len(node.params), node.body))
        return [f"{word}({', '.join(parts)}){arrow} ", body]

    def _operand(self, node: Expr) -> _Doc:
        doc = self._docs[node]
        return doc if node in self._named else _operand(node, doc)

    def _block_doc(self, node: Expr, index: int, final: Expr) -> _Doc:
        block = self._inner[node, index]
        lines = [part for line in block.lines for part in (line, _Layout.NEWLINE)]
        return [*lines, self._docs[final]]

    def _annotated(self, var: Var) -> str:
        name = self._name(var)
        return name if var.annotation is None else f"{name}: {self._type(var.annotation)}"

    def _type(self, type_: Type) -> str:
        """Return a type's text; a length is named where the parameters name it."""
        return type_text(
            map_lengths(type_, lambda name: name if name in self._lengths else UNKNOWN)
        )

    def _name(self, var: Var) -> str:
        if var not in self._names:
            self._names[var] = self._unused(_legal(var.name))
        return f"%{self._names[var]}"

    def _unused(self, wanted: str) -> str:
        name, number = wanted, 0
        while name in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        self._taken.add(name)
        return name


def _own_lengths(function: Function) -> set[Length]:
    """Return the lengths that a function's parameters name, of equal names one."""
    types = [param.annotation for param in function.params if param.annotation is not None]
    named = {each.name: each for type_ in types for each in lengths_of(type_)}
    return set(named.values())


def _opens_block(node: Expr, index: int) -> bool:
    """Return whether the child with this index is the last expression of a block."""
    match node:
        case Let():
            return index == 2
        case If():
            return index > 0
        case Function(params):
            return index == len(params)
        case Match(_, clauses):
            return index in _body_indices(clauses)
        case _:
            return False


def _body_indices(clauses: tuple[Clause, ...]) -> set[int]:
    return set(accumulate(len(pattern_variables(each.pattern)) + 1 for each in clauses))


def _legal(name: str) -> str:
    """Return the name with what the text format does not allow replaced by `_`."""
    segments = re.sub(r"\W", "_", name, flags=re.ASCII)
    if re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", name, flags=re.ASCII):
        return name
    return segments if re.match(r"[A-Za-z_]", segments) else f"v_{segments}"


def _operand(node: Expr, doc: _Doc) -> _Doc:
    """Return the text of an operand: a `let` stands in braces there."""
    return _braces(doc) if isinstance(node, Let) else doc


def _braces(doc: _Doc) -> _Doc:
    return ["{", _Layout.INDENT, _Layout.NEWLINE, doc, _Layout.DEDENT, _Layout.NEWLINE, "}"]


def _separated(parts: list[_Doc]) -> list[_Doc]:
    return [piece for part in parts for piece in (", ", part)][1:]


def _flatten(doc: _Doc) -> str:
    pieces: list[str] = []
    stack: list[_Doc] = [doc]
    indent = 0
    while stack:
        match stack.pop():
            case str() as text:
                pieces.append(text)
            case list() as parts:
                stack.extend(reversed(parts))
            case _Layout.NEWLINE:
                pieces.append("\n" + "  " * indent)
            case _Layout.INDENT:
                indent += 1
            case _Layout.DEDENT:
                indent -= 1
    return "".join(pieces)
