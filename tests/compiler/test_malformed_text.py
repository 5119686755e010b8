"""Texts with a mistake, and texts without sense, end in a located `CodesignError` or are legal."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.frontend.relay_parser import parse_expr, parse_module
from codesign.diagnostics import CodesignError, TextRange
from codesign.ir.relay.wellformed import check_module
from experiments.laws.grammar import CONSTRUCTS
from experiments.laws.malformed import malformed, token_texts
from experiments.laws.round_trip import HEAD

TEXTS = [text for text in CONSTRUCTS.values() if "#[metadata]" not in text]
METADATA = CONSTRUCTS["metadata"]


def _check_places(error: CodesignError, text: str) -> None:
    lines = text.split("\n")
    for each in error.diagnostics:
        assert isinstance(each.span, TextRange), each.title_text()
        assert 1 <= each.span.line <= len(lines)
        line = lines[each.span.line - 1]
        assert 1 <= each.span.column < each.span.column_end
        assert each.span.column_end <= len(line) + 2


def _read(text: str) -> None:
    """Read, check and type a text; whatever is wrong must be told with its place."""
    try:
        module = parse_module(text)
        check_module(module)
        infer_types(module)
    except CodesignError as error:
        _check_places(error, text)


def _sample(count: int) -> list[str]:
    rng = random.Random(7)
    texts = []
    for text in rng.sample(TEXTS, count):
        wrong = list(malformed(HEAD, token_texts(HEAD + text)))
        texts += rng.sample(wrong, 30)
    return texts


def test_one_wrong_token_is_told_with_its_place() -> None:
    for text in _sample(20):
        _read(text)


@pytest.mark.slow
def test_every_wrong_token_of_every_construct_is_told_with_its_place() -> None:
    for construct in TEXTS:
        for text in malformed(HEAD, token_texts(HEAD + construct)):
            _read(text)


def test_a_text_that_ends_early_is_told_with_its_place() -> None:
    whole = HEAD + METADATA
    for end in range(len(HEAD), len(whole), 3):
        _read(whole[:end])


@settings(max_examples=10)
@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=60))
def test_text_without_sense_is_told_with_its_place(text: str) -> None:
    for read in (parse_expr, parse_module):
        for written in (text, HEAD + text, f"{HEAD}def @main() {{ {text} }}"):
            try:
                read(written)
            except CodesignError as error:
                _check_places(error, written)


@given(st.lists(st.sampled_from([
    "let", "%x", "@f", "=", ";", "(", ")", "{", "}", "fn", "if", "else", "match", "?", ",", "1",
    "1.5f", "add", "Tensor", "[", "]", "int32", ":", "->", "=>", "ref", "%0", ".0", "def", "type",
    "meta", '"a"', "-", "*", "<", "True", "Cons", "_", "free_var",
]), max_size=25))  # fmt: skip
def test_words_in_any_order_are_told_with_their_place(words: list[str]) -> None:
    _read(f"{HEAD}def @main(%x: int32) {{ {' '.join(words)} }}")
    _read(HEAD + " ".join(words))


def test_deep_nesting_ends() -> None:
    for opening in (
        "(",
        "{",
        "fn () {",
        "if (True) {",
        "match (1) { _ =>",
        "ref(",
        "-",
        "let %x =",
    ):
        _read(f"{HEAD}def @main() {{ {opening * 800} }}")
    _read(f"{HEAD}def @main(%x: {'(' * 800}) {{ 1 }}")
