"""Attributes of an ONNX node as Python values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import onnx

from codesign.compiler.frontend.onnx.node import Attribute
from codesign.compiler.frontend.onnx.tensors import tensor_array

_GRAPHS = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)


def has_graph(proto: onnx.NodeProto) -> bool:
    """Whether a node holds a graph of its own, as If and Loop do."""
    return any(attribute.type in _GRAPHS for attribute in proto.attribute)


def attribute_values(proto: onnx.NodeProto, path: Path) -> Mapping[str, Attribute]:
    """Return the node's attributes; kinds without a value here are left out."""
    values = {each.name: _value(each, path) for each in proto.attribute}
    return MappingProxyType({name: value for name, value in values.items() if value is not None})


def _value(attribute: onnx.AttributeProto, path: Path) -> Attribute | None:
    kinds = onnx.AttributeProto
    match attribute.type:
        case kinds.INT:
            return int(attribute.i)
        case kinds.FLOAT:
            return float(attribute.f)
        case kinds.STRING:
            return str(attribute.s.decode("utf-8", "replace"))
        case kinds.TENSOR:
            return tensor_array(attribute.t, path)
        case kinds.INTS:
            return tuple(int(each) for each in attribute.ints)
        case kinds.FLOATS:
            return tuple(float(each) for each in attribute.floats)
        case _:
            return None
