"""The processor that code is made for: its vector width and what it can multiply at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, final

import llvmlite.binding as llvm


@final
@dataclass(frozen=True, slots=True)
class CpuTarget:
    """A processor by LLVM's names; `features` is LLVM's list such as `+avx2,+fma`."""

    triple: str
    cpu: str
    features: str

    def has(self, feature: str) -> bool:
        """Whether the processor has a feature, by LLVM's name for it."""
        return f"+{feature}" in self.features.split(",")

    @property
    def vector_bits(self) -> int:
        """Width of the widest vector register that arithmetic should use."""
        if self.has("avx512f") and self.has("avx512bw"):
            return 512
        return 256 if self.has("avx2") else 128

    @property
    def lanes(self) -> int:
        """Elements of 32 bits in a vector register."""
        return self.vector_bits // 32

    @property
    def registers(self) -> int:
        """Number of vector registers."""
        return 32 if self.vector_bits == 512 or self.triple.startswith("aarch64") else 16


@cache
def initialize() -> None:
    """Make LLVM's code generators available."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()


@cache
def host() -> CpuTarget:
    """Return the processor that this process runs on."""
    return CpuTarget(
        llvm.get_process_triple(),
        llvm.get_host_cpu_name(),
        llvm.get_host_cpu_features().flatten(),
    )


def target_machine(target: CpuTarget) -> Any:
    """Return LLVM's code generator for a processor."""
    initialize()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=2, reloc="pic", codemodel="default"
    )
