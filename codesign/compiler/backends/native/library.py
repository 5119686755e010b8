"""What the functions of one compiled program share: sites, constants, kernels, closures."""

from __future__ import annotations

from typing import final

import numpy as np

from codesign.compiler.backends.native.regions import ConstantPool, RegionCompiler
from codesign.compiler.backends.native.unknown import UnknownKernels
from codesign.dtypes import Array, DType
from codesign.ir.control.program import Function, Program, Site
from codesign.ir.control.uses import results
from codesign.ir.executable.heap import FOREVER, Kind, data_offset, tensor_word, word
from codesign.ir.relay.types import UNKNOWN


@final
class Library:
    """Collects what functions need beside their own text.

    `closures` are the functions that are used as values, `declarations` what is called in the
    module of kernels, `sites` the mistakes that a run can make.
    """

    def __init__(self, program: Program, regions: RegionCompiler, pool: ConstantPool) -> None:
        self.regions = regions
        self.unknown = UnknownKernels(regions.target)
        self.has_unknown = any(map(_has_unknown, program.functions))
        self.sites = list(program.sites)
        self.declarations: set[str] = set()
        self.closures: set[str] = set()
        self._pool = pool
        self._literals: dict[int, tuple[Array, int]] = {}

    def site(self, site: Site) -> int:
        """Return the number of a mistake."""
        self.sites.append(site)
        return len(self.sites)

    def literal(self, array: Array) -> int:
        """Return where among the constants an array lies as an object."""
        known = self._literals.get(id(array))
        if known is None:
            known = array, self._pool.add(_image(array))
            self._literals[id(array)] = known
        return known[1]

    def closure_texts(self) -> list[str]:
        """Return the closures of functions that keep nothing, each of which exists once."""
        return [
            f"{closure_name(name)} = internal constant {{ i64, ptr }} "
            f"{{ i64 {word(Kind.CLOSURE, 0, 0, FOREVER)}, ptr {function_name(name)} }}"
            for name in sorted(self.closures)
        ]


def _has_unknown(function: Function) -> bool:
    """Whether the shape of any tensor of a function is not known."""
    values = {value for block in function.blocks for each in block.body for value in results(each)}
    values.update(function.params)
    values.update(value for block in function.blocks for value in block.params)
    return any(value.tensor is not None and UNKNOWN in value.tensor.shape for value in values)


def function_name(name: str) -> str:
    """Return LLVM's name of a function."""
    return f'@"f.{name}"'


def closure_name(name: str) -> str:
    """Return LLVM's name of the closure that exists once."""
    return f'@"c.{name}"'


def _image(array: Array) -> bytes:
    """Return a tensor as an object that exists once."""
    data = np.ascontiguousarray(array).reshape(array.shape)
    head = tensor_word(DType.of(array.dtype), array.ndim, 0, FOREVER).to_bytes(8, "little")
    extents = b"".join(extent.to_bytes(8, "little") for extent in array.shape)
    return (head + extents).ljust(data_offset(array.ndim), b"\0") + data.tobytes()
