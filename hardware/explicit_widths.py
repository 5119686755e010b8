"""Yosys text to Yosys text: operands of one width, and selections as trees of two-way muxes.

Yosys extends and truncates operands silently; so would the Verilog that it writes, where linters
report every place. Here each operand gets the width at which its cell computes, and a selection
among many (`$pmux`, in Verilog a function of overlapping cases) becomes a tree.

Source: Yosys manual, "Textual RTLIL syntax" and "Word-level cells".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias, final

Bits: TypeAlias = tuple[str, ...]
"""A signal from its lowest bit up; each is `NAME [INDEX]`, or one of 0, 1, x, z."""

SAME_AS_RESULT: Final = frozenset({"$add", "$sub", "$and", "$or", "$xor", "$xnor", "$neg", "$not"})
"""Cells whose low bits depend on the low bits of the operands alone."""

COMPARISONS: Final = frozenset({"$lt", "$le", "$gt", "$ge", "$eq", "$ne", "$eqx", "$nex"})
LEFT_SHIFTS: Final = frozenset({"$shl", "$sshl"})
RIGHT_SHIFTS: Final = frozenset({"$shr", "$sshr", "$shift"})
MADE: Final = "$explicit$"
"""How the names of new wires and cells begin."""

INTEGER_BITS: Final = 32
"""Width of a constant that is written as a plain integer."""

_WIRE: Final = re.compile(r"  wire (?:width (\d+) )?(?:.* )?(\S+)$")
_CELL: Final = re.compile(r"  cell (\S+) (\S+)$")
_TOKEN: Final = re.compile(r"[{}]|\[\d+(?::\d+)?\]|\S+")


@final
@dataclass(slots=True)
class _Cell:
    kind: str
    name: str
    parameters: dict[str, int] = field(default_factory=dict)
    ports: dict[str, str] = field(default_factory=dict)


def explicit_widths(rtlil: str) -> str:
    """Return the text with explicit widths; it means the same."""
    return "\n".join(_rewritten(rtlil.split("\n"))) + "\n"


def _rewritten(lines: Sequence[str]) -> Iterator[str]:
    module = _Module()
    index = 0
    while index < len(lines):
        line = lines[index]
        if line.startswith("module "):
            module = _Module()
        elif wire := _WIRE.match(line):
            module.widths[wire[2]] = int(wire[1] or 1)
        elif cell := _CELL.match(line):
            end = lines.index("  end", index)
            yield from module.cell(cell[1], cell[2], lines[index : end + 1])
            index = end + 1
            continue
        yield line
        index += 1


class _Module:
    """What is known of one module: its wires stand before its cells."""

    def __init__(self) -> None:
        self.widths: dict[str, int] = {}
        self._made = 0

    def cell(self, kind: str, name: str, lines: Sequence[str]) -> Iterator[str]:
        """Yield what stands for a cell, given as its lines."""
        wanted = SAME_AS_RESULT | COMPARISONS | LEFT_SHIFTS | RIGHT_SHIFTS
        if kind not in wanted | {"$logic_not", "$pmux"}:
            yield from lines
            return
        cell = _parsed(kind, name, lines)
        if kind == "$pmux":
            yield from self._selection(cell)
        elif kind == "$logic_not":
            yield from self._is_zero(cell, lines)
        elif kind in RIGHT_SHIFTS:
            yield from self._right_shift(cell)
        else:
            yield from self._widened(cell)

    def _widened(self, cell: _Cell) -> Iterator[str]:
        operands = [port for port in ("A", "B") if port in cell.ports]
        if cell.kind in COMPARISONS:
            width = max(cell.parameters[f"{port}_WIDTH"] for port in operands)
        else:
            width = cell.parameters["Y_WIDTH"]
        if cell.kind in LEFT_SHIFTS:
            operands = ["A"]
        for port in operands:
            self._resize(cell, port, width)
        yield from _text(cell)

    def _resize(self, cell: _Cell, port: str, width: int) -> None:
        bits = self.bits(cell.ports[port])
        if len(bits) == width:
            return
        fill = bits[-1] if cell.parameters[f"{port}_SIGNED"] else "0"
        cell.ports[port] = _signal(bits[:width] + (fill,) * (width - len(bits)))
        cell.parameters[f"{port}_WIDTH"] = width

    def _is_zero(self, cell: _Cell, lines: Sequence[str]) -> Iterator[str]:
        width = cell.parameters["A_WIDTH"]
        if width == 1:
            yield from lines
            return
        parameters = {
            "A_SIGNED": 0,
            "A_WIDTH": width,
            "B_SIGNED": 0,
            "B_WIDTH": width,
            "Y_WIDTH": cell.parameters["Y_WIDTH"],
        }
        zero = f"{width}'{'0' * width}"
        ports = {"A": cell.ports["A"], "B": zero, "Y": cell.ports["Y"]}
        yield from _text(_Cell("$eq", cell.name, parameters, ports))

    def _right_shift(self, cell: _Cell) -> Iterator[str]:
        wide, narrow = cell.parameters["A_WIDTH"], cell.parameters["Y_WIDTH"]
        if wide <= narrow:
            self._resize(cell, "A", narrow)
            yield from _text(cell)
            return
        made = self._name()
        yield f"  wire width {wide} {made}"
        result, cell.ports["Y"], cell.parameters["Y_WIDTH"] = cell.ports["Y"], made, wide
        yield from _text(cell)
        yield f"  connect {result} {made} [{narrow - 1}:0]"

    def _selection(self, cell: _Cell) -> Iterator[str]:
        width, count = cell.parameters["WIDTH"], cell.parameters["S_WIDTH"]
        choices, selects = self.bits(cell.ports["B"]), self.bits(cell.ports["S"])
        made: list[str] = []
        leaves = [
            (choices[index * width : (index + 1) * width], selects[index]) for index in range(count)
        ]
        while len(leaves) > 1:
            pairs = zip(leaves[0::2], leaves[1::2], strict=False)
            left_over = leaves[len(leaves) - len(leaves) % 2 :]
            leaves = [self._joined(*pair, made) for pair in pairs] + left_over
        ((chosen, any_select),) = leaves
        default = self.bits(cell.ports["A"])
        made += _text(_mux(cell.name, default, chosen, any_select, cell.ports["Y"]))
        yield from made

    def _joined(
        self, one: tuple[Bits, str], other: tuple[Bits, str], made: list[str]
    ) -> tuple[Bits, str]:
        """Return the choice between two and whether either is selected; `made` gets the cells."""
        (a, _), (b, select) = other, one
        chosen, either = self._name(), self._name()
        made += [f"  wire width {len(a)} {chosen}", f"  wire {either}"]
        made += _text(_mux(self._name(), a, b, select, chosen))
        made += _text(_or(self._name(), select, other[1], either))
        return tuple(f"{chosen} [{bit}]" for bit in range(len(a))), f"{either} [0]"

    def _name(self) -> str:
        self._made += 1
        return f"{MADE}{self._made}"

    def bits(self, signal: str) -> Bits:
        """Return the bits of a signal's text."""
        found: list[Bits] = []
        tokens = _TOKEN.findall(signal)
        for place, token in enumerate(tokens):
            if token in "{}" or token.startswith("["):
                continue
            after = tokens[place + 1] if place + 1 < len(tokens) else ""
            found.append(self._chunk(token, after))
        return tuple(bit for chunk in reversed(found) for bit in chunk)

    def _chunk(self, token: str, after: str) -> Bits:
        if token[0] in "-0123456789":
            width, quote, digits = token.partition("'")
            if not quote:
                value = int(token) % (1 << INTEGER_BITS)
                width, digits = str(INTEGER_BITS), f"{value:0{INTEGER_BITS}b}"
            return tuple(reversed(digits.rjust(int(width), digits[0])))
        if after.startswith("["):
            high, _, low = after[1:-1].partition(":")
            first = int(low or high)
            return tuple(f"{token} [{bit}]" for bit in range(first, int(high) + 1))
        return tuple(f"{token} [{bit}]" for bit in range(self.widths[token]))


def _parsed(kind: str, name: str, lines: Sequence[str]) -> _Cell:
    cell = _Cell(kind, name)
    for line in lines[1:-1]:
        word, key, value = line.split(maxsplit=2)
        if word == "connect":
            cell.ports[key[1:]] = value
        else:
            cell.parameters[key[1:]] = _integer(value)
    return cell


def _integer(value: str) -> int:
    """Return the integer of `12` or `5'01100`."""
    _, quote, digits = value.partition("'")
    return int(digits, 2) if quote else int(value)


def _text(cell: _Cell) -> list[str]:
    return [
        f"  cell {cell.kind} {cell.name}",
        *(f"    parameter \\{key} {value}" for key, value in cell.parameters.items()),
        *(f"    connect \\{key} {value}" for key, value in cell.ports.items()),
        "  end",
    ]


def _mux(name: str, default: Bits, chosen: Bits, select: str, result: str) -> _Cell:
    ports = {"A": _signal(default), "B": _signal(chosen), "S": _signal((select,)), "Y": result}
    return _Cell("$mux", name, {"WIDTH": len(default)}, ports)


def _or(name: str, one: str, other: str, result: str) -> _Cell:
    parameters = {"A_SIGNED": 0, "A_WIDTH": 1, "B_SIGNED": 0, "B_WIDTH": 1, "Y_WIDTH": 1}
    ports = {"A": _signal((one,)), "B": _signal((other,)), "Y": result}
    return _Cell("$or", name, parameters, ports)


def _signal(bits: Bits) -> str:
    """Return the text of a signal; neighbouring bits of one wire become a range."""
    chunks: list[tuple[str, int, int]] = []
    for bit in bits:
        wire, _, index = bit.partition(" ")
        place = int(index[1:-1]) if index else 0
        if chunks and index and chunks[-1][0] == wire and chunks[-1][2] == place - 1:
            chunks[-1] = (wire, chunks[-1][1], place)
        elif chunks and not index and chunks[-1][0][-1] in "01xz" and "'" in chunks[-1][0]:
            digits = wire + chunks[-1][0].partition("'")[2]
            chunks[-1] = (f"{len(digits)}'{digits}", 0, 0)
        else:
            chunks.append((wire if index else f"1'{wire}", place, place))
    texts = [
        wire if "'" in wire and wire[0].isdigit() else f"{wire} [{high}:{low}]"
        for wire, low, high in reversed(chunks)
    ]
    return texts[0] if len(texts) == 1 else "{ " + " ".join(texts) + " }"
