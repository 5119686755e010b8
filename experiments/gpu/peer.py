"""The networks in PyTorch, eager and compiled, timed by CUDA events on the same device."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from itertools import pairwise
from statistics import median
from typing import Any, Final, final

import numpy as np

from codesign.dtypes import Array
from experiments.gpu.networks import TimedNetwork, Weights

_WARM: Final = 5


def torch_module() -> Any | None:
    """Return PyTorch where it is installed and sees a device; None where it is not or does not."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


@final
class TorchBuilder:
    """A `Builder` whose values are numbers of steps; running the steps is the network."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._f = torch.nn.functional
        self._steps: list[Callable[[list[Any]], Any]] = []

    def run(self, x: Any) -> Any:
        """Return the last step's value."""
        values = [x]
        for step in self._steps:
            values.append(step(values))
        return values[-1]

    def conv(
        self, x: int, weight: Array, bias: Array, *, stride: int, padding: int, groups: int = 1
    ) -> int:
        last = self._torch.channels_last
        taps, shift = self._known(weight).to(memory_format=last), self._known(bias)
        return self._step(
            lambda each: self._f.conv2d(
                each[x], taps, shift, stride=stride, padding=padding, groups=groups
            )
        )

    def relu(self, x: int) -> int:
        return self._step(lambda each: self._f.relu(each[x]))

    def relu6(self, x: int) -> int:
        return self._step(lambda each: self._f.relu6(each[x]))

    def add(self, x: int, y: int) -> int:
        return self._step(lambda each: each[x] + each[y])

    def max_pool(self, x: int) -> int:
        return self._step(lambda each: self._f.max_pool2d(each[x], 3, 2, 1))

    def mean_pool(self, x: int) -> int:
        return self._step(lambda each: each[x].mean((2, 3)))

    def dense(self, x: int, weight: Array, bias: Array) -> int:
        matrix, shift = self._known(weight), self._known(bias)
        return self._step(lambda each: self._f.linear(each[x], matrix, shift))

    def gelu(self, x: int) -> int:
        return self._step(lambda each: self._f.gelu(each[x]))

    def layer_norm(self, x: int, gamma: Array, beta: Array) -> int:
        scale, shift = self._known(gamma), self._known(beta)
        return self._step(lambda each: self._f.layer_norm(each[x], scale.shape, scale, shift))

    def attention(self, query: int, key: int, value: int, heads: int, width: int) -> int:
        def step(each: list[Any]) -> Any:
            batch, time, _ = each[query].shape
            turned = [
                each[number].view(batch, time, heads, width).transpose(1, 2)
                for number in (query, key, value)
            ]
            mixed = self._f.scaled_dot_product_attention(*turned)
            return mixed.transpose(1, 2).reshape(batch, time, heads * width)

        return self._step(step)

    def lstm(self, x: int, of_input: Array, of_state: Array, bias: Array) -> int:
        units = of_state.shape[1]
        layer = self._torch.nn.LSTM(of_input.shape[1], units, batch_first=True)
        names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
        arrays = (of_input, of_state, bias, np.zeros_like(bias))
        with self._torch.no_grad():
            layer = layer.to("cuda", self._known(bias).dtype)
            for name, array in zip(names, arrays, strict=True):
                getattr(layer, name).copy_(self._known(array))
        layer.flatten_parameters()
        return self._step(lambda each: layer(each[x])[0][:, -1])

    def _step(self, step: Callable[[list[Any]], Any]) -> int:
        self._steps.append(step)
        return len(self._steps)

    def _known(self, weight: Array) -> Any:
        return self._torch.from_numpy(np.ascontiguousarray(weight)).cuda()


@final
class Peer:
    """One network in PyTorch on the device, at one batch and of one element type."""

    def __init__(self, torch: Any, network: TimedNetwork, batch: int, kind: np.dtype[Any]) -> None:
        self._torch = torch
        builder = TorchBuilder(torch)
        network.build(builder, 0, Weights(kind), 1)
        x = torch.from_numpy(network.input(batch, kind)).cuda()
        self.x = x.to(memory_format=torch.channels_last) if x.dim() == 4 else x
        self.eager: Callable[[Any], Any] = builder.run

    def answer(self) -> Array:
        """Return the output for the network's input."""
        with self._torch.no_grad():
            found: Array = self.eager(self.x).float().cpu().numpy()
        return found

    def compiled(self) -> Callable[[Any], Any]:
        """Return the network compiled, with recorded launches."""
        made: Callable[[Any], Any] = self._torch.compile(self.eager, mode="reduce-overhead")
        return made

    def median_ms(self, run: Callable[[Any], Any], runs: int) -> float:
        """Return the median time of a run by the device's events, after some to warm up."""
        return timed(self._torch, lambda: run(self.x), runs)


def timed(torch: Any, run: Callable[[], Any], runs: int) -> float:
    """Return the median time in ms of a run in PyTorch's stream, after some to warm up."""
    with torch.no_grad():
        for _ in range(_WARM):
            run()
        events = [torch.cuda.Event(enable_timing=True) for _ in range(runs + 1)]
        events[0].record()
        for event in events[1:]:
            run()
            event.record()
        torch.cuda.synchronize()
    return float(median(before.elapsed_time(after) for before, after in pairwise(events)))
