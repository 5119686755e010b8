"""The text of the heap: `heap.ll`, and what programs see of it, with their numbers."""

from __future__ import annotations

from importlib import resources
from string import Template
from typing import Final

from codesign.compiler.backends.llvm.target import CpuTarget
from codesign.diagnostics import CodesignError
from codesign.ir.executable.heap import (
    CLASS_BYTES,
    DTYPES,
    FIELDS_OFFSET,
    FIRST_ALIGNED,
    FOREVER,
    HEAP_BYTES,
    LARGE,
    OUT_OF_MEMORY,
    OUT_OF_STACK,
    REFERENCE,
    SHARED_FLAG,
    Kind,
    Slot,
    word,
)

_CHUNK_BYTES: Final = 1 << 18
_STACK_MARGIN: Final = 1 << 18
"""Bytes of stack that kernels and the heap's own functions may use below the checked limit."""

_X86: Final = {
    "REG_HEAP": "rdi",
    "REG_CODE": "rsi",
    "REG_TOP": "rdx",
    "REG_STACK": "rsp",
    "ASM_ENTER": r"pushq %rbp\0Amovq %rsp, $SAVED_STACK(%rdi)\0A"
    r"leaq 1f(%rip), %rax\0Amovq %rax, $RESUME(%rdi)\0Amovq %rdi, %rbx\0A"
    r"movq %rdx, %rsp\0Acallq *%rsi\0Amovq $SAVED_STACK(%rbx), %rsp\0A1:\0Apopq %rbp",
    "ASM_LEAVE": r"movq $SAVED_STACK(%rdi), %rsp\0Ajmpq *$RESUME(%rdi)",
    "CLOBBERS": ",".join(
        f"~{{{name}}}"
        for name in (
            *("rax", "rbx", "rcx"),
            *(f"r{number}" for number in range(8, 16)),
            *(f"xmm{number}" for number in range(16)),
            *("memory", "dirflag", "fpsr", "flags"),
        )
    ),
}

_ARM: Final = {
    "REG_HEAP": "x0",
    "REG_CODE": "x1",
    "REG_TOP": "x2",
    "REG_STACK": "sp",
    "ASM_ENTER": r"stp x29, x30, [sp, #-16]!\0Amov x9, sp\0Astr x9, [x0, #$SAVED_STACK]\0A"
    r"adr x9, 1f\0Astr x9, [x0, #$RESUME]\0Amov x19, x0\0Amov sp, x2\0Ablr x1\0A"
    r"ldr x9, [x19, #$SAVED_STACK]\0Amov sp, x9\0A1:\0Aldp x29, x30, [sp], #16",
    "ASM_LEAVE": r"ldr x9, [x0, #$SAVED_STACK]\0Aldr x10, [x0, #$RESUME]\0Amov sp, x9\0Abr x10",
    "CLOBBERS": ",".join(
        f"~{{{name}}}"
        for name in (
            *(f"x{number}" for number in range(3, 18)),
            *(f"x{number}" for number in range(19, 29)),
            *(f"v{number}" for number in range(32)),
            *("memory", "cc"),
        )
    ),
}


def heap_text(target: CpuTarget) -> str:
    """Return the heap's functions and tables, which are the same for every program."""
    sizes = tuple(each.size_bytes for each in DTYPES)
    return "\n".join(
        [
            _rendered(target, "heap.ll", "small.ll"),
            f"@rt.unit = constant {{ i64, i64 }} {{ i64 {_once(Kind.TUPLE)}, i64 0 }}",
            f"@rt.class_bytes = internal constant [{len(CLASS_BYTES)} x i64] {_array(CLASS_BYTES)}",
            f"@rt.item_bytes = internal constant [{len(DTYPES)} x i64] {_array(sizes)}",
        ]
    )


def program_head(target: CpuTarget, constructors: int) -> str:
    """Return what a program's own functions use of the heap, and the objects that exist once."""
    singles = ", ".join(
        f"{{ i64, i64 }} {{ i64 {_once(Kind.DATA)}, i64 {tag} }}" for tag in range(constructors)
    )
    count = max(constructors, 1)
    content = f"[{singles}]" if constructors else "zeroinitializer"
    return "\n".join(
        [
            _rendered(target, "calls.ll", "small.ll"),
            "@rt.unit = external constant { i64, i64 }",
            f"@rt.single = constant [{count} x {{ i64, i64 }}] {content}",
        ]
    )


def _rendered(target: CpuTarget, *files: str) -> str:
    """Return the text of files with its numbers."""
    numbers = _numbers()
    machine = {name: Template(text).substitute(numbers) for name, text in _machine(target).items()}
    folder = resources.files("codesign.compiler.backends.native")
    texts = [
        Template(folder.joinpath(file).read_text(encoding="utf-8")).substitute(numbers | machine)
        for file in files
    ]
    return "\n".join([*texts, f'!0 = !{{!"{machine["REG_STACK"]}\\00"}}'])


def _once(kind: Kind) -> int:
    return word(kind, 0, 0, FOREVER)


def _array(numbers: tuple[int, ...]) -> str:
    return "[" + ", ".join(f"i64 {number}" for number in numbers) + "]"


def _numbers() -> dict[str, str]:
    numbers = {slot.name: 8 * slot for slot in Slot}
    numbers |= {
        "OUT_OF_STACK": OUT_OF_STACK,
        "OUT_OF_MEMORY": OUT_OF_MEMORY,
        "CLASSES": len(CLASS_BYTES),
        "FIRST_ALIGNED": FIRST_ALIGNED,
        "LARGE": LARGE,
        "GREATEST_CLASS": CLASS_BYTES[-1],
        "CHUNK_BYTES": _CHUNK_BYTES,
        "FIELDS_OFFSET": FIELDS_OFFSET,
        "TUPLE": int(Kind.TUPLE),
        "SHARED_FLAG": SHARED_FLAG,
        "REFERENCE": REFERENCE,
        "REFERENCE_WORD": REFERENCE << 32,
        "DTYPES": len(DTYPES),
        "HEAP_BYTES": -(-HEAP_BYTES // 64) * 64,
        "LISTS_BYTES": 8 * (LARGE + 1),
        "STACK_MARGIN": _STACK_MARGIN,
    }
    return {name: str(number) for name, number in numbers.items()}


def _machine(target: CpuTarget) -> dict[str, str]:
    architecture = target.triple.split("-")[0]
    if architecture == "x86_64":
        return _X86
    if architecture in ("aarch64", "arm64"):
        return _ARM
    raise CodesignError.of(
        "compiled control flow needs a processor whose stack it knows",
        found=f"the triple is {target.triple}, known are x86_64 and aarch64",
    )
