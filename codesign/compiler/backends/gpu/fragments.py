"""How a warp reads the fragments of a factor from shared memory, four matrices at a time."""

from __future__ import annotations

from codesign.compiler.backends.gpu.fetch import unrolled
from codesign.ir.simt.kernel import LoadMatrix, Statement
from codesign.ir.simt.matrix import Mma
from codesign.ir.tensor.index import Axis, Index, at
from codesign.ir.tensor.layout import Buffer


def fragments(
    kind: Mma,
    registers: Buffer,
    memory: Buffer,
    lane: Index,
    origin: tuple[Index, Index, Index],
    *,
    is_left: bool,
    across: bool,
) -> Statement:
    """Return the reading of a warp's fragments (tile, element) at a stage, a place and a depth.

    The order of the matrices is that of the fragments: by rows and then k in the left one, by k in
    the right one. Where float32 becomes bfloat16, two matrices lie side by side on k; both factors
    are then summed in the same other order.
    """
    stage, first, depth = origin
    run = 16 // kind.shape.factor.size_bytes
    chunks = kind.shape.k // run
    matrix, row = lane // 8, lane % 8
    per_load = 16 if is_left or chunks == 2 else 8
    extent = registers.shape[0] * (16 if is_left else 8)
    tiles = Axis("tile", extent // per_load)
    halves = Axis("half", chunks // 2 if is_left else 1)
    if not is_left:
        tall, chunk = matrix // chunks * 8, matrix % chunks
    elif chunks == 2:
        tall, chunk = matrix % 2 * 8, matrix // 2
    else:
        tall, chunk = matrix // 2 * 8, matrix % 2 + at(halves) * 2
    place = first + at(tiles) * per_load + tall
    if across:
        # The matrix is turned: its rows are k, its columns m or n.
        where = (stage, depth + chunk * run + row, place)
    else:
        where = (stage, place + row, depth + chunk * run)
    per_tile = 1 if is_left else per_load // 8
    elements = registers.shape[1] // halves.extent
    index = (at(tiles) * per_tile, at(halves) * elements)
    load = LoadMatrix(registers, index, memory, where, 4, transposed=across)
    return unrolled((tiles, halves), load)
