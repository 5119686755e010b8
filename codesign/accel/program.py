"""A program for the accelerator: instructions, for which hardware, over which DRAM segments."""

from __future__ import annotations

import hashlib
import json
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, final

from codesign.accel import legality, tokens
from codesign.accel.assembly import format_instruction
from codesign.accel.config import SEGMENTS, AccelConfig
from codesign.accel.encoding import decode_program, encode_program, instruction_bytes
from codesign.accel.isa import Instruction
from codesign.accel.registers import ABI_VERSION
from codesign.diagnostics import CodesignError, Problem

MAGIC: Final = b"codesign accelerator program\n"
PROBLEMS_MAX: Final = 20
"""Problems that one report names; the rest is counted."""

_HEADER: Final[dict[str, type]] = {
    "abi": int,
    "digest": str,
    "instructions": int,
    "instruction_bytes": int,
    "segments": list,
}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Instructions in program order, the digest of their configuration, and sizes of segments.

    `segments[i]` is the size in bytes of DRAM segment i; its base address is given at run time, a
    multiple of the beat.
    """

    instructions: tuple[Instruction, ...]
    digest: str
    segments: tuple[int, ...]

    def to_bytes(self, config: AccelConfig) -> bytes:
        """Return the program as a file.

        A magic line, the checksum of what follows in hexadecimal, a line of JSON, the words.
        """
        require_digest(self, config)
        header = {
            "abi": ABI_VERSION,
            "digest": self.digest,
            "instructions": len(self.instructions),
            "instruction_bytes": instruction_bytes(config),
            "segments": list(self.segments),
        }
        words = encode_program(self.instructions, config)
        body = json.dumps(header).encode() + b"\n" + words
        return MAGIC + _checksum(body) + b"\n" + body

    @classmethod
    def from_bytes(cls, data: bytes, config: AccelConfig) -> Program:
        """Return the program of a file's bytes.

        Raises
        ------
        CodesignError
            Not such a file, damaged, for another configuration, or an illegal program.
        """
        if not data.startswith(MAGIC):
            raise CodesignError.of("this is no accelerator program")
        checksum, _, body = data[len(MAGIC) :].partition(b"\n")
        if checksum != _checksum(body):
            raise CodesignError.of("the program is damaged", found="its checksum does not agree")
        line, _, words = body.partition(b"\n")
        header = _header(line)
        if header["abi"] != ABI_VERSION:
            raise CodesignError.of(
                "the program is of another version",
                found=f"it has {header['abi']}, this is {ABI_VERSION}",
            )
        empty = cls(instructions=(), digest=header["digest"], segments=tuple(header["segments"]))
        require_digest(empty, config)
        program = replace(empty, instructions=decode_program(words, config))
        if len(program.instructions) != header["instructions"]:
            raise CodesignError.of("the program is damaged", found="its count does not agree")
        check_program(program, config)
        return program

    def save(self, path: Path, config: AccelConfig) -> None:
        """Write the program to a file, whole or not at all."""
        data = self.to_bytes(config)
        try:
            with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
                partial = Path(folder) / path.name
                partial.write_bytes(data)
                partial.replace(path)
        except OSError as error:
            raise CodesignError.of(
                f"cannot write program {str(path)!r}", found=str(error)
            ) from None

    @classmethod
    def load(cls, path: Path, config: AccelConfig) -> Program:
        """Return the program of a file, as `from_bytes` does."""
        try:
            data = path.read_bytes()
        except OSError as error:
            raise CodesignError.of(f"cannot read program {str(path)!r}", found=str(error)) from None
        return cls.from_bytes(data, config)


def _checksum(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest().encode()


def _header(line: bytes) -> dict[str, Any]:
    try:
        header = json.loads(line)
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict) or set(header) != set(_HEADER):
        raise CodesignError.of("the program's header is malformed")
    for name, kind in _HEADER.items():
        if type(header[name]) is not kind:
            raise CodesignError.of(f"the program's header has {name} = {header[name]!r}")
    if not all(type(size) is int and size >= 0 for size in header["segments"]):
        raise CodesignError.of(f"the program's header has segments {header['segments']!r}")
    return header


def require_digest(program: Program, config: AccelConfig) -> None:
    """Raise CodesignError where the program is for another configuration."""
    if program.digest != config.digest:
        raise CodesignError.of(
            "the program is for another configuration",
            found=f"it has digest {program.digest[:12]}, the machine has {config.digest[:12]}",
            help="compile the network again for this configuration",
        )


def check_program(program: Program, config: AccelConfig) -> None:
    """Check everything that can be known before a run.

    Digest; sizes of segments; every value in its field; every scratchpad, bank and DRAM range; the
    rules of each unit; tokens that balance, cannot deadlock and cannot overflow.

    Raises
    ------
    CodesignError
        Every broken rule (the first 20), each with the instruction's index and text.
    """
    require_digest(program, config)
    problems = [*_segment_problems(program, config), *_instruction_problems(program, config)]
    problems += [
        _problem(program, index, sentence)
        for index, sentence in tokens.broken_rules(program.instructions, config)
    ]
    if len(problems) > PROBLEMS_MAX:
        more = Problem(what=f"and {len(problems) - PROBLEMS_MAX} problems more")
        problems = [*problems[:PROBLEMS_MAX], more]
    if problems:
        raise CodesignError(*problems)


def _segment_problems(program: Program, config: AccelConfig) -> list[Problem]:
    problems = []
    if len(program.segments) > SEGMENTS:
        problems.append(
            Problem(what=f"the program has {len(program.segments)} segments of {SEGMENTS}")
        )
    limit = 1 << config.address_bits
    problems += [
        Problem(what=f"segment {index} has {size} bytes, more than {limit} can be addressed")
        for index, size in enumerate(program.segments)
        if size > limit
    ]
    return problems


def _instruction_problems(program: Program, config: AccelConfig) -> list[Problem]:
    return [
        _problem(program, index, sentence)
        for index, instruction in enumerate(program.instructions)
        for sentence in legality.broken_rules(instruction, config, program.segments)
    ]


def _problem(program: Program, index: int | None, sentence: str) -> Problem:
    if index is None:
        return Problem(what=f"program: {sentence}")
    return Problem(
        what=f"instruction {index}: {sentence}",
        found=format_instruction(program.instructions[index]),
    )
