"""Functions as machine code by numba, kept on disk for as long as their sources stay the same."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar, final

import numba

_P = ParamSpec("_P")
_R = TypeVar("_R")


@final
@dataclass(frozen=True, slots=True)
class MachineCode:
    """A decorator: `@compiled`, where `compiled = MachineCode.of(files)`.

    numba throws its cache away when the function's own file changes; a function that calls others,
    or uses constants, of more files is out of date when any of them changes. `stamp` covers all.
    """

    stamp: str

    @classmethod
    def of(cls, files: Iterable[Path]) -> MachineCode:
        """Return the decorator for functions that are made of these files."""
        content = b"".join(file.read_bytes() for file in sorted({*files, Path(__file__)}))
        return cls(hashlib.sha256(content).hexdigest())

    def __call__(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        """Return the function as machine code without Python's lock, cached on disk."""
        result = numba.njit(cache=True, error_model="numpy", nogil=True)(function)
        result._cache._cache_file._source_stamp = self.stamp
        compiled: Callable[_P, _R] = result
        return compiled
