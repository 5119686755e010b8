"""The recursive networks give NumPy's answers, in the interpreter and as native code."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pytest

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.driver import compile as compile_module
from codesign.compiler.interpreter import Interpreter
from codesign.diagnostics import CodesignError
from codesign.dtypes import Array
from codesign.ir.executable.values import DataValue
from codesign.ir.relay.module import Module
from codesign.ir.relay.wellformed import check_module
from experiments.models import recurrent, tree_lstm
from experiments.models.trees import LENGTHS, Dependency, Sentence, sentences
from host_runtime.session import Session
from tests.support import numpy_models

Run: TypeAlias = Callable[..., Array]


def _interpreted(module: Module) -> Run:
    check_module(module)
    infer_types(module)
    return lambda *args: Interpreter(module).result_of(module.main, args)


def _native(module: Module) -> Run:
    session = Session(compile_module(module, target="cpu"))
    names = [param.name for param in module.main.params]
    return lambda *args: session.run(dict(zip(names, args, strict=True)))["output"]


WAYS = pytest.mark.parametrize(
    ("run_of", "judged"),
    [(_interpreted, sentences()[:5:4]), (_native, sentences())],
    ids=["interpreter", "native"],
)


def test_the_trees_hold_every_word_once() -> None:
    def words(tree: Dependency) -> list[int]:
        return [tree.word, *(word for child in tree.children for word in words(child))]

    def leaves(phrase: object) -> list[object]:
        if isinstance(phrase, tuple):
            return [leaf for half in phrase for leaf in leaves(half)]
        return [phrase]

    for sentence, length in zip(sentences(), LENGTHS, strict=True):
        assert sorted(words(sentence.dependency)) == list(range(length))
        assert leaves(sentence.binary) == list(range(length))


@WAYS
def test_child_sum_tree_lstm(run_of: Callable[[Module], Run], judged: tuple[Sentence, ...]) -> None:
    weights = tree_lstm.child_sum_weights()
    run = run_of(tree_lstm.child_sum(weights))
    for seed, sentence in enumerate(judged):
        words = tree_lstm.word_vectors(sentence.words, seed)
        found = run(tree_lstm.dependency_value(sentence.dependency), words)
        wide = words.astype(np.float64)
        expected = numpy_models.child_sum(weights, sentence.dependency, wide)
        np.testing.assert_allclose(found, expected, rtol=1e-5)


@WAYS
def test_binary_tree_lstm(run_of: Callable[[Module], Run], judged: tuple[Sentence, ...]) -> None:
    weights = tree_lstm.binary_weights()
    run = run_of(tree_lstm.binary(weights))
    for seed, sentence in enumerate(judged):
        words = tree_lstm.word_vectors(sentence.words, seed)
        found = run(tree_lstm.binary_value(sentence.binary), words)
        expected = numpy_models.binary(weights, sentence.binary, words.astype(np.float64))
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_word_that_is_not_there_is_refused() -> None:
    run = _native(tree_lstm.binary(tree_lstm.binary_weights()))
    phrase = DataValue("Word", (np.asarray(3),))
    with pytest.raises(CodesignError, match="take reads outside of its axis"):
        run(phrase, tree_lstm.word_vectors(3, 0))


@pytest.mark.parametrize("run_of", [_interpreted, _native])
@pytest.mark.parametrize("kind", sorted(recurrent.GATES))
def test_recurrent(kind: str, run_of: Callable[[Module], Run]) -> None:
    weights, x = recurrent.recurrent_weights(kind), recurrent.sequence()
    found = run_of(recurrent.recurrent(kind, weights))(x)
    expected = numpy_models.recurrent(kind, weights, x.astype(np.float64))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("run_of", [_interpreted, _native])
def test_characters(run_of: Callable[[Module], Run]) -> None:
    weights, inputs = recurrent.character_weights(), recurrent.character_inputs()
    found = run_of(recurrent.characters(weights))(*inputs.values())
    expected = numpy_models.characters(weights, **inputs)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
