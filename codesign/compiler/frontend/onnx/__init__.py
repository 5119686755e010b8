"""ONNX files as Relay modules."""

from __future__ import annotations

from codesign.compiler.frontend.onnx.model import Model, load_onnx

__all__ = ["Model", "load_onnx"]
