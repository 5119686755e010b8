"""What the compiler hands to the runtime for programs with control flow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from codesign.ir.control.program import Site
from codesign.ir.relay.types import Type, TypeVar


@final
@dataclass(frozen=True, slots=True)
class DataConstructor:
    """A constructor: its name, its number in the whole program, the types of its fields."""

    name: str
    tag: int
    fields: tuple[Type, ...]


@final
@dataclass(frozen=True, slots=True)
class DataType:
    """A data type with its constructors."""

    name: str
    type_params: tuple[TypeVar, ...]
    constructors: tuple[DataConstructor, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class NativeProgram:
    """One native library for a whole module.

    Its symbols are `heap_new`, `heap_run` and `heap_delete` of `heap.ll`; objects lie as
    `codesign.ir.executable.heap` says. Site number n of a run's mistake is `sites[n - 1]`.
    `constants` is aligned to `ALIGNMENT` where it is loaded.
    """

    heap_code: bytes
    control_code: bytes
    kernel_code: bytes
    triple: str
    cpu: str
    features: str
    constants: bytes
    workspace_bytes: int
    params: tuple[Type, ...]
    result: Type
    data_types: tuple[DataType, ...]
    sites: tuple[Site, ...]
