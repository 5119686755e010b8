"""Hardware-accelerator co-design: a Relay compiler, a tensor accelerator, its RTL, simulators."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

__version__: Final = "0.1.0"

_HOMES: Final = {
    "compile": "codesign.compiler.driver",
    "gradient": "codesign.compiler.gradient",
    "load": "codesign.ir.executable.archive",
    "load_onnx": "codesign.compiler.frontend.onnx",
    "quantize": "codesign.compiler.quantization",
    "save": "codesign.ir.executable.archive",
}
"""Where each public name lives; importing this package loads none of them (PEP 562)."""

__all__ = ["compile", "gradient", "load", "load_onnx", "quantize", "save"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
