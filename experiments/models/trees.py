"""Ten random sentences of 5 to 36 words as trees, about as long as those of the SST treebank.

A dependency tree has a word in each node and any number of children; a binary tree has words in
its leaves. One generator draws them all, so that the same seed gives the same trees everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final, TypeAlias, final

LENGTHS: Final = (5, 8, 12, 16, 19, 19, 22, 25, 30, 36)
"""Words of each sentence; their mean is that of SST, about 19."""

SEED: Final = 0


@final
@dataclass(frozen=True, slots=True)
class Dependency:
    """A word's number and what depends on it, from left to right."""

    word: int
    children: tuple[Dependency, ...] = ()


Binary: TypeAlias = "int | tuple[Binary, Binary]"
"""A word's number, or two parts of a sentence."""


@final
@dataclass(frozen=True, slots=True)
class Sentence:
    """Its length and its two trees; they have nothing to do with each other."""

    words: int
    dependency: Dependency
    binary: Binary


def sentences() -> tuple[Sentence, ...]:
    """Return the ten sentences, shortest first."""
    random = Random(SEED)
    dependencies = [_dependency(0, words, random) for words in LENGTHS]
    binaries = [_binary(0, words, random) for words in LENGTHS]
    return tuple(map(Sentence, LENGTHS, dependencies, binaries))


def _dependency(low: int, high: int, random: Random) -> Dependency:
    """Draw a root among the words, then cut what is left and right of it into subtrees."""
    root = random.randrange(low, high)
    children = []
    for begin, end in ((low, root), (root + 1, high)):
        while begin < end:
            cut = random.randint(begin + 1, end)
            children.append(_dependency(begin, cut, random))
            begin = cut
    return Dependency(root, tuple(children))


def _binary(low: int, high: int, random: Random) -> Binary:
    if high - low == 1:
        return low
    cut = random.randrange(low + 1, high)
    return _binary(low, cut, random), _binary(cut, high, random)
