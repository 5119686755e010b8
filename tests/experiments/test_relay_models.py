"""The recursive networks give NumPy's answers, in the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.interpreter import Interpreter
from codesign.compiler.values import Result
from codesign.ir.relay.module import Module
from codesign.ir.relay.wellformed import check_module
from experiments.models import recurrent, tree_lstm
from experiments.models.trees import LENGTHS, Dependency, sentences
from tests.support import numpy_models


def _interpreted(module: Module, *args: Result) -> np.ndarray:
    check_module(module)
    infer_types(module)
    result = Interpreter(module).result_of(module.main, args)
    assert isinstance(result, np.ndarray)
    return result


def test_the_trees_hold_every_word_once() -> None:
    def words(tree: Dependency) -> list[int]:
        return [tree.word, *(word for child in tree.children for word in words(child))]

    def leaves(phrase: object) -> list[object]:
        return (
            [leaf for half in phrase for leaf in leaves(half)]
            if isinstance(phrase, tuple)
            else [phrase]
        )

    for sentence, length in zip(sentences(), LENGTHS, strict=True):
        assert sorted(words(sentence.dependency)) == list(range(length))
        assert leaves(sentence.binary) == list(range(length))


@pytest.mark.parametrize("number", [0, 4])
def test_child_sum_tree_lstm(number: int) -> None:
    sentence = sentences()[number]
    weights = tree_lstm.child_sum_weights()
    words = tree_lstm.word_vectors(sentence.words, seed=number)
    tree = tree_lstm.dependency_value(sentence.dependency)
    found = _interpreted(tree_lstm.child_sum(weights), tree, words)
    expected = numpy_models.child_sum(weights, sentence.dependency, words.astype(np.float64))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("number", [0, 4])
def test_binary_tree_lstm(number: int) -> None:
    sentence = sentences()[number]
    weights = tree_lstm.binary_weights()
    words = tree_lstm.word_vectors(sentence.words, seed=number)
    phrase = tree_lstm.binary_value(sentence.binary)
    found = _interpreted(tree_lstm.binary(weights), phrase, words)
    expected = numpy_models.binary(weights, sentence.binary, words.astype(np.float64))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("kind", sorted(recurrent.GATES))
def test_recurrent(kind: str) -> None:
    weights, x = recurrent.recurrent_weights(kind), recurrent.sequence()
    found = _interpreted(recurrent.recurrent(kind, weights), x)
    expected = numpy_models.recurrent(kind, weights, x.astype(np.float64))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_characters() -> None:
    weights = recurrent.character_weights()
    inputs = recurrent.character_inputs()
    found = _interpreted(recurrent.characters(weights), *inputs.values())
    expected = numpy_models.characters(weights, **inputs)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
