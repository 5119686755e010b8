"""The same networks in PyTorch, for the figures: run by a Python that has torch, not by ours.

    python torch_peer.py FOLDER

reads the weights and inputs that `experiments.models.peers` left in FOLDER, writes each model's
answers there, and the ones for onnxruntime as ONNX files; then answers each line `NAME COUNT` with
the CPU seconds that one call of that model took on average on its one thread.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional


class ChildSum(nn.Module):
    """The child-sum TreeLSTM; a tree is [word, children]."""

    def __init__(self) -> None:
        super().__init__()
        self.Wiou, self.Uiou = nn.Linear(300, 450), nn.Linear(150, 450, bias=False)
        self.Wf, self.Uf = nn.Linear(300, 150), nn.Linear(150, 150, bias=False)
        self.out = nn.Linear(150, 5)

    def node(self, tree: Any, words: Tensor) -> tuple[Tensor, Tensor]:
        """Return the state of a tree's root."""
        word, children = tree
        states = [self.node(child, words) for child in children]
        x = words[word : word + 1]
        h = torch.stack([h for h, _ in states]).sum(0) if states else torch.zeros(1, 150)
        i, o, u = (self.Wiou(x) + self.Uiou(h)).chunk(3, 1)
        c = torch.sigmoid(i) * torch.tanh(u)
        forget = self.Wf(x)
        for h_child, c_child in states:
            c = c + torch.sigmoid(forget + self.Uf(h_child)) * c_child
        return torch.sigmoid(o) * torch.tanh(c), c

    def forward(self, tree: Any, words: Tensor) -> Tensor:
        """Return the logarithms of the classes' shares."""
        return functional.log_softmax(self.out(self.node(tree, words)[0]), 1)


class Binary(nn.Module):
    """The binary TreeLSTM; a tree is a word or two trees."""

    def __init__(self) -> None:
        super().__init__()
        self.Wl = nn.Linear(300, 450)
        self.L, self.R = nn.Linear(150, 750), nn.Linear(150, 750, bias=False)
        self.out = nn.Linear(150, 5)

    def node(self, tree: Any, words: Tensor) -> tuple[Tensor, Tensor]:
        """Return the state of a tree's root."""
        if isinstance(tree, int):
            i, o, u = self.Wl(words[tree : tree + 1]).chunk(3, 1)
            c = torch.sigmoid(i) * torch.tanh(u)
            return torch.sigmoid(o) * torch.tanh(c), c
        h_left, c_left = self.node(tree[0], words)
        h_right, c_right = self.node(tree[1], words)
        i, left, right, o, u = (self.L(h_left) + self.R(h_right)).chunk(5, 1)
        c = torch.sigmoid(i) * torch.tanh(u)
        c = c + torch.sigmoid(left) * c_left + torch.sigmoid(right) * c_right
        return torch.sigmoid(o) * torch.tanh(c), c

    def forward(self, tree: Any, words: Tensor) -> Tensor:
        """Return the logarithms of the classes' shares."""
        return functional.log_softmax(self.out(self.node(tree, words)[0]), 1)


class Fused(nn.Module):
    """A recurrent network as one operator."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.net = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}[kind](256, 256)

    def load(self, weights: dict[str, Tensor]) -> None:
        """Take the weights of the cell."""
        names = {"weight_ih_l0": "wi.weight", "weight_hh_l0": "wh.weight"}
        names |= {"bias_ih_l0": "wi.bias", "bias_hh_l0": "wh.bias"}
        self.net.load_state_dict({own: weights[theirs] for own, theirs in names.items()})

    def forward(self, x: Tensor) -> Tensor:
        """Return each step's state."""
        h = torch.zeros(1, x.shape[1], 256)
        result: Tensor = self.net(x, (h, h) if self.kind == "lstm" else h)[0]
        return result


class Cell(nn.Module):
    """A recurrent network as a loop over its cell."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        gates = {"rnn": 1, "gru": 3, "lstm": 4}[kind]
        self.wi, self.wh = nn.Linear(256, gates * 256), nn.Linear(256, gates * 256)

    def load(self, weights: dict[str, Tensor]) -> None:
        """Take the weights of the cell."""
        self.load_state_dict(weights)

    def forward(self, x: Tensor) -> Tensor:
        """Return each step's state."""
        h, c, rows = torch.zeros(1, 256), torch.zeros(1, 256), []
        for t in range(x.shape[0]):
            w, u = self.wi(x[t]), self.wh(h)
            if self.kind == "rnn":
                h = torch.tanh(w + u)
            elif self.kind == "gru":
                (w_r, w_z, w_n), (u_r, u_z, u_n) = w.chunk(3, 1), u.chunk(3, 1)
                z = torch.sigmoid(w_z + u_z)
                h = (1 - z) * torch.tanh(w_n + torch.sigmoid(w_r + u_r) * u_n) + z * h
            else:
                i, f, g, o = (w + u).chunk(4, 1)
                c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
                h = torch.sigmoid(o) * torch.tanh(c)
            rows.append(h)
        return torch.stack(rows)


class Characters(nn.Module):
    """Writes 20 letters, each one the next one's input."""

    def __init__(self) -> None:
        super().__init__()
        self.i2h, self.i2o = nn.Linear(205, 128), nn.Linear(205, 59)
        self.o2o = nn.Linear(187, 59)

    def load(self, weights: dict[str, Tensor]) -> None:
        """Take the weights."""
        self.load_state_dict(weights)

    def forward(self, category: Tensor, letter: Tensor) -> Tensor:
        """Return 20 rows of logarithms of shares."""
        h, rows = torch.zeros(1, 128), []
        for _ in range(20):
            joined = torch.cat((category, letter, h), 1)
            h, out = self.i2h(joined), self.i2o(joined)
            out = functional.log_softmax(self.o2o(torch.cat((h, out), 1)), 1)
            rows.append(out)
            letter = functional.one_hot(out.argmax(1), 59).float()
        return torch.cat(rows)


Calls = dict[str, Callable[[], object]]


def _weights(folder: Path, name: str) -> dict[str, Tensor]:
    with np.load(folder / f"{name}-weights.npz") as arrays:
        return {each: torch.from_numpy(arrays[each]) for each in arrays.files}


def _trees(folder: Path, calls: Calls) -> None:
    trees = json.loads((folder / "trees.json").read_text(encoding="utf-8"))
    for name, module in (("child_sum", ChildSum()), ("binary", Binary())):
        module.load_state_dict(_weights(folder, name))
        with np.load(folder / f"{name}-words.npz") as arrays:
            words = [torch.from_numpy(arrays[str(number)]) for number in range(len(trees[name]))]
        pairs = list(zip(trees[name], words, strict=True))

        def run(module: nn.Module = module, pairs: list[tuple[Any, Tensor]] = pairs) -> object:
            return [module(tree, vectors) for tree, vectors in pairs]

        calls[name] = run
        np.save(folder / f"{name}-answers.npy", torch.cat(list(run())).numpy())  # type: ignore[call-overload]


def _recurrent(folder: Path, calls: Calls) -> None:
    modules: dict[str, tuple[str, Any]] = {"characters": ("characters", Characters())}
    for kind in ("rnn", "gru", "lstm"):
        modules[kind] = (kind, Fused(kind))
        modules[f"{kind}_cell"] = (kind, Cell(kind))
    for name, (weights, module) in modules.items():
        module.load(_weights(folder, weights))
        module.eval()
        with np.load(folder / f"{weights}-inputs.npz") as arrays:
            inputs = tuple(torch.from_numpy(arrays[each]) for each in arrays.files)
            names = list(arrays.files)
        calls[name] = lambda module=module, inputs=inputs: module(*inputs)  # type: ignore[misc]
        np.save(folder / f"{name}-answers.npy", module(*inputs).numpy())
        torch.onnx.export(
            module,
            inputs,
            str(folder / f"{name}.onnx"),
            opset_version=17,
            input_names=names,
            output_names=["y"],
            dynamo=False,
        )


def main(folder: Path) -> None:
    """Prepare everything, say `ready`, then answer."""
    torch.set_num_threads(1)
    calls: Calls = {}
    with torch.no_grad():
        _trees(folder, calls)
        _recurrent(folder, calls)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        for line in sys.stdin:
            name, count = line.split()
            begin = time.thread_time()
            for _ in range(int(count)):
                calls[name]()
            seconds = (time.thread_time() - begin) / int(count)
            sys.stdout.write(f"{seconds!r}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
