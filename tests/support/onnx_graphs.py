"""Small ONNX graphs, and what onnxruntime says about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from codesign.compiler.frontend.onnx import load_onnx
from codesign.compiler.interpreter import Interpreter
from codesign.dtypes import Array


def node_model(
    operator: str,
    inputs: Mapping[str, Array | None],
    *,
    stored: Sequence[str] = (),
    opset: int = 17,
    outputs: int = 1,
    **attributes: Any,
) -> onnx.ModelProto:
    """Return a model of one node; inputs in `stored` are initializers, None are left out."""
    names = [name if value is not None else "" for name, value in inputs.items()]
    results = [f"y{index}" for index in range(outputs)]
    node = helper.make_node(operator, names, results, name="the_node", **attributes)
    return model([node], inputs, results, stored=stored, opset=opset)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Array | None],
    outputs: Sequence[str],
    *,
    stored: Sequence[str] = (),
    opset: int = 17,
) -> onnx.ModelProto:
    """Return a model of several nodes; the types of its outputs are left open."""
    present = {name: value for name, value in inputs.items() if value is not None}
    fed = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
        )
        for name, value in present.items()
        if name not in stored
    ]
    weights = [numpy_helper.from_array(present[name], name) for name in stored]
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph(list(nodes), "graph", fed, results, initializer=weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def save(proto: onnx.ModelProto, folder: Path) -> Path:
    """Write a model and return its file."""
    file = folder / "model.onnx"
    file.write_bytes(proto.SerializeToString())
    return file


def feeds(proto: onnx.ModelProto, inputs: Mapping[str, Array | None]) -> dict[str, Array]:
    """Return what is fed at run time."""
    names = {value.name for value in proto.graph.input}
    return {name: each for name, each in inputs.items() if each is not None and name in names}


def imported_outputs(
    proto: onnx.ModelProto, inputs: Mapping[str, Array | None], folder: Path
) -> tuple[Array, ...]:
    """Return what the interpreter makes of the imported model."""
    module = load_onnx(save(proto, folder)).module
    value = Interpreter(module).run(**feeds(proto, inputs))
    values = value if isinstance(value, tuple) else (value,)
    return tuple(np.asarray(each) for each in values)


def onnxruntime_session(content: bytes) -> onnxruntime.InferenceSession:
    """Return a session of onnxruntime on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def onnxruntime_outputs(
    proto: onnx.ModelProto, inputs: Mapping[str, Array | None]
) -> tuple[Array, ...]:
    """Return what onnxruntime makes of the model."""
    session = onnxruntime_session(proto.SerializeToString())
    return tuple(session.run(None, feeds(proto, inputs)))
