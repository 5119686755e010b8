"""A program under construction: instructions so far, scratchpads, constants."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import final

from codesign.accel.config import AccelConfig, Memory
from codesign.accel.isa import Destination, Vector
from codesign.compiler.backends.accel.allocate import Banks, Ring
from codesign.compiler.backends.accel.box import load_constants, whole_region
from codesign.compiler.backends.accel.layer import Epilogue, TileTensor
from codesign.compiler.backends.accel.node import Node, Region, tiles_at
from codesign.compiler.backends.accel.pack import ConstantSegment, table_entries
from codesign.ir.executable.accel_kernel import ACTIVATIONS, CONSTANTS

_RINGS = (Memory.INP, Memory.WGT, Memory.VEC, Memory.PARAM, Memory.OUT)
TABLE_ENTRIES = 256


@final
@dataclass(slots=True)
class Builder:
    """Collects nodes in program order and hands out scratchpad space.

    `has_values`: false for a program that is only timed; its constants have places but no bytes.
    """

    config: AccelConfig
    has_values: bool = True
    nodes: list[Node] = field(default_factory=list)
    constants: ConstantSegment = field(init=False)
    rings: dict[Memory, Ring] = field(init=False)
    tables: Ring = field(init=False)
    banks: Banks = field(init=False)

    def __post_init__(self) -> None:
        self.constants = ConstantSegment(self.config, has_values=self.has_values)
        self.rings = {memory: Ring(self.config.depth(memory)) for memory in _RINGS}
        self.tables = Ring(self.config.lut_depth // TABLE_ENTRIES if self.config.has_lut else 0)
        self.banks = Banks(self.config.acc_banks, self.config.acc_bank_depth)

    def use(self, within: AccelConfig) -> None:
        """Use no more of the memories from now on than another configuration has."""
        for memory, ring in self.rings.items():
            ring.limit(min(self.config.depth(memory), within.depth(memory)))

    def add(self, node: Node) -> None:
        """Append a node."""
        self.nodes.append(node)

    def constant(
        self,
        memory: Memory,
        address: int,
        *,
        rows: int = 1,
        tiles: int,
        pitch: int = 0,
        of: TileTensor | None = None,
    ) -> int:
        """Return where tiles lie in a scratchpad; load them where they are not there.

        They are constants, or tiles `of` a tensor, in the order in which these lie in DRAM.
        """
        tag: Hashable = ("constant", of, address, rows, tiles, pitch)
        ring = self.rings[memory]
        base = ring.find(tag)
        if base is None:
            base = ring.take(tag, rows * tiles)
            for node in load_constants(
                self.config,
                memory,
                base,
                address,
                rows=rows,
                tiles=tiles,
                pitch=pitch or tiles,
                segment=CONSTANTS if of is None else ACTIVATIONS,
                reads=() if of is None else (whole_region(of),),
            ):
                self.add(node)
        return base

    def table(self, epilogue: Epilogue) -> int | None:
        """Return the first entry of an epilogue's table in lut; None where it has no table."""
        if epilogue.table is None:
            return None
        address = self.constants.add(Memory.LUT, table_entries(epilogue.table))
        slot = self.tables.find(address)
        if slot is None:
            slot = self.tables.take(address, 1)
            for node in load_constants(
                self.config,
                Memory.LUT,
                slot * TABLE_ENTRIES,
                address,
                rows=1,
                tiles=TABLE_ENTRIES,
                pitch=TABLE_ENTRIES,
            ):
                self.add(node)
        return slot * TABLE_ENTRIES

    def vector(
        self, instruction: Vector, reads: tuple[Region, ...], count: int, table: int | None = None
    ) -> None:
        """Append a vector instruction that writes `count` tiles from its `dst` on.

        `table` is the first entry of the table that its results go through.
        """
        to_out = instruction.destination is Destination.OUT
        if table is not None:
            instruction = replace(instruction, lookup=True, lut_base=table)
            reads = (*reads, tiles_at(Memory.LUT, table, TABLE_ENTRIES))
        written = tiles_at(Memory.OUT if to_out else Memory.ACC, instruction.dst, count)
        self.add(Node(instruction, reads, (written,)))


def strides(extents: tuple[int, ...], steps: tuple[int, ...]) -> tuple[int, ...]:
    """Return the steps of the loops that turn; a loop of one iteration has stride 0."""
    return tuple(step if extent > 1 else 0 for extent, step in zip(extents, steps, strict=True))
