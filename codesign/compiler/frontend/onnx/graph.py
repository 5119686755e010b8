"""The graph of an ONNX model as a Relay function, node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, final

import onnx

from codesign.compiler.frontend.onnx.attributes import attribute_values, has_graph
from codesign.compiler.frontend.onnx.builder import Builder
from codesign.compiler.frontend.onnx.errors import MalformedNode, UnsupportedNode, malformed
from codesign.compiler.frontend.onnx.node import Node
from codesign.compiler.frontend.onnx.table import DOMAINS
from codesign.compiler.frontend.onnx.tensors import tensor_array
from codesign.diagnostics import CodesignError, Diagnostic, OnnxNode
from codesign.ir.relay.expr import Expr, Function, Tuple, Var
from codesign.ir.relay.types import TensorType

_STANDARD_DOMAINS: Final = ("", "ai.onnx")


def graph_function(
    graph: onnx.GraphProto,
    opset: int,
    inputs: Sequence[tuple[str, TensorType]],
    path: Path,
) -> tuple[Function, tuple[TensorType, ...]]:
    """Return the graph as a function of its inputs, and the types of its outputs.

    Raises
    ------
    CodesignError
        All nodes without a meaning here, together; or all that break the specification.
    """
    problems = [
        problem
        for proto in graph.node
        if (problem := _static_problem(proto, opset, path)) is not None
    ]
    conversion = _Conversion(graph, opset, inputs, path)
    for proto in graph.node:
        conversion.add(proto)
    problems += [each for each in conversion.problems if each not in problems]
    if problems:
        raise CodesignError(*problems)
    return conversion.finish()


def node_span(proto: onnx.NodeProto, path: Path) -> OnnxNode:
    """Return the place of a node."""
    first = next((name for name in proto.output if name), "?")
    return OnnxNode(path.name, proto.name or first, proto.op_type)


def _static_problem(proto: onnx.NodeProto, opset: int, path: Path) -> Diagnostic | None:
    span = node_span(proto, path)

    def lacking(reason: str) -> Diagnostic:
        return UnsupportedNode(operator=proto.op_type, opset=opset, reason=reason, span=span)

    if proto.domain not in DOMAINS:
        return lacking(f"domain {proto.domain!r} is unknown here")
    if proto.op_type not in DOMAINS[proto.domain]:
        return lacking("no importer for this operator")
    if has_graph(proto):
        return lacking("it holds a graph of its own")
    if proto.domain not in _STANDARD_DOMAINS:
        return None
    try:
        schema = onnx.defs.get_schema(proto.op_type, opset, "")
    except onnx.defs.SchemaError:
        return lacking("the opset has no such operator")
    if schema.deprecated:
        return lacking("the opset has withdrawn it")
    strange = [each.name for each in proto.attribute if each.name not in schema.attributes]
    if strange:
        return lacking(f"attribute {', '.join(strange)} is unknown in this opset")
    counts = len(proto.input), len(proto.output)
    if not (
        schema.min_input <= counts[0] <= schema.max_input
        and schema.min_output <= counts[1] <= schema.max_output
    ):
        reason = f"it has {counts[0]} inputs and {counts[1]} outputs"
        return MalformedNode(operator=proto.op_type, reason=reason, span=span)
    return None


@final
class _Conversion:
    """Values by name while the nodes are taken in order.

    A node that failed leaves its outputs marked as lost; nodes that need them are skipped, so
    that one cause is reported once.
    """

    def __init__(
        self,
        graph: onnx.GraphProto,
        opset: int,
        inputs: Sequence[tuple[str, TensorType]],
        path: Path,
    ) -> None:
        self.problems: list[Diagnostic] = []
        self._graph = graph
        self._opset = opset
        self._path = path
        self._builder = Builder()
        self._values: dict[str, Expr | None] = {}
        if graph.sparse_initializer:
            raise malformed(path, "sparse initializers are unknown here")
        for tensor in graph.initializer:
            self._values[tensor.name] = self._builder.constant(tensor_array(tensor, path))
        self._params = tuple(Var(name, type_) for name, type_ in inputs)
        for param, (name, type_) in zip(self._params, inputs, strict=True):
            self._builder.declare(param, type_)
            self._values[name] = param

    def add(self, proto: onnx.NodeProto) -> None:
        """Convert one node, or record what is wrong with it."""
        span = node_span(proto, self._path)
        results: Mapping[str, Expr | None] = dict.fromkeys(proto.output)
        try:
            values = self._inputs(proto)
            if values is not None and _static_problem(proto, self._opset, self._path) is None:
                results = self._convert(proto, values, span)
        except CodesignError as error:
            self.problems += error.diagnostics
        for name, value in results.items():
            if name and name in self._values:
                raise malformed(self._path, f"the value {name!r} is made twice")
            if name:
                self._values[name] = value

    def _inputs(self, proto: onnx.NodeProto) -> tuple[Expr | None, ...] | None:
        """Return the node's inputs, or None where one of them is lost."""
        values: list[Expr | None] = []
        for name in proto.input:
            if name and name not in self._values:
                raise CodesignError(
                    MalformedNode(
                        operator=proto.op_type,
                        reason=f"its input {name!r} is made by no node before it",
                        span=node_span(proto, self._path),
                    )
                )
            value = self._values[name] if name else None
            if name and value is None:
                return None
            values.append(value)
        return tuple(values)

    def _convert(
        self, proto: onnx.NodeProto, values: tuple[Expr | None, ...], span: OnnxNode
    ) -> dict[str, Expr | None]:
        node = Node(
            operator=proto.op_type,
            opset=self._opset,
            inputs=values,
            outputs=tuple(proto.output),
            attributes=attribute_values(proto, self._path),
            span=span,
        )
        self._builder.span = span
        made = DOMAINS[proto.domain][proto.op_type](node, self._builder)
        results = made if isinstance(made, tuple) else (made,)
        return dict(zip(proto.output, results, strict=False))

    def finish(self) -> tuple[Function, tuple[TensorType, ...]]:
        """Return the function of all outputs and their types."""
        outputs = []
        for value in self._graph.output:
            expr = self._values.get(value.name)
            if expr is None:
                raise malformed(self._path, f"no node makes the output {value.name!r}")
            outputs.append(expr)
        body = outputs[0] if len(outputs) == 1 else Tuple(tuple(outputs))
        types = tuple(self._builder.type_of(expr) for expr in outputs)
        return Function(self._params, body), types
