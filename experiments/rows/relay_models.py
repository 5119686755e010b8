"""relay-treelstm and relay-rnn: recursive Relay against PyTorch and onnxruntime, one thread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from codesign.compiler.driver import compile as compile_module
from codesign.diagnostics import CodesignError
from codesign.dtypes import Array
from codesign.ir.relay.module import Module
from experiments.models import recurrent, tree_lstm
from experiments.models.peers import TorchPeer
from experiments.models.trees import sentences
from experiments.networks.answers import session as onnxruntime_session
from experiments.rows.measurement import CONSOLE, Measurement
from experiments.rows.turns import in_turns, timed
from host_runtime.session import Session

FOLDER: Final = Path("build/peers/models")

TOLERANCE: Final = 1e-5
"""Greatest difference of an answer from PyTorch's, of the greatest answer."""


def relay_treelstm() -> Measurement:
    """Return PyTorch's time over ours, of ten trees: the worse of child-sum and binary TreeLSTM.

    One compiled module takes all ten trees; turning each tree and its words into the module's
    values counts.
    """
    judged = sentences()
    cases: dict[str, tuple[Module, list[Mapping[str, object]]]] = {
        "child_sum": (
            tree_lstm.child_sum(tree_lstm.child_sum_weights()),
            [{"tree": tree_lstm.dependency_value(each.dependency)} for each in judged],
        ),
        "binary": (
            tree_lstm.binary(tree_lstm.binary_weights()),
            [{"phrase": tree_lstm.binary_value(each.binary)} for each in judged],
        ),
    }
    words = [tree_lstm.word_vectors(each.words, number) for number, each in enumerate(judged)]
    worst = np.inf
    with _torch() as torch:
        for name, (module, trees) in cases.items():
            session = Session(compile_module(module, target="cpu"))
            inputs = [{**tree, "words": each} for tree, each in zip(trees, words, strict=True)]
            run_all = partial(_run_all, session, inputs)
            require_equal(name, np.stack([each["output"] for each in run_all()]), torch)
            found = in_turns(timed(run_all), partial(torch.seconds, name))
            CONSOLE.print(
                f"{name}: {1e3 * found.ours_s / len(judged):.3f} ms a tree, PyTorch "
                f"{1e3 * found.theirs_s / len(judged):.3f} ms, ratio {found.speedup:.2f}"
            )
            worst = min(worst, found.speedup)
    return Measurement(value=worst, unit="times faster than PyTorch", digits=2)


def relay_rnn() -> Measurement:
    """Return onnxruntime's time over ours for the worst of RNN, GRU, LSTM and the letters' network.

    onnxruntime runs PyTorch's export of the recurrent operator and of a loop over a cell; the
    faster of the two counts.
    """
    worst = np.inf
    with _torch() as torch:
        for name, (module, inputs, rivals) in _recurrent_cases().items():
            session = Session(compile_module(module, target="cpu"))
            require_equal(name, session.run(inputs)["output"], torch)
            speedups = []
            for rival in rivals:
                theirs = onnxruntime_session(FOLDER / f"{rival}.onnx")
                found = in_turns(
                    timed(partial(session.run, inputs)), timed(partial(theirs.run, None, inputs))
                )
                CONSOLE.print(
                    f"{name}: {1e3 * found.ours_s:.3f} ms, onnxruntime on {rival} "
                    f"{1e3 * found.theirs_s:.3f} ms, ratio {found.speedup:.2f}"
                )
                speedups.append(found.speedup)
            worst = min(worst, *speedups)
    return Measurement(value=worst, unit="times faster than onnxruntime", digits=2)


def _recurrent_cases() -> dict[str, tuple[Module, dict[str, Array], tuple[str, ...]]]:
    cases: dict[str, tuple[Module, dict[str, Array], tuple[str, ...]]] = {
        kind: (
            recurrent.recurrent(kind, recurrent.recurrent_weights(kind)),
            {"x": recurrent.sequence()},
            (kind, f"{kind}_cell"),
        )
        for kind in recurrent.GATES
    }
    letters = recurrent.characters(recurrent.character_weights())
    cases["characters"] = (letters, recurrent.character_inputs(), ("characters",))
    return cases


def _run_all(session: Session, inputs: list[dict[str, Any]]) -> list[dict[str, Array]]:
    return [session.run(each) for each in inputs]


@contextmanager
def _torch() -> Iterator[TorchPeer]:
    peer = TorchPeer(FOLDER, CONSOLE.print)
    try:
        yield peer
    finally:
        peer.close()


class _HasAnswers(Protocol):
    def answers(self, name: str) -> Array:
        """Return what the peer gives for a network's inputs."""


def require_equal(name: str, found: Array, torch: _HasAnswers) -> None:
    """Refuse answers that differ from PyTorch's by more than `TOLERANCE` of the greatest one."""
    expected = torch.answers(name).reshape(found.shape)
    error = float(np.abs(found - expected).max() / np.abs(expected).max())
    CONSOLE.print(f"{name}: differs from PyTorch by {error:.1e}")
    if not error <= TOLERANCE:
        raise CodesignError.of(f"{name} gives other answers than PyTorch", found=f"{error:.1e}")
