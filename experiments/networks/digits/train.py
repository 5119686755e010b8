"""Train the digits network with NumPy and write `digits.onnx`.

    python -m experiments.networks.digits.train

conv 3x3 (16) - relu - depthwise conv 3x3 - relu - conv 1x1 (32) - relu - max pool 2x2 - dense 64 -
relu - dense 10. Stochastic gradient descent with momentum; images are shifted by up to one pixel.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from experiments.networks.digits.data import samples, training
from experiments.networks.samples import Split

MODEL: Final = Path(__file__).with_name("digits.onnx")
SEED: Final = 3
EPOCHS: Final = 40
BATCH: Final = 32
MOMENTUM: Final = 0.9
DECAY: Final = 5e-4

Array = npt.NDArray[np.float32]
Parameters = dict[str, Array]

_SHAPES: Final = {
    "conv_weight": (16, 1, 3, 3),
    "conv_bias": (16,),
    "depthwise_weight": (16, 1, 3, 3),
    "depthwise_bias": (16,),
    "pointwise_weight": (32, 16, 1, 1),
    "pointwise_bias": (32,),
    "hidden_weight": (64, 512),
    "hidden_bias": (64,),
    "output_weight": (10, 64),
    "output_bias": (10,),
}


def train(seed: int = SEED) -> Parameters:
    """Return trained parameters; the same seed gives the same parameters on one machine."""
    rng = np.random.default_rng(seed)
    parameters = {name: _initial(rng, shape) for name, shape in _SHAPES.items()}
    velocity = {name: np.zeros_like(value) for name, value in parameters.items()}
    data = training()
    assert data.labels is not None
    for epoch in range(EPOCHS):
        rate = 0.05 * 0.5 * (1 + np.cos(np.pi * epoch / EPOCHS))
        order = rng.permutation(len(data))
        for start in range(0, len(order), BATCH):
            chosen = order[start : start + BATCH]
            inputs = _shifted(rng, data.inputs[chosen])
            gradients = _gradients(parameters, inputs, data.labels[chosen])
            for name, gradient in gradients.items():
                step = gradient + DECAY * parameters[name]
                velocity[name] = (MOMENTUM * velocity[name] - rate * step).astype(np.float32)
                parameters[name] += velocity[name]
    return parameters


def accuracy(parameters: Parameters, split: Split) -> float:
    """Return the share of a split's digits that the network names rightly, 0 to 1."""
    data = samples(split, 1 << 20)
    return float((_forward(parameters, data.inputs)["logits"].argmax(1) == data.labels).mean())


def to_onnx(parameters: Parameters) -> onnx.ModelProto:
    """Return the network as an ONNX model with input `image` and output `logits`."""
    nodes = [
        _conv("image", "conv", "a", pads=1, group=1),
        helper.make_node("Relu", ["a"], ["b"]),
        _conv("b", "depthwise", "c", pads=1, group=16),
        helper.make_node("Relu", ["c"], ["d"]),
        _conv("d", "pointwise", "e", pads=0, group=1),
        helper.make_node("Relu", ["e"], ["f"]),
        helper.make_node("MaxPool", ["f"], ["g"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["g"], ["h"], axis=1),
        helper.make_node("Gemm", ["h", "hidden_weight", "hidden_bias"], ["i"], transB=1),
        helper.make_node("Relu", ["i"], ["j"]),
        helper.make_node("Gemm", ["j", "output_weight", "output_bias"], ["logits"], transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(value, name) for name, value in parameters.items()],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="codesign", ir_version=8
    )
    onnx.checker.check_model(model)
    return model


def main() -> None:
    """Train, report the accuracy and write the model beside this file."""
    parameters = train()
    print(f"test accuracy {accuracy(parameters, Split.EVALUATION):.4f}")  # noqa: T201
    onnx.save(to_onnx(parameters), MODEL)


def _conv(source: str, name: str, result: str, *, pads: int, group: int) -> onnx.NodeProto:
    size = 2 * pads + 1
    return helper.make_node(
        "Conv",
        [source, f"{name}_weight", f"{name}_bias"],
        [result],
        kernel_shape=[size, size],
        pads=[pads] * 4,
        group=group,
    )


def _initial(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    if len(shape) == 1:
        return np.zeros(shape, np.float32)
    return rng.normal(0, np.sqrt(2 / np.prod(shape[1:])), shape).astype(np.float32)


def _shifted(rng: np.random.Generator, images: Array) -> Array:
    down, right = (int(v) for v in rng.integers(-1, 2, 2))
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    return padded[:, :, 1 + down : 9 + down, 1 + right : 9 + right]


def _patches(images: Array) -> Array:
    """Return Tensor[(n, c, 8, 8, 3, 3)]: the 3 x 3 neighbourhood of every position."""
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    return np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))


def _forward(p: Parameters, images: Array) -> dict[str, Array]:
    a = np.einsum("nchwij,ocij->nohw", _patches(images), p["conv_weight"], optimize=True)
    b = np.maximum(a + p["conv_bias"][:, None, None], 0)
    c = np.einsum("nchwij,cij->nchw", _patches(b), p["depthwise_weight"][:, 0], optimize=True)
    d = np.maximum(c + p["depthwise_bias"][:, None, None], 0)
    e = np.einsum("nchw,oc->nohw", d, p["pointwise_weight"][:, :, 0, 0], optimize=True)
    f = np.maximum(e + p["pointwise_bias"][:, None, None], 0)
    g = f.reshape(-1, 32, 4, 2, 4, 2).max(axis=(3, 5))
    h = g.reshape(len(g), -1)
    j = np.maximum(h @ p["hidden_weight"].T + p["hidden_bias"], 0)
    logits = j @ p["output_weight"].T + p["output_bias"]
    return {"b": b, "d": d, "f": f, "g": g, "h": h, "j": j, "logits": logits}


def _gradients(p: Parameters, images: Array, labels: npt.NDArray[np.int64]) -> Parameters:
    value = _forward(p, images)
    shares = np.exp(value["logits"] - value["logits"].max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    shares[np.arange(len(labels)), labels] -= 1
    logits = (shares / len(labels)).astype(np.float32)
    j = (logits @ p["output_weight"]) * (value["j"] > 0)
    g = (j @ p["hidden_weight"]).reshape(value["g"].shape)
    winners = value["f"] == value["g"].repeat(2, 2).repeat(2, 3)
    f = g.repeat(2, 2).repeat(2, 3) * winners * (value["f"] > 0)
    d = np.einsum("nohw,oc->nchw", f, p["pointwise_weight"][:, :, 0, 0], optimize=True)
    d = d * (value["d"] > 0)
    flipped = p["depthwise_weight"][:, 0, ::-1, ::-1]
    b = np.einsum("nchwij,cij->nchw", _patches(d), flipped, optimize=True) * (value["b"] > 0)
    depthwise = np.einsum("nchwij,nchw->cij", _patches(value["b"]), d, optimize=True)
    return {
        "conv_weight": np.einsum("nchwij,nohw->ocij", _patches(images), b, optimize=True),
        "conv_bias": b.sum((0, 2, 3)),
        "depthwise_weight": depthwise[:, None],
        "depthwise_bias": d.sum((0, 2, 3)),
        "pointwise_weight": np.einsum("nohw,nchw->oc", f, value["d"])[:, :, None, None],
        "pointwise_bias": f.sum((0, 2, 3)),
        "hidden_weight": j.T @ value["h"],
        "hidden_bias": j.sum(0),
        "output_weight": logits.T @ value["j"],
        "output_bias": logits.sum(0),
    }


if __name__ == "__main__":
    main()
