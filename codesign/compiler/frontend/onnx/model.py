"""An imported network: its Relay module and the tensors that go in and come out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from codesign.compiler.frontend.onnx.graph import graph_function
from codesign.compiler.frontend.onnx.inputs import input_types
from codesign.compiler.frontend.onnx.reader import read_model
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A network: `main` takes the inputs in order; it gives one tensor, or a tuple of several."""

    name: str
    module: Module
    inputs: tuple[tuple[str, TensorType], ...]
    outputs: tuple[tuple[str, TensorType], ...]


def load_onnx(path: str | Path, *, shapes: Mapping[str, Sequence[int]] | None = None) -> Model:
    """Read an ONNX file of opset 7 to 23 and return it as a Relay module of static shapes.

    `shapes` gives shapes of inputs whose dimensions are symbolic; a leading one without a value
    is a batch of 1. Nothing of the file is executed, and data outside its folder are not read.

    Raises
    ------
    CodesignError
        The file is no whole ONNX model, a dimension has no value, or nodes have no meaning here
        (all of them, together).
    """
    file = Path(path)
    proto, opset = read_model(file)
    inputs = input_types(proto.graph, shapes or {}, file)
    main, types = graph_function(proto.graph, opset, inputs, file)
    names = (value.name for value in proto.graph.output)
    return Model(
        name=file.stem,
        module=Module({"main": main}),
        inputs=inputs,
        outputs=tuple(zip(names, types, strict=True)),
    )
