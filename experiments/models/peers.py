"""PyTorch on the same networks, in an environment and a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, final

import numpy as np

from codesign.diagnostics import CodesignError
from codesign.dtypes import Array
from experiments.models import recurrent, tree_lstm
from experiments.models.trees import Dependency, sentences
from experiments.networks.packages import BUILD

TORCH: Final = "torch==2.13.0"
BESIDE_TORCH: Final = (
    "numpy",
    "onnx",
    "filelock",
    "typing_extensions",
    "sympy",
    "networkx",
    "jinja2",
    "fsspec",
    "setuptools>=77",
)
"""What torch imports; its packages for graphics cards stay away where it starts without them."""


@final
class TorchPeer:
    """A process with PyTorch that holds all networks; `seconds` times one of them."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        python = _environment(BUILD.parent / "peers", say)
        folder.mkdir(parents=True, exist_ok=True)
        _write_inputs(folder)
        script = Path(__file__).with_name("torch_peer.py")
        self.folder = folder
        self._process = subprocess.Popen(
            [str(python), "-W", "ignore", str(script), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        if self._answer() != "ready":
            raise CodesignError.of("PyTorch did not start")

    def seconds(self, name: str, count: int) -> float:
        """Return the time of one call on average; of a TreeLSTM, of all ten trees."""
        assert self._process.stdin is not None, "opened as a pipe"
        self._process.stdin.write(f"{name} {count}\n")
        self._process.stdin.flush()
        return float(self._answer())

    def answers(self, name: str) -> Array:
        """Return what the network gives for its inputs; of a TreeLSTM, a row for each tree."""
        found: Array = np.load(self.folder / f"{name}-answers.npy")
        return found

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None, "opened as a pipe"
        self._process.stdin.close()
        self._process.wait()

    def _answer(self) -> str:
        assert self._process.stdout is not None, "opened as a pipe"
        return self._process.stdout.readline().strip()


def _environment(home: Path, say: Callable[[str], None]) -> Path:
    """Return the Python of an environment with torch; makes it where there is none."""
    python = home / "bin" / "python"
    ready = home / ".ready"
    if ready.is_file() and ready.read_text(encoding="utf-8") == TORCH:
        return python
    say(f"installs {TORCH} into {home} (200 MB)")
    pip = (str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    _require(sys.executable, "-m", "venv", str(home))
    _require(*pip, "--no-deps", TORCH)
    _require(*pip, *BESIDE_TORCH)
    if _run(str(python), "-c", "import torch").returncode:
        say("this torch needs its packages for graphics cards, too (3 GB)")
        _require(*pip, TORCH)
    ready.write_text(TORCH, encoding="utf-8")
    return python


def _require(*command: str) -> None:
    done = _run(*command)
    if done.returncode:
        raise CodesignError.of(
            f"{TORCH} cannot be installed",
            found=done.stderr.strip()[-400:],
            help="PyPI must be reachable",
        )


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _write_inputs(folder: Path) -> None:
    judged = sentences()
    trees = {
        "child_sum": [_plain(each.dependency) for each in judged],
        "binary": [each.binary for each in judged],
    }
    (folder / "trees.json").write_text(json.dumps(trees), encoding="utf-8")
    words = {str(i): tree_lstm.word_vectors(each.words, i) for i, each in enumerate(judged)}
    weights = {
        "child_sum": tree_lstm.child_sum_weights(),
        "binary": tree_lstm.binary_weights(),
        "characters": recurrent.character_weights(),
        **{kind: recurrent.recurrent_weights(kind) for kind in recurrent.GATES},
    }
    inputs: dict[str, dict[str, Array]] = {
        kind: {"x": recurrent.sequence()} for kind in recurrent.GATES
    }
    inputs["characters"] = recurrent.character_inputs()
    _save(folder, "weights", weights)
    _save(folder, "words", {"child_sum": words, "binary": words})
    _save(folder, "inputs", inputs)


def _save(folder: Path, what: str, groups: dict[str, Any]) -> None:
    for name, arrays in groups.items():
        np.savez(folder / f"{name}-{what}.npz", **arrays)


def _plain(tree: Dependency) -> list[Any]:
    return [tree.word, [_plain(child) for child in tree.children]]
